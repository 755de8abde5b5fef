"""Owns the count of failures within a window: policy as data, after OTP's restart intensity. Restarts nothing."""

from __future__ import annotations

__all__ = ["Intensity"]


class Intensity:
    """At most `maximum` failures within `window` seconds."""

    __slots__ = ("_times", "maximum", "window")

    def __init__(self, maximum: int, window: float) -> None:
        self.maximum = maximum
        self.window = window
        self._times: list[float] = []

    def exceeded(self, now: float) -> bool:
        """Count one failure at `now` (monotonic seconds); return whether that is one too many."""
        self._times = [at for at in self._times if at > now - self.window]
        self._times.append(now)
        return len(self._times) > self.maximum
