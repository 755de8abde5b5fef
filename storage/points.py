"""Owns the named points at which a test may end this process or raise. Does nothing unless one is armed."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AFTER_COMMIT", "BEFORE_COMMIT", "BEFORE_PUT", "arm", "armed", "disarm", "reach"]

BEFORE_PUT: Final = "before put"
BEFORE_COMMIT: Final = "before commit"
AFTER_COMMIT: Final = "after commit before confirm"

_lock = threading.Lock()
# Name -> (passes left, action). Empty in production, which is all that `reach` looks at.
_armed: dict[str, tuple[int, Callable[[], object]]] = {}


def reach(name: str) -> None:
    """Pass a point; free of cost unless something is armed. Any worker may call it."""
    if _armed:
        _pass(name)


def armed() -> bool:
    """Say whether any point is armed, for places whose names cost something to make."""
    return bool(_armed)


def arm(name: str, nth: int = 1, action: Callable[[], object] | None = None) -> None:
    """Have `action` run, once, when `name` is reached for the nth time from now.

    Args:
        name: the point.
        nth: 1 for the next time.
        action: runs on the worker that reaches the point; may raise. By default the process is killed on the spot.
    """
    assert nth >= 1, nth
    with _lock:
        _armed[name] = (nth, action or _die)


def disarm() -> None:
    """Forget everything that was armed."""
    with _lock:
        _armed.clear()


def _pass(name: str) -> None:
    with _lock:
        left, action = _armed.get(name, (0, _die))
        if left > 1:
            _armed[name] = (left - 1, action)
        else:
            _armed.pop(name, None)
    if left == 1:
        action()


def _die() -> None:
    # SIGKILL, so that nothing of Python's or ours gets to tidy up: that is what a crash is.
    os.kill(os.getpid(), signal.SIGKILL)
