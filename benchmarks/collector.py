"""Owns what every measured process sets of the garbage collector, the baseline's and the product's alike.

`docs/tuning.md` advises users to do the same. What is imported is taken out of the collector's sight, else each full
collection walks all of it again; and it looks after every fifty thousand new objects instead of after seven hundred,
which is about what a thousand executions under way hold.
"""

from __future__ import annotations

import gc

__all__ = ["settle_collector"]


def settle_collector() -> None:
    """Call once, after the imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
