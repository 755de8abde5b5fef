"""What the contract quotes is said in its words, from the one place where each is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.declared import Declared
from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.agents import Agent, Side, SubPrompt, ThreadState, ToolResult, tool
from treadle.protocol.errors import ThreadTerminated, TreadleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.stage import Replies
    from treadle.actors import Reply

FILE = {"name": "a.txt", "mimeType": "text/plain", "path": "/a.txt"}


@tool
async def nothing(state: ThreadState, n: int = 0) -> None:
    """Return nothing."""


@tool
async def fail(state: ThreadState) -> ToolResult:
    return ToolResult(status="error", error="no paper")


@tool
async def give(state: ThreadState) -> ToolResult:
    return ToolResult(status="success", result="here", attachments=(FILE,))


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
SAID: list[tuple[Any, str]] = [
    (call("nothing"), "Tool executed successfully"),
    (call("nothing", n="x"), "Tool argument validation failed: [n] "),
    (call("unknown"), 'Tool "unknown" is not available for this prompt'),
    (call("fail"), "Failed to execute tool: no paper"),
    (call("give"), 'here\nAttachment path for "a.txt": /a.txt'),
    (call("sub"), "Prompt executed successfully"),
    (call("sub", n="x"), "Prompt tool argument validation failed: [n] "),
    (call("other"), "Handoff complete"),
]


@pytest.mark.parametrize(("made", "said"), SAID, ids=[said[:30] for _, said in SAID])
def test_results_of_calls_begin_with_the_contracts_words(made: Any, said: str) -> None:
    """Contract E.4 result; E.4 failure; E.4 attachments; E.4 unknown tool; E.3 sub-prompt result: as quoted there."""
    sub, _ = prompt("sub", "words", required_schema=NUMBER)
    entry = SubPrompt(name="sub", include_text_response=False)
    other = Agent(name="other", side_a=Side(prompt=prompt("q", "hello")[0]))
    agent, _ = beside_a_human(made, "done", tools=[nothing, fail, give, entry, "other"])
    with Play(agent, other, definitions={"prompts": [sub]}) as play:
        play.say()

        ((_, text),) = play.results()["c1"]
        assert str(text).startswith(said)


ERRORS: list[tuple[Callable[[ThreadState], Reply[Any]], str]] = [
    (lambda state: state.env("NOPE"), "Environment variable not found: NOPE"),
    (lambda state: state.load_prompt("nope"), "Prompt not found: nope"),
    (lambda state: state.load_agent("nope"), "Agent not found: nope"),
    (lambda state: state.load_model("nope"), "Model not found: nope"),
    (lambda state: state.update_message("nope", content="x"), "Message with id nope not found"),
    (lambda state: state.set_value("k", {"a": [float("nan")]}), "Thread value at $.a[0]"),
    (lambda state: state.set_value("k", "x" * 2**21), "Thread value at $"),
]


@pytest.mark.parametrize(("ask", "said"), ERRORS, ids=[said for _, said in ERRORS])
def test_errors_begin_with_the_contracts_words(declared: Declared, ask: Any, said: str) -> None:
    """Contract D.6 env missing; D.6 loaders; D.5 not a value: as quoted there."""
    told: list[str] = []

    def script(state: ThreadState) -> Replies:
        with pytest.raises(TreadleError) as caught:
            yield ask(state)
        told.append(str(caught.value))

    assert declared(script).play().error is None
    assert [one[: len(said)] for one in told] == [said]


def test_a_thread_says_that_it_is_terminated_in_the_contracts_words(declared: Declared) -> None:
    """Contract D.11 terminate; D.11 stop_session: as quoted there."""
    declared(lambda state: iter(()))  # type: ignore[arg-type,return-value]
    at = declared.thread.terminate().result(PATIENCE_S)
    rest = declared.rest()

    replies = (rest.inject_message("user", "x"), rest.queue_message("x"), declared.thread.submit("x"))
    for reply in replies:
        with pytest.raises(ThreadTerminated) as caught:
            reply.result(PATIENCE_S)
        assert str(caught.value) == f"Thread is terminated (terminated_at={at})"
    assert str(rest.stop_session().error()).startswith("stop_session requires active execution")
