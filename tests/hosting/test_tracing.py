"""Holds treadle.hosting.tracing and treadle.hosting.spans: which spans a run makes, and that nothing else changes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.agents.ending_tools import add, broken
from tests.agents.looping import Play, beside_a_human, call
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.tracing import TracedStore, following, traced
from treadle.protocol.errors import StorageFull
from treadle.storage import MemoryStore
from treadle.storage.faults import FaultyStore

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

GUARD = 60


@agent(name="rests")
async def rests(state: ThreadState) -> None:
    assert state.execution is not None
    if state.execution.new_messages[-1].content == "wait":
        await asyncio.Event().wait()
    if state.execution.new_messages[-1].content == "fail":
        raise ValueError("the customer's own words")


class Spans:
    """Where spans go, and what came."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def of(self, name: str) -> list[ReadableSpan]:
        found = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)


@pytest.fixture
def spans() -> Spans:
    return Spans()


def about(span: ReadableSpan, *names: str) -> tuple[object, ...]:
    return tuple((span.attributes or {}).get(f"treadle.{name}") for name in names)


def test_an_execution_has_a_span_with_its_steps_and_their_tools_below(spans: Spans) -> None:
    made, _ = beside_a_human(
        [call("add", "c1", a=1, b=2), call("broken", "c2")], call("add", "c3", a=3, b=4), "Seven.", tools=[add, broken]
    )
    with Play(made) as play, following(play.runtime, spans.provider):
        record = play.say()
        messages = play.messages()

    (execution,) = spans.of("treadle.execution")
    assert execution.parent is None
    assert about(execution, "thread_id", "execution_id", "agent_id", "outcome", "reason") == (
        *(play.thread.id, record.execution_id, "agent", "succeeded", "stop_on_response"),
    )
    assert (execution.start_time, execution.end_time) == (record.started_at * 1_000, (record.finished_at or 0) * 1_000)
    steps = spans.of("treadle.step")
    assert [about(step, "calls", "depth") for step in steps] == [(2, 0), (1, 0), (0, 0)]
    assert all(step.parent and step.parent.span_id == execution.context.span_id for step in steps)
    tools = {str(about(tool, "call_id")[0]): tool for tool in spans.of("treadle.tool")}
    assert {key: about(tool, "tool")[0] for key, tool in tools.items()} == {"c1": "add", "c2": "broken", "c3": "add"}
    assert {key: tool.status.status_code for key, tool in tools.items()} == {
        "c1": StatusCode.UNSET,
        "c3": StatusCode.UNSET,
        "c2": StatusCode.ERROR,
    }
    assert [tool.parent and tool.parent.span_id for tool in tools.values()] == [
        *(steps[0].context.span_id, steps[0].context.span_id),
        steps[1].context.span_id,
    ]
    asked = [message.created_at * 1_000 for message in messages if message.role == "assistant"]
    assert [tools[key].start_time for key in ("c1", "c2", "c3")] == [asked[0], asked[0], asked[1]]
    assert {span.context.trace_id for span in [execution, *steps, *tools.values()]} == {execution.context.trace_id}


def test_a_failure_is_named_by_its_type_alone(spans: Spans) -> None:
    with Runtime(MemoryStore(), agents=[rests]) as runtime, following(runtime, spans.provider):
        thread = runtime.create_thread("rests").result(GUARD)
        thread.wait(thread.submit("fail").result(GUARD).execution_id).result(GUARD)

    (execution,) = spans.of("treadle.execution")
    assert (execution.status.status_code, execution.status.description) == (StatusCode.ERROR, "ValueError")
    assert "customer" not in str(execution.attributes)


def test_many_threads_and_executions_have_each_one_span(spans: Spans) -> None:
    with Runtime(MemoryStore(), agents=[rests]) as runtime, following(runtime, spans.provider):
        threads = [runtime.create_thread("rests").result(GUARD) for _ in range(20)]
        for _ in range(5):
            for receipt in [(thread, thread.submit("go").result(GUARD)) for thread in threads]:
                receipt[0].wait(receipt[1].execution_id).result(GUARD)

    executions = Counter(about(span, "execution_id") for span in spans.of("treadle.execution"))
    assert len(executions) == 100
    assert set(executions.values()) == {1}


def test_what_ended_before_is_not_traced_and_what_the_close_ends_is_traced_at_most_once(spans: Spans) -> None:
    runtime = Runtime(MemoryStore(), agents=[rests], drain_timeout=0)
    with runtime:
        thread = runtime.create_thread("rests").result(GUARD)
        thread.wait(thread.submit("before").result(GUARD).execution_id).result(GUARD)
        with following(runtime, spans.provider):
            receipt = thread.submit("wait").result(GUARD)
            runtime.close()

    # Nothing is read once the runtime is closed, so what only the close ended may come too late to be traced.
    made = spans.of("treadle.execution")
    assert [about(one, "execution_id")[0] for one in made] in ([], [receipt.execution_id])
    assert all(about(one, "outcome")[0] in ("cancelled", "unknown") for one in made)


def test_a_deleted_thread_and_a_new_one_do_not_disturb(spans: Spans) -> None:
    with Runtime(MemoryStore(), agents=[rests]) as runtime, following(runtime, spans.provider):
        for _ in range(3):
            thread = runtime.create_thread("rests").result(GUARD)
            thread.wait(thread.submit("go").result(GUARD).execution_id).result(GUARD)
            runtime.delete_thread(thread.id).result(GUARD)

    # A thread that is gone before its journal was read has nothing to read any more.
    assert len(spans.of("treadle.execution")) <= 3


def test_every_commit_has_a_span_with_its_answer(spans: Spans) -> None:
    store = FaultyStore(MemoryStore())
    with Runtime(traced(store, spans.provider), agents=[rests]) as runtime:
        thread = runtime.create_thread("rests").result(GUARD)
        thread.wait(thread.submit("go").result(GUARD).execution_id).result(GUARD)
        store.fail()
        with pytest.raises(StorageFull):
            thread.set_value("k", 1).result(GUARD)

    commits = spans.of("treadle.commit")
    assert len(commits) == store.commits
    assert Counter(about(span, "answer")[0] for span in commits)["not_written"] == 1
    assert all((span.end_time or 0) >= (span.start_time or 0) > 0 for span in commits)
    assert all(int(str(about(span, "bytes")[0])) > 0 for span in commits[1:])


def test_without_a_provider_the_store_stays_as_it_is_and_nothing_is_followed() -> None:
    store = MemoryStore()
    assert traced(store) is store
    with Runtime(store, agents=[rests]) as runtime, following(runtime):
        assert runtime.counts().readers == 0


def test_a_traced_store_is_a_store_like_any_other(spans: Spans) -> None:
    store = TracedStore(MemoryStore(), spans.provider)
    with Runtime(store, agents=[rests]) as runtime:
        assert store.failure() is None
        assert store.backlog() == 0
        assert runtime.counts().store == store.counts()
    assert store.failure() is not None


def test_without_the_extra_nothing_is_imported_and_nothing_happens() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
from treadle.actors import Runtime
from treadle.hosting.tracing import following, traced
from treadle.storage import MemoryStore
store = MemoryStore()
assert traced(store) is store
with Runtime(store, agents=[]) as runtime, following(runtime):
    pass
assert "treadle.hosting.spans" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stderr) == (0, "")
