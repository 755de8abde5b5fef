"""Tests agents/spellings.py: how a secret may be written, and that this stays bounded."""

from __future__ import annotations

import json

from treadle.agents.spellings import spellings


def test_what_every_writer_leaves_as_it_is_has_one_spelling() -> None:
    assert spellings("abc-DEF_0.9~") == ("abc-DEF_0.9~",)


def test_a_value_comes_first_and_each_spelling_once() -> None:
    found = spellings('a"b/ü\n')

    assert found[0] == 'a"b/ü\n'
    assert len(found) == len(set(found))
    assert {json.dumps('a"b/ü\n')[1:-1], "a%22b/%C3%BC%0A", "a&quot;b/ü\n"} <= set(found)


def test_the_worst_value_has_few_hundred_spellings() -> None:
    assert len(spellings("".join(map(chr, range(1, 256))) + "🔑")) < 500


def test_a_value_with_half_a_character_is_no_error() -> None:
    assert json.dumps("a/\ud800")[1:-1] in spellings("a/\ud800")
