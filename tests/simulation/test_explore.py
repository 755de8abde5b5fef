"""Every reachable state of the scripts, once: what it costs, what it covers, that nothing was missed."""

from __future__ import annotations

from collections import Counter

import pytest

from treadle.protocol import lifecycle
from treadle.protocol.decision import Phase, Verdict
from treadle.protocol.triggers import Kind

from . import script as scripts
from .explore import Graph, edge_paths, explore, key, replay
from .mutant import attributes
from .script import Script
from .world import World

# Pinned from below: fewer states would mean that something no longer happens.
LARGE = [
    (scripts.A, 210_000, 730_000),
    (scripts.B, 54_000, 132_000),
    (scripts.C, 147_000, 308_000),
    (scripts.BODIES, 82_000, 234_000),
    (scripts.DEADLINES, 88_000, 191_000),
    (scripts.LOOPS, 50_000, 114_000),
    (scripts.ENDS, 15_000, 31_000),
    (scripts.LOSSES, 23_000, 65_000),
    (scripts.QUEUES, 13_000, 27_000),
    (scripts.EDITS, 73_000, 178_000),
    (scripts.OWN_EDITS, 15_000, 46_000),
    (scripts.REQUESTS, 46_000, 121_000),
]


def sized(graph: Graph) -> tuple[int, int]:
    states, edges = len(graph.parent), len(graph.target)
    print(f"script {graph.script.name}: {states} states, {edges} edges")
    return states, edges


def test_every_state_of_a_small_script_keeps_every_promise() -> None:
    states, edges = sized(explore(scripts.SMALL))

    assert states >= 880
    assert edges >= 2_060


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("script", "states", "edges"), LARGE, ids=lambda value: getattr(value, "name", None))
def test_every_state_of_a_script_keeps_every_promise(script: Script, states: int, edges: int) -> None:
    found = sized(explore(script))

    assert found[0] >= states
    assert found[1] >= edges


def test_a_state_is_visited_once() -> None:
    seen: Counter[int] = Counter()

    explore(scripts.SMALL, visit=lambda world: seen.update([hash(key(world))]))

    assert set(seen.values()) == {1}


def test_the_ways_cover_every_edge_of_the_quotient_and_can_be_walked() -> None:
    script = scripts.SMALL
    graph = explore(script)
    ways = edge_paths(script, graph)
    walked = set()
    for way in ways:
        world = World(script)
        for step in way:
            assert step in world.steps()
            world, before = world.step(step), hash(key(world))
            walked.add((before, step))

    assert {step for _, step in walked} == set(graph.steps)
    assert len(ways) < len(graph.target) / 4
    assert len(edge_paths(script, graph, waiting=False)) < len(ways)


def test_a_replayed_way_tells_what_was_recorded_and_answered() -> None:
    step = scripts.Step

    world = replay(scripts.SMALL, [step("send", "submit1"), step("turn"), step("commit"), step("body", "returned")])

    assert [type(entry).__name__ for name, entry in world.log or () if name == "event"] == ["ExecutionStarted"]
    assert [name for name, _ in world.log or ()] == ["event", "submit1"]
    assert world.state.phase is Phase.RUNNING


# What the worlds leave out: deletion, values, messages from outside, processes and hand-offs have no bearing on who owns a thread.
OUTSIDE = frozenset({Kind.DELETE, Kind.INJECT, Kind.SET_VALUE, Kind.RECORD_PROCESS, Kind.CHANGE_AGENT})
# What the table has for totality alone: a control at rest has no execution to differ from, the body's end and what it
# owned are about the live execution or ignored before the table, and a wake is decided at once and only at rest. A body
# that is fenced is refused where it asks, and the time of its requests is over with it.
TOTALITY = {
    (Phase.IDLE, Kind.CONTROL_OTHER),
    (Phase.IDLE, Kind.RELEASED),
    (Phase.RUNNING, Kind.RELEASED),
    (Phase.STOPPING, Kind.RELEASED),
    (Phase.RUNNING, Kind.WAKE),
    (Phase.STOPPING, Kind.WAKE),
    (Phase.FINISHING, Kind.WAKE),
    (Phase.FINISHING, Kind.REQUEST),
    (Phase.IDLE, Kind.REQUEST_EXPIRED),
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_explorations_reach_every_cell_that_may_be_reached() -> None:
    reached = set()
    decide = lifecycle.decide

    def recorded(state: lifecycle.State, trigger: lifecycle.Trigger) -> lifecycle.Decision:
        reached.add((state.phase, lifecycle.classify(state, trigger)))
        return decide(state, trigger)

    with attributes((lifecycle, "decide", recorded)):
        for script in (
            scripts.SMALL, scripts.QUEUES, scripts.ENDS, scripts.LOOPS, scripts.DEADLINES, scripts.LATE, scripts.REQUESTS,
            scripts.OWN_EDITS,
        ):  # fmt: skip
            explore(script)

    # All but the answer waits while START is in flight, so nothing else is decided in STARTING.
    possible = {
        place
        for place, cell in lifecycle.TABLE.items()
        if cell.verdict is not Verdict.IMPOSSIBLE
        and place[1] not in OUTSIDE
        and (place[0] is not Phase.STARTING or cell.verdict is Verdict.DECIDE)
    }
    assert possible - reached == TOTALITY
