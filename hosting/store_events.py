"""Owns the stream over all threads: each changed thread's latest status, by change number. Shows nobody's to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from ..protocol.errors import ThreadNotFound
from ..protocol.frames import Frame
from .auth import Principal, principal
from .hosted import hosted
from .problems import problems
from .sse import EVENT_STREAM, EventStream, sse_event
from .strict_route import StrictRoute

if TYPE_CHECKING:
    from ..actors import Runtime
    from ..actors.change_feed import ChangeSubscription

__all__ = ["VisibleChanges", "router"]

_KNOWN_MAX = 10_000
_OWNERS_MAX = 100_000


class VisibleChanges:
    """Makes events of the changes that one principal sees; for one stream."""

    __slots__ = ("_feed", "_known", "_owners", "_who")

    def __init__(self, who: Principal, feed: ChangeSubscription, owners: dict[str, str | None]) -> None:
        self._feed = feed
        self._who = who
        self._owners = owners
        # Whose a deleted thread was is stored nowhere; who saw it in this stream sees it go.
        self._known: dict[str, None] = {}

    def encode(self, frame: Frame) -> bytes:
        """Return the event of a frame, nothing where it is somebody else's; blocks for a read, where it is a user's."""
        if "change" not in frame:
            return sse_event(frame)
        return sse_event(frame, given_id=frame["change"]) if self._is_visible(frame) else b""

    def _is_visible(self, frame: Frame) -> bool:
        if self._who.kind == "admin":
            return True
        thread_id = frame["thread_id"]
        if frame["deleted"]:
            return self._known.pop(thread_id, False) is None
        try:
            if thread_id not in self._known and not self._who.sees(self._owner(thread_id)):
                return False
        except ThreadNotFound:
            return False  # deleted meanwhile: that is a change of its own
        self._known.pop(thread_id, None)
        self._known[thread_id] = None
        if len(self._known) > _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return True

    def _owner(self, thread_id: str) -> str | None:
        """Return whose a thread is: looked up once for all streams, since it never changes, and an id is never given anew."""
        if thread_id in self._owners:
            return self._owners[thread_id]
        found = self._owners[thread_id] = self._feed.owner(thread_id)
        if len(self._owners) > _OWNERS_MAX:
            del self._owners[next(iter(self._owners))]
        return found


def _begin(runtime: Runtime, after: str | None) -> tuple[ChangeSubscription, list[Frame], Frame]:
    """Return the changes, those that were read to see whether the number is one, and what is sent first."""
    feed = runtime.events(after or None)
    try:
        first = feed.next(0)
        found = [] if first is None else [first]
    except TimeoutError:
        found = []
    if after == "latest":
        reached = found[0].get("change") if found else None
        after = str(feed.cursor if reached is None else reached - 1)
    return feed, found, Frame(type="changes", after=int(after or 0), boot_id=runtime.boot_id)


router = APIRouter(route_class=StrictRoute)


@router.get(
    "/events",
    response_class=EventStream,
    status_code=200,
    responses={200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}, **problems(409, 429)},
    tags=["streams"],
)
async def store_events(
    request: Request,
    who: Annotated[Principal, Depends(principal)],
    after: Annotated[str | None, Query(description="the last change number applied; `latest`: none before now")] = None,
    last_event_id: Annotated[
        str | None, Header(description="the same, as a browser sends it; `after` wins over it")
    ] = None,
) -> Response:
    """Follow the status of all threads that the caller sees: the latest of each, and every thread anew as it changes."""
    served = hosted(request)
    leave = served.enter(who)
    try:
        feed, found, first = await to_thread.run_sync(_begin, served.runtime, last_event_id if after is None else after)
    except BaseException:
        leave()
        raise
    shown = VisibleChanges(who, feed, served.owners)
    opening = sse_event(first, name="snapshot") + b"".join(map(shown.encode, found))
    return EventStream(feed, opening, shown.encode, served.limits, leave)
