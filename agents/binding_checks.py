"""Owns what is checked of a side's stop tool and session bindings: that the model can call them, and so. Binds nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import PydanticUserError

if TYPE_CHECKING:
    from .prompt import Prompt
    from .side import Side
    from .tool import Tool

__all__ = ["binding_problems"]


def binding_problems(side: Side, prompt: Prompt, targets: Mapping[str, Tool | Prompt | None]) -> Iterator[str]:
    """Go through what is wrong with the bindings of a side.

    Args:
        side: backed by a prompt.
        prompt: that prompt.
        targets: what its tools are by name; None for what has no schema to look at.
    """
    named: list[tuple[str, str, list[tuple[str, str | None]]]] = []
    if side.stop_tool is not None:
        properties = [("stop_tool_response_property", side.stop_tool_response_property)]
        named.append(("stop_tool", side.stop_tool, properties))
    for field in ("session_stop", "session_fail", "session_status"):
        binding = getattr(side, field)
        if binding is not None:
            properties = [(one, getattr(binding, one)) for one in ("message_property", "attachments_property")]
            named.append((field, binding.name, properties))
    for field, name, properties in named:
        if name not in targets:
            yield f"{field} names {name!r}, which is no tool of prompt {prompt.name!r}"
            continue
        for key, argument in properties:
            if argument is not None and not _takes(targets[name], argument):
                yield f"{field}: {key} names {argument!r}, which {name!r} does not take"
    if side.session_stop and side.session_fail and side.session_stop.name == side.session_fail.name:
        yield f"session_stop and session_fail are both {side.session_stop.name!r}"


def _takes(target: Tool | Prompt | None, argument: str) -> bool:
    if target is None:
        return True
    # A pydantic model has a `schema` of its own, of another meaning.
    try:
        schema = target.arguments_schema if hasattr(target, "arguments_schema") else target.schema
    except PydanticUserError:
        return True  # told of the prompt itself
    properties = schema.get("properties")
    is_open = schema.get("additionalProperties", True) is not False
    return is_open or (isinstance(properties, dict) and argument in properties)
