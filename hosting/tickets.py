"""Owns tickets: one use each, a short life, for one principal and one path. Never stored, never logged by us.

A browser cannot set a header on a WebSocket, and a token in an address would stay in logs and histories. What stands in
the address instead is worth nothing once it was used.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections import deque
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from .auth import Principal, Unauthenticated, principal
from .hosted import hosted
from .problems import problems
from .strict_route import StrictRoute

if TYPE_CHECKING:
    from ..actors import Runtime
    from ..actors.clock import Clock

__all__ = ["IssuedTicket", "TicketRequest", "Tickets", "router"]

_PER_PRINCIPAL = 64  # unused ones at most; the oldest goes first, and nobody's goes for somebody else's
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")

Path = tuple[bytes, ...]


class _Ticket(NamedTuple):
    principal: Principal
    path: Path
    due: float


class Tickets:
    """The tickets of one app that were not used yet; every method may be called by any worker, and none blocks.

    Args:
        clock: the runtime's; tickets go by its monotonic time.
        seconds: how long one can be used.
    """

    __slots__ = ("_clock", "_known", "_lock", "_order", "seconds")

    def __init__(self, clock: Clock, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Ticket] = {}
        # By principal, as it was authenticated: how many there are is for the server's keeper to say, not for clients.
        self._order: dict[tuple[str, str | None], deque[str]] = {}

    @classmethod
    def of(cls, runtime: Runtime, seconds: float = 30.0) -> Tickets:
        """Return the tickets of an app that serves a runtime."""
        return cls(runtime.clock, seconds)

    def issue(self, who: Principal, path: str) -> str:
        """Return a new ticket.

        Args:
            who: whom it stands for.
            path: the one path that it opens, encoded as in an address.
        """
        ticket = secrets.token_urlsafe(32)
        now = self._clock.monotonic()
        with self._lock:
            order = self._order.setdefault((who.kind, who.user_id), deque())
            while order and (len(order) >= _PER_PRINCIPAL or self._is_over(order[0], now)):
                self._known.pop(order.popleft(), None)
            order.append(ticket)
            self._known[ticket] = _Ticket(who, _segments(path), now + self.seconds)
        return ticket

    def redeem(self, ticket: str, path: str) -> Principal:
        """Return whom a ticket stands for; it is used up, whatever comes of it.

        Args:
            ticket: as it came.
            path: as it came, encoded.

        Raises:
            Unauthenticated: it is unknown, used, too old or for another path; the same for all of these.
        """
        found = None
        if _FORM.fullmatch(ticket):
            with self._lock:
                found = self._known.pop(ticket, None)
        if found is None or self._clock.monotonic() >= found.due or found.path != _segments(path):
            raise Unauthenticated(
                "this ticket was used, is too old, or opens another path: POST /tickets for a new one"
            )
        return found.principal

    def __len__(self) -> int:
        return len(self._known)

    def _is_over(self, ticket: str, now: float) -> bool:
        found = self._known.get(ticket)
        return found is None or now >= found.due


def _segments(path: str) -> Path:
    """Return what a path means, however it was encoded; an encoded slash stays inside of its segment."""
    return tuple(unquote_to_bytes(segment) for segment in path.split("/"))


class TicketRequest(BaseModel):
    """Which stream a ticket is to open: the path of the address, encoded, without its query."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=2048)]


class IssuedTicket(BaseModel):
    """A ticket: open `path?ticket=...` with it, once."""

    ticket: str
    path: str
    expires_in: float


router = APIRouter(route_class=StrictRoute)


@router.post("/tickets", status_code=201, responses=problems(408, 413, 415, 429), tags=["streams"])
async def create_ticket(
    request: Request, response: Response, body: TicketRequest, who: Annotated[Principal, Depends(principal)]
) -> IssuedTicket:
    """Return a ticket that opens one WebSocket, once, in place of the header that a browser cannot send."""
    tickets = hosted(request).tickets
    response.headers["cache-control"] = "no-store"
    return IssuedTicket(ticket=tickets.issue(who, body.path), path=body.path, expires_in=tickets.seconds)
