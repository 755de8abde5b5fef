"""Owns the shop's orders in an SQLite file: makes it with data, reads orders, refunds one once. Knows no agent."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS orders (
    number TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, cents INTEGER NOT NULL,
    state TEXT NOT NULL, note TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS refunds (
    number TEXT PRIMARY KEY REFERENCES orders, cents INTEGER NOT NULL, reason TEXT NOT NULL, approved_by TEXT NOT NULL
);
"""

_ORDERS = (
    ("1001", "mia", "a wool blanket", 5_900, "delivered", "left with the neighbours at number 12"),
    ("1002", "mia", "two reading lamps", 7_480, "on its way", "expected on Thursday"),
    ("1003", "mia", "a copper kettle", 3_990, "delivered", "signed for at the door"),
    ("1004", "mia", "a walnut shelf", 18_900, "being made", "leaves the workshop in about ten days"),
    ("1005", "mia", "a doormat", 2_450, "cancelled", "nothing was charged"),
    ("2001", "jonas", "a rocking chair", 32_000, "on its way", "expected on Monday"),
)


class Order(NamedTuple):
    """One order; `refunded` once its money went back."""

    number: str
    item: str
    cents: int
    state: str
    note: str
    refunded: bool

    def told(self) -> dict[str, object]:
        """Return it as a model reads it."""
        return {"price": f"{self.cents / 100:.2f} EUR", **{k: v for k, v in self._asdict().items() if k != "cents"}}


_ORDER = """
SELECT number, item, cents, state, note, EXISTS (SELECT 1 FROM refunds WHERE refunds.number = orders.number)
FROM orders WHERE customer = ?
"""


class OrderBook:
    """The orders in one file; every call opens it anew, so that any worker may call."""

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def create(self) -> None:
        """Make the file with its orders; what it has already stays."""
        with closing(sqlite3.connect(self._path)) as book, book:
            book.executescript(_TABLES)
            book.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?, ?)", _ORDERS)

    def of(self, customer: str) -> list[Order]:
        """Return all orders of a customer, the oldest first."""
        return self._read(f"{_ORDER} ORDER BY number", customer)

    def find(self, customer: str, number: str) -> Order | None:
        """Return one order of a customer; somebody else's is as good as none."""
        return next(iter(self._read(f"{_ORDER} AND number = ?", customer, number)), None)

    def refund(self, order: Order, reason: str, approved_by: str) -> bool:
        """Note a refund; True if it is new. A repeat changes nothing, so that a call cut off by a crash can be made again."""
        with closing(sqlite3.connect(self._path)) as book, book:
            done = book.execute(
                "INSERT OR IGNORE INTO refunds VALUES (?, ?, ?, ?)", (order.number, order.cents, reason, approved_by)
            )
            return done.rowcount == 1

    def _read(self, query: str, *values: str) -> list[Order]:
        with closing(sqlite3.connect(self._path)) as book:
            return [Order._make([*row[:5], bool(row[5])]) for row in book.execute(query, values)]
