"""Owns the keys: every one begins with the thread's 8-byte number, and sorts as its table is read. Reads nothing.

An id or a name that a user chose never makes a key too long: LMDB ends at 511 bytes.
"""

from __future__ import annotations

import hashlib
import struct
from binascii import unhexlify

from ..protocol.ids import is_internal
from ..protocol.limits import NAME_BYTES_MAX

__all__ = [
    "HASHED", "JOURNAL_KEY", "RANKED_KEY", "VALUES_FROM", "id_part", "inbox_key", "journal_key", "message_key", "named_key",
    "number_prefix", "numbered", "open_key", "prefix_end", "request_key", "sequence_of", "user_key", "value_key",
]  # fmt: skip

HASHED, VALUES_FROM = (
    b"\xff",
    b"\x01",
)  # how the part of a name begins that is its hash, and that of the first user's value
JOURNAL_KEY = struct.Struct(">QIQ")
RANKED_KEY = struct.Struct(">QBQ")

numbered = struct.Struct(">Q").pack


def number_prefix(number: int) -> bytes:
    """Return what all keys of a thread begin with."""
    return numbered(number)


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key after every key that begins with `prefix`, which must not be all 0xff."""
    value = int.from_bytes(prefix, "big") + 1
    return value.to_bytes(len(prefix), "big")


def journal_key(number: int, generation: int, sequence: int) -> bytes:
    """Return the key of an event."""
    return JOURNAL_KEY.pack(number, generation, sequence)


def message_key(number: int, message_class: int, position: int) -> bytes:
    """Return the key of a joined message: one run of positions for each class, so that a filter skips nothing."""
    return RANKED_KEY.pack(number, message_class, position)


def inbox_key(number: int, first: bool, sequence: int) -> bytes:
    """Return the key of a waiting row: those that came with an interruption stand before all others."""
    return RANKED_KEY.pack(number, 0 if first else 1, sequence)


def sequence_of(key: bytes) -> int:
    """Return the last eight bytes of a key as a number: a sequence or position."""
    return int.from_bytes(key[-8:], "big")


def id_part(given: str) -> bytes:
    """Return an id's bytes in a key; ours take half their length."""
    if len(given) == 32:
        try:
            raw = unhexlify(given)
        except ValueError:
            return b"\x02" + given.encode()
        # There and back, since decoding takes capitals too.
        if raw.hex() == given:
            return b"\x01" + raw
    return b"\x02" + given.encode()


def named_key(prefix: bytes, given: str) -> bytes:
    """Return the key of what is found by id: message, execution or receipt."""
    return prefix + id_part(given)


def request_key(prefix: bytes, request_id: str) -> bytes:
    """Return the key of what became of a request: among the receipts, where no input or control id begins so."""
    return prefix + b"\x03" + request_id.encode()


def value_key(prefix: bytes, name: str) -> bytes:
    """Return the key of a value; a long name is stored under its SHA-256, marked by a byte that UTF-8 never has.

    Values of the runtime's own layers stand before all others, so that a user's are one run.
    """
    encoded = name.encode()
    if is_internal(name):
        return prefix + b"\0" + encoded
    if len(encoded) > NAME_BYTES_MAX:
        return prefix + HASHED + hashlib.sha256(encoded).digest()
    return prefix + encoded


def open_key(prefix: bytes, kind: bytes, given: str) -> bytes:
    """Return the key of what must be closed before FINISH: `c` a call, `r` a request, `p` a process group."""
    encoded = given.encode()
    if len(encoded) > NAME_BYTES_MAX:
        return prefix + kind + b"\xff" + hashlib.sha256(encoded).digest()
    return prefix + kind + encoded


def user_key(user_id: str, number: int) -> bytes:
    """Return the key of a thread in the list of its user's threads."""
    return user_key_prefix(user_id) + numbered(number)


def user_key_prefix(user_id: str) -> bytes:
    """Return what the keys of one user begin with; ids hold no NUL."""
    return user_id.encode() + b"\0"
