"""Tests agents/side.py: a side is exactly one of three, and takes what belongs to that."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pydantic import ValidationError

from treadle.agents import Binding, Handler, Side
from treadle.agents.handler import handler


@handler
async def relay(state: object, message: object) -> None: ...


BACKINGS: list[tuple[str, object]] = [("human", True), ("prompt", "support"), ("handler", relay)]


@pytest.mark.parametrize(("field", "value"), BACKINGS)
def test_a_side_is_backed_by_one_of_three(field: str, value: object) -> None:
    """Contract E.2 side: a side is exactly one of human, prompt and handler."""
    side = Side.model_validate({field: value})

    assert side.backing == field


@pytest.mark.parametrize("chosen", [c for n in (0, 2, 3) for c in itertools.combinations(BACKINGS, n)])
def test_none_and_more_than_one_backing_are_refused(chosen: tuple[tuple[str, object], ...]) -> None:
    """Contract E.2 side: a side is exactly one of human, prompt and handler."""
    with pytest.raises(ValueError, match="exactly one of"):
        Side.model_validate(dict(chosen))


def test_a_model_side_stops_on_a_response_and_has_no_step_limit_by_default() -> None:
    """Contract E.2 prompt side: stopOnResponse=true, manualStopCondition=false, no maxSteps by default."""
    side = Side(prompt="support")

    assert (side.stop_on_response, side.manual_stop_condition, side.max_steps) == (True, False, None)


@pytest.mark.parametrize(
    "more",
    [
        {"max_steps": 3}, {"stop_on_response": False}, {"session_stop": Binding(name="done")},
        {"session_fail": Binding(name="done")}, {"session_status": Binding(name="done")}, {"manual_stop_condition": True},
        {"stop_tool": "done", "stop_tool_response_property": "text"},
    ],
)  # fmt: skip
def test_a_handler_has_no_step_limits_and_no_session_bindings(more: dict[str, Any]) -> None:
    """Contract E.2 handler side: a handler side takes a label; no step limits or session bindings."""
    assert Side(handler=relay, label="Relay").label == "Relay"
    with pytest.raises(ValueError, match="a side that is a handler takes no"):
        Side(handler=relay, **more)


def test_a_human_takes_nothing_else() -> None:
    """Contract E.2 human side: a human side is {human: true} alone."""
    with pytest.raises(ValueError, match="a side that is a human takes no label"):
        Side(human=True, label="You")


@pytest.mark.parametrize("half", [{"stop_tool": "done"}, {"stop_tool_response_property": "text"}])
def test_a_stop_tool_and_its_property_come_together(half: dict[str, Any]) -> None:
    """Contract E.2 stop_tool_response_property: stopToolResponseProperty is required with stopTool."""
    with pytest.raises(ValueError, match="come together"):
        Side(prompt="support", **half)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_step_limit_is_at_least_one(steps: int) -> None:
    """Contract E.2 max_steps: maxSteps is a cap on model steps."""
    with pytest.raises(ValidationError):
        Side(prompt="support", max_steps=steps)


@pytest.mark.parametrize("field", ["session_stop", "session_fail", "session_status"])
def test_a_binding_is_an_object_and_no_text(field: str) -> None:
    """Contract E.2 bindings: session bindings are objects; the bare string was removed."""
    given = {"prompt": "support", field: {"name": "done", "message_property": "text", "attachments_property": "files"}}

    assert getattr(Side.model_validate(given), field) == Binding(
        name="done", message_property="text", attachments_property="files"
    )
    with pytest.raises(ValidationError):
        Side.model_validate({"prompt": "support", field: "done"})


def test_a_definition_is_frozen_and_takes_no_unknown_field() -> None:
    side = Side(prompt="support")

    with pytest.raises(ValidationError):
        side.label = "x"
    with pytest.raises(ValidationError):
        Side.model_validate({"prompt": "support", "lable": "x"})


def test_the_object_given_is_the_object_held() -> None:
    assert Side(handler=relay).handler is relay
    assert isinstance(relay, Handler)


def test_a_binding_that_is_a_bare_name_is_told_how_it_is_made() -> None:
    with pytest.raises(
        ValidationError, match=r"a side binds is Binding\(name=\.\.\.\), which names a tool, not 'done'"
    ):
        Side.model_validate({"prompt": "support", "session_stop": "done"})
