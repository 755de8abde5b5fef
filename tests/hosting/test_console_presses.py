"""Holds the console to what a hurried person does: presses twice, looks elsewhere before the answer, sends while it is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.hosting.browsing import executions, messages, running, send, visit, watched
from tests.hosting.console_desk import Desk

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.slow

FORBIDDEN = """for (const kind of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, kind, { get() { throw new DOMException("denied", "SecurityError"); } });
}"""


class Held:
    """Requests of a page that stay on their way until they are let go."""

    def __init__(self, page: Page, *patterns: str) -> None:
        self._page = page
        self._waiting: list[Route] = []
        for pattern in patterns:
            page.route(pattern, lambda route: self._waiting.append(route))

    def wait(self, number: int) -> None:
        """Wait until so many are on their way."""
        while len(self._waiting) < number:
            self._page.wait_for_timeout(10)

    def let_go(self) -> None:
        """Let them go, the last one first."""
        while self._waiting:
            route = self._waiting.pop()
            with self._page.expect_response(route.request.url):
                route.continue_()


def test_what_became_of_a_control_is_told_on_the_thread_that_it_was_made_on(desk: Desk, page: Page) -> None:
    desk.create("other")
    desk.create("t")
    visit(page, "t")
    send(page, "refund it")
    held = Held(page, "**/responses", "**/stop", "**/t/explain")
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Why is it where it is?").click()
    held.wait(3)

    visit(page, "other")
    page.get_by_text("Why is it where it is?").click()
    expect(page.locator("#explain-body")).to_contain_text("nothing, until an input comes")
    held.let_go()

    expect(page.locator("#announcer")).to_contain_text("Stop of t: accepted")
    expect(page.locator("#announcer")).to_contain_text("Answer: ")
    expect(page.locator("#requests > *")).to_have_count(0)
    expect(page.locator("#thread-outcome")).to_be_hidden()
    expect(page.locator("#explain-body")).to_contain_text("nothing, until an input comes")
    visit(page, "t")
    expect(page.locator("#thread-outcome")).to_contain_text("accepted")
    visit(page, "other")
    visit(page, "t")
    expect(page.locator("#thread-outcome")).to_be_hidden()


def test_a_button_that_is_pressed_twice_is_meant_once(desk: Desk, page: Page) -> None:
    running(desk, page)
    stop = Held(page, "**/stop")
    page.get_by_role("button", name="Stop").dblclick()
    stop.wait(1)
    stop.let_go()
    expect(page.locator("#thread-outcome")).to_contain_text("What ran is interrupted")
    expect(page.locator("#transcript .note[data-kind=interrupt] .note-text")).to_have_text("Interrupted by a user")
    held = Held(page, "**/resume", "**/threads")

    page.get_by_role("button", name="Resume").dblclick()

    held.wait(1)
    held.let_go()
    expect(page.locator("#thread-outcome")).to_contain_text("accepted")
    page.get_by_role("button", name="New").click()
    page.get_by_role("button", name="Create").dblclick()
    held.wait(1)
    held.let_go()
    expect(page.locator("#thread-id")).not_to_have_text("t")
    assert len(desk.get("/threads")["threads"]) == 2


def test_an_interruption_pressed_twice_is_one(desk: Desk, page: Page) -> None:
    running(desk, page)
    held = Held(page, "**/inputs")
    page.keyboard.press("i")
    page.keyboard.press("i")
    executions(page).get_by_role("button", name="Interrupt").click()

    held.wait(1)
    held.let_go()

    expect(executions(page).locator(".outcome")).to_contain_text("accepted")
    assert [one["type"] for one in page_events(desk)].count("THREAD_EXECUTION_INTERRUPTED") == 1


def test_an_answer_pressed_twice_is_not_told_that_somebody_else_was_first(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")
    send(page, "refund it")

    page.get_by_role("button", name="Approve").dblclick()

    expect(page.get_by_role("region", name="Asked for approval").locator(".outcome")).to_contain_text("accepted")
    expect(messages(page).last.locator(".text")).to_have_text("The desk says: refunded.")
    expect(page.get_by_text("Somebody else answered first")).to_have_count(0)


def page_events(desk: Desk) -> list[dict[str, object]]:
    from treadle.hosting import Client

    with Client(desk.url) as client:
        return list(client.thread("t").events(follow=False))


def test_no_text_without_an_answer_is_pushed_out_by_later_ones(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")
    desk.kill()
    expect(page.locator("#link")).to_contain_text("Server away")
    texts = [f"text {number}" for number in range(6)]
    for text in texts:
        expect(send(page, text, verb="Queue").locator(".code")).to_have_text("no answer yet")

    expect(page.locator("#receipts q")).to_have_text(texts)
    desk.start()
    expect(page.locator("#receipts .code")).to_have_text(["queued"] * 6)
    send(page, "one more", verb="Queue")
    expect(page.locator("#receipts li")).to_have_count(4)


def test_what_was_lost_in_a_crash_is_shown_in_the_transcript_after_a_reload_too(desk: Desk, page: Page) -> None:
    running(desk, page)
    desk.kill()
    desk.start()
    expect(page.locator("#transcript .end b")).to_have_text("Interrupted")

    page.reload()

    expect(executions(page).locator(".execution-status")).to_have_text("Interrupted")
    expect(page.locator("#transcript .end b")).to_have_text("Interrupted")


def test_a_token_that_no_request_can_carry_is_refused_where_it_was_typed(browser: Browser, tmp_path: Path) -> None:
    with Desk(tmp_path / "store", {"for-all": ""}) as desk, watched(browser, desk.url) as page:
        page.goto("/")
        dialog = page.get_by_role("dialog", name="Access token")
        dialog.get_by_label("Token").fill("ключ")
        page.keyboard.press("Enter")

        expect(dialog.get_by_role("alert")).to_have_text("The server does not know this token.")
        expect(page.get_by_text("No threads yet.")).to_be_hidden()
        dialog.get_by_label("Token").fill("for-all")
        page.keyboard.press("Enter")
        expect(page.locator("#link")).to_have_text("Live")
        expect(page.get_by_text("No threads yet.")).to_be_visible()


def test_a_browser_that_may_store_nothing_shows_the_page_as_well(browser: Browser, tmp_path: Path) -> None:
    with Desk(tmp_path / "store", {"for-all": ""}) as desk, watched(browser, desk.url) as page:
        desk.create("t")
        page.add_init_script(FORBIDDEN)
        page.goto("/#/threads/t")
        page.get_by_role("textbox", name="Token").fill("for-all")
        page.keyboard.press("Enter")
        expect(page.locator("#link")).to_have_text("Live")

        send(page, "hello")

        expect(messages(page).last.locator(".text")).to_have_text("You said: hello")
        page.get_by_role("button", name="Colours: as the system").click()
        expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
