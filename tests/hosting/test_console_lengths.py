"""Holds the console to much of everything: many threads, long texts, scripts of either direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.hosting.browsing import messages, send, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.hosting.console_desk import Desk

pytestmark = pytest.mark.slow

# Of each line of a text: how far from the left edge of its box it begins, and how far from the right one it ends.
INDENTS = """(element) => {
  const box = element.getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(element.firstElementChild);
  const lines = Object.groupBy([...range.getClientRects()].filter((one) => one.width), (one) => Math.round(one.top / 8));
  return Object.values(lines).map((parts) => [
    Math.round(Math.min(...parts.map((one) => one.left)) - box.left), Math.round(box.right - Math.max(...parts.map((one) => one.right)))]);
}"""


def test_the_filter_looks_beyond_the_threads_that_are_shown(desk: Desk, page: Page) -> None:
    for number in range(130):
        desk.create(f"thread-{number:03}")
    page.goto("/")
    rows = page.locator("#thread-list a .name")
    expect(rows).to_have_count(60)
    expect(rows.first).to_have_text("thread-129")

    page.get_by_label("Filter threads").fill("003")

    expect(rows).to_have_text(["thread-003"])
    expect(page.get_by_role("button", name="Show more threads")).to_be_hidden()
    page.get_by_label("Filter threads").fill("nowhere")
    expect(page.get_by_text("No thread fits the filter.")).to_be_visible()
    page.get_by_label("Filter threads").fill("")
    expect(rows).to_have_count(60)
    page.get_by_role("button", name="Show more threads").click()
    expect(rows).to_have_count(120)
    page.get_by_role("button", name="Show more threads").click()
    expect(rows).to_have_count(130)
    expect(page.get_by_role("button", name="Show more threads")).to_be_hidden()


def test_all_that_waits_and_all_of_history_is_shown_by_pages_also_where_the_newest_page_only_waits(
    desk: Desk, page: Page
) -> None:
    desk.create("t")
    said = desk.say("t", [f"said {number}" for number in range(120)])
    desk.client.post("/threads/t/stop").raise_for_status()  # so that what is queued waits
    # What the stopped one still says belongs to the history that is compared.
    desk.get(f"/threads/t/executions/{said['active_execution']['execution_id']}?wait=60")
    for first in (0, 125):
        texts = [f"queued {number}" for number in range(first, first + 125)]
        desk.client.post("/threads/t/messages", json={"content": texts}).raise_for_status()
    history = [one["content"] for one in desk.get("/threads/t/messages?limit=1000&order=asc")["messages"]]
    assert history[0] == "said 0" and history[-1] == "queued 249"
    visit(page, "t")
    earlier = page.locator("#older")
    expect(messages(page)).to_have_count(100)

    for shown in (200, 300, len(history)):
        earlier.click()
        expect(messages(page)).to_have_count(shown)

    expect(earlier).to_be_hidden()
    assert page.locator("#transcript .message .text").all_inner_texts() == history


def test_a_long_text_grows_in_blocks_and_reads_as_what_is_stored(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")

    send(page, "at length")

    draft = page.locator("[data-draft] .text")
    expect(draft).to_contain_text("line 399 of")
    grown = draft.text_content()
    blocks = draft.locator("[data-words=text] > span").evaluate_all("(all) => all.map((one) => one.textContent.length)")
    assert len(blocks) > 5
    assert max(blocks) < 5_000
    before = draft.bounding_box()
    desk.open_gate()
    expect(page.locator("[data-draft]")).to_have_count(0)
    stored = messages(page).last.locator(".text")
    assert f"{grown}and its end." == stored.text_content()
    # No line more or less than while it grew, but for the last.
    after = stored.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["height"] - before["height"]) < 25


def test_each_paragraph_runs_in_the_direction_of_its_letters(desk: Desk, page: Page) -> None:
    desk.create("t")
    desk.client.post("/threads/t/messages", json={"content": "שלום עולם, 123!\nand English"}).raise_for_status()
    visit(page, "t")

    text = messages(page).first.locator(".text")

    expect(text).to_contain_text("and English")
    hebrew, english = text.evaluate(INDENTS)
    assert hebrew[1] == 0 < hebrew[0]
    assert english[0] == 0 < english[1]
    field = page.locator("#composer-text")
    field.fill("שלום")
    assert field.evaluate("(one) => getComputedStyle(one).unicodeBidi") == "plaintext"


def test_an_input_of_more_messages_than_a_page_is_shown_in_its_order_to_its_beginning(desk: Desk, page: Page) -> None:
    desk.create("t")
    texts = [f"word {number}" for number in range(150)]
    body = {"type": "USER_MESSAGES_INPUT", "messages": texts}
    desk.client.post("/threads/t/inputs", json=body).raise_for_status()
    visit(page, "t")
    expect(page.locator("#status")).to_contain_text("Idle")
    shown = messages(page).locator(".text")
    expect(shown.last).to_have_text("You said: word 149")
    page.reload()
    expect(page.locator("#link")).to_have_text("Live")
    expect(shown).to_have_count(100)
    expect(shown.first).to_have_text("word 51")

    page.get_by_role("button", name="Show earlier messages").click()

    expect(shown).to_have_text([*texts, "You said: word 149"])
    expect(page.get_by_role("button", name="Show earlier messages")).to_be_hidden()


def test_a_page_that_stays_open_keeps_the_latest_and_fetches_the_rest_when_asked(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")
    for number in range(6):
        texts = [f"word {number} {rank}" for rank in range(250)]
        desk.say("t", texts)
        expect(messages(page).last.locator(".text")).to_have_text(f"You said: word {number} 249")

    shown = messages(page).locator(".text")
    assert shown.count() <= 1_200
    first = shown.first.text_content()
    assert first is not None
    assert first != "word 0 0"
    page.get_by_role("button", name="Show earlier messages").click()
    expect(shown.first).not_to_have_text(first)
    number, rank = map(int, first.removeprefix("word ").split())
    place = number * 251 + rank - 100
    expect(shown.first).to_have_text(f"word {place // 251} {place % 251}")
    visit(page, "t")
    expect(shown.last).to_have_text("You said: word 5 249")
