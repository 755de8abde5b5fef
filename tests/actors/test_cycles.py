"""An execution that ended leaves nothing behind that only the garbage collector could free."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

from treadle.agents import agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime
    from treadle.agents import ThreadState

GUARD_S = 60.0


@agent
async def speaker(state: ThreadState) -> None:
    await state.inject_message("assistant", "there")


def test_an_execution_leaves_no_reference_cycle(runtime: Callable[..., Runtime]) -> None:
    thread = runtime(speaker).create_thread("speaker").result(GUARD_S)
    thread.wait(thread.submit("warm up").result(GUARD_S)).result(GUARD_S)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(10):
            thread.wait(thread.submit("go on").result(GUARD_S)).result(GUARD_S)
        gc.collect()
        left = Counter(type(item).__name__ for item in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()

    # What a test run itself leaves (frames of plugins, warnings) comes once, not once an execution.
    assert {name: count for name, count in left.items() if count >= 10} == {}
