"""Owns `Side` and `Binding`: who answers for one side of a thread, and what ends its turn. Runs no turn."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .bounds import Count
from .expected import expected
from .handler import Handler
from .prompt import Prompt

__all__ = ["Binding", "Side"]

_PROMPT: Final = expected("a prompt is Prompt(...) or the name of one", str, dict, Prompt, NoneType)
_HANDLER: Final = expected("a handler is made by @handler, or named", str, Handler, NoneType)
_OF_A_HANDLER: Final = frozenset({"human", "prompt", "handler", "label"})
_OF_A_HUMAN: Final = frozenset({"human", "prompt", "handler"})


class Binding(BaseModel):
    """A tool whose successful call says something about the session.

    Attributes:
        name: the tool.
        message_property: the argument whose text becomes the result.
        attachments_property: the argument that lists paths of files to go with it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    message_property: str | None = None
    attachments_property: str | None = None


Bound = Annotated[
    Binding | None, expected("what a side binds is Binding(name=...), which names a tool", dict, Binding, NoneType)
]


class Side(BaseModel):
    """One side of a thread: exactly one of a human, a prompt and a handler (contract E.2).

    Attributes:
        human: whether people answer.
        prompt: what a model answers by, itself or its name.
        handler: what code answers, itself or its name.
        label: what the side is called in logs.
        stop_on_response: text without tool calls ends the turn.
        stop_tool: calling it ends the turn; the argument `stop_tool_response_property` becomes the response.
        max_steps: model steps of one execution; None for as many as the execution may take.
        session_stop: its successful call ends the session; `session_fail` as failed.
        session_status: its text is the status of this thread in its parent's registry.
        manual_stop_condition: only code ends the turn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    human: bool = False
    prompt: Annotated[str | Prompt | None, _PROMPT] = None
    handler: Annotated[str | Handler | None, _HANDLER] = None
    label: str | None = None
    stop_on_response: bool = True
    stop_tool: str | None = Field(default=None, min_length=1)
    stop_tool_response_property: str | None = Field(default=None, min_length=1)
    max_steps: Count | None = None
    session_stop: Bound = None
    session_fail: Bound = None
    session_status: Bound = None
    manual_stop_condition: bool = False

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        backings = [self.human, self.prompt is not None, self.handler is not None]
        if sum(backings) != 1:
            raise ValueError("a side is exactly one of human=True, a prompt and a handler")
        allowed = {"human": _OF_A_HUMAN, "handler": _OF_A_HANDLER}.get(self.backing)
        if allowed is not None and not self.model_fields_set <= allowed:
            foreign = ", ".join(sorted(self.model_fields_set - allowed))
            raise ValueError(f"a side that is a {self.backing} takes no {foreign}")
        if (self.stop_tool is None) != (self.stop_tool_response_property is None):
            raise ValueError("stop_tool and stop_tool_response_property come together")
        return self

    @property
    def backing(self) -> Literal["human", "prompt", "handler"]:
        """What answers for the side."""
        if self.human:
            return "human"
        return "prompt" if self.prompt is not None else "handler"
