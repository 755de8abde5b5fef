"""Pages of messages (contract D.3) from either end, beside one, by id; and the lazy history that a body looks into."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, began, ended, history, quiet
from treadle.protocol.errors import MessageNotFound
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.actors import Message, Thread
    from treadle.agents import ThreadState

ORDERS: list[Literal["asc", "desc"] | None] = [None, "asc", "desc"]
PAGES = list(itertools.product(ORDERS, [0, 1, 3, 100], [0, 1, 5, 9, 12, 13, 50], [False, True]))


def mixed(scene: Scene) -> Thread:
    """Return a busy thread with silent and plain messages in its history, and of both kinds waiting."""
    thread = scene.gated()
    for n in range(8):
        thread.inject_message("user", f"m{n}", silent=n in {2, 3, 7}).result(PATIENCE_S)
    thread.submit("go").result(PATIENCE_S)
    scene.gate.arrival()
    thread.queue_message("p0").result(PATIENCE_S)
    thread.queue_message(["p1", "p2"]).result(PATIENCE_S)
    thread.queue_message("p3", silent=True).result(PATIENCE_S)
    thread.submit("p4", on_busy="queue").result(PATIENCE_S)
    return thread


PLAIN = ["m0", "m1", "m4", "m5", "m6", "go", "p0", "p1", "p2", "p4"]
ALL = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "go", "p0", "p1", "p2", "p3", "p4"]


def test_every_page_is_what_its_order_limit_and_offset_say(scene: Scene) -> None:
    thread = mixed(scene)

    for order, limit, offset, silent in PAGES:
        page = thread.messages(limit=limit, offset=offset, order=order, include_silent=silent).result(PATIENCE_S)

        listed = ALL if silent else PLAIN
        newest_first = listed[::-1][offset : offset + limit]
        expected = {"asc": listed[offset : offset + limit], "desc": newest_first, None: newest_first[::-1]}[order]
        case = (order, limit, offset, silent)
        assert [message.content for message in page.messages] == expected, case
        assert page.total == len(listed), case
        assert page.has_more == (offset + len(expected) < len(listed)), case


def test_pages_say_the_same_to_a_body_and_after_a_restart(either: Scene) -> None:
    def compares(state: ThreadState) -> Replies:
        for order, limit, offset, silent in PAGES[::5]:
            own = yield state.get_messages(limit, offset, order, include_silent=silent)
            thread = either.runtime.thread(state.thread_id)
            other = yield thread.messages(limit=limit, offset=offset, order=order, include_silent=silent)
            assert own == other
        either.seen.append("compared")

    thread = either.start(compares)
    for n in range(8):
        thread.inject_message("user", f"m{n}", silent=n in {2, 3, 7}).result(PATIENCE_S)
    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None
    before = history(thread, include_silent=True)

    either.reopen()

    assert either.seen == ["compared"]
    assert history(either.runtime.thread(thread.id), include_silent=True) == before


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("silent", [False, True])
def test_walking_from_message_to_message_meets_each_exactly_once(scene: Scene, limit: int, silent: bool) -> None:
    thread = mixed(scene)
    joined = [text for text in (ALL if silent else PLAIN) if not text.startswith("p")]
    messages = [m for m in history(thread, include_silent=True) if m.status == "completed"]
    first, last = messages[0], messages[-1]

    forward = [first.content]
    at = first.id
    while True:
        page = thread.messages(after=at, limit=limit, include_silent=silent).result(PATIENCE_S)
        forward += [message.content for message in page.messages]
        assert page.has_more == (len(forward) < len(joined))
        if not page.has_more:
            break
        at = page.messages[-1].id
    backward = [last.content]
    at = last.id
    while True:
        page = thread.messages(before=at, limit=limit, include_silent=silent).result(PATIENCE_S)
        backward += [message.content for message in reversed(page.messages)]
        assert page.has_more == (len(backward) < len(joined))
        if not page.has_more:
            break
        at = page.messages[0].id

    assert forward == joined
    assert backward == joined[::-1]


def test_a_page_beside_a_message_may_be_newest_first_and_counts_what_waits(scene: Scene) -> None:
    thread = mixed(scene)
    middle = history(thread)[3]

    page = thread.messages(before=middle.id, limit=2, order="desc").result(PATIENCE_S)

    assert [message.content for message in page.messages] == ["m4", "m1"]
    assert (page.total, page.has_more) == (len(PLAIN), True)
    assert thread.messages(before=middle.id, limit=0).result(PATIENCE_S).messages == []


def test_there_is_nothing_beside_a_message_that_is_unknown_or_waits(scene: Scene) -> None:
    thread = mixed(scene)
    waiting = history(thread)[-1]

    for given in ("never-was", waiting.id):
        for beside in ("before", "after"):
            with pytest.raises(MessageNotFound) as unknown:
                thread.messages(**{beside: given}).result(PATIENCE_S)  # type: ignore[arg-type]
            assert unknown.value.details["message_id"] == given


def test_a_message_is_found_by_id_whether_joined_silent_or_waiting(scene: Scene) -> None:
    thread = mixed(scene)

    for message in history(thread, include_silent=True):
        assert thread.message(message.id).result(PATIENCE_S) == message

    assert thread.message("never-was").result(PATIENCE_S) is None
    assert scene.thread().message(history(thread)[0].id).result(PATIENCE_S) is None


def test_times_of_messages_never_go_back_even_where_the_clock_stands(scene: Scene) -> None:
    thread = scene.start(quiet)
    for n in range(5):
        thread.inject_message("user", f"{n}").result(PATIENCE_S)
    ended(thread, thread.submit(["5", "6"]).result(PATIENCE_S))

    times = [message.created_at for message in history(thread)]

    assert times == sorted(times)
    assert len(set(times[:5])) == 5


def test_injected_messages_come_back_field_by_field_and_start_nothing(scene: Scene) -> None:
    thread = scene.start(quiet)
    metadata = {"a": [1, {"b": None}], "é": "ü"}

    said = [
        thread.inject_message("system", "be kind").result(PATIENCE_S),
        thread.inject_message("user", "hi", metadata=metadata, attachments=[{"n": 1}, {}]).result(PATIENCE_S),
        thread.inject_message("assistant", "ho", silent=True).result(PATIENCE_S),
        thread.inject_message("tool", None).result(PATIENCE_S),
        thread.inject_message("assistant", "", attachments=[{"file": "x"}]).result(PATIENCE_S),
    ]

    assert history(thread, include_silent=True) == said
    assert said[1].metadata == metadata
    assert said[1].attachments == [{"n": 1}, {}]
    assert (said[2].silent, said[3].content, said[4].content) == (True, None, "")
    assert thread.executions().result(PATIENCE_S).total == 0
    assert thread.status().result(PATIENCE_S).state == "idle"


class CountingStore(MemoryStore):
    """A store that counts its views."""

    def __init__(self) -> None:
        super().__init__()
        self.views = 0

    def view(self) -> Any:
        self.views += 1
        return super().view()


def long_thread(scene: Scene, script: Any, length: int) -> Thread:
    """Return a thread whose history holds `length` messages, every tenth silent, before its body runs."""
    thread = scene.start(script)
    replies = [thread.inject_message("user", f"{n}", silent=not n % 10) for n in range(length - 1)]
    for reply in replies:
        reply.result(PATIENCE_S)
    return thread


def test_the_history_of_a_body_is_a_sequence_of_all_there_is(scene: Scene) -> None:
    def looks(state: ThreadState) -> Replies:
        assert state.execution is not None
        seen = state.execution.message_history
        expected = [*(f"{n}" for n in range(199)), "go"]

        def words(messages: Any) -> list[str | None]:
            return [message.content for message in messages]

        assert len(seen) == 200
        assert words(seen) == expected
        assert words(reversed(seen)) == expected[::-1]
        edges = (None, 0, 136, 199, 250, -65, -250)
        for start, stop, step in itertools.product(edges, edges, (None, 7, -1)):
            assert words(seen[start:stop:step]) == expected[start:stop:step], (start, stop, step)
        for index in (0, 135, 136, 199, -1, -65, -200):
            assert seen[index].content == expected[index]
        for index in (200, -201, 10**6):
            with pytest.raises(IndexError):
                seen[index]
        assert seen[3] in seen
        assert seen.index(seen[5]) == 5
        yield state.inject_message("assistant", "one more")
        assert len(seen) == 201
        assert seen[-1].content == "one more"
        scene.seen.append("looked")

    thread = long_thread(scene, looks, 200)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None
    assert scene.seen == ["looked"]


def test_a_history_that_nobody_looks_into_is_not_read_and_one_look_reads_little() -> None:
    store = CountingStore()
    scene = Scene(store)

    def looks(state: ThreadState) -> Replies:
        assert state.execution is not None
        before = store.views
        seen = state.execution.message_history
        held = store.views - before
        newest = seen[-1].content
        newer = seen[-10:]
        scene.seen.append((held, newest, len(newer), store.views - before))
        yield from ()

    thread = long_thread(scene, looks, 150)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None
    ((held, newest, newer, read),) = scene.seen
    assert (held, newest, newer) == (0, "go", 10)
    assert read <= 4
    scene.close()


def test_what_waits_is_no_part_of_a_bodys_history_until_it_joins(either: Scene) -> None:
    def looks(state: ThreadState) -> Replies:
        assert state.execution is not None
        yield either.gate.here()
        either.seen.append([message.content for message in state.execution.message_history])
        yield state.checkpoint()
        either.seen.append([message.content for message in state.execution.message_history])

    thread = either.start(looks)
    execution_id = began(thread.submit("go").result(PATIENCE_S))
    arrived = either.gate.arrival()
    thread.queue_message("waits").result(PATIENCE_S)
    thread.steer(execution_id, "steers").result(PATIENCE_S)
    arrived.go.set(None)
    ended(thread, execution_id)

    before, after = either.seen
    assert before == ["go"]
    assert sorted(after) == ["go", "steers", "waits"]


def test_new_messages_are_the_same_objects_of_history(either: Scene) -> None:
    found: list[tuple[list[Message], list[Message]]] = []

    def compares(state: ThreadState) -> Replies:
        assert state.execution is not None
        found.append((list(state.execution.new_messages), list(state.execution.message_history)))
        yield from ()

    thread = either.start(compares)
    ended(thread, thread.submit(["a", {"content": "b", "metadata": {"k": 1}}]).result(PATIENCE_S))
    ended(thread, thread.submit("c").result(PATIENCE_S))

    (first, all_first), (second, all_second) = found
    assert first == all_first
    assert [*first, *second] == all_second == history(thread)
