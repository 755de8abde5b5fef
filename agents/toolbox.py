"""Owns the finding of what a tool call names: a function tool, a prompt, or an agent. Runs and describes none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .definitions import DefinitionNotFound, Offered

if TYPE_CHECKING:
    from .definitions import Definitions
    from .flow import Flow
    from .prompt import Prompt
    from .thread_state import ThreadState

__all__ = ["Found", "find_tool", "listed_tools"]

Found = Offered
"""What a name stands for, and how the prompt has it."""


def find_tool(flow: Flow | None, state: ThreadState, name: str, *, listed: bool) -> Found | None:
    """Return what a call names; None where there is no such thing.

    Args:
        flow: of the calling step; None at rest.
        state: of the thread.
        name: as the call has it.
        listed: whether it has to be one of the current prompt's tools.
    """
    definitions = state.scene.definitions
    if definitions is None:
        return None
    if flow is not None and flow.prompt is not None:
        found = definitions.offered(flow.prompt).get(name)
        if found is not None or listed:
            return found
    elif listed:
        return None
    try:
        return Offered(name, definitions.callable(name))
    except DefinitionNotFound:
        return None


def listed_tools(definitions: Definitions | None, prompt: Prompt) -> list[Found]:
    """Return all that a prompt lists, in its order."""
    return [] if definitions is None else list(definitions.offered(prompt).values())
