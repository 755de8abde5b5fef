"""Owns the proof of treadle.storage.survey: what a look at a store tells is what a runtime left in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import Runtime
from treadle.protocol.errors import InvalidInput, ThreadNotFound
from treadle.storage import LmdbStore
from treadle.storage.survey import survey_store, survey_thread, survey_threads
from treadle.storage.tables import Table

from .filled import CALLS, THREAD, changed
from .test_check import echo

if TYPE_CHECKING:
    from pathlib import Path


def test_a_thread_in_the_midst_of_work_is_shown_with_all_that_is_open() -> None:
    detail = survey_thread(changed(lambda tables: None), THREAD)

    facts = detail.survey.facts
    assert facts is not None
    assert (facts.thread_id, facts.state, detail.survey.work) == (THREAD, "running", "recover")
    assert detail.created.event.type == "THREAD_CREATED"
    assert detail.executions[0].status == "active"
    assert len(detail.executions) == facts.executions
    assert len(detail.waiting) == facts.waiting_messages + facts.waiting_submits + facts.steers
    assert sorted(detail.calls) == [call["id"] for call in CALLS[1:]]
    assert len(detail.requests) == facts.pending > 0
    assert all(at >= facts.created_at and event.kind for at, event in detail.requests)
    assert len(detail.processes) == facts.processes > 0
    assert detail.sizes["journal"].rows == facts.sequence
    assert all(size.size > 0 for size in detail.sizes.values())


def test_the_deleted_are_not_listed_and_a_broken_thread_hides_no_other() -> None:
    whole = [found.facts.thread_id for found in survey_threads(changed(lambda tables: None)) if found.facts]
    assert THREAD in whole

    def break_one(tables: list[dict[bytes, bytes]]) -> None:
        key = tables[Table.NAMES][THREAD.encode()]
        tables[Table.THREADS][key] = tables[Table.THREADS][key][:40]

    broken = list(survey_threads(changed(break_one)))
    assert [found.facts.thread_id for found in broken if found.facts] == [name for name in whole if name != THREAD]
    assert [found.error is not None for found in broken if found.facts is None] == [True]


def test_an_unknown_a_deleted_and_an_impossible_id_are_told_apart_from_none() -> None:
    store = changed(lambda tables: None)
    for unknown in ("nobody", "deleted"):
        with pytest.raises(ThreadNotFound):
            survey_thread(store, unknown)
    with pytest.raises(InvalidInput):
        survey_thread(store, "a\nb")


def test_a_store_tells_its_sizes_and_what_the_next_open_has_to_do(tmp_path: Path) -> None:
    with Runtime(LmdbStore(tmp_path), agents=[echo]) as runtime:
        for rank in range(300):  # more than a page
            thread = runtime.create_thread("echo", thread_id=f"t{rank}").result()
        thread.queue_message("is not started while it is closed").result()
    store = LmdbStore(tmp_path, read_only=True)
    boot = store.open()
    seen = survey_store(store)
    threads = list(survey_threads(store))
    behind = list(survey_threads(store, after=290))
    store.close()

    assert seen.boot == boot
    assert seen.tables["threads"].rows == 300
    assert all(size.size % 4096 == 0 for size in seen.tables.values())
    assert seen.work["recover"] == seen.work["remove"] == 0
    assert seen.work["start"] == sum(found.work == "start" for found in threads)
    assert [found.facts.thread_id for found in threads if found.facts] == [f"t{rank}" for rank in range(300)]
    assert [found.number for found in behind] == list(range(291, 301))
