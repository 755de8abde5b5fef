"""Owns the mutants of the shell: the order around the rules broken on purpose, each with the promise that it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.actors import shell_promises as promises
from treadle.actors.acting import Acting
from treadle.actors.building import Building, Lookups
from treadle.actors.execution import Execution
from treadle.actors.thread import ThreadActor
from treadle.protocol.decision import Action, Verdict
from treadle.protocol.decision import Batch as About
from treadle.protocol.events import MessagesJoined
from treadle.protocol.triggers import Prior
from treadle.storage import environment, lmdb_engine, memory_store
from treadle.storage.encoding import Encoding
from treadle.storage.tables import Table

from .mutant import Mutant, attributes

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["SHELL"]

_hand_over, _committed, _not_written = ThreadActor._hand_over, ThreadActor._committed, ThreadActor._not_written
_publish, _reply, _prior, _seal = Acting.publish, Acting.reply, Lookups.prior, Building.seal
_standing = Lookups.standing
_judge, _map, _add = memory_store.judge, environment._map, Encoding.add


def _quietly(_self: Any, *_given: Any) -> None:
    """Do nothing: it was done before its time."""


def _at_hand_over(early: Callable[[ThreadActor, Building], None], *after: tuple[Any, str, Any]) -> Any:
    """Make a patch that does something when a batch is handed over, instead of after its commit."""

    def handed_over(actor: ThreadActor, building: Building) -> None:
        _hand_over(actor, building)
        early(actor, building)

    return lambda: attributes((ThreadActor, "_hand_over", handed_over), *after)


def _say(actor: ThreadActor, building: Building) -> None:
    for mail, decided in building.decided:
        _reply(actor.acting, mail, decided, building)


def _show(actor: ThreadActor, building: Building) -> None:
    _publish(actor.acting, building, 0)
    actor.services.hub.flush(actor.entry)


def _call(actor: ThreadActor, building: Building) -> None:
    for _, decided in building.decided:
        for do in decided.actions:
            if do.action is Action.DISPATCH:
                actor.acting.do(do, decided, building)


def _tell(actor: ThreadActor, building: Building) -> None:
    for _, decided in building.decided:
        for do in decided.actions:
            if do.action is Action.TELL:
                actor.acting.do(do, decided, building)


def _answer(actor: ThreadActor, building: Building) -> None:
    for _, decided in building.decided:
        for do in decided.actions:
            if do.action is Action.ANSWER:
                actor.acting.do(do, decided, building)


def _answers_of_the_store_alone() -> AbstractContextManager[None]:
    def standing(lookups: Lookups, request_id: str) -> Any:
        building, lookups._building = lookups._building, None
        try:
            return _standing(lookups, request_id)
        finally:
            lookups._building = building

    return attributes((Lookups, "standing", standing))


def _publish_before_fold() -> AbstractContextManager[None]:
    def committed(actor: ThreadActor, building: Building, answer: Any) -> None:
        _publish(actor.acting, building, answer.change)
        with attributes((Acting, "publish", _quietly)):
            _committed(actor, building, answer)

    return attributes((ThreadActor, "_committed", committed))


def _reply_before_publish() -> AbstractContextManager[None]:
    def publish(acting: Acting, building: Building, change: int) -> None:
        for mail, decided in building.decided:
            _reply(acting, mail, decided, building)
        acting.resolve(building)
        _publish(acting, building, change)

    return attributes((Acting, "publish", publish))


def _answer_before_tell() -> AbstractContextManager[None]:
    def publish(acting: Acting, building: Building, change: int) -> None:
        _publish(acting, building, change)
        for mail, decided in building.decided:
            _reply(acting, mail, decided, building)

    return attributes((Acting, "publish", publish))


def _no_incarnation_check() -> AbstractContextManager[None]:
    def judge(batch: Any, row: bytes | None, key: bytes, _barriers: Any) -> int:
        boot, life = batch.boot, batch.life
        batch.boot = batch.life = (1 << 32) - 1
        try:
            return _judge(batch, row, key, {})
        finally:
            batch.boot, batch.life = boot, life

    return attributes((memory_store, "judge", judge), (lmdb_engine, "judge", judge))


def _no_gate() -> AbstractContextManager[None]:
    def begin(execution: Execution, kind: str) -> None:
        """Whatever the abort signal says."""

    return attributes((Execution, "begin", begin))


def _old_batch_again() -> AbstractContextManager[None]:
    first: list[tuple[Any, ...]] = []
    kept = ("generation", "sequence", "head_generation", "head_sequence", "record", "ops", "change")

    def seal(building: Building, *given: Any) -> None:
        _seal(building, *given)
        if building.about is About.FINISH and not first:
            first.append(tuple(getattr(building, name) for name in kept))
        elif building.about is About.FINISH and first[0]:
            for name, value in zip(kept, first[0], strict=True):
                setattr(building, name, value)
            first[0] = ()

    return attributes((Building, "seal", seal))


def _refusals_recorded() -> AbstractContextManager[None]:
    recorded: dict[str, Prior] = {}

    def reply(acting: Acting, mail: Any, decision: Any, building: Building | None = None) -> None:
        given = getattr(mail.body, "input_id", None)
        if decision.verdict is Verdict.REFUSE and given is not None and mail.body.digest is not None:
            recorded[given] = Prior(mail.body.digest, decision.reply)
        _reply(acting, mail, decision, building)

    def prior(lookups: Lookups, given: str) -> Prior | None:
        return recorded.get(given) or _prior(lookups, given)

    return attributes((Acting, "reply", reply), (Lookups, "prior", prior))


def _no_wake_at_open() -> AbstractContextManager[None]:
    return attributes((ThreadActor, "wake", _quietly))


def _rows_stay() -> AbstractContextManager[None]:
    def add(building: Encoding, event: Any, at: int) -> None:
        before = len(building.ops)
        _add(building, event, at)
        if isinstance(event, MessagesJoined):
            gone = (int(Table.INBOX), None)
            building.ops[before:] = [op for op in building.ops[before:] if (op[0], op[2]) != gone]

    return attributes((Encoding, "add", add))


def _refused_facts_stay() -> AbstractContextManager[None]:
    def not_written(actor: ThreadActor, building: Building, error: Any) -> None:
        facts = actor.state.facts
        _not_written(actor, building, error)
        actor.state.facts = facts

    return attributes((ThreadActor, "_not_written", not_written))


def _sync_off() -> AbstractContextManager[None]:
    def unsynced(*given: Any, sync: bool, **options: Any) -> Any:
        return _map(*given, sync=False, **options)

    return attributes((environment, "_map", unsynced))


SHELL: list[Mutant] = [
    Mutant("shell: reply before commit", _at_hand_over(_say), promises.a_reply_follows_its_commit, "a reply came before its commit"),
    Mutant("shell: publish before commit", _at_hand_over(_show), promises.nothing_is_shown_before_its_commit, "before its commit"),
    Mutant("shell: publish before fold", _publish_before_fold, promises.what_is_shown_is_folded, "shown before it was folded"),
    Mutant("shell: reply before publish", _reply_before_publish, promises.who_is_answered_finds_it_shown, "an answer came before"),
    Mutant("shell: dispatch before commit", _at_hand_over(_call), promises.the_body_is_called_after_its_start, "was called before"),
    Mutant("shell: tell before commit", _at_hand_over(_tell), promises.the_body_is_told_in_its_turn, "told before the record"),
    Mutant("shell: answer before tell", _answer_before_tell, promises.the_body_is_told_in_its_turn, "before the body was told"),
    Mutant("shell: body answered before commit", _at_hand_over(_answer), promises.the_body_is_answered_in_turn, "before it was durable"),
    Mutant("shell: accepted before the body knows", _answer_before_tell, promises.the_body_is_answered_in_turn, "before the body had"),
    Mutant("shell: requests of the batch not seen", _answers_of_the_store_alone, promises.a_request_is_answered_once, "were accepted"),
    Mutant("shell: no incarnation check", _no_incarnation_check, promises.an_older_life_writes_nothing, "an incarnation that was replaced"),
    Mutant("shell: no gate", _no_gate, promises.nothing_begins_after_an_accepted_interrupt, "something began after"),
    Mutant("shell: retry reuses the old batch", _old_batch_again, promises.a_refused_finish_is_built_anew, "did not fit any more"),
    Mutant("shell: refusal recorded", _refusals_recorded, promises.a_refusal_is_not_remembered, "a refusal was remembered"),
    Mutant("shell: wake dropped at open", _no_wake_at_open, promises.what_waited_starts_at_the_next_open, "did not start"),
    Mutant("shell: joined rows not removed", _rows_stay, promises.what_joined_never_joins_again, "joined again"),
    Mutant("shell: refused facts kept", _refused_facts_stay, promises.what_was_refused_is_taken_back, "were kept"),
    Mutant("shell: sync off", _sync_off, promises.a_commit_is_synced, "before it is synced"),
]  # fmt: skip
