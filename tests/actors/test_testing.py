"""The plugin as a user has it: one line in the conftest, and tests that read like what they are about."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from treadle.actors import testing

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST = 'pytest_plugins = ["treadle.actors.testing"]\n'
AGENT = """
from treadle.agents import agent

@agent(timeout=60)
async def greeter(state):
    await state.sleep(5)
    for message in state.execution.new_messages:
        await state.inject_message("assistant", f"Good day, {message.content}")
"""
PASSING = (
    AGENT
    + """
def test_it_greets_after_a_while(runtime, probe, fake_clock):
    thread = runtime(greeter).create_thread("greeter").result()
    seen = probe(thread)
    thread.submit("Ann").result()
    seen.until_status("running")
    fake_clock.wait_for_timers(3)      # the sweep, the deadline, and its sleep
    fake_clock.advance(5)
    assert seen.next_event("MESSAGE_ADDED")["message"]["content"] == "Good day, Ann"
    seen.until_status("idle")

def test_its_deadline(runtime, probe, fake_clock, disk_store):
    thread = runtime(greeter, store=disk_store).create_thread("greeter").result()
    seen = probe(thread)
    thread.submit("Ann", timeout=1).result()
    fake_clock.wait_for_timers(3)
    fake_clock.advance(1)
    seen.until_status("failed", "timeout")

def test_a_crash_in_between(runtime, probe, crash_after):
    thread = runtime(greeter).create_thread("greeter").result()
    seen = probe(thread)
    crash_after("START committed")
    error = thread.submit("Ann", input_id="i").error
    seen.until_status("failed", "execution_lost")
    assert error().code == "thread_actor_crashed"
    assert thread.submit("Ann", input_id="i").result().disposition == "accepted"

def test_an_interleaving(stage):
    on = stage(greeter)
    thread = on.thread()
    receipt = thread.submit("Ann")
    on.turn()
    on.kill()                          # before START is durable
    on.reopen()
    assert on.runtime.thread(thread.id).messages().result().total == 0
    assert not receipt.done()
"""
)
FAILING = (
    AGENT
    + """
def test_a_point_that_is_never_reached(crash_after):
    crash_after("FINISH committed")

def test_what_never_comes(runtime, probe):
    thread = runtime(greeter).create_thread("greeter").result()
    probe(thread, guard=0).until_status("failed")
"""
)


def run(folder: Path, text: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_mine.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_one_line_in_the_conftest_is_all_that_a_user_needs(tmp_path: Path) -> None:
    assert "4 passed" in run(tmp_path, PASSING)


@pytest.mark.slow
def test_what_a_test_missed_is_said(tmp_path: Path) -> None:
    said = run(tmp_path, FAILING)

    assert "never reached: [<crash at the 1. 'FINISH committed'>]" in said
    assert "waited for status failed, not within 0 s" in said


def test_its_page_names_every_fixture_that_there_is() -> None:
    fixtures = {
        name for name, value in vars(testing).items() if "FixtureFunction" in type(value).__name__ and name[0] != "_"
    }

    assert fixtures == {"always_evict", "crash_after", "disk_store", "fake_clock", "probe", "runtime", "stage", "store"}
    assert all(f"`{name}`" in (testing.__doc__ or "") for name in fixtures)


def test_no_entry_point_loads_it_into_everybody_s_test_runs() -> None:
    from importlib.metadata import distribution

    assert [point for point in distribution("treadle").entry_points if point.group == "pytest11"] == []
