"""Owns the text of a system message: a prompt's parts joined, its variables put in. Reads no history and calls no model.

A prompt names variables as `{{ name }}`. What the thread was created with wins over the scratch space of the execution,
and both over a declared variable's value in the environment. A name that nobody declared and nothing has stays as it is
written: prompts speak of templates too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ..protocol.errors import CallerError

if TYPE_CHECKING:
    from .prompt import Prompt

__all__ = ["PromptVariableMissing", "Values", "render_prompt"]

_NAME: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")
_INCLUDES_MAX: Final = 32  # the definitions refuse circles at open; this only bounds what is deep without one


class PromptVariableMissing(CallerError):
    """A prompt needs a variable that nothing has; `details` has `prompt` and `variable`."""

    code = "prompt_variable_missing"


class Values:
    """What may stand in a prompt, the source that wins first.

    Args:
        arguments: of the thread, or of the call that runs a sub-prompt.
        context: the scratch space of the execution.
        variable: returns a variable of the environment, None where no source has it.
    """

    __slots__ = ("_arguments", "_context", "_variable")

    def __init__(
        self,
        arguments: Mapping[str, object],
        context: Mapping[str, object],
        variable: Callable[[str], str | None],
    ) -> None:
        self._arguments = arguments
        self._context = context
        self._variable = variable

    def of(self, prompt: Prompt, name: str) -> str | None:
        """Return what stands for a name in a prompt, None where nothing does.

        Raises:
            PromptVariableMissing: the prompt declares it as required.
        """
        for source in (self._arguments, self._context):
            if name in source:
                return _text(source[name])
        declared = next((one for one in prompt.variables if one.name == name), None)
        if declared is None:
            return None
        value = self._variable(name)
        if value is None and declared.required:
            raise PromptVariableMissing(
                f"prompt {prompt.name!r} needs the variable {name!r}", prompt=prompt.name, variable=name
            )
        return "" if value is None else value

    def environment(self, prompt: Prompt, name: str) -> str:
        """Return a variable that a part of a prompt is.

        Raises:
            PromptVariableMissing: no source has it.
        """
        value = self._variable(name)
        if value is None:
            raise PromptVariableMissing(
                f"prompt {prompt.name!r} has the variable {name!r} for a part, and no source has it",
                prompt=prompt.name,
                variable=name,
            )
        return value


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)  # the scratch space may hold any object


def render_prompt(prompt: Prompt, values: Values, include: Callable[[str], Prompt], *, depth: int = 0) -> str:
    """Return a prompt's text.

    Args:
        prompt: what to render.
        values: what its names stand for, in included prompts too.
        include: finds a prompt by name.
        depth: of inclusion.

    Raises:
        PromptVariableMissing: a variable that it needs is nowhere.
        DefinitionNotFound: it includes a prompt that is not there.
    """
    if isinstance(prompt.prompt, str):
        return _fill(prompt, prompt.prompt, values)
    if depth > _INCLUDES_MAX:
        raise PromptVariableMissing(
            f"prompt {prompt.name!r} is included more than {_INCLUDES_MAX} deep", prompt=prompt.name, variable=""
        )
    pieces: list[str] = []
    for part in prompt.prompt:
        if part.type == "text":
            pieces.append(_fill(prompt, part.text, values))
        elif part.type == "include":
            pieces.append(render_prompt(include(part.prompt), values, include, depth=depth + 1))
        else:
            pieces.append(values.environment(prompt, part.name))
    return "".join(pieces)


def _fill(prompt: Prompt, text: str, values: Values) -> str:
    def found(match: re.Match[str]) -> str:
        value = values.of(prompt, match.group(1))
        return match.group(0) if value is None else value

    return _NAME.sub(found, text)
