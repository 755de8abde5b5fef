"""Owns the stage on which scripts are played: each test that asks for it runs in both worlds and on every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.declared import Declared
from tests.agents.stage import Stage, in_coroutine, in_function
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | LmdbStore:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")


@pytest.fixture(params=["coroutine", "function"])
def stage(request: pytest.FixtureRequest, store: MemoryStore | LmdbStore, always_evict: bool) -> Iterator[Stage]:
    with Stage(store, in_coroutine if request.param == "coroutine" else in_function, always_evict=always_evict) as made:
        yield made


@pytest.fixture(params=["coroutine", "function"])
def declared(request: pytest.FixtureRequest, store: MemoryStore | LmdbStore, always_evict: bool) -> Iterator[Declared]:
    made = Declared(store, blocking=request.param == "function", always_evict=always_evict)
    yield made
    made.close()
