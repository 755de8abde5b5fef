"""Tests agents/scene.py: which agent, prompt and hooks hold where a state's caller stands, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.agents.declared import MODEL
from treadle.agents import Hook, Prompt, ThreadState
from treadle.agents.scene import is_declared

if TYPE_CHECKING:
    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage


def brief(state: ThreadState, text: str) -> str:
    return "brief"


def test_agent_and_prompt_are_those_of_the_flow_and_at_rest_those_of_the_thread(declared: Declared) -> None:
    """Contract B at rest: what is declared for the thread is known all the same."""

    def script(state: ThreadState) -> Replies:
        scene = state.scene
        flow = scene.flow
        assert flow is not None
        assert (scene.agent, scene.prompt) == (flow.agent, flow.agent.side_a.prompt)
        assert scene.definitions is flow.agent.definitions
        other = Prompt(name="q", prompt="be brief", model=MODEL)
        flow.prompt = other
        assert scene.prompt is other
        yield state.status()

    assert declared(script).play().error is None
    scene = declared.rest().scene
    assert scene.flow is None
    assert scene.agent is not None
    assert (scene.agent.name, scene.prompt) == ("actor", scene.agent.side_a.prompt)


def test_hooks_are_gathered_once_for_each_agent_and_prompt(declared: Declared) -> None:
    """Contract E.7 override: another prompt has its own."""
    agents = Hook("after_system_message", "brief", brief)
    prompts = Hook("after_system_message", "briefer", brief)

    def script(state: ThreadState) -> Replies:
        scene = state.scene
        flow = scene.flow
        assert flow is not None
        first = scene.hooks
        assert scene.hooks is first
        assert first.has("after_system_message")
        assert not first.has("filter_messages")
        flow.prompt = Prompt(name="q", prompt="be brief", model=MODEL, hooks=[prompts])
        assert scene.hooks is not first
        flow.prompt = None
        yield state.status()

    assert declared(script, hooks=[agents]).play().error is None


def test_a_plain_callable_has_no_scene_until_it_asks_for_one(stage: Stage) -> None:
    def script(state: ThreadState) -> Replies:
        assert state._execution is not None
        assert not is_declared(state._execution)
        said = yield state.inject_message("assistant", "hello")
        yield state.update_message(said.id, content="hello again")
        yield state.queue_message("later")
        yield state.delete_message(said.id)
        assert state._scene is None
        scene = state.scene
        assert (scene.flow, scene.agent, scene.prompt, scene.definitions) == (None, None, None, None)
        assert not scene.hooks.has("before_create_message")
        state.execution.stop()  # type: ignore[union-attr]

    assert stage(script).play().error is None
