"""Owns the fixtures that several files of this folder take."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep what the storage logs on purpose out of the output."""
    with caplog.at_level(logging.CRITICAL, "treadle.storage"):
        yield
