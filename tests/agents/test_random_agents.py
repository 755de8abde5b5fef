"""Random agents, steers, interrupts, queued messages and crashes: what must hold of every loop holds of each life."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agents.random_agents import Life
from treadle.storage import LmdbStore

TAPES = st.lists(st.integers(0, 1 << 12), max_size=60)
SLOW_TO_BEGIN = [HealthCheck.too_slow]


@settings(max_examples=12, deadline=None, suppress_health_check=SLOW_TO_BEGIN, derandomize=True)
@given(TAPES, st.integers(1, 3))
def test_a_few_random_lives_keep_what_must_hold(choices: list[int], executions: int) -> None:
    """Contract F.1 stored first; F.1 other side's tools; F.1 calls and results; B message_history: each call has one result."""
    Life(choices).live(executions)


@pytest.mark.slow
@settings(max_examples=600, deadline=None, suppress_health_check=SLOW_TO_BEGIN)
@given(TAPES, st.integers(1, 3))
def test_many_random_lives_keep_what_must_hold(choices: list[int], executions: int) -> None:
    Life(choices).live(executions)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_TO_BEGIN)
@given(TAPES, st.integers(1, 3))
def test_random_lives_on_disk_keep_what_must_hold(choices: list[int], executions: int) -> None:
    with TemporaryDirectory() as folder:
        Life(choices, LmdbStore(folder)).live(executions)
