"""Owns the exploration: every reachable state of a script once, breadth first. Judges progress, not single steps.

A state is known by its key: identities that nothing can tell apart any more are renamed by their order, and times,
sequences and the run status at rest are left out, since no rule and no oracle looks back at them. Only the hash of a
key is kept (64 bits; with 10^6 states the chance that any two share one is under 10^-7).
"""

from __future__ import annotations

import gc
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from treadle.protocol.decision import Decision, Phase
from treadle.protocol.errors import TreadleError
from treadle.protocol.events import RequestOpened
from treadle.protocol.inbox import Row
from treadle.protocol.receipts import RespondStatus

from .oracles import Violation
from .script import Script, Step
from .world import Flight, Mail, Stored, World

__all__ = ["Graph", "edge_paths", "explore", "key", "paths_over", "replay", "shape"]

PROGRESS = frozenset({"turn", "commit", "released", "retry"})
_PASS_ENDS = frozenset({"returned", "raised", "cancelled", "stopped"})


def key(world: World) -> Hashable:
    """Return what tells this state from every other that can go on differently, or be judged differently."""
    state, flight, notes, body = world.state, world.flight, world.notes, world.body
    active, facts, durable = state.active, state.facts, world.durable
    ending, unrecorded = state.ending, state.unrecorded
    tracked = world.script.tracked
    return (
        tuple(world.left.values()),
        state.phase,
        facts.held,
        facts.terminated_at is None,
        None if active is None else facts.interrupted_by,
        bool(facts.counts),
        len(facts.lost_at),
        state.resumes,
        ending is not None and (ending.refused, ending.unread),
        unrecorded is not None and (unrecorded.source, unrecorded.hold),
        _rows(world, world.live.rows, facts.failed_through, active),
        *_waiting(world),
        None
        if flight is None
        else (
            _flight(world, flight),
            _rows(world, world.stored.rows, durable.failed_through, active),
            durable.held,
            durable.interrupted_by,
            durable.terminated_at is None,
        ),
        body is not None and (body.told, body.asking),
        len(world.late),
        world.known == active,
        world.retry,
        world.grace == active,
        world.releasing == active,
        world.deadline == active,
        len(world.live.calls),
        len(world.live.pending),
        *(_request(world, one) for one in (world.asked, world.waiting, world.expiring)),
        notes[1:6],
        notes.doomed,
        notes.rerun,
        tuple([_tracked(world, name, world.live, world.stored, active) for name in tracked]),
    )


def _after_crash(world: World, about: str) -> Hashable:
    """Return all that a crash leaves: two states that agree in it crash into the same one."""
    written = about == "written"
    facts = world.state.facts if written else world.durable
    stored = world.live if written else world.stored
    return (
        tuple(world.left.values()),
        facts.execution_id is None,
        facts.held,
        facts.terminated_at is None,
        None if facts.execution_id is None else facts.interrupted_by,
        bool(facts.counts),
        len(facts.lost_at),
        _rows(world, stored.rows, facts.failed_through, facts.execution_id),
        world.known == facts.execution_id,
        len(stored.calls),
        len(stored.pending),
        stored.standing(_asked(world) if written else world.asked),
        tuple([_tracked(world, name, stored, stored, facts.execution_id) for name in world.script.tracked]),
    )


def _request(world: World, request_id: str) -> Hashable:
    """Return what tells a request from every other that can still be spoken of."""
    if not request_id:
        return None
    named = (request_id == world.waiting, request_id == world.expiring, request_id == world.asked)
    return (world.live.standing(request_id), world.stored.standing(request_id), *named)


def _asked(world: World) -> str:
    """Return the request that callers have seen last once the batch in flight is written."""
    opened = (
        [event.request_id for _, event in world.flight.events if isinstance(event, RequestOpened)]
        if world.flight
        else []
    )
    return opened[-1] if opened else world.asked


def _rows(world: World, rows: tuple[Row, ...], failed_through: int, active: str | None) -> tuple[object, ...]:
    """Return the waiting rows; steers apart, since order is promised within a kind and steers never start anything."""
    tracked = world.script.tracked
    waiting: list[object] = []
    steers = 0
    for row in rows:
        if row.kind == "steer" and row.execution_id == active and row.input_id not in tracked:
            steers += 1
        else:
            name = row.input_id if row.input_id in tracked else ""
            waiting.append((row.kind, row.first, name, row.sequence <= failed_through))
    return (steers, *waiting)


def _waiting(world: World) -> tuple[object, object]:
    """Return the mail that can still do something, in order, and what is for an execution that is over: only how much.

    The latter is refused wherever it stands. It may still be answered differently before and after a START, and is:
    the state in which it arrives later is another one.
    """
    active = world.state.active
    live, over = [], []
    for mail in world.mail:
        if mail.target and mail.target != active:
            over.append((mail.verb, bool(mail.name)))
        else:
            live.append((mail, _mail(world, mail)))
    return _ordered(live), tuple(sorted(over))


def _ordered(mails: list[tuple[Mail, object]]) -> tuple[object, ...]:
    """Bring mail into the one order that stands for all that come to the same.

    A control of the live execution and an input that only waits or is refused do not touch each other: whichever is
    decided first, the same rows wait in the same order within their kind. Everything else keeps its place.
    """
    found: list[object] = []
    inputs: list[object] = []
    for mail, form in mails:
        if mail.verb == "queue" or (mail.verb == "submit" and mail.how == "reject"):
            inputs.append(form)
        elif mail.verb in ("steer", "interrupt"):
            found.append(form)
        else:
            found += [*inputs, form]
            inputs = []
    return (*found, *inputs)


def _mail(world: World, mail: Mail) -> tuple[object, ...]:
    name = mail.name if mail.name in world.script.tracked or mail.name == "late" else bool(mail.name)
    how = _request(world, mail.how) if mail.verb in ("ask", "respond", "expire") else mail.how
    return (mail.verb, name, mail.target == world.state.active, how)


def _flight(world: World, flight: Flight) -> tuple[object, ...]:
    entries = _ordered([(mail, (_mail(world, mail), _answer(decision))) for mail, decision in flight.entries])
    interruption = flight.interruption
    return (flight.about, entries, interruption is not None and (interruption.source, interruption.hold))


def _answer(decision: Decision) -> object:
    reply = decision.reply
    if isinstance(reply, RespondStatus | bool):
        return reply
    return getattr(reply, "disposition", None) or type(reply)


def _tracked(world: World, name: str, live: Stored, stored: Stored, active: str | None) -> tuple[object, ...]:
    prior = live.prior(name)
    receipt = prior.receipt if prior is not None else None
    first = any(known == name for known, _ in world.notes.first)
    return (
        receipt is not None and (receipt.disposition, receipt.execution_id == active),
        stored.prior(name) is None,
        name in live.withdrawn,
        first,
        # Only an edit asks whether it is in history.
        *((name in live.heard, name in stored.heard) if "delete" in world.script.budget else ()),
    )


def shape(world: World) -> tuple[Hashable, Hashable]:
    """Return the coarse form of a state, and the verbs of the mail that waits: what `edge_paths` tells apart."""
    state, flight, body = world.state, world.flight, world.body
    form = (
        state.phase,
        None if flight is None else flight.about,
        state.facts.held,
        state.facts.terminated_at is None,
        state.unrecorded is not None,
        state.ending is not None and state.ending.refused,
        body is not None and (body.told, body.asking),
        bool(world.late),
        frozenset([row.kind for row in world.live.rows]),
        world.retry,
        world.live.standing(world.asked),
        bool(world.expiring),
    )
    return form, frozenset([mail.verb for mail in world.mail])


class Graph(NamedTuple):
    """What an exploration found: states numbered as they were found, edges in the order of their source.

    Attributes:
        first: for each state the number of its first edge; one more at the end.
        target, label: for each edge its target state, and its step as an index into `steps`.
        parent: for each state the edge by which it was found; -1 for the first.
        shapes: for each state the index of its form in `forms`.
    """

    script: Script
    steps: list[Step]
    forms: list[tuple[Hashable, Hashable]]
    first: array[int]
    target: array[int]
    label: array[int]
    parent: array[int]
    source: array[int]
    shapes: array[int]

    def way(self, state: int) -> list[int]:
        """Return the edges that led to a state first."""
        edges = []
        while self.parent[state] >= 0:
            edges.append(self.parent[state])
            state = self.source[self.parent[state]]
        return edges[::-1]

    def steps_of(self, edges: list[int]) -> list[Step]:
        """Return the steps of a way."""
        return [self.steps[self.label[edge]] for edge in edges]


class Stuck(Violation):
    """A way through the states ends, or turns for ever, where the thread is not at rest."""


def explore(script: Script, *, visit: Callable[[World], None] | None = None) -> Graph:
    """Visit every reachable state once and judge every edge.

    Args:
        script: what may happen.
        visit: called with each state when it is expanded.

    Raises:
        Violation: an invariant does not hold; its note is the way there.
    """
    # Nothing made here is part of a circle, and looking for circles costs half the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _explored(script, visit)
    finally:
        if collects:
            gc.enable()


def _explored(script: Script, visit: Callable[[World], None] | None) -> Graph:
    graph = Graph(script, [], [], *(array("q") for _ in range(6)))
    labels: dict[Step, int] = {}
    shapes: dict[tuple[Hashable, Hashable], int] = {}
    start = World(script)
    found = {hash(key(start)): 0}
    crashed: dict[Hashable, int] = {}
    graph.parent.append(-1)
    graph.shapes.append(shapes.setdefault(shape(start), 0))
    waiting = deque([start])
    number = 0
    while waiting:
        world = waiting.popleft()
        if visit is not None:
            visit(world)
        graph.first.append(len(graph.target))
        progress = False
        for step in world.steps():
            progress = progress or _is_progress(step)
            left = (step, _after_crash(world, step.about)) if step.kind == "crash" else None
            target = crashed.get(left, -1)
            if target < 0:
                try:
                    after = world.step(step)
                except (Violation, TreadleError, AssertionError) as error:
                    _explain(error, graph, number, step)
                    raise
                target = found.setdefault(hash(key(after)), len(found))
                if left is not None:
                    crashed[left] = target
                if target == len(graph.parent):
                    graph.parent.append(len(graph.target))
                    graph.shapes.append(shapes.setdefault(shape(after), len(shapes)))
                    waiting.append(after)
            graph.source.append(number)
            graph.target.append(target)
            graph.label.append(labels.setdefault(step, len(labels)))
        if not progress:
            _judge_end(world, graph, number)
        number += 1
    graph.first.append(len(graph.target))
    graph.steps.extend(labels)
    graph.forms.extend(shapes)
    _judge_ends_only(graph)
    return graph


def _is_progress(step: Step) -> bool:
    return step.kind in PROGRESS or (step.kind == "body" and step.about in _PASS_ENDS)


def _explain(error: BaseException, graph: Graph, state: int, step: Step) -> None:
    way = [] if graph.steps else graph.way(state)
    error.add_note(f"script {graph.script.name}, step {len(way) + 1}: {step}; state {state}, edges {way}")


def _judge_end(world: World, graph: Graph, number: int) -> None:
    """Where nothing goes on by itself the thread is at rest, and what still waits is held."""
    facts, state = world.durable, world.state
    settled = state.phase is Phase.IDLE and facts.execution_id is None and facts.state != "running"
    waits = [row for row in world.stored.rows if not facts.held]
    rerun = world.notes.rerun and not facts.held
    if not settled or waits or world.mail or world.body is not None or rerun:
        error = Stuck("once faults stop every thread comes to rest", (state.phase, facts.state, waits, world.mail))
        error.add_note(f"script {graph.script.name}, state {number}")
        raise error


def _judge_ends_only(graph: Graph) -> None:
    """Without further inputs and faults no way goes on for ever: the steps of progress make no circle."""
    moving = [_is_progress(step) for step in graph.steps]
    waiting = array("q", bytes(8 * (len(graph.first) - 1)))
    for edge, target in enumerate(graph.target):
        if moving[graph.label[edge]]:
            waiting[target] += 1
    ready = [state for state, count in enumerate(waiting) if not count]
    seen = 0
    while ready:
        state = ready.pop()
        seen += 1
        for edge in range(graph.first[state], graph.first[state + 1]):
            if moving[graph.label[edge]]:
                target = graph.target[edge]
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
    if seen != len(waiting):
        raise Stuck("once faults stop every thread comes to rest", f"{len(waiting) - seen} states lie on circles")


def edge_paths(script: Script, graph: Graph | None = None, *, waiting: bool = True) -> list[list[Step]]:
    """Return ways from the start that cover every edge of a script's quotient graph.

    Two edges are one in the quotient when they have the same step and lead from states of the same `shape` to states of
    the same `shape`: phase, batch in flight, hold, termination, what the store refused, body, kinds of waiting rows and
    verbs of waiting mail. The steps of a way are possible one after the other in `World`, and `replay` says where it leads.

    Args:
        script: what may happen.
        graph: of this script, where it is at hand.
        waiting: tell states apart by the mail that waits; without it there are about a tenth as many ways.
    """
    graph = graph or explore(script)
    names: dict[Hashable, int] = {}
    forms = [names.setdefault(form if waiting else form[0], len(names)) for form in graph.forms]
    kinds: dict[tuple[int, int, int], int] = {}
    classes = array("q")
    for source, target, label in zip(graph.source, graph.target, graph.label, strict=True):
        kind = (forms[graph.shapes[source]], label, forms[graph.shapes[target]])
        classes.append(kinds.setdefault(kind, len(kinds)))
    return [graph.steps_of(way) for way in paths_over(graph, classes)]


def replay(script: Script, way: list[Step]) -> World:
    """Return the world at the end of a way, with the log of what was recorded and answered."""
    world = World(script, logged=True)
    for step in way:
        world = world.step(step)
    return world


def paths_over(graph: Graph, classes: array[int]) -> Iterator[list[int]]:
    """Yield ways from the start, as edges, until one edge of every class was on one of them.

    Args:
        graph: where to go.
        classes: for each edge the number of its class; `array("q", range(len(graph.target)))` asks for every edge.
    """
    left = set(classes)
    # The far ones first: what lies on the way to them is covered as well.
    for edge in range(len(classes) - 1, -1, -1):
        if classes[edge] not in left:
            continue
        way = [*graph.way(graph.source[edge]), edge]
        for passed in way:
            left.discard(classes[passed])
        state = graph.target[edge]
        while True:
            further = range(graph.first[state], graph.first[state + 1])
            new = next((one for one in further if classes[one] in left), None)
            if new is None:
                break
            way.append(new)
            left.discard(classes[new])
            state = graph.target[new]
        yield way
