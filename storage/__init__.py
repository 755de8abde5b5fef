"""Bytes, durably: the store on disk, the store in memory, and the seam that both implement."""

from .lmdb_store import LmdbStore
from .memory_store import MemoryStore
from .store import Boot, Store, View

__all__ = ["Boot", "LmdbStore", "MemoryStore", "Store", "View"]
