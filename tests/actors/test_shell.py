"""What the shell around the rules promises; `tests/simulation/shell_mutants.py` breaks each on purpose."""

from __future__ import annotations

import pytest

from tests.actors.shell_promises import PROMISES, Promise


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_shell_keeps_its_promise(promise: Promise) -> None:
    promise()
