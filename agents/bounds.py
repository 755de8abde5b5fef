"""Owns the numbers that definitions may hold: counts and seconds, none of them a bool, a text or beyond all clocks."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from ..protocol.limits import SECONDS_MAX

__all__ = ["ATTEMPTS_MAX", "COUNT_MAX", "Attempts", "Count", "Delay", "Seconds", "Size"]

COUNT_MAX: Final = 1_000_000_000
ATTEMPTS_MAX: Final = 100  # of one model; whoever needs more has no model

# Strict: True would be one second, and "60" a mistake that nobody sees.
Seconds: TypeAlias = Annotated[float, Field(strict=True, gt=0, le=SECONDS_MAX, allow_inf_nan=False)]
Delay: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=SECONDS_MAX, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=COUNT_MAX)]
Size: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=COUNT_MAX)]
Attempts: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=ATTEMPTS_MAX)]
