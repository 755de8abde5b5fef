"""Tests agents/variable.py: what is said of an environment variable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from treadle.agents import Variable


def test_a_variable_is_text_and_optional_by_default() -> None:
    """Contract E.3 variables: variables are {name, type text|secret, required, description, scoped?}."""
    variable = Variable(name="REGION")

    assert variable.model_dump() == {
        "name": "REGION", "type": "text", "required": False, "description": "", "scoped": False,
    }  # fmt: skip
    with pytest.raises(ValidationError):
        Variable.model_validate({"name": "REGION", "type": "number"})
    with pytest.raises(ValidationError):
        Variable(name="")
