"""Holds treadle.actors.given_up: a wait whose reply nobody has any more is let go of, and no other."""

from __future__ import annotations

import asyncio
import threading
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.given_up import Leave, is_given_up
from treadle.actors.reply import Reply
from treadle.actors.wait_graph import WaitGraph

if TYPE_CHECKING:
    pass

GUARD = 60


def sweep(kept: list[Reply[Any]]) -> int:
    kept[:] = filterfalse(is_given_up, kept)
    return len(kept)


def test_a_reply_that_only_its_list_has_is_given_up() -> None:
    assert sweep([Reply(), Reply(), Reply()]) == 0


def test_a_reply_that_is_set_is_given_up_whoever_has_it() -> None:
    held: Reply[int] = Reply()
    held.set(1)

    assert sweep([held]) == 0


def test_a_reply_that_somebody_has_is_kept() -> None:
    held: Reply[int] = Reply()
    elsewhere = {"a": Reply[int]()}
    kept = [held, elsewhere["a"], Reply()]

    assert sweep(kept) == 2
    assert kept == [held, elsewhere["a"]]


def test_a_reply_that_is_bound_in_a_call_to_come_is_kept() -> None:
    later = [Reply[int]().result, asyncio.Event().wait]
    assert sweep([later[0].__self__]) == 1


def test_a_reply_that_is_waited_for_is_kept() -> None:
    kept: list[Reply[int]] = [Reply()]
    waits = threading.Event()

    def wait() -> None:
        waits.set()
        kept[0].result(GUARD)

    worker = threading.Thread(target=wait, daemon=True)
    worker.start()
    assert waits.wait(GUARD)
    while not kept[0]._listeners():
        worker.join(0.001)

    assert sweep(kept) == 1
    kept[0].set(1)
    worker.join(GUARD)


def test_a_reply_that_is_awaited_is_kept_until_its_time_is_up() -> None:
    async def main() -> None:
        kept: list[Reply[int]] = [Reply()]

        async def wait() -> int:
            return await kept[0]

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert sweep(kept) == 1
        task.cancel()
        await asyncio.wait([task])
        del task
        assert sweep(kept) == 0

    asyncio.run(main())


def test_a_reply_whose_time_limit_ran_out_is_given_up_with_it() -> None:
    kept: list[Reply[int]] = [Reply()]
    with pytest.raises(TimeoutError):
        kept[0].result(0)

    assert sweep(kept) == 0


def test_a_reply_with_a_callback_is_kept_by_it() -> None:
    kept: list[Reply[int]] = [Reply()]
    told: list[object] = []
    kept[0].add_done_callback(told.append)

    assert sweep(kept) == 1
    kept[0].set(1)
    assert told


def test_what_was_noted_of_the_wait_of_an_execution_keeps_nothing_and_ends_with_it() -> None:
    waits = WaitGraph()
    kept: list[Reply[int]] = [Reply(), Reply()]
    held = kept[1]
    for reply, target in zip(kept, "bc", strict=True):
        reply.add_done_callback(Leave(waits, waits.enter("a", target, "e-1")))
    del reply

    assert sweep(kept) == 1
    assert kept == [held]
    assert waits.targets("a") == ["c"]
