"""Owns the proof of treadle.storage.batch: a confirm never hurts who calls it, and refusals share no exception."""

from __future__ import annotations

import logging

import pytest

from treadle.protocol.errors import StorageFull
from treadle.storage.batch import COMMITTED, Answer, refused, tell


@pytest.mark.parametrize("raised", [Exception, SystemExit, KeyboardInterrupt])
def test_telling_a_confirm_that_raises_only_logs_it(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def confirm(_: Answer) -> None:
        raise raised("on purpose")

    with caplog.at_level(logging.ERROR, "treadle.storage"):
        tell(confirm, COMMITTED)

    assert [record.getMessage() for record in caplog.records] == [
        "a confirm raised; its batch was answered committed all the same"
    ]


def test_each_refusal_carries_its_own_copy_of_the_error() -> None:
    error = StorageFull("no room", reason="ENOSPC")

    first, second = refused(error), refused(error, "unknown")

    assert (first.kind, second.kind, first.change) == ("not_written", "unknown", 0)
    assert isinstance(first.error, StorageFull)
    assert first.error is not error
    assert first.error is not second.error
    assert (first.error.message, first.error.details) == ("no room", {"reason": "ENOSPC"})
