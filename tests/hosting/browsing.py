"""Owns the browser of the console's tests: Debian's chromium, headless, and pages that hold it to what it promises.

Every page notes what it asks for and what goes wrong in it; `watched` fails a test whose page asked another host for
anything, broke its own policy, or had an error of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from tests.hosting.console_desk import Desk

# The machine may be busy; nothing waits that long where it is not.
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)

CHROMIUM = os.environ.get("TREADLE_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
NO_BROWSER = (
    f"no browser at {CHROMIUM}: the console was not tested; apt-get install chromium, or name one in TREADLE_CHROMIUM"
)
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",  # in a container it has 64 MiB, and a page that needs more dies
]


@contextlib.contextmanager
def a_browser() -> Iterator[Browser]:
    """Start the browser; a machine without one skips the test, and says so."""
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS, headless=True)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def watched(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """Open a page in a profile of its own."""
    context = browser.new_context(base_url=url, **{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda found: asked.append(found.url))
    page.on("pageerror", lambda error: wrong.append(f"{error.name}: {error.message}\n{error.stack}"))
    page.on("console", lambda said: wrong.append(said.text) if _is_ours(said.type, said.text) else None)
    try:
        yield page
        assert {urlsplit(one).netloc for one in asked} == {urlsplit(url).netloc}
        assert wrong == []
    finally:
        context.close()


def _is_ours(kind: str, text: str) -> bool:
    """Say whether the browser complains of the page, and not of a server that was killed or refused on purpose."""
    return kind in ("error", "warning") and "Failed to load resource" not in text and "WebSocket connection" not in text


def visit(page: Page, thread_id: str) -> None:
    """Open a thread, and wait until the page follows it."""
    page.goto(f"/#/threads/{thread_id}")
    expect(page.locator("#thread-id")).to_have_text(thread_id)
    expect(page.locator("#link")).to_have_text("Live")


def send(page: Page, text: str, verb: str | None = None) -> Locator:
    """Type a text and send it; return the line that says what became of it."""
    if verb is not None:
        page.locator("#verbs").get_by_text(verb, exact=True).click()
    page.get_by_label("Message", exact=True).fill(text)
    page.locator("#send").click()
    return page.locator("#receipts li").filter(has_text=text).last


def messages(page: Page) -> Locator:
    return page.locator("#transcript .message")


def executions(page: Page) -> Locator:
    return page.locator("#executions > li")


def running(desk: Desk, page: Page, thread_id: str = "t") -> str:
    """Have a thread say something slowly, watched by a page; return the id of the execution."""
    desk.create(thread_id)
    execution = desk.say(thread_id, "slowly")["execution_id"]
    visit(page, thread_id)
    expect(executions(page).locator(".execution-status")).to_have_text("Running")
    return str(execution)
