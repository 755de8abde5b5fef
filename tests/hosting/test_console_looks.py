"""Holds how the console can be used: by keyboard alone, in the dark, on a narrow screen, by who hears it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.hosting.browsing import executions, messages, running, send, visit, watched
from tests.hosting.console_desk import Desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 780}

# Text on the ground that it really stands on, by WCAG 2: relative luminance of both, larger over smaller.
CONTRASTS = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
  const over = (top, below) => top.slice(0, 3).map((one, place) => one * top[3] / 255 + below[place] * (1 - top[3] / 255));
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const said = [...element.childNodes].filter((one) => one.nodeType === 3 && one.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!said.length || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || box.width < 2) continue;
    if (element.closest(":disabled, .visually-hidden, .skip")) continue;
    const below = ground(element);
    const [one, other] = [light(over(rgba(getComputedStyle(element).color), below)), light(below)].sort((a, b) => b - a);
    found.push([Math.round((one + 0.05) / (other + 0.05) * 100) / 100, element.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""

# What can be worked and has no name, or is labelled by nothing.
NAMELESS = """() => [...document.querySelectorAll("button, input, textarea, a[href], summary, dialog, [role=log], nav, aside")]
  .filter((one) => one.checkVisibility() || one.matches("dialog"))
  .filter((one) => !(one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.labels?.length || one.textContent.trim()))
  .map((one) => one.outerHTML)"""

# What stands beyond the edge of its pane, or of the window; what may be scrolled sideways is not.
BEYOND = """() => [...document.querySelectorAll(".pane *, .bar *")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".visually-hidden, svg"))
  .filter((one) => ![...(function* up() { for (let p = one.parentElement; p; p = p.parentElement) yield p; })()]
    .some((up) => !up.matches(".pane, body, html") && getComputedStyle(up).overflowX !== "visible" && up.scrollWidth > up.clientWidth))
  .filter((one) => {
    const box = one.getBoundingClientRect();
    const room = one.closest(".pane, .bar").getBoundingClientRect();
    return box.width > 1 && (box.right > Math.min(room.right, innerWidth) + 1 || box.left < room.left - 1);
  })
  .concat([...document.querySelectorAll(".segments")].filter((one) => one.scrollWidth > one.clientWidth))
  .map((one) => one.outerHTML.slice(0, 200))"""


def everything(desk: Desk, page: Page) -> None:
    """Show one of each: what ended well, badly and by force, what waits, what asks, and what became of controls."""
    desk.create("other")
    desk.create("t")
    visit(page, "t")
    send(page, "look up 1002")
    expect(executions(page).first.locator(".execution-status")).to_have_text("Succeeded")
    send(page, "crash")
    expect(executions(page).first.locator(".execution-status")).to_have_text("Failed")
    send(page, "slowly")
    executions(page).first.get_by_role("button", name="Interrupt").click()
    expect(executions(page).first.locator(".execution-status")).to_have_text("Cancelled")
    send(page, "refund it", verb="Send")
    expect(page.get_by_role("region", name="Asks for approval")).to_be_visible()
    send(page, "hurry up", verb="Steer")
    expect(page.locator("#transcript [data-status=pending]")).to_have_count(1)


def test_everything_is_done_by_keyboard_alone(desk: Desk, page: Page) -> None:
    desk.create("other")
    page.goto("/")
    expect(page.locator("#thread-list a")).to_have_count(1)
    keys = page.keyboard

    keys.press("n")
    expect(page.get_by_label("Agent", exact=True)).to_have_value("clerk")
    keys.press("Tab")
    keys.type("mine")
    keys.press("Enter")
    expect(page.locator("#composer-text")).to_be_focused()
    expect(page.locator("#link")).to_have_text("Live")
    keys.type("slowly")
    keys.press("Enter")
    expect(page.locator("[data-draft]")).to_have_count(1)
    keys.press("Alt+3")
    keys.type("and")
    keys.press("Shift+Enter")
    keys.type("this")
    keys.press("Enter")
    expect(page.locator("#transcript [data-status=pending] .text")).to_have_text("and\nthis")
    keys.press("Escape")
    keys.press("s")
    expect(executions(page).first.locator(".execution-status")).to_have_text("Cancelled")
    expect(page.locator("#held")).to_be_visible()
    keys.press("r")
    expect(messages(page).last.locator(".text")).to_have_text("You said: and\nthis")
    keys.press("c")
    keys.press("Alt+1")
    keys.type("refund it")
    keys.press("Enter")
    expect(page.get_by_role("region", name="Asks for approval")).to_be_visible()
    keys.press("Escape")
    keys.press("a")
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    keys.press("Enter")
    expect(messages(page).last.locator(".text")).to_have_text("The desk says: refunded.")
    keys.press("j")
    expect(page.locator("#thread-id")).to_have_text("other")
    keys.press("k")
    expect(page.locator("#thread-id")).to_have_text("mine")
    keys.press("/")
    keys.type("oth")
    expect(page.locator("#thread-list a .name")).to_have_text(["other"])
    keys.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_an_execution_is_interrupted_by_a_key_and_letters_can_be_switched_off(desk: Desk, page: Page) -> None:
    running(desk, page)
    page.keyboard.press("?")
    page.get_by_label("Shortcuts of one letter").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("i")
    page.keyboard.press("j")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("Shortcuts of one letter").check()
    page.keyboard.press("Escape")
    expect(executions(page).locator(".execution-status")).to_have_text("Running")

    page.keyboard.press("i")

    expect(executions(page).locator(".execution-status")).to_have_text("Cancelled")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground_in_the_light_and_in_the_dark(
    browser: Browser, desk: Desk, scheme: Any
) -> None:
    with watched(browser, desk.url, color_scheme=scheme) as page:
        everything(desk, page)
        found = page.evaluate(CONTRASTS)

        assert len(found) > 60
        assert [one for one in found if one[0] < 4.5] == []
        red, green, blue = map(
            int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
        )
        assert (max(red, green, blue) < 64) is (scheme == "dark")


def test_the_colours_can_be_chosen_and_stay(desk: Desk, page: Page) -> None:
    page.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)

    page.get_by_role("button", name="Colours: as the system").click()
    page.get_by_role("button", name="Colours: light").click()

    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    assert page.evaluate(ground) == dark


def test_a_narrow_screen_shows_one_thing_at_a_time_and_nothing_beyond_its_edge(browser: Browser, desk: Desk) -> None:
    overflow = "document.documentElement.scrollWidth - innerWidth"
    with watched(browser, desk.url, viewport=PHONE, has_touch=True) as page:
        desk.create("a-thread-with-a-name-that-is-longer-than-any-telephone-is-wide")
        desk.create("t")
        page.goto("/")
        expect(page.locator("#thread-list a")).to_have_count(2)
        expect(page.locator("main")).to_be_hidden()
        assert page.evaluate(overflow) <= 0
        page.locator("#thread-list a").first.click()
        expect(page.locator("#link")).to_have_text("Live")
        expect(page.locator("nav.threads")).to_be_hidden()
        send(page, "refund it " + "x" * 300)
        expect(page.get_by_role("region", name="Asks for approval")).to_be_visible()
        assert page.evaluate(overflow) <= 0
        assert page.evaluate(BEYOND) == []

        page.get_by_role("tab", name="Executions").click()

        expect(executions(page).get_by_role("button", name="Interrupt")).to_be_visible()
        expect(page.locator("#composer-text")).to_be_hidden()
        executions(page).get_by_role("button", name="Interrupt").click()
        expect(executions(page).locator(".outcome")).to_contain_text("accepted")
        # Its button goes with the execution, and takes the focus with it: a key pressed meanwhile would be for nobody.
        expect(executions(page).get_by_role("button", name="Interrupt")).to_have_count(0)
        page.get_by_role("tab", name="Executions").press("ArrowLeft")
        expect(page.locator("#composer-text")).to_be_visible()
        page.get_by_role("button", name="Back to threads").click()
        expect(page.locator("nav.threads")).to_be_visible()
        expect(page.locator("main")).to_be_hidden()


def test_nothing_stands_beyond_the_edge_of_its_pane_at_any_width(desk: Desk, page: Page) -> None:
    everything(desk, page)
    send(page, "a text that is far too long for one line of what became of it " * 3, verb="Send")
    expect(page.locator("#receipts .code").last).to_have_text("busy")
    found = {}
    for width in (1600, 1280, 1200, 1121, 1120, 1000, 800, 721, 720, 600, 390, 320):
        page.set_viewport_size({"width": width, "height": 760})
        for tab in page.get_by_role("tab").all() or [None]:
            if tab is not None:
                tab.click()
            found[width, tab and tab.inner_text()] = page.evaluate(BEYOND)

    assert {at: beyond for at, beyond in found.items() if beyond} == {}


def test_a_screen_of_middle_width_shows_transcript_and_executions_in_one_place(browser: Browser, desk: Desk) -> None:
    with watched(browser, desk.url, viewport={"width": 900, "height": 700}) as page:
        running(desk, page)
        expect(page.locator("nav.threads")).to_be_visible()
        expect(executions(page)).to_be_hidden()

        page.get_by_role("tab", name="Executions").click()

        executions(page).get_by_role("button", name="Interrupt").click()
        expect(executions(page).locator(".execution-status")).to_have_text("Cancelled")
        expect(page.locator("#status")).to_contain_text("Idle")
        page.get_by_role("tab", name="Transcript").click()
        expect(page.locator("#transcript .end")).to_be_visible()


def test_everything_has_a_name_and_what_happens_is_told(desk: Desk, page: Page) -> None:
    everything(desk, page)

    assert page.evaluate(NAMELESS) == []
    told = page.locator("#announcer")
    expect(told).to_contain_text("Steer: accepted")
    page.get_by_role("button", name="Decline").click()
    expect(page.get_by_role("region", name="Asked for approval").locator(".outcome")).to_contain_text("accepted")
    expect(told).to_contain_text("Execution succeeded")


def test_a_typed_text_and_its_place_stay_while_looking_elsewhere(desk: Desk, page: Page) -> None:
    desk.create("one")
    desk.create("two")
    visit(page, "one")
    field = page.locator("#composer-text")
    field.fill("unfinished")

    visit(page, "two")

    expect(field).to_have_value("")
    page.go_back()
    expect(page.locator("#thread-id")).to_have_text("one")
    expect(field).to_have_value("unfinished")
    page.reload()
    expect(field).to_have_value("unfinished")
    page.locator("#send").click()
    expect(messages(page).last.locator(".text")).to_have_text("You said: unfinished")
    page.reload()
    expect(messages(page).last.locator(".text")).to_have_text("You said: unfinished")
    expect(field).to_have_value("")


def test_reading_what_is_above_is_not_disturbed_by_what_comes(desk: Desk, page: Page) -> None:
    desk.create("t")
    for number in range(12):
        desk.client.post("/threads/t/messages", json={"content": f"{number}\n" * 12}).raise_for_status()
    visit(page, "t")
    expect(page.locator("#status")).to_contain_text("Idle")
    scroll = page.locator("#scroll")
    expect(messages(page).last).to_be_in_viewport()
    scroll.evaluate("(one) => { one.scrollTop = 0; }")
    expect(page.get_by_role("button", name="Latest")).to_be_visible()

    desk.say("t", "news")

    expect(messages(page).last.locator(".text")).to_have_text("You said: news")
    assert scroll.evaluate("(one) => one.scrollTop") == 0
    page.get_by_role("button", name="Latest").click()
    expect(messages(page).last).to_be_in_viewport()
