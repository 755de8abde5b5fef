"""What a body reaches of its own thread: answers come through replies, and nothing passes the fence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import ExecutionFenced
from treadle.actors.own_thread import answer
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


def test_an_error_of_a_read_comes_through_its_reply() -> None:
    def refuse() -> None:
        raise InvalidInput("no", code="invalid_page")

    reply = answer(refuse)

    assert reply.done()
    with pytest.raises(InvalidInput):
        reply.result()


def test_an_error_that_is_a_bug_comes_at_the_call() -> None:
    with pytest.raises(ZeroDivisionError):
        answer(lambda: 1 / 0)


def test_a_body_that_is_over_writes_nothing_to_the_thread_that_it_owned(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread(thread_id="t")
    on.ask(thread.submit("go"))
    on.settle()
    execution = puppet.execution
    puppet.returns()
    on.settle()

    for reply in (execution.append({"id": "m", "role": "assistant", "content": "late"}), execution.set_value("k", 1)):
        assert isinstance(reply.error(), ExecutionFenced)
