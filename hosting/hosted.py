"""Owns what every route of one app finds: the runtime, who may call, the limits. Opens and closes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from ..protocol.errors import bad_option
from .shares import Shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import HTTPConnection

    from ..actors import Runtime
    from .auth import Auth, Principal
    from .tickets import Tickets

__all__ = ["Hosted", "Limits", "hosted"]

_MIB = 1 << 20
_RETRY_STREAM_S = 5  # one ends when its client leaves, and a crowd that asks each second is one more load


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost, and all of them together; each has to be above 0.

    Attributes:
        body_bytes: of one request (contract I.4).
        body_items: commas and opening brackets in one body, those in texts included. Each may become an object, and while
            JSON is parsed nothing else runs: 64 MiB of `{},` are seconds. The default holds what a call may hold.
        body_members: of all objects in one body. An object is made in one go, and one of two million members takes a second.
        body_run: commas between two ends of objects, a list counted as four. Only where an object ends may others go on while
            JSON is parsed, and a list of five million numbers held them up for a quarter of a second. The default holds
            the numbers that a value may hold.
        header_bytes: of all header lines of one request together.
        body_seconds: until a request's body is there; a slower one is refused.
        write_seconds: until a client took what a stream sent; a slower one is dropped, and holds nothing up.
        heartbeat_seconds: of quiet, until a stream says that it still lives (contract A.11).
        ticket_seconds: that a ticket for a WebSocket can be used once.
        streams: that are open at once, waits for executions included; each costs about 50 KiB.
        streams_per_principal: of one user, or of all admins.
        bodies: of requests that were not answered yet.
        bodies_per_principal: of one user, or of all admins.
        bodies_bytes: of these together, as far as they have come.
        bodies_bytes_per_principal: of one user, or of all admins.
    """

    body_bytes: int = 64 * _MIB
    body_items: int = 5 * _MIB
    body_members: int = _MIB // 4
    body_run: int = _MIB + 1_024
    header_bytes: int = 32 << 10
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    heartbeat_seconds: float = 15.0
    ticket_seconds: float = 30.0
    streams: int = 4_096
    streams_per_principal: int = 2_048
    bodies: int = 1_024
    bodies_per_principal: int = 512
    bodies_bytes: int = 512 * _MIB
    bodies_bytes_per_principal: int = 256 * _MIB

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) not in (int, float) or not value > 0:
                raise bad_option(f"{name} is a number above 0", value)


class Hosted:
    """What one app serves, `app.state.treadle`; made once by `create_app`."""

    __slots__ = ("auth", "limits", "owners", "runtime", "streams", "tickets")

    def __init__(self, runtime: Runtime, auth: Auth, limits: Limits, tickets: Tickets) -> None:
        self.runtime = runtime
        self.auth = auth
        self.limits = limits
        self.tickets = tickets
        self.owners: dict[str, str | None] = {}  # by thread; kept by streams of users
        self.streams = Shares(
            "streams", total=limits.streams, each=limits.streams_per_principal, retry_after=_RETRY_STREAM_S
        )

    def enter(self, who: Principal) -> Callable[[], None]:
        """Let a principal begin a stream; return what to call once it is over, once. Raises: Refused: there are too many."""
        self.streams.take(who)
        return partial(self.streams.give, who)


def hosted(connection: HTTPConnection) -> Hosted:
    """Return what the app of a request or a WebSocket serves."""
    return cast("Hosted", connection.app.state.treadle)
