"""Tests hosting/problems.py: one table from error to status, one form of saying it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from treadle.hosting.auth import Unauthenticated
from treadle.hosting.problems import PROBLEM_TYPE, Refused, problem, problem_of, problems, status_of
from treadle.protocol import errors
from treadle.protocol.errors import InvalidInput, TreadleError

if TYPE_CHECKING:
    from starlette.responses import Response

EXPECTED = {
    "InvalidInput": 400,
    "LimitExceeded": 413,
    "ThreadNotFound": 404,
    "ExecutionNotFound": 404,
    "AgentNotFound": 404,
    "InputNotFound": 404,
    "MessageNotFound": 404,
    "ThreadExists": 409,
    "ThreadTerminated": 409,
    "IdempotencyConflict": 409,
    "InputWithdrawn": 409,
    "CursorConflict": 409,
    "WaitCycle": 409,
    "WouldBlock": 400,
    "CallerError": 400,
    "StorageFull": 507,
    "ThreadOverloaded": 429,
    "ThreadQuarantined": 423,
    "InvalidDefinitions": 500,
    "StoreUnreadable": 500,
    "CorruptRecord": 500,
    "SchemaTooNew": 500,
    "NotAStore": 500,
    "InternalError": 500,
    "TreadleError": 500,
}
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TreadleError)]


def read(response: Response) -> dict[str, object]:
    assert response.media_type == PROBLEM_TYPE
    found = json.loads(bytes(response.body))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_keeps_its_code(kind: type[TreadleError]) -> None:
    error = kind("what went wrong", thread_id="t")
    status = EXPECTED.get(kind.__name__, 503)

    answer = problem(error)

    assert (answer.status_code, status_of(error)) == (status, status)
    said = read(answer)
    assert (said["code"], said["status"], said["type"]) == (error.code, status, f"about:blank#{error.code}")
    # Nobody outside can act on what is wrong with the store or with us.
    assert ("thread_id" in said) is (status != 500)
    assert ("what went wrong" in str(said["detail"])) is (status != 500)
    assert ("retry-after" in answer.headers) is (status in (429, 503))


def test_a_call_without_a_known_token_is_told_how_to_carry_one() -> None:
    answer = problem(Unauthenticated("no"))

    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_an_error_keeps_the_code_that_it_was_given() -> None:
    assert read(problem(InvalidInput("no", code="invalid_role", value="'x'"))) == {
        "type": "about:blank#invalid_role",
        "title": "Invalid role",
        "status": 400,
        "detail": "no",
        "code": "invalid_role",
        "value": "'x'",
    }


def test_details_do_not_replace_what_a_problem_says_of_itself() -> None:
    error = InvalidInput("no")
    error.details = {"status": 200, "title": "fine", "headers": {}, "more": 1}

    said = read(problem(error))

    assert (said["status"], said["title"], said["more"]) == (400, "Invalid input", 1)


def test_a_problem_can_be_told_whatever_it_holds() -> None:
    said = read(problem_of(400, "bad", "half a pair \ud800", value=b"bytes", path={"\ud800": 1}))

    assert said["detail"] == "half a pair \ud800"
    assert said["value"] == "b'bytes'"


def test_what_http_itself_refuses_has_the_same_form() -> None:
    answer = problem(Refused(415, "not_json", "the body is not JSON", headers={"x-more": "1"}, limit="form"))

    assert (answer.status_code, answer.headers["x-more"]) == (415, "1")
    assert read(answer)["limit"] == "form"


def test_a_route_says_which_problems_it_may_answer() -> None:
    said = problems(404, 507)

    assert {400, 401, 404, 500, 503, 507} <= said.keys()
    assert all(PROBLEM_TYPE in one["content"] for one in said.values())
