"""A service for the tests of the console, in a process of its own: `python console_desk.py DIR PORT TOKENS PREFIX`.

Imported, it starts one, and starts it again on the same store and port. Its agent `clerk` says and does what its last
message asks for: `slowly` waits in the middle of a sentence until `open_gate`, `at length` behind 400 lines, `look up` calls
a tool, `refund` asks for an approval, `crash` fails.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from treadle.agents import Agent, ThreadState
    from treadle.agents.models import ModelRequest, ToolCall

GUARD_S = 60
ROOT = Path(__file__).parent.parent.parent


class Desk:
    """A running service; leaving `with` kills what is left of it."""

    def __init__(self, data: Path, tokens: dict[str, str] | None = None, prefix: str = "") -> None:
        self.data = data
        self._tokens = tokens or {}
        self._prefix = prefix
        # Bound as long as this is there, and never listened on: nobody else gets the port between two lives of the service.
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port = self._kept.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}{prefix}"
        self.client = httpx.Client(base_url=self.url, timeout=GUARD_S, trust_env=False)
        if self._tokens:
            self.client.headers["authorization"] = f"Bearer {next(iter(self._tokens))}"
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._kept.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def start(self) -> None:
        """Start it, on the store and the port that it had."""
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(self.data), str(self.port), json.dumps(self._tokens), self._prefix],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("Serving on http://"), self.process.communicate(timeout=GUARD_S)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def create(self, thread_id: str, user_id: str | None = None) -> str:
        """Create a thread and return its id."""
        body = {"agent_id": "clerk", "thread_id": thread_id, "user_id": user_id}
        self.client.post("/threads", json=body).raise_for_status()
        return thread_id

    def say(self, thread_id: str, text: str | list[str]) -> dict[str, Any]:
        """Submit a text, or several, and return the receipt."""
        answer = self.client.post(
            f"/threads/{thread_id}/inputs", json={"type": "USER_MESSAGES_INPUT", "messages": text}
        )
        answer.raise_for_status()
        return answer.json()

    def get(self, path: str) -> Any:
        """Return the JSON of an answer."""
        return self.client.get(path).raise_for_status().json()

    def open_gate(self) -> None:
        """Let what is said slowly be said to its end; also what is said after it."""
        self.client.post("/test/gate").raise_for_status()


class _Gate:
    """Closed once in its life, opened once: whoever waits goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Future[None]] = []
        self._open = False

    def passed(self) -> Future[None]:
        with self._lock:
            future: Future[None] = Future()
            if self._open:
                future.set_result(None)
            else:
                self._waiting.append(future)
            return future

    def open(self) -> None:
        with self._lock:
            self._open = True
            for future in self._waiting:
                if future.set_running_or_notify_cancel():
                    future.set_result(None)


GATE = _Gate()


async def answer(request: ModelRequest) -> AsyncIterator[str | ToolCall]:
    import asyncio

    from treadle.agents.models import ToolCall

    last = request.messages[-1]
    text = last.content or ""
    if last.role == "tool":
        yield f"The desk says: {text}."
    elif "look up" in text:
        yield ToolCall("call-find", "find_order", json.dumps({"number": "1002"}))
    elif "refund" in text:
        yield ToolCall("call-refund", "refund", json.dumps({"number": "1003"}))
    elif "crash" in text:
        raise RuntimeError("the clerk broke")
    elif "at length" in text:
        for number in range(0, 400, 10):
            yield "".join(f"line {number + rank} of a text that is longer than anybody reads\n" for rank in range(10))
        await asyncio.wrap_future(GATE.passed())
        yield "and its end."
    elif "slowly" in text:
        yield "First words "
        await asyncio.wrap_future(GATE.passed())
        yield "and last words."
    else:
        yield f"You said: {text}"


def clerk() -> Agent:
    from treadle.agents import Agent, Model, Prompt, Side, tool
    from treadle.agents.models import FunctionModel

    @tool
    async def find_order(state: ThreadState, number: str) -> str:
        """Say where an order is."""
        return f"order {number} is on its way"

    @tool
    async def refund(state: ThreadState, number: str) -> str:
        """Refund an order, once a colleague agrees."""
        agreed = await state.request("approval", {"order": number, "price": "39.90 EUR"})
        return "refunded" if agreed is True else f"not refunded ({agreed})"

    prompt = Prompt(
        name="clerk", prompt="Be kind.", model=Model(name="m", model=FunctionModel(answer)), tools=[find_order, refund]
    )
    return Agent(name="clerk", side_a=Side(prompt=prompt))


def main(data: str, port: str, tokens: str, prefix: str) -> int:
    from fastapi import FastAPI, Response

    from treadle.actors import Runtime
    from treadle.hosting.app import create_app
    from treadle.hosting.auth import Auth, Principal
    from treadle.hosting.server import serve
    from treadle.storage import LmdbStore

    known = {
        token: Principal("admin") if user == "" else Principal("user", user)
        for token, user in json.loads(tokens).items()
    }
    with Runtime(LmdbStore(data), agents=[clerk()]) as runtime:
        app = create_app(runtime, auth=Auth(known))

        @app.post("/test/gate")
        def gate() -> Response:
            GATE.open()
            return Response(status_code=204)

        served = app
        if prefix:  # a part of a user's own app
            served = FastAPI()
            served.mount(prefix, app)
            served.state.treadle = app.state.treadle
        return serve(runtime, served, port=int(port))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
