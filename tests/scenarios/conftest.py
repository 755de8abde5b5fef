"""Owns the scenes: each scenario plays on both stores and, where the body matters, in both kinds of body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scene import Scene
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | LmdbStore:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")


@pytest.fixture
def scene(store: MemoryStore | LmdbStore) -> Iterator[Scene]:
    made = Scene(store)
    yield made
    made.close()


@pytest.fixture(params=["coroutine", "function"])
def either(request: pytest.FixtureRequest, store: MemoryStore | LmdbStore) -> Iterator[Scene]:
    """A scene whose bodies are coroutines in one run, and plain functions in the other."""
    made = Scene(store, request.param)
    yield made
    made.close()
