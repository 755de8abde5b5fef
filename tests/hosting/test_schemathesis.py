"""Tests that the OpenAPI document is true: whatever is made of it is answered as it says, and never with a 500."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.hosting.served import Served
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.app import create_app
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = ["idle", "busy", "over", "a/b"]
# Endless where they succeed; what they refuse is refused before, and tested by hand.
UNSAID = {  # what no JSON schema can say: rules between members, and how large numbers are
    "idempotency_key_mismatch",
    "invalid_content",
    "invalid_page",
    "invalid_value",
}
STREAMS = {"/threads/{thread_id}/events", "/events", "/threads/{thread_id}/stream"}


@agent
async def asks(state: ThreadState) -> None:
    await state.request("approval")


def runtime() -> Runtime:
    return Runtime(MemoryStore(), agents=[asks], drain_timeout=0, interrupt_grace=1)


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """Name threads that there are, since hardly a made id is that of one."""
    for path in STREAMS:
        del document["paths"][path]
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "thread_id":
                    parameter["schema"] = {"enum": THREADS}
    document["components"]["schemas"]["NewThread"]["properties"]["agent_id"] = {"enum": ["asks"]}
    return document


# A limit that is met is refused, too.
CONFIG = schemathesis.Config.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": ["400", "401", "403", "404", "409", "413"]}}}
)
DOCUMENT = narrowed(create_app(runtime()).openapi())
OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG).get_all_operations()]
# Where nothing can be given, nothing can be wrong.
CASES = [(operation, GenerationMode.POSITIVE) for operation in OPERATIONS] + [
    (operation, GenerationMode.NEGATIVE)
    for operation in OPERATIONS
    if operation.path.startswith("/threads") or operation.path == "/tickets"
]


@pytest.fixture
def served() -> Iterator[Served]:
    # Each operation has its own: some of them leave no thread behind.
    with contextlib.ExitStack() as opened:
        hosted = opened.enter_context(runtime())
        for name in THREADS:
            hosted.create_thread("asks", thread_id=name).result()
        hosted.thread("busy").submit("go").result()
        hosted.thread("over").terminate().result()
        yield opened.enter_context(Served(hosted))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "mode"), CASES, ids=lambda value: getattr(value, "label", getattr(value, "value", None))
)
def test_every_answer_is_as_described(served: Served, operation: Any, mode: GenerationMode) -> None:
    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: schemathesis.Case) -> None:
        response = case.call(base_url=served.url)
        is_unsaid = response.status_code == 400 and response.json()["code"] in UNSAID
        case.validate_response(response, excluded_checks=[positive_data_acceptance] if is_unsaid else [])

    holds()
