"""Owns the runtimes that a test opened: opens them on the fake clock, closes them, and says what went wrong unseen."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.limits import RETRY_LAST_S
from ..reply import Reply
from ..runtime import Runtime
from .crash_points import Crash
from .probe import GUARD_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...storage.store import Store
    from ..fake_clock import FakeClock
    from ..services import Body

__all__ = ["Collect", "Report", "Runtimes", "check_reports"]

Report = tuple[str, "Mapping[str, object]"]

# Real time for what needs none on the test's clock; beyond it that moves on. In small parts: a busy machine that gives the
# others no turn meanwhile is slow to give the next part, too.
_STOPPING_PARTS, _STOPPING_S = 50, 0.01


class Collect:
    """Puts reports on a list the moment they are made: what a test looks at next must be there."""

    immediate = True

    def __init__(self, reports: list[Report]) -> None:
        self._reports = reports

    def __call__(self, name: str, details: Mapping[str, object]) -> None:
        """Take one report."""
        self._reports.append((name, dict(details)))


class Runtimes:
    """Opens runtimes for one test.

    Attributes:
        reports: what they reported, by name, with details. Those of crashes that were not on purpose, and of our own
            bugs, fail the test at its end; a test that expects them takes them out.
    """

    def __init__(self, store: Store, clock: FakeClock, *, always_evict: bool = False) -> None:
        self.reports: list[Report] = []
        self._store = store
        self._clock = clock
        self._always_evict = always_evict
        self._open: list[Runtime] = []

    def __call__(self, *agents: Body, store: Store | None = None, **options: Any) -> Runtime:
        """Open a runtime; for a restart, on the same store, call `close` before.

        Args:
            agents: what it hosts.
            store: by default the test's.
            options: as of `Runtime`.
        """
        options.setdefault("always_evict", self._always_evict)
        options.setdefault("on_report", Collect(self.reports))
        runtime = Runtime(store or self._store, agents=agents, clock=self._clock, **options).open()
        self._open.append(runtime)
        return runtime

    def close(self) -> None:
        """Close them all, the newest first: what still runs is interrupted, and abandoned if it does not stop.

        Raises:
            CloseIncomplete: a store refused last commits.
            AssertionError: something was reported that no test wants.
        """
        while self._open:
            self._close(self._open.pop())
        check_reports(self.reports)

    def _close(self, runtime: Runtime) -> None:
        closed: Reply[None] = Reply()

        def close() -> None:
            try:
                runtime.close(drain_timeout=0)
            except BaseException as error:  # noqa: BLE001 - it belongs to the test
                closed.fail(error)
            else:
                closed.set(None)

        options = runtime._options  # noqa: SLF001 - how long a close may take is nobody else's business
        waits = [options.interrupt_grace, options.release_timeout, RETRY_LAST_S, RETRY_LAST_S]
        # A close that the test began, and was cut off in, is the one that is waited for: it drains first.
        if runtime._closer is not None and options.drain_timeout != math.inf:  # noqa: SLF001
            waits.insert(0, options.drain_timeout)
        threading.Thread(target=close, name="treadle-closing", daemon=True).start()
        # Each in its turn, and time for the others in between: a clock that runs on by itself would outrun them.
        for seconds in waits:
            if _is_there(closed):
                break
            self._clock.advance(seconds)
        closed.result(GUARD_S)


def _is_there(closed: Reply[None]) -> bool:
    for _ in range(_STOPPING_PARTS):
        try:
            closed.result(_STOPPING_S)
        except TimeoutError:
            continue
        return True
    return False


def check_reports(reports: Iterable[Report]) -> None:
    """Raises: AssertionError: an actor crashed and not on purpose, or deciding failed; both are bugs of ours."""
    wrong = [
        f"{name} on thread {details.get('thread_id')!r}: {details.get('error')!r}"
        for name, details in reports
        if name == "decide_failed" or (name == "actor_crashed" and not isinstance(details.get("error"), Crash))
    ]
    assert not wrong, "\n".join(wrong)
