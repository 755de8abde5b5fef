"""Owns who calls: tokens, principals, and which threads a principal sees. Answers nothing itself, and logs no token.

Tokens are kept as digests, and every presented one is compared with all of them: how long that takes says nothing of any.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

# At run time, since FastAPI reads the dependency's annotations.
from starlette.requests import HTTPConnection

from ..protocol.errors import CallerError, InvalidInput, ThreadNotFound, shorten
from ..protocol.ids import check_id
from .given import wrong

if TYPE_CHECKING:
    from ..actors import Runtime, Thread

__all__ = ["Auth", "Principal", "Unauthenticated", "authenticate", "is_loopback", "principal", "visible"]

# What a bearer token is made of, RFC 6750.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class Unauthenticated(CallerError):
    """No token, or none that is known here; the same for both. Nothing was read or written."""

    code = "unauthenticated"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: an `admin`, who sees every thread, or a user, who sees the threads with that `user_id`.

    Attributes:
        kind: `admin` or `user`.
        user_id: the user's id; None for an admin.
        runtime: where it calls; set by the dependency, and no part of who it is.
    """

    kind: Literal["admin", "user"]
    user_id: str | None = None
    runtime: Runtime | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind == "user":
            check_id("user_id", self.user_id)
        elif self.kind != "admin" or self.user_id is not None:
            raise InvalidInput("a principal is a user with an id, or an admin without", code="invalid_option")

    def sees(self, user_id: str | None) -> bool:
        """Say whether a thread of `user_id` is visible to it."""
        return self.kind == "admin" or self.user_id == user_id


_ADMIN = Principal("admin")


class Auth:
    """The bearer tokens that a server takes; without any, whoever comes from this machine is an admin.

    Args:
        tokens: who each token stands for.

    Raises:
        InvalidInput: `invalid_option`: this is no mapping, or a token is none that a header could carry. Only None and a
            mapping without tokens stand for no tokens: what is empty by mistake must not open a server.
    """

    __slots__ = ("_known",)

    def __init__(self, tokens: Mapping[str, Principal] | None = None) -> None:
        known = {} if tokens is None else _mapping(tokens)
        for token, who in known.items():
            if not isinstance(token, str) or not _TOKEN.fullmatch(token) or not isinstance(who, Principal):
                raise InvalidInput(
                    f"a token of {shorten(who)} is letters, digits and -._~+/, and stands for a Principal",
                    code="invalid_option",
                )
        self._known = [(_digest(token), who) for token, who in known.items()]

    def __repr__(self) -> str:
        return f"<Auth of {len(self._known)} tokens>"

    @property
    def is_open(self) -> bool:
        """Whether no tokens are configured, so that only this machine may call."""
        return not self._known

    def find(self, token: str) -> Principal | None:
        """Return who a token stands for, None where it is unknown; takes the same time for every token."""
        presented = _digest(token)
        found = None
        for known, who in self._known:
            # No way out of the loop: the first match takes as long as none.
            if hmac.compare_digest(known, presented):
                found = who
        return found


def _mapping(tokens: object) -> Mapping[str, Principal]:
    if not isinstance(tokens, Mapping):
        raise wrong("tokens", "a mapping, {token: Principal('admin')}", tokens)
    return tokens


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def is_loopback(host: str) -> bool:
    """Say whether an address or a name means this machine and no other."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def authenticate(connection: HTTPConnection) -> Principal:
    """Return who a request or a WebSocket comes from, by its `Authorization` header; never blocks.

    Raises:
        Unauthenticated: it carries no token, several, or one that is unknown; or it comes from another machine and no
            tokens are configured.
    """
    hosted = connection.app.state.treadle
    auth: Auth = hosted.auth
    if auth.is_open:
        # None is a socket of the file system's.
        if connection.client is not None and not is_loopback(connection.client.host):
            raise Unauthenticated("no tokens are configured, so only this machine may call")
        return replace(_ADMIN, runtime=hosted.runtime)
    given = connection.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    found = auth.find(token.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        raise Unauthenticated("this needs a known token: Authorization: Bearer TOKEN")
    return replace(found, runtime=hosted.runtime)


async def principal(connection: HTTPConnection) -> Principal:
    """Be the dependency of every route that needs to know who calls. Raises: Unauthenticated."""
    return authenticate(connection)


def visible(principal: Principal, thread_id: str) -> Thread:
    """Return a thread that a principal sees; blocks for at most one read, on any worker, and never on a mailbox.

    Args:
        principal: as the dependency made it.
        thread_id: as it came.

    Raises:
        ThreadNotFound: there is none, or it is somebody else's; nothing tells one from the other.
        InvalidInput: it is no id.
        RuntimeClosed: the runtime closes.
    """
    assert principal.runtime is not None, "a principal comes from the dependency"
    thread = principal.runtime.thread(thread_id)
    # Of an admin's call, too: an unknown thread answers alike wherever it is first looked up.
    if not principal.sees(thread.user_id().result()):
        raise ThreadNotFound(f"no thread {thread_id!r}", thread_id=thread_id)
    return thread
