"""Holds treadle.hosting.client to what a handle in process does, over a real server."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import uvicorn
from fastapi import FastAPI

from tests.hosting.cutting import CuttingProxy
from tests.hosting.served import Served
from treadle.actors import Disposition, Message, RespondStatus, Runtime, Thread, Withdrawal
from treadle.agents import ThreadState, agent
from treadle.hosting import Auth, Client, Principal, ThreadClient, create_app
from treadle.hosting.auth import Unauthenticated
from treadle.protocol.errors import (
    AgentNotFound,
    ExecutionNotFound,
    IdempotencyConflict,
    InputNotFound,
    InvalidInput,
    MessageNotFound,
    OutcomeUnknown,
    ThreadExists,
    ThreadNotFound,
    ThreadTerminated,
    TreadleError,
    Unavailable,
)
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

GATE = threading.Event()


@agent
async def waiting(state: ThreadState) -> None:
    await asyncio.to_thread(GATE.wait)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    GATE.clear()
    with Runtime(MemoryStore(), agents=[waiting], loop="own") as runtime:
        yield runtime
        GATE.set()


@pytest.fixture
def client(runtime: Runtime) -> Iterator[Client]:
    with Served(runtime) as served, Client(served.url) as client:
        yield client


@pytest.mark.parametrize("thread_id", ["t", "a/b c", "..", ".", "%2F", "a?b#c", "~" * 128])
def test_a_thread_is_created_found_listed_and_deleted(runtime: Runtime, client: Client, thread_id: str) -> None:
    thread = client.create_thread("waiting", thread_id=thread_id, user_id="mia", tags=["x"], arguments={"a": 1})

    assert (thread.id, client.thread(thread_id).summary().user_id) == (thread_id, "mia")
    assert thread.summary() == runtime.thread(thread_id).summary().result()
    assert client.threads(user_id="mia") == runtime.threads(user_id="mia").result()
    assert (thread.tags(), thread.set_tags(["y", "z"]), thread.tags()) == (["x"], ["y", "z"], ["y", "z"])
    client.delete_thread(thread_id)
    with pytest.raises(ThreadNotFound):
        thread.status()


def test_a_page_of_threads_leads_to_the_next(client: Client) -> None:
    for number in range(5):
        client.create_thread("waiting", thread_id=f"t{number}")
    first = client.threads(limit=3)
    second = client.threads(limit=3, after=first.next)

    assert [one.id for one in [*first.threads, *second.threads]] == [f"t{number}" for number in range(5)]
    assert second.next is None


def test_inputs_and_controls_get_the_receipts_of_a_handle(runtime: Runtime, client: Client) -> None:
    thread, inside = client.create_thread("waiting", thread_id="t"), runtime.thread("t")
    begun = thread.submit("hello", input_id="i")
    assert (begun.disposition, begun.input_id) == (Disposition.ACCEPTED, "i")
    assert thread.submit("hello", input_id="i") == begun == thread.receipt("i") == inside.receipt("i").result()
    assert begun.execution_id is not None

    busy = thread.submit("again", input_id="j")
    assert busy == inside.submit("again", input_id="j").result()
    assert busy.disposition is Disposition.BUSY
    queued = thread.submit(
        [Message(id="x", role="user", content="one", created_at=1), "two"], on_busy="queue", input_id="q"
    )
    assert (queued.disposition, len(queued.message_ids)) == (Disposition.QUEUED, 2)
    assert (thread.withdraw("q"), thread.withdraw("none")) == (Withdrawal.WITHDRAWN, Withdrawal.NOT_FOUND)
    assert thread.queue_message("later", metadata={"k": 1}).disposition is Disposition.QUEUED

    assert thread.steer("other", "x").disposition is Disposition.ACTIVE_EXECUTION_MISMATCH
    steered = thread.steer(begun.execution_id, "x", control_id="c")
    assert (steered.disposition, steered.control_id) == (Disposition.ACCEPTED, "c")
    assert thread.state() == inside.state().result()
    assert thread.respond("none", 1) is RespondStatus.NOT_FOUND
    ended = thread.interrupt(begun.execution_id, reason="enough", hold=True, control_id="d")
    assert ended == thread.receipt("d") == inside.receipt("d").result()
    assert inside.wait(begun.execution_id).result(60).outcome == "cancelled"

    assert thread.state().held
    assert thread.explain() == inside.explain().result()
    assert (thread.stop().disposition, thread.resume().disposition) == (
        Disposition.NO_ACTIVE_EXECUTION,
        Disposition.ACCEPTED,
    )


def test_what_was_said_and_run_is_read_as_in_process(runtime: Runtime, client: Client) -> None:
    thread, inside = client.create_thread("waiting", thread_id="t"), runtime.thread("t")
    GATE.set()
    receipt = thread.submit("hello\u2028é🙂")
    assert receipt.execution_id is not None
    record = inside.wait(receipt).result(60)

    assert thread.execution(receipt.execution_id) == record
    assert thread.executions() == inside.executions().result()
    assert thread.messages() == inside.messages().result()
    said = thread.messages(limit=1, order="desc").messages[0]
    assert thread.message(said.id) == said == inside.message(said.id).result()
    assert thread.message("none") is None
    changed = thread.update_message(said.id, content="bye", metadata={"a": 1})
    assert (changed.content, changed.metadata) == ("bye", {"a": 1})
    assert thread.update_message(said.id, metadata=None).content == "bye"
    assert (thread.delete_message(said.id), thread.delete_message(said.id)) == (True, False)


@pytest.mark.parametrize("key", ["k", ".", "a/b", "é\n", "?", " "])
def test_values_are_set_read_and_deleted_under_any_key(runtime: Runtime, client: Client, key: str) -> None:
    thread, inside = client.create_thread("waiting", thread_id="t"), runtime.thread("t")

    thread.set_value(key, {"a": [1, None, "\u2028"]})
    assert thread.get_value(key) == inside.get_value(key).result() == {"a": [1, None, "\u2028"]}
    assert thread.list_values() == inside.list_values().result()
    thread.set_value(key, None)
    assert (thread.get_value(key), thread.list_values().values) == (None, [])


# One call each: what is wrong with it is said alike on both sides.
WRONG = {
    "unknown thread": (ThreadNotFound, lambda t: t("none").state()),
    "bad thread id": (InvalidInput, lambda t: t(" x").state()),
    "empty content": (InvalidInput, lambda t: t("t").submit("")),
    "no messages": (InvalidInput, lambda t: t("t").submit([])),
    "content of a number": (InvalidInput, lambda t: t("t").submit(5)),
    "role": (InvalidInput, lambda t: t("t").queue_message("x", role="tool")),
    "on_busy": (InvalidInput, lambda t: t("t").submit("x", on_busy="fight")),
    "timeout": (InvalidInput, lambda t: t("t").submit("x", timeout=-1)),
    "bad input id": (InvalidInput, lambda t: t("t").submit("x", input_id="a\nb")),
    "other content": (IdempotencyConflict, lambda t: t("t").queue_message("y", input_id="i")),
    "unknown execution": (ExecutionNotFound, lambda t: t("t").execution("none")),
    "unknown input": (InputNotFound, lambda t: t("t").receipt("none")),
    "unknown message": (MessageNotFound, lambda t: t("t").update_message("none", content="x")),
    "bad page": (InvalidInput, lambda t: t("t").messages(limit=5_000)),
    "reserved key": (InvalidInput, lambda t: t("t").set_value("treadle:x", 1)),
    "no data": (InvalidInput, lambda t: t("t").set_value("k", {1: 2})),
    "terminated": (ThreadTerminated, lambda t: t("over").submit("x")),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_the_one_of_a_handle(runtime: Runtime, client: Client, name: str) -> None:
    kind, call = WRONG[name]
    client.create_thread("waiting", thread_id="t").queue_message("x", input_id="i")
    since = client.create_thread("waiting", thread_id="over").terminate()
    assert since == client.thread("over").terminate()

    with pytest.raises(TreadleError) as inside:
        call(runtime.thread).result()
    with pytest.raises(TreadleError) as outside:
        call(client.thread)

    assert type(outside.value) is type(inside.value) is kind
    assert (outside.value.code, set(outside.value.details)) == (inside.value.code, set(inside.value.details))


def test_creating_says_what_is_wrong(client: Client) -> None:
    client.create_thread("waiting", thread_id="t")

    with pytest.raises(ThreadExists):
        client.create_thread("waiting", thread_id="t")
    with pytest.raises(AgentNotFound):
        client.create_thread("nobody")


def test_a_token_says_who_calls(runtime: Runtime) -> None:
    auth = Auth({"for-anna": Principal("user", "anna"), "for-all": Principal("admin")})
    with Served(runtime, auth=auth) as served:
        with (
            Client(served.url, "for-anna") as anna,
            Client(served.url, "for-all") as everyone,
            Client(served.url) as nobody,
        ):
            everyone.create_thread("waiting", thread_id="of-mia", user_id="mia")
            own = anna.create_thread("waiting")

            assert [one.id for one in anna.threads().threads] == [own.id]
            with pytest.raises(ThreadNotFound):
                anna.thread("of-mia").state()
            for call in (nobody.threads, lambda: next(nobody.thread("of-mia").events())):
                with pytest.raises(Unauthenticated):
                    call()
            assert "for-anna" not in repr(anna)


def test_an_input_whose_answer_was_lost_is_taken_once(runtime: Runtime) -> None:
    thread: Thread = runtime.create_thread(waiting, thread_id="t").result()
    delays: list[float] = []
    with Served(runtime) as served, CuttingProxy(served.port, [1, 60]) as proxy:
        with Client(proxy.url, sleep=delays.append) as client:
            receipt = client.thread("t").submit("hello")

        assert proxy.cut == 2
    assert (receipt.disposition, len(delays)) == (Disposition.ACCEPTED, 2)
    assert receipt == thread.receipt(str(receipt.input_id)).result()
    assert thread.messages().result().total == 1


def test_a_call_that_must_not_be_repeated_says_that_its_outcome_is_unknown(runtime: Runtime) -> None:
    with Served(runtime) as served, CuttingProxy(served.port, [1, 1, 1, 1]) as proxy:
        with Client(proxy.url, sleep=lambda _: None) as client:
            with pytest.raises(OutcomeUnknown):
                client.create_thread("waiting", thread_id="t")
            assert proxy.cut == 1
            with pytest.raises(OutcomeUnknown) as caught:
                client.thread("t").submit("x")
            assert proxy.cut == 4

    receipt = runtime.thread("t").receipt(caught.value.details["input_id"]).result()
    assert receipt.disposition is Disposition.ACCEPTED


def test_a_server_that_is_not_there_is_said_in_one_error() -> None:
    with Client("http://127.0.0.1:9", sleep=lambda _: None) as client, pytest.raises(Unavailable) as caught:
        client.threads()

    assert caught.value.details == {"url": "http://127.0.0.1:9"}


def test_a_server_that_is_mounted_in_another_app_is_spoken_to_below_its_path(runtime: Runtime) -> None:
    outer = FastAPI()
    outer.mount("/desk", create_app(runtime))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(outer, log_config=None, ws="none"))
    worker = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    worker.start()
    try:
        with Client(f"http://127.0.0.1:{listening.getsockname()[1]}/desk/") as client:
            thread = client.create_thread("waiting", thread_id="a/b")
            thread.set_value("..", 1)

            assert thread.get_value("..") == 1
            assert [event["type"] for event in thread.events(follow=False)] == ["THREAD_CREATED", "VALUE_CHANGED"]
    finally:
        server.should_exit = True
        worker.join(60)
        listening.close()


def test_a_handle_shows_its_thread_and_no_token(client: Client) -> None:
    assert repr(ThreadClient(client, "t")) == "<ThreadClient 't'>"
    assert repr(client).startswith("<Client of http://127.0.0.1:")
