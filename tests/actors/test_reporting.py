"""Reports reach the user's callback in order, on a worker that nothing else waits for."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from treadle.actors.reporting import Reporter


def test_a_callback_runs_on_a_worker_of_its_own_and_in_order() -> None:
    seen: SimpleQueue[tuple[str, str]] = SimpleQueue()
    reporter = Reporter(lambda name, details: seen.put((name, threading.current_thread().name)))

    for name in ("one", "two", "three"):
        reporter.tell(name, {})
    reporter.close()

    assert [seen.get(timeout=60) for _ in range(3)] == [(name, "treadle-reports") for name in ("one", "two", "three")]


def test_a_callback_that_blocks_holds_up_neither_the_teller_nor_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.actors.reporting._FLUSH_S", 0.01)
    release = threading.Event()
    reporter = Reporter(lambda name, details: release.wait(60))

    reporter.tell("one", {})
    reporter.tell("two", {})
    reporter.close()

    release.set()


def test_a_callback_that_raises_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def callback(name: str, details: object) -> None:
        seen.append(name)
        raise ValueError("broken callback")

    reporter = Reporter(callback)
    reporter.tell("one", {})
    reporter.tell("two", {})
    reporter.close()
    assert reporter._worker is not None
    reporter._worker.join(60)  # a close waits for a second at most

    assert seen == ["one", "two"]
    assert "on_report failed" in caplog.text


def test_an_immediate_callback_is_called_on_the_spot() -> None:
    class Immediate:
        immediate = True
        seen: list[str] = []

        def __call__(self, name: str, details: object) -> None:
            self.seen.append(name)

    callback = Immediate()
    Reporter(callback).tell("one", {"thread_id": "t"})

    assert callback.seen == ["one"]
