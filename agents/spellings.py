"""Owns how a secret may stand in a text: as it is, and as JSON, Python, URLs and HTML write it. Takes none out.

Programs hand texts on inside of others: a tool returns the JSON of an answer whose body is JSON again. So what escapes
is followed three deep. A secret that is taken apart, encoded in base64 or escaped where no encoder would is not found.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

__all__ = ["spellings"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*")  # written in the same way everywhere
_DEEP: Final = 3


def _json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _json_unicode(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _repr(value: str) -> str:
    return repr(value)[1:-1]


def _repr_quoted(value: str) -> str:
    return repr(value + '"')[1:-2]  # as inside a text that has both quotes


def _ascii(value: str) -> str:
    return ascii(value)[1:-1]


_NESTED: Final[tuple[Callable[[str], str], ...]] = (_json, _json_unicode, _repr, _repr_quoted, _ascii)
# As further writers of JSON do it: PHP, Go, .NET.
_DIALECTS: Final[tuple[Callable[[str], str], ...]] = (
    lambda value: _json(value).replace("/", r"\/"),
    lambda value: _json_unicode(value).replace("/", r"\/"),
    lambda value: _json_unicode(value).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
    lambda value: re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), _json(value)),
)
_FLAT: Final[tuple[Callable[[str], str], ...]] = (
    lambda value: quote(value, safe=""),
    quote,
    quote_plus,
    html.escape,
    lambda value: html.escape(value, quote=False),
)


@lru_cache(maxsize=256)  # each execution asks for the same few; whoever has this process has them anyway
def spellings(value: str) -> tuple[str, ...]:
    """Return how a value may be written, itself first; each once."""
    if _PLAIN.fullmatch(value):
        return (value,)
    once = dict.fromkeys([value, *_written(value, (*_NESTED, *_DIALECTS))])
    found, layer = dict(once), list(once)
    for _ in range(_DEEP - 1):
        layer = list(dict.fromkeys(one for text in layer for one in _written(text, _NESTED) if one not in found))
        found |= dict.fromkeys(layer)
    for text in once:
        found |= dict.fromkeys(_written(text, _FLAT))
    return tuple(found)


def _written(value: str, writers: tuple[Callable[[str], str], ...]) -> Iterator[str]:
    for write in writers:
        try:
            yield write(value)
        except UnicodeEncodeError:
            continue  # with half a character it can stand in no URL
