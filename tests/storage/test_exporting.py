"""Owns the proof of treadle.storage.exporting: every event and message once, in order, from any place on."""

from __future__ import annotations

import json

import pytest

from treadle.actors import Runtime
from treadle.protocol.errors import CorruptRecord, InvalidInput, ThreadNotFound
from treadle.storage import MemoryStore
from treadle.storage.exporting import Left, export
from treadle.storage.reading import read_thread, thread_number
from treadle.storage.tables import Table

from .filled import THREAD, Tables, changed
from .test_check import echo


def break_event(tables: Tables) -> None:
    number = tables[Table.NAMES][THREAD.encode()]
    key = next(key for key in sorted(tables[Table.JOURNAL]) if key.startswith(number) and key[-1] == 3)
    tables[Table.JOURNAL][key] = b"\xc1"


def test_every_event_is_a_line_with_its_thread_and_cursor() -> None:
    store = changed(lambda tables: None)
    with store.view() as view:
        number = thread_number(view, THREAD)
        assert number
        found = read_thread(view, number)
        assert found is not None
    lines = [json.loads(one.line) for one in export(store, "events", only=[THREAD])]

    assert [line["cursor"] for line in lines] == [f"1:{rank}" for rank in range(1, found[1].sequence + 1)]
    assert lines[0]["type"] == "THREAD_CREATED"
    assert {line["thread_id"] for line in lines} == {THREAD}
    every = [json.loads(one.line) for one in export(store, "events")]
    assert [line for line in every if line["thread_id"] == THREAD] == lines


@pytest.mark.parametrize("what", ["events", "messages"])
def test_an_export_goes_on_behind_any_line(what: str) -> None:
    with Runtime(MemoryStore(), agents=[echo]) as runtime:
        for name in ("a", "b", "c"):
            thread = runtime.create_thread("echo", thread_id=name).result()
            thread.wait(thread.submit([f"{name}{rank}" for rank in range(70)]).result()).result(60)
        runtime.thread("b").delete_message(runtime.thread("b").messages(order="asc").result().messages[3].id).result()
        store = runtime._store
        whole = [one.line for one in export(store, what)]
        done: dict[str, int] = {}
        for rank, one in enumerate(export(store, what), 1):
            done[one.thread_id] = one.place
            if rank % 20 == 0 or rank == len(whole):
                assert [later.line for later in export(store, what, done=done)] == whole[rank:]
        runtime.thread("b").inject_message("assistant", "more").result()
        more = [json.loads(one.line) for one in export(store, what, done=done)]

    assert [line["thread_id"] for line in more] == ["b"]
    if what == "messages":
        assert len(whole) == 3 * 140 - 1
        assert more[0]["content"] == "more"


def test_a_thread_that_cannot_be_read_is_told_and_the_others_are_exported() -> None:
    whole = [one for one in export(changed(lambda tables: None), "events") if one.thread_id != THREAD]
    left: list[Left] = []
    found = list(export(changed(break_event), "events", left=left.append))

    assert [one for one in found if one.thread_id != THREAD] == whole
    assert [one.thread for one in left] == [THREAD]
    with pytest.raises(CorruptRecord):
        list(export(changed(break_event), "events"))


def test_an_unknown_thread_is_refused() -> None:
    store = changed(lambda tables: None)
    with pytest.raises(ThreadNotFound):
        list(export(store, "events", only=["nobody"]))
    with pytest.raises(InvalidInput):
        list(export(store, "messages", only=["a\0b"]))
