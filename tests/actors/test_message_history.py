"""Tests actors/message_history.py: the lazy history of a thread that is longer than its tail."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from treadle.actors.message_history import MessageHistory
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import ThreadNotFound
from treadle.protocol.limits import HISTORY_TAIL

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread

    Enter = Callable[..., Stage]


def history_of(on: Stage, thread: Thread, count: int) -> MessageHistory:
    """Let a thread have `count` messages, the third part of them silent, and return its history."""
    for rank in range(count):
        thread.inject_message("assistant", str(rank), silent=rank % 3 == 0)
        if rank % 500 == 499:
            on.settle()
    on.settle()
    return MessageHistory(on.services, on.services.directory.entry(thread.id))


@pytest.mark.parametrize("count", [0, 1, HISTORY_TAIL - 1, HISTORY_TAIL, HISTORY_TAIL + 1, 150])
def test_a_history_is_a_sequence_like_any_other(stage: Enter, count: int) -> None:
    on = stage(Puppet())
    history = history_of(on, on.thread(), count)
    wanted = [str(rank) for rank in range(count)]

    assert len(history) == count
    assert [message.content for message in history] == wanted
    assert [message.content for message in reversed(history)] == wanted[::-1]
    assert bool(history) is (count > 0)
    for place in {0, 1, count // 2, count - HISTORY_TAIL, count - 1} & set(range(count)):
        assert history[place].content == wanted[place]
        assert history[place - count].content == wanted[place]
        assert history.index(history[place]) == place
        assert history[place] in history
    for place in (count, -count - 1):
        with pytest.raises(IndexError, match=f"{place} of {count}|of {count}"):
            history[place]
    bounds = {None, 1, -1, count - HISTORY_TAIL, count + 5}
    for start, stop, step in product(bounds, bounds, (None, 2, -1, -3)):
        cut = slice(start, stop, step)
        assert [message.content for message in history[cut]] == wanted[cut], cut


def test_a_history_shows_what_has_joined_when_it_is_looked_at(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    history = history_of(on, thread, 70)
    iterating = iter(history)
    assert next(iterating).content == "0"
    on.ask(thread.inject_message("user", "new"))
    on.ask(thread.stop())
    on.ask(thread.queue_message("it waits"))

    assert len(history) == 71
    assert history[-1].content == "new"
    assert [message.content for message in iterating] == [str(rank) for rank in range(1, 70)]
    assert repr(history) == f"<history of {thread.id}: 71 messages>"


def test_the_newest_messages_are_read_once(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.storage.pages import MessageReader

    on = stage(Puppet())
    history = history_of(on, on.thread(), 200)
    read: list[int] = []
    real = MessageReader._joined
    monkeypatch.setattr(MessageReader, "_joined", lambda self, *place: (read.append(place[0]), real(self, *place))[1])
    assert [history[place].content for place in (-1, -2, -HISTORY_TAIL)] == ["199", "198", "136"]
    assert len(read) == HISTORY_TAIL
    assert [message.content for message in history[10:20]] == [str(rank) for rank in range(10, 20)]
    assert len(read) == HISTORY_TAIL + 10  # the page that was asked for, and nothing on the way to it


def test_the_history_of_a_deleted_thread_is_not_found(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    history = history_of(on, thread, 3)
    on.ask(on.runtime.delete_thread(thread.id))
    on.settle()

    with pytest.raises(ThreadNotFound):
        len(history)
