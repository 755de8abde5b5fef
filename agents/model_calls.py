"""Owns what becomes of the tool calls in a response: bounded, each with an id of its own, as text to store. Runs none.

Models are careless: ids are empty or come twice, names and arguments are anything, and one response may ask for
thousands. Whatever they send, each call that is stored can be stored, and is answered exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ..protocol.limits import MIB
from .models.halves import clean
from .models.seam import ToolCall

__all__ = ["CALLS_PER_STEP_MAX", "CALL_BYTES_MAX", "INVALID_RESPONSE", "SURPLUS", "StepCalls", "bounded_calls"]

CALLS_PER_STEP_MAX: Final = 128
"""Calls of one step. All are open at once, and an execution may have 200 open calls and unread steers together."""

CALL_BYTES_MAX: Final = MIB // 2
"""Bytes of the calls of one step, as they are stored."""

SURPLUS: Final = "tool_call_limit"
"""The name under which the calls beyond a limit are answered, all in one."""

INVALID_RESPONSE: Final = "invalid_assistant_response"
"""The name under which an empty response is answered, so that the model can recover (contract F.2)."""

_ID_MAX = 128  # characters; a longer id is replaced
_NAME_MAX = 256
_AROUND = 64  # bytes of keys and brackets around each call


class StepCalls(NamedTuple):
    """The calls of one step as they are run and stored; `surplus` counts those that are not."""

    calls: tuple[ToolCall, ...]
    surplus: int = 0

    @property
    def ids(self) -> list[str]:
        """The ids in order, all different."""
        return [call.id for call in self.calls]

    def text(self) -> str | None:
        """Return the JSON text that is stored; None where there are none."""
        if not self.calls:
            return None
        made = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]
        return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def bounded_calls(
    calls: Sequence[ToolCall],
    new_id: Callable[[], str],
    redact: Callable[[str], str] = str,
    *,
    taken: Iterable[str] = (),
) -> StepCalls:
    """Return the calls of a response as they may be stored.

    Args:
        calls: as the model wrote them.
        new_id: makes an id for a call that has none, the same one as another, or one that cannot be stored.
        taken: ids that stand for other calls now, which a sub-prompt's model cannot know.
        redact: takes secrets out; an id that holds one is replaced, since it is found by as it is.

    Returns:
        The first calls that are within the limits; where there are more, a last call named `SURPLUS` stands for the rest.
    """
    kept: list[ToolCall] = []
    known = set(taken)
    left = CALL_BYTES_MAX
    for call in calls:
        arguments, name = clean(call.arguments), clean(call.name)
        # Cut, it could hold the half of a secret.
        name = name if len(name) <= _NAME_MAX else redact(name)[:_NAME_MAX]
        # Twice: in the text that is stored the quotes of arguments are escaped.
        left -= 2 * len(arguments.encode()) + len(name) + _AROUND
        if left < 0 or (len(kept) == CALLS_PER_STEP_MAX - 1 and len(calls) > CALLS_PER_STEP_MAX):
            break
        call_id = clean(call.id)
        if not call_id or len(call_id) > _ID_MAX or "\0" in call_id or call_id in known or redact(call_id) != call_id:
            call_id = f"call_{new_id()}"
        known.add(call_id)
        kept.append(ToolCall(call_id, name, arguments))
    surplus = len(calls) - len(kept)
    if surplus:
        kept.append(ToolCall(f"call_{new_id()}", SURPLUS, json.dumps({"calls": surplus})))
    return StepCalls(tuple(kept), surplus)
