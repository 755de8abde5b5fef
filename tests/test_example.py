"""The support desk works as a person would use it: what the clerk understands, the shop's orders, and whole conversations
through a pipe and a terminal, with a kill in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from examples.support_desk.clerk import plan
from examples.support_desk.hooks.no_card_numbers import no_card_numbers
from examples.support_desk.orders import OrderBook
from examples.support_desk.reading import read
from tests.agents.models.provider_server import Server, answering
from treadle.actors import Runtime
from treadle.agents import load_agents
from treadle.agents.environment import Environment, EnvValue
from treadle.agents.models import ModelMessage
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from types import TracebackType

DESK = Path(__file__).parent.parent / "examples" / "support_desk"
GUARD_S = 60.0  # real seconds for what must come at once


class Customer:
    """Somebody who types at the desk's clerk, with its tools played on a book of orders."""

    def __init__(self, path: Path) -> None:
        self.book = OrderBook(path)
        self.book.create()
        self.messages: list[ModelMessage] = []
        self.called: list[tuple[str, dict[str, str]]] = []

    def says(self, text: str) -> str:
        self.messages.append(ModelMessage("user", text))
        self.called.clear()
        for _ in range(8):
            said, calls = plan(self.messages)
            self.messages.append(ModelMessage("assistant", said or None, tool_calls=tuple(calls)))
            if not calls:
                return said
            for call in calls:
                arguments = json.loads(call.arguments)
                self.called.append((call.name, arguments))
                content, failed = self.tool(call.name, **arguments)
                self.messages.append(ModelMessage("tool", content, tool_call_id=call.id, name=call.name, failed=failed))
        raise AssertionError(f"the clerk goes on calling: {self.called}")

    def tool(self, name: str, number: str = "", reason: str = "") -> tuple[str, bool]:
        if name == "list_orders":
            return json.dumps([order.told() for order in self.book.of("mia")]), False
        order = self.book.find("mia", number)
        if order is None:
            return f"Failed to execute tool: the customer has no order {number}", True
        if name == "find_order":
            return json.dumps(order.told()), False
        self.book.refund(order, reason, "a test")
        return f"refunded {order.cents / 100:.2f} EUR for order {number}", False


@pytest.fixture
def customer(tmp_path: Path) -> Customer:
    return Customer(tmp_path / "orders.sqlite3")


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("Hi there", "Hello!"),
        ("how are you?", "Very well"),
        ("who are you", "assistant of the support desk"),
        ("what can you do?", "refund one"),
        ("thanks a lot, bye", "Goodbye"),
        ("where is order 1002?", "expected on Thursday"),
        ("1004?", "being made"),
        ("When will my shelf arrive", "Order 1004"),
        ("is the kettle there yet", "Order 1003"),
        ("1002 and 1003, keep it short", "1002: on its way. 1003: delivered."),
        ("where's 9999", "I find no order 9999"),
        ("where is 2001?", "I find no order 2001"),  # another customer's
        ("show me all my orders", "- Order 1005, a doormat"),
        ("I want my money back", "Which order should I refund?"),
        ("Please refund 1003, it arrived dented.", "Done: I refunded 39.90 EUR"),
        ("I'd like to return the lamps", "refunded 74.80 EUR for order 1002"),
        ("cancel 1004", "cannot cancel"),
        ("asdf qwer", "not sure that I understand"),
        ("can I talk to a person?", "a colleague reads along"),
        ("", "not sure"),
    ],
)
def test_the_clerk_answers_free_text(customer: Customer, said: str, answered: str) -> None:
    assert answered in customer.says(said)


def test_the_clerk_follows_a_conversation(customer: Customer) -> None:
    assert "on its way" in customer.says("where is order 1002?")
    assert customer.says("shorter please") == "1002: on its way."
    assert "Which order" in customer.says("I want my money back")
    assert "1001" in customer.says("the blanket, because it has a hole")
    assert customer.called[-1] == ("refund_order", {"number": "1001", "reason": "it has a hole"})
    assert "refunded before" in customer.says("refund it")


def test_the_clerk_reads_a_steer_together_with_what_it_steers(customer: Customer) -> None:
    customer.messages.append(ModelMessage("user", "where is 1002?"))
    assert customer.says("no, I meant 1003. keep it short") == "1003: delivered."
    assert [arguments for _, arguments in customer.called] == [{"number": "1003"}]


def test_what_is_said_later_takes_back_what_was_said_before() -> None:
    assert read(["refund 1003", "never mind"]).wants == {"never_mind"}
    assert read(["refund 1003", "1001 instead"]).numbers == ["1001"]


def test_the_clerk_does_not_take_up_again_what_was_cut_off(customer: Customer) -> None:
    customer.messages.append(ModelMessage("user", "refund 1003"))
    said, calls = plan(customer.messages)
    customer.messages.append(ModelMessage("assistant", said, tool_calls=tuple(calls)))
    closed = ModelMessage("tool", "The execution was lost", tool_call_id=calls[0].id, name="find_order", failed=True)
    customer.messages.append(closed)

    assert "Hello" in customer.says("hello")
    assert customer.called == []


def test_a_refund_is_paid_once(tmp_path: Path) -> None:
    book = OrderBook(tmp_path / "orders.sqlite3")
    book.create()
    book.create()
    order = book.find("mia", "1003")
    assert order is not None

    assert [book.refund(order, "dented", "Kim"), book.refund(order, "again", "Kim")] == [True, False]
    assert [one.number for one in book.of("mia") if one.refunded] == ["1003"]


def test_card_numbers_do_not_reach_the_model() -> None:
    told = no_card_numbers(None, [ModelMessage("user", "pay 4111 1111 1111 1111 for 1003"), ModelMessage("assistant")])  # type: ignore[arg-type]

    assert told == [ModelMessage("user", "pay [card number] for 1003"), ModelMessage("assistant")]


def test_the_desk_is_well_defined_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PACE", "0")
    OrderBook(tmp_path / "orders").create()
    environment = Environment(instance={"ORDERS_FILE": EnvValue(str(tmp_path / "orders"), "text")})
    with Runtime(MemoryStore(), agents=load_agents(DESK, environment=environment)) as runtime:
        thread = runtime.create_thread("desk", user_id="mia", arguments={"customer": "Mia"}).result()
        thread.wait(thread.submit("where is 1002?").result()).result(GUARD_S)
        said = thread.messages().result().messages

    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"]
    assert "expected on Thursday" in (said[-1].content or "")


class Desk:
    """The program itself in a process of its own, on a pipe or a terminal."""

    def __init__(self, data: Path, *, terminal: bool = False, **environ: str) -> None:
        command = [sys.executable, str(DESK / "main.py"), "--data", str(data)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TREADLE_")}
        environment |= {"DESK_PACE": "0", "PYTHONWARNINGS": "error", **environ}
        if terminal:
            self.fd, theirs = pty.openpty()
            self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
            os.close(theirs)
            self._write = self.fd
        else:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
            )
            assert self.process.stdin is not None and self.process.stdout is not None
            self.fd, self._write = self.process.stdout.fileno(), self.process.stdin.fileno()
        self.shown = ""
        self._read = 0  # characters of `shown` that a wait has passed

    def until(self, text: str) -> str:
        """Read on until a text has come, and return what came up to it."""
        deadline = time.monotonic() + GUARD_S
        while (found := self.shown.find(text, self._read)) < 0:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited for {text!r}; what came: {self.shown[self._read :]!r}"
            more = self._more()
            assert more, f"it ended before {text!r}; what came: {self.shown[self._read :]!r}"
        begun, self._read = self._read, found + len(text)
        return self.shown[begun : self._read]

    def _more(self) -> str:
        try:
            more = os.read(self.fd, 65_536).decode()
        except OSError:  # a terminal whose other end is closed
            return ""
        self.shown += more.replace("\r\n", "\n")
        return more

    def types(self, line: str) -> None:
        os.write(self._write, f"{line}\n".encode())

    def leave(self) -> int:
        self.types("/quit")
        while self._more():
            pass
        return self.process.wait(GUARD_S)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(GUARD_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        if self.process.stdin is not None and self.process.stdout is not None:
            self.process.stdin.close()
            self.process.stdout.close()
        else:
            os.close(self.fd)


def refunds(data: Path) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(data / "orders.sqlite3")) as book:
        return book.execute("SELECT number, reason, approved_by FROM refunds").fetchall()


@pytest.mark.slow
def test_a_conversation_goes_on_after_a_kill_in_the_middle(tmp_path: Path) -> None:
    with Desk(tmp_path) as desk:
        desk.until("you> ")
        desk.types("where is 1002?")
        desk.until("desk> Order 1002, two reading lamps for 74.80 EUR, is on its way: expected on Thursday.\nyou> ")
        desk.types("refund 1003, it arrived dented")
        desk.until("Approval: refund 39.90 EUR for order 1003 (a copper kettle)? Reason: it arrived dented.\napprove")
        desk.kill()
    assert refunds(tmp_path) == []

    with Desk(tmp_path) as desk:
        opened = desk.until("(The desk was cut off in the middle of its last answer.")
        assert "you> where is 1002?\n" in opened and "you> refund 1003, it arrived dented\n" in opened
        desk.until("you> ")
        desk.types("please refund 1003, it arrived dented")
        desk.until("approve, y or n> ")
        desk.types("maybe")
        desk.until("(y or n, please")
        desk.types("/steer keep it short")
        desk.until("(heard)")
        desk.types("y")
        desk.until("desk> Refunded 39.90 EUR for order 1003.\nyou> ")
        assert desk.leave() == 0

    assert refunds(tmp_path) == [("1003", "it arrived dented", "a colleague")]


@pytest.mark.slow
def test_a_person_at_a_terminal_steers_stops_and_refuses(tmp_path: Path) -> None:
    with Desk(tmp_path, terminal=True) as desk:
        desk.until("you> ")
        desk.types("/steer hello")
        desk.until("(the desk is at rest; just say it)\nyou> ")
        desk.types("refund 1001")
        desk.until("approve, y or n> ")
        desk.types("/stop")
        desk.until("(Stopped.)\nyou> ")
        desk.types("refund 1001")
        desk.until("approve, y or n> ")
        desk.types("n")
        desk.until("I could not refund order 1001: it was not approved.\nyou> ")
        assert desk.leave() == 0
    assert refunds(tmp_path) == []


@pytest.mark.slow
def test_a_script_is_read_line_by_line_and_a_second_desk_is_refused(tmp_path: Path) -> None:
    with Desk(tmp_path) as desk:
        desk.types("hello\nrefund the kettle\ny\nthanks")
        desk.until("Done: I refunded 39.90 EUR for order 1003")
        desk.until("desk> You are welcome!\nyou> ")
        with Desk(tmp_path) as second:
            second.until("The desk is open elsewhere")
            assert second.process.wait(GUARD_S) == 1
        assert desk.leave() == 0


@pytest.mark.slow
def test_a_person_speaks_to_a_desk_that_is_still_speaking_and_stops_it(tmp_path: Path) -> None:
    # So slow a clerk says one word in this test, whatever the machine does meanwhile.
    with Desk(tmp_path, terminal=True, DESK_PACE="3600") as desk:
        desk.until("you> ")
        desk.types("where is 1002?")
        desk.until("desk> Let ")
        desk.types("and 1003?")
        desk.until("(the desk reads this before its next step)")
        desk.types("/steer keep it short")
        desk.until("(heard)")
        desk.types("/stop")
        desk.until("(Stopped.)\nyou> ")
        assert desk.leave() == 0


@pytest.mark.slow
def test_a_provider_answers_where_two_variables_name_it(tmp_path: Path) -> None:
    call = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "find_order", "arguments": '{"number": "1002"}'},
    }

    def talk(url: str) -> None:
        named = {"TREADLE_MODEL": "openai:any", "TREADLE_API_KEY": "a key", "TREADLE_BASE_URL": url}
        with Desk(tmp_path, **named) as desk:
            desk.until("openai:any answers.")
            desk.until("you> ")
            desk.types("where is 1002? my card is 4111 1111 1111 1111")
            desk.until("· find order\ndesk> It comes on Thursday.\nyou> ")
            assert desk.leave() == 0

    async def serve() -> list[str]:
        replies = (
            answering({"role": "assistant", "tool_calls": [call]}, reason="tool_calls"),
            answering("It comes ", "on Thursday."),
        )
        async with Server(*replies) as server:
            await asyncio.to_thread(talk, server.url)
            return [json.dumps(exchange.body) for exchange in server.requests]

    asked = asyncio.run(serve())
    assert "support desk of Loom & Lantern" in asked[0] and "The customer is Mia" in asked[0]
    assert "[card number]" in asked[0] and "4111" not in "".join(asked)
    assert "two reading lamps" in asked[1]


@pytest.mark.slow
def test_a_provider_that_cannot_be_reached_is_named_before_anything_else(tmp_path: Path) -> None:
    with Desk(tmp_path, TREADLE_MODEL="nonsense") as desk:
        desk.until("The desk cannot open: ")
        desk.until("models/desk_model.py")
        desk.until("\n")
        assert desk.process.wait(GUARD_S) == 1
        assert "Loom" not in desk.shown
