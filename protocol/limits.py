"""Owns every limit and default duration, with its unit and its reason. Decides nothing.

Sizes are bytes of UTF-8 or msgpack, durations seconds. Each refusal is an error that names the limit and the size met.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

ID_LENGTH_MAX: Final = 128  # an LMDB key ends at 511 bytes, and an id shares it with a prefix
NAME_BYTES_MAX: Final = 256  # a longer user-chosen key is stored under its SHA-256
MESSAGE_BYTES_MAX: Final = MIB  # contract I.4
MESSAGES_PER_INPUT_MAX: Final = 256  # one input always fits one batch
INPUT_BYTES_MAX: Final = 4 * MIB  # the sum over one input's messages; a batch's own limit
ATTACHMENTS_MAX: Final = 256  # contract I.4
QUEUED_MAX: Final = 10_000  # rows waiting in one thread's inbox, contract I.4
VALUE_BYTES_MAX: Final = MIB  # contract I.4
VALUE_DEPTH_MAX: Final = 64  # msgpack and JSON decoders both recurse; Python's own limit is 1,000 frames
VALUES_PAGE_MAX: Final = 200  # values in one page, contract D.5
VALUES_PAGE_BYTES: Final = 4 * MIB  # of one page; a larger value goes alone
TAGS_MAX: Final = 64
TAG_LENGTH_MAX: Final = 128
REASON_LENGTH_MAX: Final = 1_024  # an interruption's text, shown to people
ERROR_TYPE_MAX: Final = 256  # characters of an exception's type in FINISH
ERROR_MESSAGE_MAX: Final = 8 * KIB  # characters of its message

UNREAD_MAX: Final = 200  # unread steers and open calls of one execution: FINISH and settling close all in one batch
UNREAD_BYTES_MAX: Final = 2 * MIB

TOOLS_JOINED_MAX: Final = 64  # queued tools that join at one boundary: each opens a call

BATCH_RECORDS_MAX: Final = 256  # mails decided into one batch; bounds how long a control waits behind others
BATCH_BYTES_MAX: Final = 4 * MIB
GROUP_BATCHES_MAX: Final = 1_024  # batches that share one sync
GROUP_BYTES_MAX: Final = 16 * MIB
MAILBOX_MAILS_MAX: Final = 1_024  # beyond it `ThreadOverloaded`, nothing stored
MAILBOX_BYTES_MAX: Final = 16 * MIB
ROWS_READ_MAX: Final = 256  # inbox rows looked up for one decision
INBOX_FAIL_ROWS: Final = 256  # rows a batch when a terminated thread's inbox is emptied
DELETE_ROWS: Final = 1_000  # rows a batch when a deleted thread's contents are removed
JOURNAL_PAGE: Final = 256  # events read in one go by a subscription
HISTORY_TAIL: Final = 64  # messages that come with a dispatch; older pages are read on the spot
SECONDS_MAX: Final = 1_000_000_000  # of any duration: 31 years, which every timer can wait
PAGE_MAX: Final = 1_000  # items in one page of messages, executions or threads
PAGE_DEFAULT: Final = 100  # contract D.3
LONG_POLL_S: Final = 60.0  # that an answer may wait for an execution's end; what stands between often cuts longer ones
PAGE_BYTES: Final = 4 * MIB  # of one page of messages or executions over HTTP; a larger item goes alone

WATCH_FRAMES_MAX: Final = 256  # frames kept for the watchers of one thread; one further behind reads the journal
WATCH_BYTES_MAX: Final = MIB
LIVE_BYTES_MAX: Final = 256 * KIB  # of one frame that is stored nowhere; a quarter of what a thread's watchers share

INTERRUPT_GRACE_S: Final = 5.0  # from an accepted interrupt to abandoning the body
RELEASE_TIMEOUT_S: Final = 5.0  # for closing what an execution owns, before FINISH goes on without it
TERM_GRACE_S: Final = 1.0  # from SIGTERM to SIGKILL for an owned process group
DRAIN_TIMEOUT_S: Final = 30.0
IDLE_AFTER_S: Final = 60.0  # an idle actor is passivated after this
RESIDENT_MAX: Final = 20_000  # idle actors kept
RETRY_FIRST_S: Final = 0.05  # a refused FINISH is tried again after this, doubling
RETRY_LAST_S: Final = 5.0
LOOP_SILENT_S: Final = 1.0  # a loop that answers no ping for this long is named by `explain()`
STORAGE_FULL_S: Final = 30.0  # not ready for so long after a write that had no room, or until one is written
DISPATCHER_SILENT_S: Final = 5.0  # a dispatcher whose line takes longer makes the runtime not ready

WORKERS_MAX: Final = 32  # plain-function bodies at once
CALLS_MAX: Final = 1_024  # functions of one execution that have workers or wait for one
ABANDONED_MAX: Final = 64  # written-off workers before new plain-function executions fail with `no_worker`
CRASHES_MAX: Final = 3  # of one thread's actor within the window, then it is quarantined
CRASH_WINDOW_S: Final = 60.0
SUPERVISOR_CRASHES_MAX: Final = 5  # then the runtime fails closed
SUPERVISOR_WINDOW_S: Final = 10.0
LOST_MAX: Final = 3  # lost executions within the window, then the thread is held
LOST_WINDOW_US: Final = 15 * 60 * 1_000_000

RESPONSE_CHARS_MAX: Final = 4 * MIB  # characters of text, thoughts and calls in one model response
RESPONSE_CALLS_MAX: Final = 16_384  # tool calls in one; a model that asks for more is broken
FIRST_CHUNK_TIMEOUT_S: Final = 120.0  # contract C.2: a model's silence before its first delta
STALL_TIMEOUT_S: Final = 45.0  # and between two
STREAM_CLOSE_TIMEOUT_S: Final = 5.0  # for a model's clean-up, before the step goes on without it
RETRY_AFTER_MAX_S: Final = 3_600.0  # a provider that asks for more is not asked again in this step

# FINISH carries at most: every unread steer joined, every open call closed, each with its own record.
assert UNREAD_MAX < BATCH_RECORDS_MAX
assert UNREAD_BYTES_MAX < BATCH_BYTES_MAX
assert BATCH_BYTES_MAX <= GROUP_BYTES_MAX
assert MESSAGE_BYTES_MAX <= INPUT_BYTES_MAX <= BATCH_BYTES_MAX
