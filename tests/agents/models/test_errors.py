"""What a model's failure tells: agents/models/errors.py."""

from __future__ import annotations

import pickle

from treadle.agents.models import ModelError
from treadle.protocol.errors import TreadleError


def test_an_error_survives_a_process_boundary_with_all_that_it_says() -> None:
    error = ModelError("too many requests", model="small", status=429, retry_after=2.5, retryable=True)

    copy = pickle.loads(pickle.dumps(error))

    assert (copy.code, copy.model, copy.status, copy.retry_after) == ("model_error", "small", 429, 2.5)
    assert (copy.retryable, copy.stalled, str(copy)) == (True, False, "too many requests")


def test_an_error_says_the_same_again_with_more_details() -> None:
    error = ModelError("silent", model="small", stalled=True).again(attempts=2)

    assert isinstance(error, TreadleError)
    assert error.stalled
    assert error.to_wire()["details"] == {
        "model": "small", "status": None, "retry_after": None, "retryable": False, "stalled": True, "attempts": 2,
    }  # fmt: skip
