"""Serves the runtime of a test, and opens the browser and the desk of the console's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hosting.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.hosting.console_desk import Desk
    from treadle.actors import Runtime


@pytest.fixture
def served(runtime: Runtime) -> Iterator[Served]:
    with Served(runtime) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from tests.hosting.browsing import a_browser

    with a_browser() as browser:
        yield browser


@pytest.fixture
def desk(browser: Browser, tmp_path: Path) -> Iterator[Desk]:
    from tests.hosting.console_desk import Desk

    with Desk(tmp_path / "store") as desk:
        yield desk


@pytest.fixture
def page(browser: Browser, desk: Desk) -> Iterator[Page]:
    from tests.hosting.browsing import watched

    with watched(browser, desk.url) as page:
        yield page
