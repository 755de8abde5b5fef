"""The outside: the app and its server, clients of it, the command line. Loaded name by name, since each part has its price."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import create_app
    from .auth import Auth, Principal
    from .client import Client, ThreadClient
    from .client_async import AsyncClient, AsyncThreadClient
    from .client_following import Backoff
    from .client_streams import AsyncEventStream, EventStream
    from .hosted import Limits
    from .server import serve

__all__ = [
    "AsyncClient",
    "AsyncEventStream",
    "AsyncThreadClient",
    "Auth",
    "Backoff",
    "Client",
    "EventStream",
    "Limits",
    "Principal",
    "ThreadClient",
    "create_app",
    "serve",
]

# A command that speaks to a server needs no server, and a program with an app of its own no client.
_PLACES = {
    "AsyncClient": "client_async",
    "AsyncEventStream": "client_streams",
    "AsyncThreadClient": "client_async",
    "Auth": "auth",
    "Backoff": "client_following",
    "Client": "client",
    "EventStream": "client_streams",
    "Limits": "hosted",
    "Principal": "auth",
    "ThreadClient": "client",
    "create_app": "app",
    "serve": "server",
}


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{place}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "treadle":
            raise
        why = f"{__name__}.{name} needs more packages: pip install 'treadle[serve]' ({error})"
        raise ModuleNotFoundError(why, name=error.name, path=error.path) from error
