"""Holds the console: every action of a person, driven in a real browser against a real server that may be killed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.hosting.browsing import executions, messages, running, send, visit, watched
from tests.hosting.console_desk import Desk

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


# Looking and sending


def test_a_thread_is_started_and_its_answer_is_shown_word_by_word_before_it_is_stored(desk: Desk, page: Page) -> None:
    page.goto("/")
    expect(page.get_by_text("No threads yet.")).to_be_visible()
    page.get_by_role("button", name="New").click()
    expect(page.get_by_label("Agent", exact=True)).to_have_value("clerk")
    page.get_by_label("Id optional").fill("first")
    page.get_by_role("button", name="Create").click()
    # Live before it was open, too: words said before the page follows the thread are not shown one by one.
    expect(page.locator("#thread-id")).to_have_text("first")
    expect(page.locator("#link")).to_have_text("Live")

    receipt = send(page, "slowly")

    expect(receipt.locator(".code")).to_have_text("accepted")
    expect(page.locator("[data-draft] .text")).to_have_text("First words ")
    expect(page.locator("#thread-list a")).to_contain_text("Running")
    assert [one["role"] for one in desk.get("/threads/first/messages")["messages"]] == ["user"]
    desk.open_gate()
    expect(messages(page).last.locator(".text")).to_have_text("First words and last words.")
    expect(page.locator("[data-draft]")).to_have_count(0)
    expect(executions(page).locator(".execution-status")).to_have_text("Succeeded")
    expect(page.locator("#transcript .end")).to_contain_text("stop on response")
    expect(page.locator("#thread-list a")).to_contain_text("Idle")


def test_what_threads_say_stays_text(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")

    send(page, "<img src=x onerror=alert(1)><script>alert(2)</script>")

    expect(messages(page).last.locator(".text")).to_have_text(
        "You said: <img src=x onerror=alert(1)><script>alert(2)</script>"
    )
    assert page.locator("main img, main script").count() == 0


def test_a_call_is_shown_with_its_result(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")

    send(page, "look up 1002")

    call = page.locator("details.call[data-call]")
    expect(call.locator("summary")).to_contain_text('find_order{"number": "1002"}ok')
    expect(messages(page).last.locator(".text")).to_have_text("The desk says: order 1002 is on its way.")
    call.locator("summary").click()
    expect(call.locator(".result")).to_have_text("order 1002 is on its way")


def test_a_failure_says_its_error(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")

    send(page, "crash")

    expect(executions(page).locator(".execution-status")).to_have_text("Failed")
    expect(executions(page).locator(".execution-error")).to_contain_text("the clerk broke")
    expect(page.locator("#status")).to_contain_text("Failed · step error")
    page.get_by_role("button", name="Failed", exact=True).click()
    expect(page.locator("#thread-list a")).to_have_count(1)
    page.get_by_role("button", name="Running", exact=True).click()
    expect(page.get_by_text("No thread is running.")).to_be_visible()


def test_earlier_messages_and_executions_are_fetched_when_asked_for(desk: Desk, page: Page) -> None:
    desk.create("t")
    desk.open_gate()
    for number in range(60):
        desk.client.post("/threads/t/messages", json={"content": f"word {number}"}).raise_for_status()
    visit(page, "t")
    expect(page.locator("#status")).to_contain_text("Idle")
    total = desk.get("/threads/t/messages")["total"]

    if total > 100:
        page.get_by_role("button", name="Show earlier messages").click()

    expect(messages(page)).to_have_count(total)
    assert [
        text.removeprefix("word ") for text in messages(page).locator(".text").all_inner_texts() if text[:4] == "word"
    ] == [str(number) for number in range(60)]


# Controls


def test_a_steer_is_accepted_then_read_and_a_second_input_is_refused_as_busy(desk: Desk, page: Page) -> None:
    execution = running(desk, page)
    expect(page.locator("#send")).to_have_text("Steer")

    steered = send(page, "shorter, please")

    expect(steered.locator(".code")).to_have_text("accepted")
    expect(messages(page).filter(has_text="shorter, please").locator(".tag")).to_have_text(["steer", "waiting"])
    expect(page.get_by_role("button", name="Withdraw")).to_have_count(0)  # a steer cannot be taken back
    refused = send(page, "another question", verb="Send")
    expect(refused.locator(".code")).to_have_text("busy")
    expect(refused.locator(".why")).to_contain_text(execution[-8:])
    refused.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Message", exact=True)).to_have_value("another question")
    desk.open_gate()
    expect(steered.locator(".why")).to_contain_text("Read by")
    expect(messages(page).last.locator(".text")).to_have_text("You said: shorter, please")
    expect(executions(page)).to_have_count(1)


def test_a_queued_message_waits_and_can_be_taken_back(desk: Desk, page: Page) -> None:
    running(desk, page)

    kept = send(page, "and this", verb="Queue")
    send(page, "not this", verb="Queue")

    expect(kept.locator(".code")).to_have_text("queued")
    waiting = page.locator("#transcript [data-status=pending]")
    expect(waiting.locator(".text")).to_have_text(["and this", "not this"])
    waiting.filter(has_text="not this").get_by_role("button", name="Withdraw").click()
    expect(waiting).to_have_count(1)
    desk.open_gate()
    expect(messages(page).last.locator(".text")).to_have_text("You said: and this")
    assert "not this" not in str(desk.get("/threads/t/messages"))


def test_an_interruption_says_what_became_of_it_where_it_was_asked(desk: Desk, page: Page) -> None:
    running(desk, page)

    executions(page).get_by_role("button", name="Interrupt").click()

    expect(executions(page).locator(".outcome")).to_contain_text("accepted")
    expect(executions(page).locator(".execution-status")).to_have_text("Cancelled")
    expect(page.locator("#status")).to_contain_text("Idle · aborted by user")
    expect(page.locator("#transcript .note")).to_contain_text("Interrupted by a user")
    late = send(page, "too late", verb="Steer")
    expect(late.locator(".code")).to_have_text("no active execution")


def test_an_input_can_take_the_place_of_what_runs(desk: Desk, page: Page) -> None:
    running(desk, page)

    receipt = send(page, "this instead", verb="Interrupt & send")

    expect(receipt.locator(".code")).to_have_text("queued")
    expect(messages(page).last.locator(".text")).to_have_text("You said: this instead")
    expect(executions(page).locator(".execution-status")).to_have_text(["Succeeded", "Cancelled"])


def test_a_stopped_thread_is_held_until_it_is_resumed(desk: Desk, page: Page) -> None:
    running(desk, page)

    page.get_by_role("button", name="Stop").click()

    expect(page.locator("#thread-outcome")).to_contain_text("accepted")
    expect(page.get_by_text("held", exact=True)).to_be_visible()
    expect(executions(page).locator(".execution-status")).to_have_text("Cancelled")
    waits = send(page, "after the break", verb="Queue")
    expect(waits.locator(".why")).to_contain_text("The thread is held")
    page.get_by_role("button", name="Resume").click()
    expect(messages(page).last.locator(".text")).to_have_text("You said: after the break")
    expect(page.locator("#held")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#thread-outcome")).to_contain_text("Nothing ran; the thread is held.")


@pytest.mark.parametrize(
    ("choose", "result"), [("Approve", "refunded"), ("Decline", "not refunded (False)"), (None, "not refunded (maybe)")]
)
def test_a_request_is_answered_on_its_card(desk: Desk, page: Page, choose: str | None, result: str) -> None:
    desk.create("t")
    visit(page, "t")
    send(page, "refund it")
    card = page.get_by_role("region", name="Asks for approval")
    expect(card.locator(".payload")).to_contain_text("39.90 EUR")
    expect(executions(page).locator(".tag")).to_have_text("waiting for an answer")

    if choose is None:
        card.get_by_label("Answer to approval").fill("maybe")
        expect(card.get_by_text("sent as text")).to_be_visible()
        card.get_by_role("button", name="Answer").click()
    else:
        card.get_by_role("button", name=choose).click()

    expect(page.get_by_role("region", name="Asked for approval").locator(".outcome")).to_contain_text("accepted")
    expect(messages(page).last.locator(".text")).to_have_text(f"The desk says: {result}.")
    expect(page.locator("#transcript .note").last).to_contain_text("Answered")


def test_it_is_explained_where_a_thread_is(desk: Desk, page: Page) -> None:
    execution = running(desk, page)

    page.get_by_text("Why is it where it is?").click()

    expect(page.locator("#explain-body")).to_contain_text(execution)
    expect(page.locator("#explain-body")).to_contain_text("the body goes on")


# Others, and outages


def test_two_browsers_on_one_thread_see_the_same(browser: Browser, desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")
    with watched(browser, desk.url) as other:
        visit(other, "t")
        send(page, "refund it")
        for one in (page, other):
            expect(one.get_by_role("region", name="Asks for approval")).to_be_visible()

        other.get_by_role("button", name="Approve").click()

        for one in (page, other):
            expect(one.get_by_role("region", name="Asks for approval")).to_have_count(0)
            expect(messages(one).last.locator(".text")).to_have_text("The desk says: refunded.")
        expect(page.locator("#transcript .note").last).to_contain_text("Answeredtrue")
        send(other, "slowly")
        expect(page.locator("[data-draft] .text")).to_have_text("First words ")
        executions(page).first.get_by_role("button", name="Interrupt").click()
        for one in (page, other):
            expect(executions(one).first.locator(".execution-status")).to_have_text("Cancelled")
            expect(one.locator("[data-draft]")).to_have_count(0)
        texts = [messages(one).locator(".text").all_inner_texts() for one in (page, other)]
        assert texts[0] == texts[1]


def test_a_server_killed_and_started_again_is_followed_on(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")
    send(page, "slowly")
    expect(page.locator("[data-draft] .text")).to_have_text("First words ")

    desk.kill()

    expect(page.locator("#link")).to_contain_text("Server away")
    sent = send(page, "said while it was away", verb="Queue")
    expect(sent.locator(".code")).to_have_text("no answer yet")
    page.get_by_label("Message", exact=True).fill("half a sent")
    desk.start()
    expect(page.locator("#link")).to_have_text("Live")
    expect(sent.locator(".code")).to_have_text("queued")
    expect(executions(page).last.locator(".execution-status")).to_have_text("Interrupted")
    expect(page.locator("#transcript .note[data-kind=restart]")).to_have_count(1)
    expect(messages(page).last.locator(".text")).to_have_text("You said: said while it was away")
    expect(page.locator("[data-draft]")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a sent")
    told = [one["content"] for one in desk.get("/threads/t/messages")["messages"]]
    assert told.count("said while it was away") == 1
    assert messages(page).filter(has_text="slowly").count() == 1
    page.reload()
    expect(messages(page).last.locator(".text")).to_have_text("You said: said while it was away")


def test_threads_that_change_while_the_list_was_cut_off_are_caught_up(desk: Desk, page: Page) -> None:
    desk.create("one")
    page.goto("/")
    expect(page.locator("#thread-list a")).to_have_count(1)
    page.context.set_offline(True)
    desk.kill()
    expect(page.locator("#link")).to_contain_text("Server away")
    desk.start()
    desk.create("two")
    desk.say("one", "crash")

    page.context.set_offline(False)

    expect(page.locator("#link")).to_have_text("Live")
    expect(page.locator("#thread-list a")).to_have_count(2)
    expect(page.locator("#thread-list a").first).to_contain_text("one")
    expect(page.locator("#thread-list a").first).to_contain_text("Failed")


def test_a_store_that_was_replaced_under_the_page_is_shown_from_its_beginning(desk: Desk, page: Page) -> None:
    desk.create("t")
    desk.say("t", "of the first store")
    visit(page, "t")
    expect(messages(page).last.locator(".text")).to_have_text("You said: of the first store")
    desk.kill()
    expect(page.locator("#link")).to_contain_text("Server away")
    shutil.rmtree(desk.data)
    desk.start()

    desk.create("t")

    expect(page.locator("#link")).to_have_text("Live")
    expect(messages(page)).to_have_count(0)
    send(page, "of the second", verb="Send")
    expect(messages(page).locator(".text")).to_have_text(["of the second", "You said: of the second"])


def test_a_console_below_a_prefix_of_another_app_works_as_well(browser: Browser, tmp_path: Path) -> None:
    with Desk(tmp_path / "store", {"for-all": ""}, prefix="/the/desk") as desk, watched(browser, desk.url) as page:
        desk.create("t")
        page.goto(f"{desk.url}/#/threads/t")
        page.keyboard.press("Escape")
        page.get_by_role("textbox", name="Token").fill("for-all")
        page.keyboard.press("Enter")
        expect(page.locator("#link")).to_have_text("Live")

        send(page, "hello")

        expect(messages(page).last.locator(".text")).to_have_text("You said: hello")
        expect(page.locator("#thread-list a")).to_have_count(1)


def test_a_thread_that_is_deleted_is_said_to_be_gone(desk: Desk, page: Page) -> None:
    desk.create("t")
    visit(page, "t")

    desk.client.delete("/threads/t").raise_for_status()

    expect(page.get_by_role("main").get_by_text("There is no thread t.")).to_be_visible()
    expect(page.locator("#thread-list a")).to_have_count(0)


def test_a_thread_that_no_browser_can_ask_for_is_said_to_be_one(desk: Desk, page: Page) -> None:
    desk.create("..")
    page.goto("/")

    page.locator("#thread-list a").click()

    expect(page.get_by_role("main").get_by_text("no browser can ask for a thread of this name")).to_be_visible()


def test_a_token_is_asked_for_kept_in_the_tab_alone_and_opens_what_it_may(browser: Browser, tmp_path: Path) -> None:
    with Desk(tmp_path / "store", {"for-all": "", "for-anna": "anna"}) as desk:
        desk.create("hers", "anna")
        desk.create("his", "bo")
        with watched(browser, desk.url) as page:
            page.goto("/#/threads/hers")
            dialog = page.get_by_role("dialog", name="Access token")
            dialog.get_by_label("Token").fill("wrong")
            dialog.get_by_role("button", name="Continue").click()
            expect(dialog.get_by_role("alert")).to_have_text("The server does not know this token.")

            dialog.get_by_label("Token").fill("for-anna")
            page.keyboard.press("Enter")

            expect(dialog).to_be_hidden()
            expect(page.locator("#link")).to_have_text("Live")
            expect(page.locator("#thread-list a .name")).to_have_text(["hers"])
            send(page, "hello")
            expect(messages(page).last.locator(".text")).to_have_text("You said: hello")
            assert (
                page.evaluate("[sessionStorage.getItem('treadle-token'), JSON.stringify(localStorage)]")[0]
                == "for-anna"
            )
            assert "for-anna" not in page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
            page.reload()
            expect(page.locator("#link")).to_have_text("Live")
            expect(page.get_by_role("button", name="Change token")).to_be_visible()
            page.goto("/#/threads/his")
            expect(page.get_by_role("main").get_by_text("There is no thread his.")).to_be_visible()
            visit(page, "hers")
            page.get_by_label("Message", exact=True).fill("hers to know")
            page.get_by_role("button", name="Change token").click()
            expect(dialog).to_be_visible()
            assert page.evaluate("JSON.stringify(sessionStorage)") == "{}"
