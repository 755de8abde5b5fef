"""Owns the dialogues of chatterbot-corpus: reads the installed package's own files. Invents and translates nothing."""

from __future__ import annotations

import importlib.resources
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

__all__ = ["Corpus", "answer", "load"]

# A few entries are lists of hundreds of facts: cut, so that no thread has ten times as much to say as the others.
LINES_MAX = 26
UNKNOWN = "I have no answer to that."


class Corpus(NamedTuple):
    """What the package holds.

    Attributes:
        dialogues: the lines that a person says, one tuple a dialogue; each has a reply.
        replies: to each of these lines, whatever dialogue says it, in the package's order.
        skipped: entries that are no list of at least two lines of text.
    """

    version: str
    languages: int
    dialogues: list[tuple[str, ...]]
    replies: dict[str, list[str]]
    skipped: int


def load() -> Corpus:
    """Read every file of the package; takes a fraction of a second with libyaml, some seconds without."""
    root = importlib.resources.files("chatterbot_corpus") / "data"
    dialogues: list[tuple[str, ...]] = []
    replies: dict[str, list[str]] = {}
    skipped = 0
    languages = sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name)
    for language in languages:
        for lines in _entries(language):
            if (
                not isinstance(lines, list)
                or len(lines) < 2
                or not all(isinstance(t, str) and t.strip() for t in lines)
            ):
                skipped += 1
                continue
            for start in range(0, len(lines), LINES_MAX):
                piece = lines[start : start + LINES_MAX]
                pairs = list(zip(piece[::2], piece[1::2], strict=False))  # a last line without a reply stays unsaid
                if pairs:
                    dialogues.append(tuple(said for said, _ in pairs))
                for said, reply in pairs:
                    replies.setdefault(said, []).append(reply)
    return Corpus(version("chatterbot-corpus"), len(languages), dialogues, replies, skipped)


def answer(corpus: Corpus, thread_id: str, text: str) -> str:
    """Return what the agent says to a line: always the same in one thread, so that it can be checked afterwards."""
    known = corpus.replies.get(text, [UNKNOWN])
    return known[crc32(f"{thread_id}\0{text}".encode()) % len(known)]


def _entries(language: Traversable) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in sorted(language.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith((".yml", ".yaml")):
            # The loader is a safe one; which of the two depends on whether libyaml is there.
            content = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
            yield from content.get("conversations") or ()
