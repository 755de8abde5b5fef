"""Tests actors/checks.py: what a caller hands over beside content is refused with its value, or taken as it is."""

from __future__ import annotations

import math

import pytest

from treadle.actors.checks import awaited, check_one_of, check_reason, check_seconds
from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.limits import REASON_LENGTH_MAX
from treadle.protocol.receipts import ControlReceipt, Disposition, Receipt


def test_a_wait_follows_an_accepted_receipt_to_its_execution_and_a_queued_one_to_its_input() -> None:
    accepted = Receipt(Disposition.ACCEPTED, "i1", execution_id="e1")
    queued = Receipt(Disposition.QUEUED, "i2")
    steered = ControlReceipt(Disposition.ACCEPTED, None, "e2")

    assert [(wait.kind, wait.given) for wait in map(awaited, (accepted, queued, steered, "e3"))] == [
        ("execution", "e1"), ("input", "i2"), ("execution", "e2"), ("execution", "e3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "receipt",
    [
        Receipt(Disposition.BUSY, "i1"),
        Receipt(Disposition.NOTHING_TO_RESUME, None),
        ControlReceipt(Disposition.NO_ACTIVE_EXECUTION, None, "e1"),
        ControlReceipt(Disposition.ACCEPTED, None, None),  # a stop at rest: nothing runs
    ],
    ids=lambda receipt: str(receipt.disposition),
)
def test_there_is_nothing_to_wait_for_where_nothing_was_accepted(receipt: Receipt | ControlReceipt) -> None:
    with pytest.raises(InvalidInput) as refused:
        awaited(receipt)

    assert (refused.value.code, refused.value.details["disposition"]) == ("invalid_receipt", str(receipt.disposition))


@pytest.mark.parametrize("target", [None, "", "x" * 129, "a\nb", 7, ("accepted", "e1")])
def test_a_wait_is_for_an_id_or_a_receipt(target: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        awaited(target)

    assert refused.value.code == "invalid_id"


def test_a_reason_is_text_of_bounded_length() -> None:
    check_reason(None)
    check_reason("")
    check_reason("ж" * REASON_LENGTH_MAX)
    with pytest.raises(LimitExceeded) as long:
        check_reason("x" * (REASON_LENGTH_MAX + 1))
    assert (long.value.details["maximum"], long.value.details["met"]) == (REASON_LENGTH_MAX, REASON_LENGTH_MAX + 1)
    with pytest.raises(InvalidInput, match="b'x'"):
        check_reason(b"x")
    with pytest.raises(InvalidInput, match="surrogates"):
        check_reason("\ud800")


@pytest.mark.parametrize("seconds", [0, -1, 0.0, math.inf, math.nan, 10**9 + 1, 10**400, True, "1", [1]])
def test_a_duration_is_seconds_above_none(seconds: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_seconds("timeout", seconds)

    assert refused.value.code == "invalid_timeout"


def test_a_duration_comes_back_as_a_float() -> None:
    assert check_seconds("timeout", None) is None
    assert [check_seconds("timeout", 3), check_seconds("timeout", 0.25)] == [3.0, 0.25]
    assert type(check_seconds("timeout", 3)) is float


@pytest.mark.parametrize("choice", ["Queue", "", None, 1, ["queue"]])
def test_a_choice_names_what_there_is_to_choose(choice: object) -> None:
    check_one_of("on_busy", "queue", ("reject", "queue"))
    with pytest.raises(InvalidInput, match="reject, queue") as refused:
        check_one_of("on_busy", choice, ("reject", "queue"))

    assert refused.value.code == "invalid_on_busy"
