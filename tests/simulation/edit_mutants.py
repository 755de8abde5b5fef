"""Owns the mutants of edits of messages: their rules, and what the shell and the tables keep for them."""

from __future__ import annotations

import copy
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from treadle.actors import message_edits as mail
from treadle.actors.building import Building
from treadle.actors.message_history import MessageHistory
from treadle.actors.testing import Puppet, Stage
from treadle.protocol import facts, message_edits
from treadle.protocol.decision import Decision, State
from treadle.protocol.events import MessageDeleted
from treadle.protocol.triggers import Kind
from treadle.storage import encoding
from treadle.storage.check import check_tables

from .mutant import Mutant, attributes, explored, rules, tested
from .script import Script

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EDITED"]

_OWN = Script(
    "own", {"submit": 1, "queue": 1, "delete": 2, "interrupt": 1, "grace": 1}, asks=("edit",), tracked=frozenset({"queue1"})
)  # fmt: skip
_STEERED = Script(
    "steered", {"submit": 1, "steer": 1, "delete": 1, "refuse": 1}, tracked=frozenset({"steer1"}), eager=True
)
_PURE = "protocol.test_message_edits"
_delete = message_edits.delete


def _attribute(owner: Any, name: str, value: Any) -> Any:
    return lambda: attributes((owner, name, value))


def _deleting(rule: Callable[[State, Any], Decision]) -> Any:
    """Make a patch that has messages deleted by another rule while a body runs."""
    return lambda: rules(Kind.DELETE_MESSAGE, running=rule)


def _never_alone(state: State, trigger: Any) -> Decision:
    found = trigger.found
    if found is not None and found.row is not None:
        trigger.found = found._replace(row=found.row._replace(messages=2))
    return _delete(state, trigger)


def _unmade(state: State, trigger: Any) -> Decision:
    made = copy.copy(_delete(state, trigger))
    made.events = []
    return made


def _open_ended(state: State, trigger: Any) -> Decision:
    made = copy.copy(_delete(state, trigger))
    made.closes = False
    return made


def _unknown_is_gone(state: State, trigger: Any) -> Decision:
    made = copy.copy(_delete(state, trigger))
    made.reply = True if made.reply is False else made.reply
    return made


def _nothing(*_given: Any) -> None:
    """Do nothing."""


def _replaced(draft: Any, patch: Any) -> None:
    draft["metadata"] = patch


def _staged(name: str) -> Callable[[], None]:
    """Return the killer that runs one test of edits through a runtime, and looks at the tables it leaves."""

    def killer() -> None:
        test = getattr(importlib.import_module("tests.actors.test_message_edits"), name)
        puppet = Puppet()
        with Stage(puppet) as on:
            given = {"on": on, "thread": on.thread(thread_id="t"), "puppet": puppet}
            try:
                test(**{wanted: given[wanted] for wanted in inspect.signature(test).parameters})
                broken = check_tables(on.store).broken
            except Exception as error:
                raise AssertionError(f"{name}: {error!r}") from error
            assert not broken, f"{name}: {broken}"

    return killer


def _mutant(name: str, patch: Any, test: str, *arguments: object) -> Mutant:
    return Mutant(name, patch, tested(_PURE, test, *arguments), test)


def _shell(name: str, patch: Any, test: str) -> Mutant:
    return Mutant(name, patch, _staged(test), test)


EDITED = [
    Mutant(
        "a late body may edit", _attribute(message_edits, "_is_late", lambda state, trigger: False), explored(_OWN),
        "an edit finds what is there",
    ),
    Mutant(
        "a row stays when its last message is deleted", _deleting(_never_alone), explored(_OWN),
        "an input goes with its last message",
    ),
    Mutant("a deletion is answered and not made", _deleting(_unmade), explored(_OWN), "an edit is recorded if and only if"),
    Mutant(
        "deleting what is not there says that it was", _deleting(_unknown_is_gone), explored(_OWN), "an edit finds what is there"
    ),
    Mutant(
        "a body ends on the deletion of a steer that is not durable", _deleting(_open_ended), explored(_STEERED),
        "an accepted steer begins a further pass",
    ),
    Mutant(
        "deleted messages are still counted", _attribute(facts, "_FOLDS", {**facts._FOLDS, MessageDeleted: _nothing}),
        explored(_OWN), "the thread record counts what the tables hold",
    ),
    _mutant(
        "a message is deleted while a call of it is open", _attribute(message_edits, "_refuse_call", _nothing),
        "test_a_message_with_calls_goes_with_their_results_and_not_before_it_has_all",
    ),
    _mutant(
        "new metadata takes the place of the old", _attribute(message_edits, "_merge", _replaced),
        "test_metadata_is_merged_key_by_key_and_none_deletes", {"a": 1}, {"b": 2}, {"a": 1, "b": 2},
    ),
    _mutant(
        "values that are equal in Python are the same", _attribute(message_edits, "_same", lambda one, other: one == other),
        "test_metadata_is_merged_key_by_key_and_none_deletes", {"a": 1}, {"a": True}, {"a": True},
    ),
    _mutant(
        "a repeated update is written again", _attribute(message_edits, "_same", lambda one, other: False),
        "test_an_update_that_changes_nothing_writes_nothing_and_shows_the_message", {"id": "i", "role": "user", "content": "i"},
        {"content": "i"},
    ),
    _mutant(
        "a row outgrows its input", _attribute(message_edits, "_outgrows", _nothing),
        "test_a_row_does_not_outgrow_an_input_nor_steers_a_batch",
    ),
    _shell(
        "an edit does not see its own batch", _attribute(Building, "changes", lambda building: {}),
        "test_mail_that_waited_is_edited_in_the_batch_that_it_enters",
    ),
    _shell(
        "what joins in the batch of its edit is not edited", _attribute(Building, "edited", property(
            lambda building: False, _nothing)), "test_a_boundary_and_a_deletion_in_one_breath_keep_their_order",
    ),
    _shell(
        "gaps are counted from nothing", _attribute(mail, "_count_gaps", _nothing),
        "test_history_as_a_body_reads_it_is_edited_at_once",
    ),
    _shell(
        "gaps are not counted", _attribute(encoding, "gap_keys", lambda number, position: []),
        "test_history_as_a_body_reads_it_is_edited_at_once",
    ),
    _shell(
        "a body keeps the tail of a history that was edited",
        _attribute(facts, "_FOLDS", {**facts._FOLDS, message_edits.MessageUpdated: _nothing}),
        "test_history_as_a_body_reads_it_is_edited_at_once",
    ),
    _shell(
        "going through history is by place", _attribute(MessageHistory, "__iter__", lambda history: (
            history[place] for place in range(len(history)) if place < len(history))),
        "test_going_through_history_gives_each_message_that_stays_once",
    ),
]  # fmt: skip
