"""docs/contract.md says what the tests hold: every row has its test or says why not, and no test names a row that is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    place = Path(__file__).parent.parent / "docs" / "make_contract.py"
    spec = importlib.util.spec_from_file_location("make_contract", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_row_has_a_test_or_says_why_not_and_each_test_names_rows_that_there_are(maker: ModuleType) -> None:
    assert "\n".join(maker.problems()) == ""


def test_the_page_is_fresh(maker: ModuleType) -> None:
    assert maker.PAGE.read_text() == maker.page(), "run `python docs/make_contract.py`"
