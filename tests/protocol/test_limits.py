"""The limits that semantics fixes, and that what must fit together does."""

from __future__ import annotations

import pytest

from treadle.protocol import limits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MESSAGE_BYTES_MAX", 1 << 20),
        ("ATTACHMENTS_MAX", 256),
        ("QUEUED_MAX", 10_000),
        ("VALUE_BYTES_MAX", 1 << 20),
        ("VALUE_DEPTH_MAX", 64),
        ("UNREAD_MAX", 200),
        ("UNREAD_BYTES_MAX", 2 << 20),
        ("BATCH_RECORDS_MAX", 256),
        ("BATCH_BYTES_MAX", 4 << 20),
        ("GROUP_BATCHES_MAX", 1_024),
        ("GROUP_BYTES_MAX", 16 << 20),
        ("MAILBOX_MAILS_MAX", 1_024),
        ("MAILBOX_BYTES_MAX", 16 << 20),
        ("ID_LENGTH_MAX", 128),
        ("NAME_BYTES_MAX", 256),
        ("ROWS_READ_MAX", 256),
        ("WATCH_FRAMES_MAX", 256),
        ("WATCH_BYTES_MAX", 1 << 20),
        ("HISTORY_TAIL", 64),
        ("WORKERS_MAX", 32),
        ("ABANDONED_MAX", 64),
        ("CRASHES_MAX", 3),
        ("CRASH_WINDOW_S", 60.0),
        ("LOST_MAX", 3),
        ("LOST_WINDOW_US", 900_000_000),
        ("RELEASE_TIMEOUT_S", 5.0),
        ("TERM_GRACE_S", 1.0),
        ("RETRY_FIRST_S", 0.05),
        ("RETRY_LAST_S", 5.0),
    ],
)
def test_a_limit_is_what_was_agreed(name: str, value: float) -> None:
    assert getattr(limits, name) == value


def test_finish_fits_a_batch() -> None:
    # One record for each unread steer, call and request at most, and the interruption, FINISH and a hold.
    assert limits.UNREAD_MAX + 3 <= limits.BATCH_RECORDS_MAX
    assert limits.UNREAD_BYTES_MAX + limits.ERROR_MESSAGE_MAX * 4 < limits.BATCH_BYTES_MAX
