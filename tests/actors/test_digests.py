"""Tests actors/digests.py: which calls under one id are the same call (semantics 4)."""

from __future__ import annotations

import pytest

from treadle.actors.digests import control_digest, input_digest

DRAFT = {"id": "m1", "role": "user", "content": "hello", "metadata": {"a": 1, "b": [2]}}


def digest(
    draft: dict[str, object] = DRAFT, verb: str = "submit", target: str | None = None, on_busy: str = "reject"
) -> bytes:
    return input_digest(verb, target, [draft], on_busy, hold=False)


def test_message_ids_and_the_order_of_a_dict_are_no_content() -> None:
    again = {"metadata": {"b": [2], "a": 1}, "content": "hello", "role": "user", "id": "m2"}

    assert digest(again) == digest()
    assert len(digest()) == 32


@pytest.mark.parametrize(
    "other",
    [
        digest({**DRAFT, "content": "hello "}),
        digest({**DRAFT, "content": "hell\u00f6"}),
        digest({**DRAFT, "role": "assistant"}),
        digest({**DRAFT, "silent": True}),
        digest({**DRAFT, "metadata": {"a": 1, "b": ["2"]}}),
        digest({**DRAFT, "metadata": {"a": True, "b": [2]}}),
        digest(verb="queue"),
        digest(target="e1"),
        digest(on_busy="queue"),
        input_digest("submit", None, [DRAFT], "reject", hold=True),
        input_digest("submit", None, [DRAFT, DRAFT], "reject", hold=False),
        control_digest("submit", "e1", hold=False),
    ],
)
def test_whatever_else_differs_makes_another_call(other: bytes) -> None:
    assert other != digest()


def test_a_control_is_its_verb_its_target_and_its_hold() -> None:
    one = control_digest("interrupt", "e1", hold=False)

    assert one == control_digest("interrupt", "e1", hold=False)
    assert len({one, control_digest("interrupt", "e2", hold=False), control_digest("interrupt", "e1", hold=True)}) == 3


def test_text_cannot_pass_for_structure() -> None:
    assert digest({**DRAFT, "content": 'a","role":"user'}) != digest({**DRAFT, "content": "a"})
    assert input_digest("queue", "e", [], "", hold=False) != input_digest('queue","e', None, [], "", hold=False)
