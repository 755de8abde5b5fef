"""Owns `Prompt`, what a model is told, with which tools and which arguments. Renders nothing, asks no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ..protocol.errors import shorten
from ..protocol.values import JsonObject
from .bounds import Count, Size
from .expected import expected
from .hook import Hooks
from .model_definition import Model
from .models.seam import Reasoning, ToolChoice
from .required_schema import check_against, schema_of
from .tool import Tool
from .variable import Env, Variable

__all__ = ["EnvPart", "IncludePart", "Prompt", "PromptTool", "SubPrompt", "TextPart", "flag_is_on"]

FLAG_ON: Final = frozenset({"true", "1", "yes"})
# Of relationships between agents, which belong to a side (contract I.19).
_RETIRED: Final = ("resumable", "receives_messages", "blocking", "hidden", "immediate")

_CONFIG: Final = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)


def flag_is_on(value: str | None) -> bool:
    """Say whether the value of an `optional` variable turns its entry on: `true`, `1` or `yes` (contract E.3)."""
    return value in FLAG_ON


class TextPart(BaseModel):
    """Text of a prompt."""

    model_config = _CONFIG

    type: Literal["text"] = "text"
    text: str


class IncludePart(BaseModel):
    """The text of another prompt, by its name."""

    model_config = _CONFIG

    type: Literal["include"] = "include"
    prompt: str = Field(min_length=1)


class EnvPart(BaseModel):
    """The value of an environment variable."""

    model_config = _CONFIG

    type: Literal["env"] = "env"
    name: str = Field(min_length=1)


class SubPrompt(BaseModel):
    """A prompt among the tools of another.

    Attributes:
        name: the prompt.
        init_user_message_property: the argument that becomes its first user message.
        init_attachments_property: the argument that lists the files of that message.
        include_text_response: whether its result has the text of the model,
        include_tool_calls: the results of its tools,
        include_errors: their errors.
    """

    model_config = _CONFIG

    name: str = Field(min_length=1)
    init_user_message_property: str | None = None
    init_attachments_property: str | None = None
    include_text_response: bool = True
    include_tool_calls: bool = True
    include_errors: bool = True


class PromptTool(BaseModel):
    """A tool, a prompt or an agent among the tools of a prompt, with what it gets there.

    Attributes:
        name: of the tool.
        env: variables that hold while it runs from here.
        options: for the tool, as it likes.
        optional: a variable; the entry is offered only while its value is `true`, `1` or `yes`.
    """

    model_config = _CONFIG

    name: str = Field(min_length=1)
    env: Env = Field(default_factory=dict, repr=False)
    options: JsonObject = Field(default_factory=dict)
    optional: str | None = None


Part: TypeAlias = Annotated[TextPart | IncludePart | EnvPart, Field(discriminator="type")]


def _read_entry(value: object) -> object:
    if isinstance(value, str | Tool | Prompt | PromptTool | SubPrompt):
        return value
    if not isinstance(value, dict):
        # An agent is known by its name alone: what it is, is the runtime's to say.
        raise ValueError(  # noqa: TRY004 - pydantic collects ValueErrors
            "among the tools stand those made by @tool, prompts, and names of tools, prompts and agents, "
            f"not {shorten(value)}"
        )
    retired = [key for key in _RETIRED if key in value]
    if retired:
        raise ValueError(
            f"{', '.join(retired)}: such keys belong to a relationship between agents, not to a tool of a prompt"
        )
    kind = SubPrompt if value.keys() & (SubPrompt.model_fields.keys() - {"name"}) else PromptTool
    return kind.model_validate(value)


class Prompt(BaseModel):
    """What a model is told and given (contract E.3). Every prompt can also be called as a tool.

    Attributes:
        name: what sides and other prompts name it by.
        tool_description: what a model reads of it where it is a tool.
        prompt: the system message: text, or parts in order.
        model: whom to ask, itself or its name.
        include_chat: as a tool: whether it reads the conversation.
        include_past_tools: whether it reads the tool calls and results of earlier turns.
        parallel_tool_calls: whether one response may have several calls; they run in order all the same. None leaves it
            to the provider.
        tool_choice: `auto`, `none` or `required`.
        required_schema: the arguments that it takes as a tool: a pydantic model or a JSON schema.
        variables: the environment variables that it uses.
        tools: tools and prompts, themselves or by name; agents to hand the thread to, by name.
        env: values of variables.
        reasoning: how much the model thinks.
        recent_image_threshold: of older messages the pictures become text.
        history_limit: only so many of the thread's newest messages are read and sent; None for all. Ours, not the contract's.
        provider_options: handed to the provider as they are.
        hooks: themselves or by id; they stand in for an agent's hooks of the same kind.
    """

    model_config: ClassVar[ConfigDict] = _CONFIG

    name: str = ""
    tool_description: str = ""
    prompt: str | Annotated[Sequence[Part], AfterValidator(tuple)]
    model: Annotated[
        str | Model, expected("a model is Model(name=..., model=...) or the name of one", str, dict, Model)
    ]
    include_chat: bool = False
    include_past_tools: bool = False
    parallel_tool_calls: bool | None = None
    tool_choice: ToolChoice = "auto"
    required_schema: type[BaseModel] | JsonObject | None = None
    variables: Annotated[Sequence[Variable], AfterValidator(tuple)] = ()
    tools: Annotated[
        Sequence[Annotated[str | Tool | Prompt | PromptTool | SubPrompt, BeforeValidator(_read_entry)]],
        AfterValidator(tuple),
    ] = ()
    env: Env = Field(default_factory=dict, repr=False)
    reasoning: Reasoning | None = None
    recent_image_threshold: Size = 10
    history_limit: Count | None = None
    provider_options: JsonObject = Field(default_factory=dict)
    hooks: Hooks = ()

    @property
    def arguments_schema(self) -> JsonObject:
        """The JSON schema of what it takes as a tool; an object of anything where nothing is required."""
        return schema_of(self.required_schema)

    def check_arguments(self, arguments: object) -> JsonObject:
        """Return the arguments of a call as JSON data, defaults filled in where the schema is a pydantic model.

        Args:
            arguments: a dict, or the JSON text that a model wrote.

        Raises:
            ToolArgumentsInvalid: they do not fit; its text is `[<path>] <msg>`.
        """
        return check_against(self.required_schema, arguments)
