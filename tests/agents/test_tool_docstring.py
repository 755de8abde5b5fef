"""Tests agents/tool_docstring.py: what a docstring tells a model."""

from __future__ import annotations

import inspect

from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.tool_docstring import read_docstring


def test_the_text_before_the_first_section_is_the_description_and_args_describe_parameters() -> None:
    doc = """Look up an order.

    Ask only for orders of this user: others are not found.

    Args:
        order_id: the number on the receipt,
            without its prefix.
        deep (bool): look into the archive too.
        **more: anything else.

    Returns:
        order: a dict.
    """

    said, parameters = read_docstring(inspect.cleandoc(doc))

    assert said == "Look up an order.\n\nAsk only for orders of this user: others are not found."
    assert parameters == {
        "order_id": "the number on the receipt, without its prefix.",
        "deep": "look into the archive too.",
        "more": "anything else.",
    }


def test_no_docstring_says_nothing() -> None:
    assert read_docstring(None) == ("", {})
    assert read_docstring("Args:\n    nothing here") == ("", {})


@given(st.text())
def test_any_text_can_be_read(doc: str) -> None:
    read_docstring(doc)
