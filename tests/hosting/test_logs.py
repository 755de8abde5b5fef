"""Holds treadle.hosting.logs: what a line says, and that nothing from outside makes a line of its own."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.logs import configure_logging
from treadle.protocol.errors import ThreadNotFound
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD = 60
shop = logging.getLogger("shop")


@agent(name="speaks")
async def speaks(state: ThreadState) -> None:
    shop.info("an order of %d pieces", 3)


@agent(name="speaks_on_a_worker")
def speaks_on_a_worker(state: ThreadState) -> None:
    shop.warning("from a worker")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, others = root.level, {name: logging.getLogger(name).level for name in ("uvicorn", "httpx", "httpcore")}
    yield
    root.setLevel(level)
    for handler in [handler for handler in root.handlers if handler.get_name() == "treadle"]:
        root.removeHandler(handler)
    for name, before in others.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("name", ["speaks", "speaks_on_a_worker"])
def test_what_a_body_logs_names_its_execution(out: io.StringIO, name: str) -> None:
    configure_logging("json", stream=out)
    with Runtime(MemoryStore(), agents=[speaks, speaks_on_a_worker]) as runtime:
        thread = runtime.create_thread(name).result(GUARD)
        execution_id = thread.submit("go").result(GUARD).execution_id
        thread.wait(execution_id).result(GUARD)

    (line,) = [line for line in lines(out) if line["logger"] == "shop"]
    assert (line["thread"], line["execution"]) == (thread.id, execution_id)
    assert line["message"] in ("an order of 3 pieces", "from a worker")
    assert line["level"] in ("info", "warning")
    assert line["time"].endswith("+00:00")


def test_an_error_gives_its_code_and_its_thread(out: io.StringIO) -> None:
    configure_logging("json", stream=out)
    try:
        raise ThreadNotFound("no thread 't'", thread_id="t")
    except ThreadNotFound:
        shop.exception("it failed")

    (line,) = lines(out)
    assert (line["thread"], line["code"]) == ("t", "thread_not_found")
    assert "ThreadNotFound: no thread 't'" in line["traceback"]


def test_what_the_runtime_reports_has_its_fields(out: io.StringIO) -> None:
    configure_logging("json", stream=out)
    with Runtime(MemoryStore(), agents=[speaks]) as runtime:
        assert runtime._services is not None
        runtime._services.report("actor_crashed", {"thread_id": "t", "error": "e"})

    (line,) = lines(out)
    assert (line["thread"], line["code"], line["level"]) == ("t", "actor_crashed", "warning")


def test_text_has_one_line_a_record_whatever_stands_in_it(out: io.StringIO) -> None:
    configure_logging("text", stream=out)
    shop.warning("said: %s", "a\nERROR shop: forged\r\x1b[31m\u2028b", extra={"thread_id": "t\n2", "code": "odd"})

    text = out.getvalue()
    assert text.count("\n") == 1
    assert len(text.splitlines()) == 1
    assert r"a\nERROR shop: forged\r\x1b[31m\u2028b thread=t\n2 code=odd" in text
    assert "WARNING shop: said" in text


def test_text_shows_a_traceback_below(out: io.StringIO) -> None:
    configure_logging("text", stream=out)
    try:
        raise ValueError("broken")
    except ValueError:
        shop.exception("it failed")

    head, *below = out.getvalue().splitlines()
    assert head.endswith("ERROR shop: it failed")
    assert below[-1] == "ValueError: broken"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_record_that_cannot_be_written_is_written_all_the_same(out: io.StringIO, form: Any) -> None:
    handler = configure_logging(form, stream=out)
    # Past the test run's own handler, which raises.
    handler.handle(shop.makeRecord("shop", logging.WARNING, "here", 1, "%d pieces", ("three",), None))

    assert "%d pieces" in out.getvalue()
    assert "do not fit" in out.getvalue()


def test_configuring_again_replaces_the_handler_and_levels_hold(out: io.StringIO) -> None:
    configure_logging("text", stream=io.StringIO())
    configure_logging("json", "ERROR", out)
    shop.warning("not shown")
    shop.error("shown")

    assert [line["message"] for line in lines(out)] == ["shown"]
