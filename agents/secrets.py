"""Owns the sealing of secret values in the store: with a key they are encrypted at rest. Keeps and prints no key.

Sealed is encrypt-then-MAC with keyed BLAKE2b: as a stream in counter mode, and as the tag over name, nonce and text. The
name is part of the tag, so that a value moved under another name does not open.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from hashlib import blake2b
from typing import Final

from ..protocol.errors import CallerError, InvalidInput

__all__ = ["SecretUnreadable", "Sealer"]

KEY_BYTES_MIN: Final = 16
_NONCE, _TAG, _BLOCK = 16, 32, 64  # bytes


class SecretUnreadable(CallerError):
    """A stored secret does not open with the key that this runtime was given; `details` has its `name`."""

    code = "secret_unreadable"


class Sealer:
    """Seals and opens the values of secret variables under one key.

    Args:
        key: at least 16 bytes or characters that nobody can guess; the same one at every open.

    Raises:
        InvalidInput: `invalid_key`.
    """

    __slots__ = ("_cipher_key", "_tag_key")

    def __init__(self, key: bytes | str) -> None:
        raw = key.encode() if isinstance(key, str) else key
        if not isinstance(raw, bytes) or len(raw) < KEY_BYTES_MIN:
            # The key itself is not shown, not even shortened.
            raise InvalidInput(f"the key of secrets has at least {KEY_BYTES_MIN} bytes", code="invalid_key")
        digest = blake2b(raw, digest_size=64).digest()
        self._cipher_key = blake2b(key=digest, person=b"treadle.cipher").digest()
        self._tag_key = blake2b(key=digest, person=b"treadle.tag").digest()

    def seal(self, name: str, value: str) -> str:
        """Return a value as it may be stored, in ASCII; never the same twice."""
        nonce = os.urandom(_NONCE)
        text = self._mix(nonce, value.encode())
        return base64.b64encode(nonce + self._tag(name, nonce, text) + text).decode()

    def open(self, name: str, sealed: str) -> str:
        """Return the value that was sealed under a name.

        Raises:
            SecretUnreadable: it was sealed under another key or name, or was changed since.
        """
        try:
            raw = base64.b64decode(sealed, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        nonce, tag, text = raw[:_NONCE], raw[_NONCE : _NONCE + _TAG], raw[_NONCE + _TAG :]
        if not hmac.compare_digest(tag, self._tag(name, nonce, text)):
            raise unreadable(name)
        return self._mix(nonce, text).decode()

    def _mix(self, nonce: bytes, text: bytes) -> bytes:
        blocks = range(0, len(text), _BLOCK)
        stream = b"".join(blake2b(nonce + at.to_bytes(8, "big"), key=self._cipher_key).digest() for at in blocks)
        mixed = int.from_bytes(text, "big") ^ int.from_bytes(stream[: len(text)], "big")
        return mixed.to_bytes(len(text), "big")

    def _tag(self, name: str, nonce: bytes, text: bytes) -> bytes:
        named = len(name.encode()).to_bytes(8, "big") + name.encode()
        return blake2b(named + nonce + text, key=self._tag_key, digest_size=_TAG).digest()

    def __repr__(self) -> str:
        return "<Sealer>"


def unreadable(name: str) -> SecretUnreadable:
    """Return the error of a secret that does not open."""
    return SecretUnreadable(f"the stored secret {name!r} does not open with the runtime's key", name=name)
