"""Tests agents/thread_env.py and agents/thread_variables.py: on real runtimes, awaiting and blocking, on both stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.declared import MODEL, Declared
from tests.agents.looping import Play, beside_a_human, call
from tests.agents.stage import PATIENCE_S
from treadle.actors import ExecutionFailed, ExecutionFenced, Runtime
from treadle.agents import Definitions, Prompt, PromptTool, ThreadState, Variable, tool
from treadle.agents import agent as coded
from treadle.agents.environment import Environment, EnvValue, VariableNotFound
from treadle.agents.flow import flow_of
from treadle.agents.secrets import SecretUnreadable
from treadle.agents.thread_env import ENV_KEY
from treadle.protocol.errors import InvalidInput, RequestExpired
from treadle.protocol.limits import VALUE_BYTES_MAX
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from tests.agents.stage import Replies, Stage


@coded
async def of_code(state: ThreadState) -> None:
    """An agent without definitions."""


SOURCES = Environment(
    instance={"A": "of the runtime", "I": EnvValue("instance text", "text"), "S": "instance secret"},
    user={"u1": {"A": "of the user", "I": "of the user", "U": EnvValue("user text", "text")}},
)


def _played(declared: Declared, script: Any, **options: Any) -> None:
    assert declared(script, **options).play().error is None


def test_a_variable_comes_from_the_first_source_that_has_it(declared: Declared) -> None:
    """Contract D.6 env order; D.6 env_type: over a whole runtime."""

    def script(state: ThreadState) -> Replies:
        found = {}
        for name in ("A", "B", "C", "I", "U", "S"):
            found[name] = ((yield state.env(name)), (yield state.env_type(name)))
        assert found == {
            "A": ("of the thread", "secret"),
            "B": ("of the agent", "secret"),
            "C": ("of the prompt", "secret"),
            "I": ("of the user", "secret"),
            "U": ("user text", "text"),
            "S": ("instance secret", "secret"),
        }

    _played(
        declared,
        script,
        env={"A": "of the thread"},
        environment=SOURCES,
        agent_env={"A": "x", "B": "of the agent"},
        prompt={"env": {"A": "x", "B": "x", "C": "of the prompt"}},
    )


def test_a_variable_that_nobody_has_is_an_error_that_names_it(declared: Declared) -> None:
    """Contract D.6 env missing: and its type is secret."""

    def script(state: ThreadState) -> Replies:
        with pytest.raises(VariableNotFound, match=": NOPE") as refused:
            yield state.env("NOPE")
        assert (refused.value.code, refused.value.details) == ("variable_not_found", {"name": "NOPE"})
        assert (yield state.env_type("NOPE")) == "secret"
        for bad in ("", "A=B", 7):
            with pytest.raises(InvalidInput):
                yield state.env(bad)  # type: ignore[arg-type]

    _played(declared, script)


def test_the_prompt_is_the_current_one_else_that_of_side_a(declared: Declared) -> None:
    """Contract D.6 env prompt: at rest too."""
    other = Prompt(name="q", prompt="be brief", model=MODEL, env={"P": "of the sub-prompt"})

    def script(state: ThreadState) -> Replies:
        flow = flow_of(state._execution)  # type: ignore[arg-type]
        assert flow is not None
        assert (yield state.env("P")) == "of side a"
        flow.prompt = other
        assert (yield state.env("P")) == "of the sub-prompt"
        flow.prompt = None

    _played(declared, script, prompt={"env": {"P": "of side a"}})
    assert declared.rest().env("P").result(PATIENCE_S) == "of side a"


def test_a_prompt_can_state_that_what_a_thread_is_created_with_is_text(declared: Declared) -> None:
    def script(state: ThreadState) -> Replies:
        assert (yield state.env_type("STATED")) == "text"
        assert (yield state.env_type("MENTIONED")) == "secret"

    variables = (Variable(name="STATED", type="text"), Variable(name="MENTIONED"))
    _played(declared, script, env={"STATED": "a", "MENTIONED": "b"}, prompt={"variables": variables})


def test_the_instance_is_read_alone(declared: Declared) -> None:
    """Contract D.6 instance_env: neither thread nor user come before it, and None is no variable."""

    def script(state: ThreadState) -> Replies:
        assert (yield state.instance_env("A")) == "of the runtime"
        assert (yield state.env("A")) == "of the thread"
        assert (yield state.instance_env("U")) is None

    _played(declared, script, env={"A": "of the thread"}, environment=SOURCES)


def test_what_is_set_is_the_threads_own_at_once_and_for_good(declared: Declared) -> None:
    """Contract D.6 set_env: it keeps a known type, is secret for a new name, and may be empty."""

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        if state.execution.new_messages[0].content == "again":
            assert (yield state.env("X")) == "3"
            assert (yield state.env_type("X")) == "text"
            return
        writing = state.set_env("X", "1")
        assert (yield state.env("X")) == "1"  # before it is durable
        assert (yield writing) is None
        assert (yield state.env_type("X")) == "secret"
        yield state.set_env("X", "2", type="text")
        yield state.set_env("X", "3")
        assert ((yield state.env("X")), (yield state.env_type("X"))) == ("3", "text")
        yield state.set_env("E", "")
        assert (yield state.env("E")) == ""
        yield state.set_env("A", "over all")
        assert (yield state.env("A")) == "over all"

    _played(declared, script, env={"A": "of the thread"}, environment=SOURCES)
    assert declared.play("again").error is None
    assert declared.rest().env("A").result(PATIENCE_S) == "over all"


def test_several_set_at_once_are_all_there(declared: Declared) -> None:
    """Contract D.6 set_env: none of them is lost for being on the way with another."""

    def script(state: ThreadState) -> Replies:
        for reply in [state.set_env(f"V{number}", f"value {number}") for number in range(20)]:
            assert (yield reply) is None

    _played(declared, script)
    rest = declared.rest()
    assert [rest.env(f"V{number}").result(PATIENCE_S) for number in range(20)] == [f"value {n}" for n in range(20)]


def test_at_rest_a_variable_is_set_like_in_an_execution(declared: Declared) -> None:
    """Contract D.6 set_env: an execution that runs sees it at its next look."""

    def script(state: ThreadState) -> Replies:
        assert (yield state.env("X")) == "from outside"
        outside.set_env("X", "changed").result(PATIENCE_S)
        assert (yield state.env("X")) == "changed"
        yield state.inject_message("assistant", "changed")

    declared(script)
    outside = declared.rest()
    outside.set_env("X", "from outside").result(PATIENCE_S)
    if declared._blocking:  # a coroutine must not block the loop that its own reply may need
        assert declared.play().error is None
        assert declared.texts() == ["go", "[secret:X]"]


def test_bad_variables_come_through_the_reply(declared: Declared) -> None:
    def script(state: ThreadState) -> Replies:
        for name, value, kind in (
            ("", "x", None),
            ("A=", "x", None),
            ("A", 7, None),
            ("A", "\0", None),
            ("A", "x", "open"),
        ):
            with pytest.raises(InvalidInput) as refused:
                yield state.set_env(name, value, kind)  # type: ignore[arg-type]
            assert refused.value.code == "invalid_variable"
        with pytest.raises(Exception, match="limit") as large:
            yield state.set_env("BIG", "x" * VALUE_BYTES_MAX)
        assert large.value.code == "limit_exceeded"  # type: ignore[attr-defined]
        with pytest.raises(VariableNotFound):
            yield state.env("BIG")

    _played(declared, script)


def test_a_variable_set_too_late_is_not_set(declared: Declared) -> None:
    kept: list[ThreadState] = []

    def script(state: ThreadState) -> Replies:
        kept.append(state)
        yield state.set_env("X", "in time")

    _played(declared, script)
    with pytest.raises(ExecutionFenced):
        kept[0].set_env("X", "too late").result(PATIENCE_S)
    assert declared.rest().env("X").result(PATIENCE_S) == "in time"


def test_no_value_frame_and_no_list_shows_a_variable(declared: Declared) -> None:
    """Contract D.6 redaction: what `set_env` stores is nobody's value."""

    def script(state: ThreadState) -> Replies:
        yield state.set_env("X", "sesame")
        assert (yield state.list_values()).values == []
        with pytest.raises(InvalidInput) as refused:
            yield state.get_value(ENV_KEY)
        assert refused.value.code == "reserved_name"
        with pytest.raises(InvalidInput):
            yield state.set_value(ENV_KEY, {})

    _played(declared, script)
    with declared.thread.events("1:0") as events:
        shown: list[str] = []
        for event in events:
            shown.append(str(event.to_wire()))
            if "FINISHED" in shown[-1]:
                break
    assert not any("sesame" in one or ENV_KEY in one for one in shown)


def test_with_a_key_secrets_are_stored_sealed(declared: Declared) -> None:
    """Contract D.6 encryption: what is text is not; another key opens nothing, and says so."""
    key = "a key of many characters"

    def script(state: ThreadState) -> Replies:
        yield state.set_env("X", "sesame")
        yield state.set_env("T", "plain", type="text")
        assert (yield state.env("X")) == "sesame"

    _played(declared, script, environment=Environment(key=key))
    rest = declared.rest()
    stored: Any = rest._access.get_internal(ENV_KEY).result(PATIENCE_S)
    assert stored["T"] == {"type": "text", "value": "plain"}
    assert "sesame" not in str(stored)
    assert rest.env("X").result(PATIENCE_S) == "sesame"

    agent = declared.runtime._services.agents["actor"]  # type: ignore[union-attr]
    for environment in (Environment(key="another key, as long"), None):
        Definitions(agents=(agent,), environment=environment)  # type: ignore[arg-type]
        rest = declared.rest()
        with pytest.raises(SecretUnreadable):
            rest.env("X").result(PATIENCE_S)
        assert rest.env("T").result(PATIENCE_S) == "plain"
        rest.inject_message("system", "goes on").result(PATIENCE_S)


def test_a_source_of_users_that_fails_fails_the_call_that_needs_it(declared: Declared) -> None:
    def broken(user_id: str) -> dict[str, str]:
        raise ConnectionError("no such host")

    def script(state: ThreadState) -> Replies:
        with pytest.raises(ConnectionError):
            yield state.env("X")
        yield state.inject_message("assistant", "goes on")

    _played(declared, script, environment=Environment(user=broken))


def test_a_source_of_users_that_would_end_the_process_ends_neither_it_nor_the_run(declared: Declared) -> None:
    """Contract D.6 env missing: and what needs no variable of the user's goes on without them."""

    def exits(user_id: str) -> dict[str, str]:
        raise SystemExit(1)

    def script(state: ThreadState) -> Replies:
        with pytest.raises(SystemExit):
            yield state.env("U")
        yield state.inject_message("system", "said all the same")

    _played(declared, script, environment=Environment(user=exits))


def test_the_source_of_users_is_asked_once_for_an_execution(declared: Declared) -> None:
    asked: list[str] = []

    def of_user(user_id: str) -> dict[str, str]:
        asked.append(user_id)
        return {"X": "1"}

    def script(state: ThreadState) -> Replies:
        for _ in range(3):
            assert (yield state.env("X")) == "1"

    _played(declared, script, environment=Environment(user=of_user))
    assert asked == ["u1"]


def test_what_code_chooses_to_be_found_by_holds_no_secret(declared: Declared) -> None:
    """Contract D.6 redaction: keys and ids are stored and shown as they are, so one with a secret is refused."""
    told: list[str] = []

    def script(state: ThreadState) -> Replies:
        yield state.set_env("X", "sesame")
        refused = [
            state.set_value("is sesame", 1),
            state.set_value("is sesame", None),
            state.request("sesame"),
            state.request("approval", request_id="sesame-1"),
            state.queue_message("x", input_id="sesame"),
            state.inject_message("tool", "x", tool_call_id="sesame"),
        ]
        for reply in refused:
            with pytest.raises(InvalidInput) as caught:
                yield reply
            assert (caught.value.code, "sesame" in str(caught.value)) == ("secret_in_name", False)
            told.append(str(caught.value.details["value"]))
        with pytest.raises(InvalidInput) as unqueued:
            state.queue_tool("sesame")
        assert unqueued.value.code == "secret_in_name"
        yield state.set_value("no secret", 1)

    _played(declared, script)

    assert told == [
        repr(shown) for shown in ["is [secret:X]"] * 2 + ["[secret:X]", "[secret:X]-1"] + ["[secret:X]"] * 2
    ]
    with pytest.raises(InvalidInput):
        declared.rest().set_value("is sesame", 1).result(PATIENCE_S)


def test_what_a_request_carries_is_without_secrets(declared: Declared) -> None:
    """Contract D.6 redaction: whoever answers is outside."""

    def script(state: ThreadState) -> Replies:
        yield state.set_env("X", "sesame")
        with pytest.raises(RequestExpired):
            yield state.request("approval", {"sesame": ["open sesame"]}, timeout=5)

    declared(script)
    receipt = declared.thread.submit("go").result(PATIENCE_S)
    with declared.thread.stream() as stream:
        for frame in stream:
            pending = frame.get("pending_requests") or ([frame] if frame["type"] == "REQUEST_OPENED" else [])
            if pending:
                break
    declared.clock.advance(5)

    assert declared.thread.wait(receipt).result(PATIENCE_S).error is None
    assert pending[0]["payload"] == {"[secret:X]": ["open [secret:X]"]}


@pytest.mark.parametrize("named", [False, True])
def test_the_error_of_a_plain_callable_ends_its_execution_without_the_secrets_that_it_met(
    stage: Stage, named: bool
) -> None:
    """Contract D.6 redaction: how an execution ended is history, and a frame."""
    error = ExecutionFailed("no sesame", error_type="Sesame", reason="hook_blocked") if named else KeyError("sesame")

    def script(state: ThreadState) -> Replies:
        yield state.set_env("X", "sesame")
        raise error

    record = stage(script).play()

    assert record.error is not None
    shown = (record.error.type, record.error.message, record.reason)
    assert shown == (
        ("Sesame", "no [secret:X]", "hook_blocked") if named else ("KeyError", "'[secret:X]'", "step_error")
    )


def test_a_plain_callable_has_the_variables_of_its_thread(stage: Stage) -> None:
    """Contract D.6 set_env: and D.6 env order begins with the thread."""

    def script(state: ThreadState) -> Replies:
        with pytest.raises(VariableNotFound):
            yield state.env("X")
        yield state.set_env("X", "1")
        assert (yield state.env("X")) == "1"
        assert (yield state.instance_env("X")) is None

    assert stage(script).play().error is None


def test_a_variable_outlives_the_process(declared: Declared) -> None:
    """Contract D.6 set_env: it is durable when its reply is there."""

    def script(state: ThreadState) -> Replies:
        yield state.set_env("X", "kept")

    _played(declared, script)
    thread_id = declared.thread.id
    agent = declared.runtime._services.agents["actor"]  # type: ignore[union-attr]
    declared.close()
    if isinstance(declared.store, MemoryStore):
        return  # whose contents end with it
    assert isinstance(declared.store, LmdbStore)
    with Runtime(LmdbStore(declared.store.path), agents=[agent], clock=declared.clock) as runtime:
        assert ThreadState.at_rest(runtime.thread(thread_id)).env("X").result(PATIENCE_S) == "kept"


def test_an_entry_of_a_prompts_tools_has_variables_of_its_own_while_it_runs() -> None:
    """Contract D.6 env order: they come before the prompt's, in what the tool invokes too, and are secret."""
    seen: list[str] = []

    @tool
    async def look(state: ThreadState) -> str:
        """Look at a variable, and have another tool do so."""
        seen.append(await state.env("X"))
        if len(seen) == 1:
            await state.invoke_tool("peek")
            with pytest.raises(VariableNotFound):
                await ThreadState.at_rest(other).env("X")
        return f"it is {seen[0]}"

    @tool
    def peek(state: ThreadState) -> None:
        """Look at it on a worker."""
        seen.append(state.env("X").result())

    entry = PromptTool(name="look", env={"X": "of the entry"})
    agent, _ = beside_a_human(
        [call("look"), call("peek", "c2")], "done", tools=[entry, peek], prompt_options={"env": {"X": "of the prompt"}}
    )
    Definitions(agents=(agent,), tools=[look])
    with Play(agent, of_code) as play:
        other = play.runtime.create_thread("of_code").result(PATIENCE_S)
        assert play.say().error is None
        assert play.results()["c1"] == [("success", "it is [secret:X]")]
    assert seen == ["of the entry", "of the entry", "of the prompt"]
