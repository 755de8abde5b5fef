"""Tests agents/hook.py: a function gets its moment and its id."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.agents import Hook, hook
from treadle.protocol.errors import InvalidInput


def test_a_hook_is_a_kind_an_id_and_a_function() -> None:
    """Contract E.7 kinds: defineHook({hook, id, execute})."""

    @hook("filter_messages", id="newest_only")
    async def newest(state: object, messages: list[object]) -> list[object]:
        return messages[-1:]

    @hook("tool_call_started", id="count_calls")
    def count(state: object, call: str) -> str:
        return call

    assert isinstance(newest, Hook)
    assert (newest.hook, newest.id, newest.runs_on) == ("filter_messages", "newest_only", "loop")
    assert (count.runs_on, count("s", "c")) == ("worker", "c")
    assert repr(count) == "<hook 'count_calls' tool_call_started>"


@pytest.mark.parametrize(
    ("kind", "hook_id", "function"), [(1, "x", print), ("x", "", print), ("x", None, print), ("x", "x", 3)]
)
def test_what_is_no_hook_is_refused(kind: Any, hook_id: Any, function: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        hook(kind, id=hook_id)(function)

    assert caught.value.code == "invalid_hook"
