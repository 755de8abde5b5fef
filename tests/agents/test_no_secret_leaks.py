"""Plants secrets in tools, errors, hooks, variables and a model's stream, and looks for them wherever things leave."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call
from treadle.agents import Hook, ThreadState, ToolResult, tool
from treadle.agents.environment import Environment, EnvValue

if TYPE_CHECKING:
    from treadle.agents import Tool


class Plan(NamedTuple):
    """What is planted: by name each secret, the words around them, and how the model's text is cut."""

    secrets: dict[str, str]
    words: list[str]
    cuts: list[int]

    @property
    def text(self) -> str:
        """The words with every secret between them, and secrets run into each other."""
        values = list(self.secrets.values())
        return " ".join(word + value for word, value in zip(self.words, values, strict=False)) + "".join(values)

    def pieces(self) -> list[str]:
        text = self.text
        marks = sorted({cut % (len(text) + 1) for cut in self.cuts})
        found = [text[low:high] for low, high in zip([0, *marks], [*marks, len(text)], strict=True)]
        return [piece for piece in found if piece]


# Letters that stand in no mark and in no word of ours, one of them quoted in JSON, so that what is found was planted.
VALUES = st.text('QZ"', min_size=4, max_size=8).filter(lambda value: value.count('"') < len(value))
PLANS = st.builds(
    Plan,
    st.dictionaries(st.sampled_from(["THREAD", "AGENT", "PROMPT", "USER", "INSTANCE"]), VALUES, min_size=1, max_size=5),
    st.lists(st.sampled_from(["", "so ", "it is ", "Q", "ZQ"]), min_size=5, max_size=5),
    st.lists(st.integers(0, 80), max_size=12),
)


def tools(plan: Plan) -> list[Tool]:
    @tool
    async def tell(state: ThreadState) -> str:
        """Return it, and leave it everywhere on the way."""
        for name, value in plan.secrets.items():
            assert await state.env(name) == value
        await state.log("info", plan.text, {"why": plan.text, plan.text: 1})
        await state.emit("told", {plan.text: [plan.text]})
        said = await state.inject_message("system", plan.text, metadata={"x": plan.text})
        await state.inject_message("tool", plan.text, name=plan.text)
        await state.update_message(said.id, content=plan.text, metadata={"y": [plan.text]})
        await state.queue_message(plan.text, metadata={"z": plan.text})
        state.queue_tool("give", {"data": plan.text})
        return plan.text

    @tool
    def give(state: ThreadState, data: str) -> Any:
        """Return it as data, on a worker."""
        assert data == plan.text
        return {"data": [data]}

    @tool
    async def fail(state: ThreadState) -> str:
        """Fail with it."""
        raise ValueError(plan.text)

    @tool
    async def refuse(state: ThreadState) -> ToolResult:
        """Fail with it in data."""
        file = {"name": plan.text, "path": plan.text, "mimeType": "text/plain"}
        return ToolResult(
            status="error", error=plan.text, error_code=plan.text, error_data={"at": plan.text}, stack=plan.text,
            attachments=(file,),
        )  # fmt: skip

    return [tell, give, fail, refuse]


def hooks(plan: Plan) -> list[Hook]:
    def change(state: ThreadState, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "metadata": {**(fields["metadata"] or {}), "hook": plan.text}}

    async def store(state: ThreadState, given: object, result: ToolResult) -> ToolResult:
        return result.model_copy(update={"result": f"{result.result}{plan.text}"})

    def fail(*_given: object) -> None:
        raise RuntimeError(plan.text)

    return [
        Hook("before_create_message", "change", change),
        Hook("before_store_tool_result", "store", store),
        Hook("tool_call_started", "fail", fail),
    ]


def leaked(plan: Plan, shown: object) -> list[str]:
    """Return the secrets that stand in what was shown, as they are or as JSON has them."""
    text = shown if isinstance(shown, str) else json.dumps(shown, default=str, ensure_ascii=False)
    return [value for value in plan.secrets.values() if value in text or json.dumps(value)[1:-1] in text]


@pytest.mark.slow
@given(PLANS)
@settings(max_examples=40, deadline=None)
def test_no_planted_secret_is_found_in_what_leaves(plan: Plan) -> None:
    """Contract D.6 redaction: results, errors, logs, history, and every frame, the pieces of a stream put together."""

    def of(name: str) -> dict[str, str]:
        return {name: plan.secrets[name]} if name in plan.secrets else {}

    calls = [call("tell"), call("fail", "c2"), call("refuse", "c3"), call("give", "c4", data=plan.text)]
    calls += [call("tell " + plan.text, plan.text[-100:], x=plan.text)]  # an unknown tool, under an id that has secrets
    agent, _ = beside_a_human(
        [*plan.pieces(), *calls], plan.pieces(), tools=tools(plan), hooks=hooks(plan), env=of("AGENT"),
        prompt_options={"env": of("PROMPT")},
    )  # fmt: skip
    environment = Environment(
        instance={name: EnvValue(value) for name, value in of("INSTANCE").items()}, user={"u1": of("USER")}
    )
    logged = Lines()
    logger = logging.getLogger("treadle")
    logger.addHandler(logged)
    try:
        with Play(agent, definitions={"environment": environment}) as play:
            thread = play.runtime.create_thread("agent", user_id="u1", env=of("THREAD")).result(PATIENCE_S)
            with thread.stream() as stream:
                frames: list[Any] = [next(iter(stream))]  # it begins with the first look
                receipt = thread.submit("go").result(PATIENCE_S)
                record = thread.wait(receipt).result(PATIENCE_S)
                for frame in stream:
                    frames.append(frame)
                    if frame["type"] == "THREAD_EXECUTION_FINISHED":
                        break
            assert record.error is None
            messages = thread.messages(limit=1000, include_silent=True, max_depth=8).result(PATIENCE_S).messages
            logs = ThreadState.at_rest(thread).get_logs(1000).result(PATIENCE_S)
    finally:
        logger.removeHandler(logged)
    chunks: dict[str, str] = {}
    for frame in frames:
        if frame["type"] == "message_chunk":
            chunks[frame["message_id"]] = chunks.get(frame["message_id"], "") + frame["chunk"]

    assert len(chunks) == 2
    for shown in (*frames, *chunks.values(), *(one.model_dump() for one in messages), *logs, *logged.lines):
        assert leaked(plan, shown) == [], shown
    assert sum("[secret:" in json.dumps(one.model_dump()) for one in messages) >= 8
    assert len(logs) >= 2


def test_no_error_shows_the_beginning_of_a_secret_that_is_longer_than_it_shows() -> None:
    """Contract D.6 redaction: what is not JSON data, a name of no tool and the garbage of a model are shown shortened."""
    secret = "".join(f"{number:03}-" for number in range(300))

    @tool
    async def give(state: ThreadState) -> set[str]:
        return {secret}

    @tool
    async def fail(state: ThreadState) -> None:
        raise ValueError("x" * 8_100 + secret)

    turns = [
        [call("give"), call("fail", "c2"), call("n" * 60 + secret, "c3"), call("n" * 240 + secret, "c4")],
        [[secret]],
    ]
    agent, _ = beside_a_human(*turns, tools=[give, fail], env={"KEY": secret})
    with Play(agent) as play:
        record = play.say()
        logs = ThreadState.at_rest(play.thread).get_logs(1000).result(PATIENCE_S)
        shown = json.dumps([one.model_dump() for one in play.messages()]) + json.dumps(logs) + repr(record)

    assert record.reason == "step_error"
    assert "[secret:KEY]" in shown
    assert "000-001-" not in shown


class Lines(logging.Handler):
    """Keeps what the process logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(message)s %(exc_info)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
