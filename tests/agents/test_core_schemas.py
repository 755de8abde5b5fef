"""The way through a schema of pydantic's core: whatever a user calls a field, what it holds is found."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field

from treadle.agents import ThreadState, tool
from treadle.agents.core_schemas import schemas_in
from treadle.protocol.errors import InvalidInput

WORDS = ["metadata", "serialization", "cls", "function", "config", "default", "type", "fields", "choices", "schema"]


@pytest.mark.parametrize("word", WORDS)
def test_a_field_may_be_named_like_a_word_of_schemas(word: str) -> None:
    schema = {"type": "model-fields", "fields": {word: {"type": "int", "ge": 7}}}
    assert [one["ge"] for one in schemas_in(schema) if one.get("type") == "int"] == [7]


def test_a_pattern_for_pythons_own_engine_is_found_under_any_name() -> None:
    class Given(BaseModel):
        model_config = ConfigDict(regex_engine="python-re")

        default: Annotated[str, Field(pattern="(a+)+$")]

    async def take(state: ThreadState, given: Given) -> None: ...

    with pytest.raises(InvalidInput, match="cannot be used"):
        tool(take)
