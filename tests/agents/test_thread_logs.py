"""Tests agents/thread_logs.py and agents/log_entries.py: order, bounds, secrets; awaiting and blocking, on both stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.stage import PATIENCE_S
from treadle.actors import ExecutionFenced
from treadle.agents import ThreadState
from treadle.agents.log_entries import LOG_DATA_BYTES_MAX, LOG_MESSAGE_MAX, LOGS_MAX, PRUNE_EVERY
from treadle.protocol.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage


def said(entries: list[dict[str, Any]]) -> list[str]:
    return [one["data"]["message"] for one in entries]


def test_the_log_is_read_in_pages_from_either_end(declared: Declared) -> None:
    """Contract D.11 get_logs: newest first unless asked otherwise."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        ids = {}
        for number in range(5):
            ids[number] = yield state.log("info", str(number), {"n": number})
        entries = yield state.get_logs(order="asc")
        assert [one["id"] for one in entries] == list(ids.values())
        first = entries[0]
        assert (first["type"], first["data"]) == ("info", {"message": "0", "data": {"n": 0}})
        assert first["parent_id"] == state.execution.id
        assert isinstance(first["created_at"], int)
        assert said((yield state.get_logs(2))) == ["4", "3"]
        assert said((yield state.get_logs(2, 1))) == ["3", "2"]
        assert said((yield state.get_logs(2, 3, "asc"))) == ["3", "4"]
        assert (yield state.get_logs(0)) == []
        assert (yield state.get_logs(5, 5)) == []

    assert declared(script).play().error is None
    assert said(declared.logs()) == ["0", "1", "2", "3", "4"]


def test_an_entry_at_rest_belongs_to_no_execution(stage: Stage) -> None:
    """Contract D.11 get_logs: a plain callable's thread has a log as well."""

    def script(state: ThreadState) -> Replies:
        yield state.log("warning", "inside")

    assert stage(script).play().error is None
    rest = ThreadState.at_rest(stage.thread)
    rest.log("error", "outside").result(PATIENCE_S)

    entries = rest.get_logs().result(PATIENCE_S)
    assert [(one["type"], one["parent_id"] is None) for one in entries] == [("error", True), ("warning", False)]


def test_no_secret_is_left_in_an_entry(declared: Declared) -> None:
    """Contract D.6 redaction: of logs, message and data, also where it is cut."""

    def script(state: ThreadState) -> Replies:
        yield state.log("info", "open sesame", {"sesame": ["sesame"]})
        yield state.log("info", "x" * (LOG_MESSAGE_MAX - 3) + "sesame")

    assert declared(script, env={"K": "sesame"}).play().error is None
    entries = declared.logs()
    assert said(entries[:1]) == ["open [secret:K]"]
    assert "sesa" not in str(entries)
    assert len(said(entries)[1]) == LOG_MESSAGE_MAX


def test_a_log_message_that_is_too_long_is_cut_and_data_refused(declared: Declared) -> None:
    def script(state: ThreadState) -> Replies:
        yield state.log("info", "x" * 20_000)
        yield state.log("info", "half \ud800 a character")
        with pytest.raises(LimitExceeded):
            yield state.log("info", "x", "x" * LOG_DATA_BYTES_MAX)
        for level, message, data in (("loud", "x", None), ("info", 7, None), ("info", "x", object())):
            with pytest.raises(InvalidInput):
                yield state.log(level, message, data)  # type: ignore[arg-type]
        for page in ({"limit": -1}, {"limit": 1001}, {"offset": -1}, {"order": "up"}):
            with pytest.raises(InvalidInput) as refused:
                yield state.get_logs(**page)
            assert refused.value.code == "invalid_page"

    assert declared(script).play().error is None
    first, second = said(declared.logs())
    assert first == "x" * (LOG_MESSAGE_MAX - 1) + "…"
    assert second == "half ? a character"


def test_a_log_too_late_is_no_entry(declared: Declared) -> None:
    kept: list[ThreadState] = []

    def script(state: ThreadState) -> Replies:
        kept.append(state)
        yield state.log("info", "in time")

    assert declared(script).play().error is None
    with pytest.raises(ExecutionFenced):
        kept[0].log("info", "too late").result(PATIENCE_S)
    assert said(declared.logs()) == ["in time"]


@pytest.mark.slow
def test_of_many_entries_the_oldest_go(stage: Stage) -> None:
    """Contract D.11 get_logs: a log is bounded, whoever writes it."""
    wanted = LOGS_MAX + 4 * PRUNE_EVERY

    def script(state: ThreadState) -> Replies:
        for number in range(wanted):
            yield state.log("debug", str(number))

    assert stage(script).play().error is None
    rest = ThreadState.at_rest(stage.thread)
    entries = rest.get_logs(1000).result(PATIENCE_S)
    more = rest.get_logs(1000, 1000).result(PATIENCE_S)

    assert said(entries) == [str(number) for number in range(wanted - 1, wanted - 1001, -1)]
    assert len(more) <= PRUNE_EVERY
