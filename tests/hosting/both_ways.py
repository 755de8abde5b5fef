"""Owns the two ways of making one call, in process and over HTTP, and how their outcomes become comparable. Compares nothing."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import BaseModel

from treadle.actors import Cursor
from treadle.protocol.errors import TreadleError

if TYPE_CHECKING:
    import httpx

    from treadle.actors import Runtime, Thread

# What a problem document says of itself.
_OF_THE_DOCUMENT = {"type", "title", "status", "detail", "code"}
_MADE_ID = re.compile(r"\b[0-9a-f]{32}\b")
_TIMES = 10**15  # microseconds of this century are more than that

Step = tuple[str, dict[str, Any]]
Outcome = tuple[str, Any]


def as_json(value: Any) -> Any:
    """Return data as JSON would hold it, by what it is: known to neither wire.py nor the client."""
    if isinstance(value, Cursor):
        return str(value)
    if isinstance(value, BaseModel):
        return as_json(value.model_dump())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value


class Comparable:
    """Replaces made ids by their order of appearance, and times by their being times."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return _MADE_ID.sub(lambda found: self._seen.setdefault(found[0], f"#{len(self._seen)}"), value)
        if isinstance(value, dict):
            return {key: self.of(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        return "a time" if type(value) is int and value > _TIMES else value


class Way:
    """Makes the calls of one row on a thread of its own; `here` is that thread in process, to wait for things."""

    def __init__(self, runtime: Runtime, thread_id: str) -> None:
        self.runtime = runtime
        self.here: Thread = runtime.thread(thread_id)
        self.thread_id = thread_id
        self._comparable = Comparable()
        self.receipts: list[dict[str, Any]] = []

    def run(self, steps: list[Step]) -> list[Outcome]:
        outcomes = []
        for verb, given in steps:
            if verb == "until":
                self._until(given["type"])
                continue
            kind, said = self.make(verb, self._filled(given))
            if isinstance(said, dict):
                self.receipts.append(said)
            outcomes.append((verb, kind, self._comparable.of(said)))
        return outcomes  # type: ignore[return-value]

    def _until(self, kind: str) -> None:
        with self.here.stream(after="1:0") as frames:
            while (frame := frames.next(60)) is not None and frame["type"] != kind:
                continue

    def _filled(self, given: dict[str, Any]) -> dict[str, Any]:
        """Put what earlier answers named where a row says `$`: `$execution_id` is the newest one that a receipt had."""
        return {key: self._named(value) for key, value in given.items()}

    def _named(self, value: Any) -> Any:
        if value == "$message_id":
            return next(one["message_ids"][-1] for one in reversed(self.receipts) if one.get("message_ids"))
        if value == "$request_id":
            return self.here.state().result().pending_requests[0]["request_id"]
        if isinstance(value, str) and value.startswith("$"):
            return next(one[value[1:]] for one in reversed(self.receipts) if one.get(value[1:]))
        return value

    def make(self, verb: str, given: dict[str, Any]) -> Outcome:
        """Make one call; say what it returned, or with which code and details it failed."""


class InProcess(Way):
    """Calls the handle."""

    def make(self, verb: str, given: dict[str, Any]) -> Outcome:
        try:
            return "said", as_json(getattr(self, f"_{verb}")(**given))
        except TreadleError as error:
            return error.code, as_json(error.details)

    def _create(self, agent_id: Any, **given: Any) -> Any:
        thread = self.runtime.create_thread(agent_id, thread_id=self.thread_id, **given).result()
        return thread.summary().result()

    def _submit(self, messages: Any, **given: Any) -> Any:
        return self.here.submit(messages, **given).result()

    def _steer(self, execution_id: Any, messages: Any, **given: Any) -> Any:
        return self.here.steer(execution_id, messages, **given).result()

    def _interrupt(self, **given: Any) -> Any:
        return self.here.interrupt(**given).result()

    def _queue(self, content: Any, **given: Any) -> Any:
        return self.here.queue_message(content, **given).result()

    def _tool(self, name: Any, args: Any = None, **given: Any) -> Any:
        return self.here.queue_tool(name, args, **given).result()

    def _withdraw(self, input_id: str) -> Any:
        return {"status": self.here.withdraw(input_id).result()}

    def _receipt(self, input_id: str) -> Any:
        return self.here.receipt(input_id).result()

    def _stop(self) -> Any:
        return self.here.stop().result()

    def _resume(self) -> Any:
        return self.here.resume().result()

    def _terminate(self) -> Any:
        self.here.terminate().result()
        return self._detail()

    def _tag(self, tags: Any) -> Any:
        self.here.set_tags(tags).result()
        return self._detail()

    def _detail(self) -> Any:
        return {**self.here.summary().result()._asdict(), "tags": self.here.tags().result()}

    def _delete(self) -> None:
        self.runtime.delete_thread(self.thread_id).result()

    def _respond(self, request_id: Any, value: Any) -> Any:
        return {"status": self.here.respond(request_id, value).result()}

    def _update(self, message_id: str, **given: Any) -> Any:
        return self.here.update_message(message_id, **given).result()

    def _remove(self, message_id: str) -> Any:
        return {"deleted": self.here.delete_message(message_id).result()}

    def _set(self, key: str, value: Any) -> None:
        self.here.set_value(key, value).result()

    def _get(self, key: str) -> Any:
        return {"key": key, "value": self.here.get_value(key).result()}

    def _values(self, **given: Any) -> Any:
        return self.here.list_values(**given).result()

    def _messages(self, **given: Any) -> Any:
        return self.here.messages(**given).result()

    def _executions(self, **given: Any) -> Any:
        return self.here.executions(**given).result()

    def _execution(self, execution_id: str) -> Any:
        return self.here.execution(execution_id).result()

    def _wait(self, execution_id: str) -> Any:
        return self.here.wait(execution_id).result(60)

    def _came_to(self, input_id: str) -> Any:
        return self.here.execution_of(input_id).result()

    def _state(self) -> Any:
        return {**self.here.state().result()._asdict(), "boot_id": None}

    def _explain(self) -> Any:
        return {**self.here.explain().result()._asdict(), "where": None}


class OverHttp(Way):
    """Sends requests; whatever is no success has to be a problem document."""

    def __init__(self, runtime: Runtime, thread_id: str, client: httpx.Client) -> None:
        super().__init__(runtime, thread_id)
        self._client = client
        self._base = f"/threads/{quote(thread_id, safe='')}"

    def make(self, verb: str, given: dict[str, Any]) -> Outcome:
        response = getattr(self, f"_{verb}")(**given)
        if response.is_success or (response.status_code == 409 and "disposition" in response.json()):
            said = response.json() if response.content else None
            # Of this boot, and of one worker's stack: neither is the same twice.
            for name in {"boot_id", "where"} & (said or {}).keys():
                said[name] = None
            return "said", said
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["status"] == response.status_code
        assert 400 <= problem["status"] < 500
        return problem["code"], {key: value for key, value in problem.items() if key not in _OF_THE_DOCUMENT}

    def _send(self, method: str, path: str, body: Any) -> httpx.Response:
        # Python's own JSON, since httpx refuses to send NaN and broken Unicode, and others do not.
        return self._client.request(
            method, path, content=json.dumps(body), headers={"content-type": "application/json"}
        )

    def _create(self, **given: Any) -> httpx.Response:
        return self._send("POST", "/threads", {"thread_id": self.thread_id, **given})

    def _input(self, kind: str, given: dict[str, Any]) -> httpx.Response:
        return self._send("POST", f"{self._base}/inputs", {"type": kind, **given})

    def _submit(self, **given: Any) -> httpx.Response:
        return self._input("USER_MESSAGES_INPUT", given)

    def _steer(self, **given: Any) -> httpx.Response:
        return self._input("STEERING_INPUT", given)

    def _interrupt(self, **given: Any) -> httpx.Response:
        return self._input("INTERRUPTION_REQUEST", given)

    def _queue(self, **given: Any) -> httpx.Response:
        return self._send("POST", f"{self._base}/messages", given)

    def _tool(self, **given: Any) -> httpx.Response:
        return self._input("QUEUED_TOOL_INPUT", given)

    def _withdraw(self, input_id: str) -> httpx.Response:
        return self._client.delete(f"{self._base}/inbox/{quote(input_id, safe='')}")

    def _receipt(self, input_id: str) -> httpx.Response:
        return self._client.get(f"{self._base}/inbox/{quote(input_id, safe='')}")

    def _stop(self) -> httpx.Response:
        return self._client.post(f"{self._base}/stop")

    def _resume(self) -> httpx.Response:
        return self._client.post(f"{self._base}/resume")

    def _terminate(self) -> httpx.Response:
        return self._send("PATCH", self._base, {"terminated": True})

    def _tag(self, tags: Any) -> httpx.Response:
        return self._send("PATCH", self._base, {"tags": tags})

    def _detail(self) -> httpx.Response:
        return self._client.get(self._base)

    def _delete(self) -> httpx.Response:
        return self._client.delete(self._base)

    def _respond(self, **given: Any) -> httpx.Response:
        return self._send("POST", f"{self._base}/responses", given)

    def _update(self, message_id: str, **given: Any) -> httpx.Response:
        return self._send("PATCH", f"{self._base}/messages/{quote(message_id, safe='')}", given)

    def _remove(self, message_id: str) -> httpx.Response:
        return self._client.delete(f"{self._base}/messages/{quote(message_id, safe='')}")

    def _set(self, key: str, value: Any) -> httpx.Response:
        return self._send("PUT", f"{self._base}/values/{quote(key, safe='')}", {"value": value})

    def _get(self, key: str) -> httpx.Response:
        return self._client.get(f"{self._base}/values/{quote(key, safe='')}")

    def _values(self, **given: Any) -> httpx.Response:
        return self._page("values", given)

    def _messages(self, **given: Any) -> httpx.Response:
        return self._page("messages", given)

    def _executions(self, **given: Any) -> httpx.Response:
        return self._page("executions", given)

    def _page(self, what: str, given: dict[str, Any]) -> httpx.Response:
        query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
        return self._client.get(f"{self._base}/{what}", params=query)

    def _execution(self, execution_id: str) -> httpx.Response:
        return self._client.get(f"{self._base}/executions/{quote(execution_id, safe='')}")

    def _wait(self, execution_id: str) -> httpx.Response:
        return self._client.get(f"{self._base}/executions/{quote(execution_id, safe='')}", params={"wait": 60})

    def _came_to(self, input_id: str) -> httpx.Response:
        return self._client.get(f"{self._base}/inputs/{quote(input_id, safe='')}")

    def _state(self) -> httpx.Response:
        return self._client.get(f"{self._base}/state")

    def _explain(self) -> httpx.Response:
        return self._client.get(f"{self._base}/explain")
