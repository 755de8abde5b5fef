"""Owns the sealing of secret values in the store: with a key they are encrypted at rest. Keeps and prints no key.

The encryption is AES-256-GCM of the `cryptography` package, which comes with the extra `secrets`. The name of a value is
authenticated with it, so that a value moved under another name does not open.
"""

from __future__ import annotations

import base64
import binascii
import os
from hashlib import blake2b
from typing import Final

from ..protocol.errors import InvalidInput, TreadleError
from .models.errors import ExtraMissing

__all__ = ["Sealer", "SecretUnreadable"]

KEY_BYTES_MIN: Final = 16
_NONCE: Final = 12  # bytes, as GCM wants them


class SecretUnreadable(TreadleError):
    """A stored secret does not open with the key that this runtime was given; `details` has its `name`."""

    code = "secret_unreadable"


class Sealer:
    """Seals and opens the values of secret variables under one key.

    Args:
        key: at least 16 bytes or characters that nobody can guess; the same one at every open. It is a key and no
            password: it is hashed, not stretched.

    Raises:
        InvalidInput: `invalid_key`.
        ExtraMissing: the package `cryptography` is not installed.
    """

    __slots__ = ("_cipher", "_refusal")

    def __init__(self, key: bytes | str) -> None:
        raw = key.encode() if isinstance(key, str) else key
        if not isinstance(raw, bytes) or len(raw) < KEY_BYTES_MIN:
            # The key itself is not shown, not even shortened.
            raise InvalidInput(f"the key of secrets has at least {KEY_BYTES_MIN} bytes", code="invalid_key")
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ExtraMissing(
                "to encrypt secrets at rest, install the extra: pip install 'treadle[secrets]'",
                extra="secrets",
                missing=error.name or "cryptography",
            ) from error
        self._cipher = AESGCM(blake2b(raw, digest_size=32, person=b"treadle.secrets").digest())
        self._refusal = InvalidTag

    def seal(self, name: str, value: str) -> str:
        """Return a value as it may be stored, in ASCII; never the same twice."""
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, value.encode(), name.encode())).decode()

    def open(self, name: str, sealed: str) -> str:
        """Return the value that was sealed under a name.

        Raises:
            SecretUnreadable: it was sealed under another key or name, or was changed since.
        """
        try:
            raw = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(raw[:_NONCE], raw[_NONCE:], name.encode()).decode()
        except (self._refusal, binascii.Error, ValueError):
            raise unreadable(name) from None

    def __repr__(self) -> str:
        return "<Sealer>"


def unreadable(name: str) -> SecretUnreadable:
    """Return the error of a secret that does not open."""
    return SecretUnreadable(f"the stored secret {name!r} does not open with the runtime's key", name=name)
