"""Owns the file of tokens: one a line, and whose it is. Shows no token, whatever is wrong with its line."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidInput, TreadleError
from ..auth import Auth, Principal

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_tokens"]


def read_tokens(path: Path) -> Auth:
    """Read a file of lines `TOKEN` for an admin, or `TOKEN USER_ID`; empty lines and those with `#` in front are skipped.

    Raises:
        InvalidInput: `invalid_tokens`: a line is neither, a token is there twice, none is there at all, or others on
            this machine may read the file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)  # of what is read, whatever the name means by now
        text = file.read()
    if mode & 0o077:
        raise _invalid(path, f"others may read it; its mode is {mode:o} and should be 600")
    known: dict[str, Principal] = {}
    for number, line in enumerate(_lines(path, text), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise _invalid(path, f"line {number} is neither TOKEN nor TOKEN USER_ID")
        if words[0] in known:
            raise _invalid(path, f"the token of line {number} is there before")
        try:
            known[words[0]] = Principal("user", words[1]) if len(words) == 2 else Principal("admin")
            Auth({words[0]: known[words[0]]})
        except TreadleError as error:
            raise _invalid(path, f"line {number}: {error}") from error
    if not known:
        # An empty file would open the service to everybody on this machine, which nobody means by naming one.
        raise _invalid(path, "it has no token")
    return Auth(known)


def _lines(path: Path, text: bytes) -> list[str]:
    try:
        return text.decode().splitlines()
    except UnicodeDecodeError as error:
        raise _invalid(path, "it is no text") from error


def _invalid(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{path}: {why}", code="invalid_tokens", path=str(path))
