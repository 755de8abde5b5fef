"""Tests agents/tool.py: a function becomes a tool, with what a model is told of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from treadle.agents import Tool, ToolArgumentsInvalid, Variable, tool
from treadle.protocol.errors import InvalidInput


@tool
async def look_up(state: object, order_id: int, deep: bool = False) -> str:
    """Look up an order.

    Args:
        order_id: the number on the receipt.
    """
    return f"{state} {order_id} {deep}"


def test_a_tool_has_its_functions_name_docstring_and_hints() -> None:
    """Contract E.4 tool: a tool is {description, args?, execute(state, args), uses?, variables?}."""
    assert (look_up.name, look_up.description, look_up.runs_on) == ("look_up", "Look up an order.", "loop")
    assert look_up.schema["properties"]["order_id"] == {"type": "integer", "description": "the number on the receipt."}
    assert (look_up.uses, look_up.variables) == ((), ())
    assert repr(look_up) == "<tool 'look_up' on a loop>"


def test_what_is_given_to_the_decorator_wins() -> None:
    region = Variable(name="REGION")

    @tool(name="find", description="Find it.", uses=["look_up"], variables=[region])
    def plain(state: object) -> None:
        """Not this."""

    assert isinstance(plain, Tool)
    assert (plain.name, plain.description, plain.runs_on) == ("find", "Find it.", "worker")
    assert (plain.uses, plain.variables) == (("look_up",), (region,))


def test_arguments_are_validated_into_keywords_of_the_function() -> None:
    """Contract E.4 bad arguments: bad args are an error, not a call."""
    assert look_up.validate('{"order_id": 3}') == {"order_id": 3, "deep": False}
    with pytest.raises(ToolArgumentsInvalid, match=r"\[order_id\] Field required"):
        look_up.validate("{}")


def test_calling_a_tool_calls_its_function() -> None:
    assert asyncio.run(look_up("s", order_id=3)) == "s 3 False"  # type: ignore[arg-type]


def test_a_class_of_the_decorating_function_can_be_a_hint() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def bare(state: object, it: Local) -> None: ...

    @tool(name="named")
    def with_options(state: object, it: Local) -> None: ...

    assert bare.validate({"it": {"x": 1}}) == with_options.validate({"it": {"x": 1}}) == {"it": Local(x=1)}


def test_a_described_field_keeps_its_own_description() -> None:
    from typing import Annotated

    from pydantic import Field

    @tool
    def f(state: object, x: Annotated[int, Field(description="own")]) -> None:
        """Do.

        Args:
            x: of the docstring.
        """

    assert f.schema["properties"]["x"]["description"] == "own"


@pytest.mark.parametrize("options", [{"uses": "look_up"}, {"uses": [3]}, {"variables": ["REGION"]}, {"name": ""}])
def test_options_of_another_form_are_refused(options: dict[str, Any]) -> None:
    def f(state: object) -> None: ...

    with pytest.raises(InvalidInput) as caught:
        tool(**options)(f)

    assert caught.value.code == "invalid_tool"


def test_a_tool_whose_state_was_forgotten_is_refused() -> None:
    def told(number: str) -> str: ...
    def listed(numbers: list[int], state: object) -> str: ...

    unresolved = [told, listed]
    for one in unresolved:
        with pytest.raises(
            InvalidInput, match=r"must take the ThreadState as its first parameter, and 'number"
        ) as caught:
            tool(one)
        assert caught.value.code == "invalid_tool"
        one.__annotations__.update({"number": str, "numbers": list[int]})
        with pytest.raises(InvalidInput, match="asks for data"):
            tool(one)


def test_the_hint_of_a_state_may_be_anything_else_and_is_not_read() -> None:
    def unread(state: NowhereImported, number: str) -> str: ...  # type: ignore[name-defined]  # noqa: F821
    def bare(state, number: str) -> str: ...  # type: ignore[no-untyped-def]

    assert [list(tool(one).schema["properties"]) for one in (unread, bare)] == [["number"], ["number"]]
