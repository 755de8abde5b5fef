"""Tests `ThreadState.request` on real runtimes: in coroutines and plain functions, in memory and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.agents.stage import PATIENCE_S
from treadle.actors import ExecutionCancelled, ExecutionFenced, Reply
from treadle.agents import ThreadState
from treadle.protocol.errors import InvalidInput, RequestExpired
from treadle.storage import LmdbStore
from treadle.storage.check import check, check_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agents.stage import Replies, Stage
    from treadle.protocol.frames import Frame


class Watched:
    """The frames of a stage's thread from its submit on."""

    def __init__(self, stage: Stage) -> None:
        self._stream = stage.thread.stream()
        assert self._stream.next(PATIENCE_S) is not None
        self.execution_id = stage.thread.submit("go").result(PATIENCE_S).execution_id

    def opened(self) -> Frame:
        """Return the frame of the next request."""
        while True:
            frame = self._stream.next(PATIENCE_S)
            assert frame is not None
            if frame["type"] == "REQUEST_OPENED":
                return frame

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


@pytest.fixture(autouse=True)
def _whole(stage: Stage) -> Iterator[None]:
    yield
    stage.close()
    if isinstance(stage.store, LmdbStore):
        assert check(stage.store.path).broken == ()
    else:
        stage.store.open()
        assert check_tables(stage.store).broken == ()
        stage.store.close()


def test_an_agent_asks_for_an_approval_and_goes_on_with_the_answer(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        answer = yield state.request("approval", {"refund": 12.5}, request_id="refund-1")
        yield state.inject_message("assistant", f"refunded: {answer['approved']}")

    stage(script)
    with Watched(stage) as watched:
        frame = watched.opened()
        live = stage.thread.state().result(PATIENCE_S)
        assert live.status.state == "running"
        assert [one["request_id"] for one in live.pending_requests] == [frame["request_id"]] == ["refund-1"]
        assert live.pending_requests[0]["payload"] == {"refund": 12.5}
        assert stage.thread.explain().result(PATIENCE_S).requests == ("refund-1",)

        assert stage.thread.respond("refund-1", {"approved": True}).result(PATIENCE_S) == "accepted"
        assert stage.end(watched.execution_id).status == "succeeded"

    assert stage.texts() == ["go", "refunded: True"]
    # The same answer again, too: it was taken once, and a caller who missed the reply learns so.
    for approved in (True, False):
        assert stage.thread.respond("refund-1", {"approved": approved}).result(PATIENCE_S) == "already_resolved"


def test_an_agent_goes_on_without_an_answer_when_its_time_is_over(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(RequestExpired):
            yield state.request("clarification", None, 5)
        yield state.inject_message("assistant", "went on")

    stage(script)
    with Watched(stage) as watched:
        frame = watched.opened()
        stage.clock.advance(5)
        assert stage.end(watched.execution_id).status == "succeeded"

    assert frame["timeout"] == 5.0
    assert stage.thread.respond(frame["request_id"], 1).result(PATIENCE_S) == "timed_out"


def test_an_interrupt_ends_the_wait_and_the_request(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        with pytest.raises(ExecutionCancelled):
            yield state.request("approval", request_id="r")
        with pytest.raises(ExecutionCancelled):
            yield state.request("approval", request_id="s")
        yield state.inject_message("assistant", "cleaned up")

    stage(script)
    with Watched(stage) as watched:
        watched.opened()
        assert watched.execution_id is not None
        stage.thread.interrupt(watched.execution_id).result(PATIENCE_S)
        assert stage.end(watched.execution_id).status == "cancelled"

    assert stage.thread.respond("r", 1).result(PATIENCE_S) == "cancelled"
    assert stage.thread.respond("s", 1).result(PATIENCE_S) == "not_found"
    assert stage.texts()[-1] == "cleaned up"


def test_a_steer_that_comes_while_an_agent_asks_is_read_afterwards(stage: Stage) -> None:
    seen: list[list[str | None]] = []

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        seen.append([message.content for message in state.execution.new_messages])
        if len(seen) == 1:
            yield state.request("approval", request_id="r")

    stage(script)
    with Watched(stage) as watched:
        watched.opened()
        assert watched.execution_id is not None
        stage.thread.steer(watched.execution_id, "and hurry").result(PATIENCE_S)
        stage.thread.respond("r", True).result(PATIENCE_S)
        stage.end(watched.execution_id)

    assert seen == [["go"], ["and hurry"]]


def test_a_request_that_nobody_waits_for_is_abandoned_with_its_execution(stage: Stage) -> None:
    left: list[Reply[Any]] = []

    def script(state: ThreadState) -> Replies:
        left.append(state.request("approval", request_id="r"))
        yield state.inject_message("assistant", "asked")

    assert stage(script).play().status == "succeeded"

    assert isinstance(left[0].error(), ExecutionFenced)
    assert stage.thread.respond("r", 1).result(PATIENCE_S) == "cancelled"


def test_what_is_no_request_is_told_and_the_agent_goes_on(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        codes = []
        for call in (
            lambda: state.request("", 1),
            lambda: state.request("approval", object()),
            lambda: state.request("approval", 1, -1),
            lambda: state.request("approval", 1, request_id="\n"),
            lambda: ThreadState(state._access).request("approval"),
        ):
            with pytest.raises(InvalidInput) as refused:
                yield call()
            codes.append(refused.value.code)
        yield state.set_value("codes", codes)

    assert stage(script).play().error is None
    assert stage.thread.get_value("codes").result(PATIENCE_S) == [
        "invalid_id", "invalid_value", "invalid_timeout", "invalid_id", "no_active_execution",
    ]  # fmt: skip
