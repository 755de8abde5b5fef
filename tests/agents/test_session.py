"""The counters of a session: what is counted, when it is written, what the next session keeps."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from treadle.actors.execution import Execution
from treadle.agents.agent_definition import Agent
from treadle.agents.handler import handler
from treadle.agents.session import SESSION_KEY, Handled, Session
from treadle.agents.side import Side
from treadle.protocol.messages import Message


class Kept:
    """An execution of which only the runtime's own values are asked."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.writes = 0

    async def get_internal(self, key: str) -> Any:
        return self.values.get(key)

    async def set_internal(self, key: str, value: Any) -> None:
        self.writes += 1
        self.values[key] = value


@handler
async def relay(state: Any, message: Any) -> None:
    return None


BESIDE_A_HUMAN = Agent(name="a", side_a=Side(prompt="p"))
CAPPED = Agent(name="a", side_a=Side(prompt="p"), max_session_turns=2)
DUAL = Agent(name="a", side_a=Side(prompt="p"), side_b=Side(prompt="q"))
HANDLED = Agent(name="a", side_a=Side(handler=relay))


def session(kept: Kept, agent: Agent) -> Session:
    made = Session(cast(Execution, kept))
    asyncio.run(made.follow(agent))
    return made


def test_where_no_agent_needs_them_nothing_is_read_or_written() -> None:
    kept = Kept()
    made = session(kept, BESIDE_A_HUMAN)
    made.count("a")
    made.turn_of("a")
    asyncio.run(made.save())

    assert kept.writes == 0


@pytest.mark.parametrize("agent", [CAPPED, DUAL, HANDLED], ids=["capped", "dual", "handled"])
def test_what_was_counted_is_there_in_the_next_execution(agent: Agent) -> None:
    kept = Kept()
    made = session(kept, agent)
    made.count("a")
    made.count("b", 2)
    made.handle("a", Message(id="m1", role="user", content="x", created_at=7))
    asyncio.run(made.save())
    asyncio.run(made.save())  # nothing changed in between

    again = session(kept, agent)
    assert (again.turns, again.handled["a"]) == ({"a": 1, "b": 2}, Handled(7, "m1"))
    assert kept.writes == 1


def test_only_two_sides_of_the_runtime_remember_whose_turn_it_is() -> None:
    for agent, side in ((DUAL, "b"), (CAPPED, None)):
        kept = Kept()
        made = session(kept, agent)
        made.count("a")
        made.turn_of("b")
        asyncio.run(made.save())

        assert session(kept, agent).side == side


def test_a_new_session_begins_without_turns_and_keeps_what_handlers_had() -> None:
    kept = Kept()
    made = session(kept, DUAL)
    made.count("a")
    made.handle("b", Message(id="m1", role="user", content="x", created_at=7))
    made.reset()
    asyncio.run(made.save())

    again = session(kept, DUAL)
    assert (again.turns, again.side, again.handled["b"]) == ({"a": 0, "b": 0}, None, Handled(7, "m1"))


@pytest.mark.parametrize(
    ("turns", "counting", "capped"),
    [((1, 2), None, False), ((1, 2), "a", True), ((1, 2), "b", False), ((2, 2), None, True), ((9, 1), "a", False)],
)
def test_the_cap_is_met_when_both_sides_had_so_many_turns(turns: tuple[int, int], counting: Any, capped: bool) -> None:
    made = session(Kept(), CAPPED)
    made.turns = {"a": turns[0], "b": turns[1]}

    assert made.capped(2, counting) is capped
    assert made.capped(None, counting) is False


@pytest.mark.parametrize(
    "stored",
    [None, 7, [], {"turns": 3, "handled": {"a": 1}}, {"turns": {"a": "x"}, "side": "c", "handled": {"a": [1]}}],
)
def test_what_no_session_wrote_counts_for_nothing(stored: Any) -> None:
    kept = Kept()
    kept.values[SESSION_KEY] = stored
    made = session(kept, DUAL)

    assert (made.turns, made.side, made.handled["a"]) == ({"a": 0, "b": 0}, None, Handled(0, ""))


def test_what_was_counted_before_it_was_read_counts_as_well() -> None:
    kept = Kept()
    kept.values[SESSION_KEY] = {"turns": {"a": 3, "b": 1}, "side": None, "handled": {}}
    made = Session(cast(Execution, kept))
    made.count("b")
    asyncio.run(made.follow(CAPPED))

    assert made.turns == {"a": 3, "b": 2}
