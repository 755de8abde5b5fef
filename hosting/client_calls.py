"""Owns one call: what is sent, what may be repeated, how its answer is read. Sends nothing itself.

The two clients differ in how they wait and in nothing else; whatever they share is here.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypedDict, TypeVar
from urllib.parse import quote

import httpx

from ..protocol.errors import InternalError, InvalidInput, RuntimeClosed, shorten
from ..protocol.limits import SECONDS_MAX
from ..protocol.values import JsonObject, check_value
from .client_errors import error_of, lost
from .client_following import Backoff

__all__ = ["Call", "Options", "Repeats", "check_stream", "new_id", "options", "path", "stream_request"]

T = TypeVar("T")

QUIET_S: Final = 45.0  # a stream without a byte for three heartbeats is dead
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_BODY_BYTES_MAX: Final = 1 << 40  # a server's limit is the server's to say


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call, before it is sent.

    Attributes:
        path: below the base URL.
        read: makes the result of the answer's JSON, which is `{}` for an answer without a body.
        query: None values are left out.
        refusals: statuses whose answer may be a receipt as well, as that of a busy thread.
        repeatable: a second one comes to the same as the first, so that it is sent again where its answer is lost.
        names: what a caller needs to repeat it: the id that was made.
        patience: seconds that the server may take longer than usual, since it was asked to wait.
    """

    method: str
    path: str
    read: Callable[[JsonObject], T]
    query: Mapping[str, object] = field(default_factory=dict)
    body: JsonObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    refusals: frozenset[int] = frozenset()
    repeatable: bool = False
    names: Mapping[str, object] = field(default_factory=dict)
    patience: float = 0.0

    def request(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return it as a request of a client. Raises: InvalidInput: it holds what is no JSON data; RuntimeClosed."""
        _check_open(client)
        query = {name: _shown(value) for name, value in self.query.items() if value is not None}
        headers, content = dict(self.headers), None
        if self.body is not None:
            checked = check_value(self.body, bytes_max=_BODY_BYTES_MAX)
            content = json.dumps(checked, separators=(",", ":")).encode()
            headers["content-type"] = "application/json"
        usual = client.timeout
        wait = None if usual.read is None else usual.read + self.patience
        return client.build_request(
            self.method, self.path, params=query, content=content, headers=headers,
            timeout=httpx.Timeout(wait, connect=usual.connect, write=usual.write, pool=usual.pool),
        )  # fmt: skip

    def answered(self, response: httpx.Response) -> T:
        """Return the result of an answer that was read whole. Raises: TreadleError: what it stands for."""
        refused = not response.is_success
        if refused and not (response.status_code in self.refusals and b'"disposition"' in response.content):
            raise error_of(response.status_code, response.content)
        answer = _json(response) if response.content else {}
        try:
            return self.read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{response.url} answered what this client does not read ({type(error).__name__}: {error})"
            raise InternalError(what, value=shorten(answer)) from error


class Repeats:
    """How often one call was sent; says when to send it again, or raises what has become of it."""

    __slots__ = ("_backoff", "_call", "_failed", "_sent", "_url")

    def __init__(self, call: Call[T], backoff: Backoff, url: str) -> None:
        self._call = call
        self._backoff = backoff
        self._url = url
        self._failed = 0
        self._sent = False

    def after(self, cause: httpx.RequestError) -> float:
        """Return the seconds to wait before it is sent again. Raises: Unavailable: it must not be, or was often enough."""
        self._failed += 1
        unsent = isinstance(cause, _NOT_SENT)
        # Of any attempt: the first may have arrived though the last did not.
        self._sent |= not unsent and self._call.method != "GET"
        if self._backoff.over(self._failed) or not (unsent or self._call.repeatable):
            raise lost(cause, self._url, sent=self._sent, **self._call.names) from cause
        return self._backoff.delay(self._failed)


def base(url: str) -> httpx.URL:
    """Return the address of a server. Raises: InvalidInput: `invalid_url`; it is none."""
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidInput(f"{shorten(url)} is no URL: {error}", code="invalid_url", value=shorten(url)) from error
    if found.scheme not in ("http", "https") or not found.host:
        raise InvalidInput(
            f"a server's URL begins with http:// or https:// and a host, not {shorten(url)}",
            code="invalid_url",
            value=shorten(url),
        )
    return found


class Options(TypedDict):
    """What both kinds of httpx client are made with."""

    base_url: httpx.URL
    headers: dict[str, str]
    timeout: float
    limits: httpx.Limits
    trust_env: bool


def options(url: str, token: str | None, timeout: float) -> Options:
    """Return the arguments of httpx's clients. Raises: InvalidInput: no URL, no token for a header, no seconds above 0."""
    # What httpx has for it, without end too, is as good; anything else would come out at the first call, as httpx's own.
    if not (timeout is None or isinstance(timeout, httpx.Timeout)) and (
        type(timeout) not in {int, float} or not 0 < timeout <= SECONDS_MAX
    ):
        shown = shorten(timeout)
        raise InvalidInput(f"timeout is seconds above 0, not {shown}", code="invalid_timeout", value=shown)
    headers = {"accept": "application/json", "user-agent": "treadle"}
    if token is not None:
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token.strip():
            raise InvalidInput("a token is printable ASCII and not empty; None is none", code="invalid_option")
        headers["authorization"] = f"Bearer {token}"
    found = base(url)
    # One connection a stream, as many as are followed. A proxy of the environment's cannot reach this machine's loopback.
    unbounded = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return Options(
        base_url=found, headers=headers, timeout=timeout, limits=unbounded, trust_env=not _is_loopback(found.host)
    )


def stream_request(client: httpx.Client | httpx.AsyncClient, path: str, query: dict[str, str]) -> httpx.Request:
    """Return the request for a stream of server-sent events. Raises: RuntimeClosed."""
    _check_open(client)
    patience = client.timeout
    return client.build_request(
        "GET",
        path,
        params=query,
        headers={"accept": "text/event-stream", "accept-encoding": "identity"},
        timeout=httpx.Timeout(QUIET_S, connect=patience.connect, write=patience.write, pool=patience.pool),
    )


def _check_open(client: httpx.Client | httpx.AsyncClient) -> None:
    if client.is_closed:  # httpx has a RuntimeError for it, which no caller of ours looks for
        raise RuntimeClosed("this client is closed")


def check_stream(response: httpx.Response) -> None:
    """Refuse a successful answer that is no stream of events. Raises: InternalError."""
    kind = response.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        raise InternalError(f"{response.url} answered {shorten(kind)} instead of a stream of events")


def path(*segments: str) -> str:
    """Return a path of segments, each of which may hold any character. Raises: InvalidInput: `invalid_id`; it is empty."""
    for segment in segments:
        if not isinstance(segment, str) or not segment:
            raise InvalidInput(f"{shorten(segment)} is no id", code="invalid_id", value=shorten(segment))
    return "".join("/" + _encoded(segment) for segment in segments)


def _encoded(segment: str) -> str:
    # What goes for a step in a path has to be hidden from those who would take it.
    if segment in {".", ".."}:
        return segment.replace(".", "%2E")
    return quote(segment, safe="", errors="surrogatepass")


def new_id() -> str:
    """Return an id for a call, so that repeating it is harmless."""
    return secrets.token_hex(16)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(response: httpx.Response) -> JsonObject:
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InternalError(f"{response.url} answered {response.status_code} without a JSON object")
    return found
