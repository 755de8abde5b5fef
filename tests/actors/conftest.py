"""Owns the scene that many tests of the actors play in: one puppet on a stage of its own, with one thread, `t`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Puppet

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread
    from treadle.actors.testing import Stage


@pytest.fixture
def puppet() -> Puppet:
    return Puppet()


@pytest.fixture
def on(stage: Callable[..., Stage], puppet: Puppet) -> Stage:
    return stage(puppet)


@pytest.fixture
def thread(on: Stage) -> Thread:
    return on.thread(thread_id="t")
