"""Owns how often a thing may fail and when it is tried again: policy as data, after OTP. Restarts nothing."""

from __future__ import annotations

from ..protocol.limits import RETRY_FIRST_S, RETRY_LAST_S

__all__ = ["Intensity", "retry_delay"]

_DOUBLINGS = 16  # far beyond the last delay; without an end the power would leave the range of floats within two hours


def retry_delay(attempts: int) -> float:
    """Return after how many seconds to try again what has failed `attempts` times, from 1 on."""
    return min(RETRY_FIRST_S * 2.0 ** min(attempts - 1, _DOUBLINGS), RETRY_LAST_S)


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
