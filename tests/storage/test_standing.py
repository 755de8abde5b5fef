"""How a message stands that is to be edited, on both stores; and that neither an edit nor a page gets dearer with history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Runtime
from treadle.agents import agent
from treadle.protocol.inbox import Row
from treadle.storage import LmdbStore, MemoryStore
from treadle.storage.check import check_tables
from treadle.storage.reading import read_thread, thread_number
from treadle.storage.standing import StandingReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treadle.agents import ThreadState
    from treadle.protocol.message_edits import Found
    from treadle.storage import Store

CALLS = [{"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in ("c-1", "c-2")]


@agent(name="body")
async def body(state: ThreadState) -> None:
    await state.inject_message("assistant", None, tool_calls=CALLS)
    for call in ("c-2", "c-1"):
        await state.inject_message("tool", call, tool_call_id=call)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")


@pytest.fixture
def runtime(store: Store) -> Iterator[Runtime]:
    with Runtime(store, agents=[body]) as opened:
        yield opened
        assert check_tables(store).broken == ()


def find(store: Store, thread_id: str, message_id: str) -> Found | None:
    with store.view() as view:
        number = thread_number(view, thread_id)
        assert number
        thread = read_thread(view, number)
        assert thread is not None
        facts = thread[1]
        reader = StandingReader(view, number, facts.generation)
        return reader.find_standing(message_id, sorted(facts.counts), facts.failed_through)


def test_a_message_in_history_stands_with_its_place_and_its_results(runtime: Runtime, store: Store) -> None:
    thread = runtime.create_thread("body", thread_id="t").result(60)
    thread.wait(thread.submit("go").result(60)).result(60)
    said, made, second, first = thread.messages().result().messages
    thread.update_message(made.id, content="looking").result(60)

    found = find(store, "t", made.id)
    assert found is not None
    assert (found.draft["content"], found.place[3], found.row, found.unanswered) == ("looking", 1, None, None)
    assert [draft["id"] for draft, _ in found.results] == [second.id, first.id]
    assert [place[3] for _, place in found.results] == [2, 3]
    # What it shows is of the draft that it is given; the view is gone by now.
    assert found.show({**found.draft, "content": "x"}) == made.model_copy(update={"content": "x"})
    plain = find(store, "t", said.id)
    assert plain is not None
    assert (plain.results, plain.unanswered, plain.show(plain.draft)) == ([], None, said)
    assert find(store, "t", "nobody") is None
    assert thread.delete_message(made.id).result(60) is True
    assert find(store, "t", first.id) is None


def test_a_message_that_waits_stands_with_its_row_as_it_is_now(runtime: Runtime, store: Store) -> None:
    thread = runtime.create_thread("body", thread_id="t").result(60)
    thread.stop().result(60)
    receipt = thread.queue_message(["a", "b", "c"], input_id="q").result(60)
    a, b, c = receipt.message_ids
    thread.update_message(a, content="A").result(60)
    thread.delete_message(b).result(60)

    found = find(store, "t", a)
    assert found is not None
    assert isinstance(found.row, Row)
    assert (found.row.messages, [rank for rank, _ in found.row.edits], found.place[3]) == (2, [0, 1], None)
    assert found.content is not None
    left = found.content[1].messages
    assert [draft.get("content") for draft in left] == ["A", None, "c"]
    assert found.show(found.draft) == thread.message(a).result()
    assert find(store, "t", b) is None
    other = find(store, "t", c)
    assert other is not None
    assert other.draft["content"] == "c"


class Counted:
    """A store whose views count the rows that they are asked for."""

    def __init__(self, store: Any) -> None:
        self.rows = 0
        self._view = store.view
        store.view = self.view

    def view(self) -> Any:
        counted, view = self, self._view()

        class View:
            def __enter__(self) -> Any:
                view.__enter__()
                return self

            def __exit__(self, *error: object) -> None:
                view.__exit__(*error)

            def get(self, table: int, key: bytes) -> Any:
                counted.rows += 1
                return view.get(table, key)

            def scan(self, *where: Any, **how: Any) -> Any:
                found = view.scan(*where, **how)
                counted.rows += len(found) + how.get("skip", 0)
                return found

        return View()

    def of(self, call: Callable[[], object]) -> int:
        before = self.rows
        call()
        return self.rows - before


@pytest.mark.slow
def test_no_edit_and_no_page_gets_dearer_with_the_length_of_history() -> None:
    costs = []
    for length in (400, 4_000):
        store = MemoryStore()
        with Runtime(store, agents=[body]) as runtime:
            thread = runtime.create_thread("body", thread_id="t").result(60)
            ids = [thread.inject_message("user", str(rank)).result(60).id for rank in range(length)]
            for gone in ids[length // 2 : length // 2 + 150 : 3]:
                thread.delete_message(gone).result(60)
            rows = Counted(store)
            middle, places = ids[length // 2 + 1], length // 2
            costs.append([
                rows.of(lambda one=middle, on=thread: on.update_message(one, content="x").result(60)),  # type: ignore[misc]
                rows.of(lambda one=middle, on=thread: on.delete_message(one).result(60)),  # type: ignore[misc]
                rows.of(lambda at=places, on=thread: on.messages(offset=at, limit=20).result()),  # type: ignore[misc]
                rows.of(lambda at=places, on=thread: on.messages(offset=at, limit=20, order="asc").result()),  # type: ignore[misc]
                rows.of(lambda on=thread: on.messages(limit=20).result()),  # type: ignore[misc]
            ])  # fmt: skip

    for short, long in zip(*costs, strict=True):
        assert long <= short + 130, costs  # a block of gaps, which one may have to look through and the other not
