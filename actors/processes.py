"""Owns process groups: starts a process held until it is recorded, and ends whole groups. Never a single pid by number.

A process that leaves its group is not covered. A number says nothing by itself, since the system gives it out again: a
group is known by its number together with the time at which its leader started.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from ..protocol.errors import InvalidInput
from ..protocol.limits import TERM_GRACE_S
from .reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["OwnedProcess", "group_alive", "kill_if_same", "start_time_of", "terminate_group"]

KILL_PATIENCE_S: Final = 1.0  # for the system to clear a killed group away
POLL_FIRST_S: Final = 0.001
POLL_LAST_S: Final = 0.05

_PROC: Final = Path("/proc")
_HAS_PROC: Final = (_PROC / "self" / "stat").exists()
# The shell waits for one line on its input, then becomes the program. End of input, as when the runtime dies, ends it
# before the program ran: so nothing ever runs that was not recorded. `read` takes its line and not a byte more.
_GATE: Final = 'IFS= read -r gate || exit 125; exec "$@"'


class OwnedProcess(subprocess.Popen[bytes]):
    """A `subprocess.Popen` that leads a process group of its own and runs nothing before `release`.

    Args:
        args: program and arguments; no shell. The program must exist.
        cwd: directory to run in.
        env: environment; by default the runtime's.
        stdin: `subprocess.DEVNULL` or `subprocess.PIPE`.
        stdout: as for `Popen`; None inherits the runtime's.
        stderr: as for `Popen`; None inherits the runtime's.

    Raises:
        InvalidInput: `args`, `stdin` or another option is none of these.
        FileNotFoundError: there is no such program.
        OSError: the system refuses it, for a bad file descriptor or for want of processes.

    Attributes:
        start_time: when it started, an opaque number; together with `pid`, which is also the group, it identifies it.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> None:
        if (
            not isinstance(args, Sequence)
            or isinstance(args, str)
            or not args
            or not all(isinstance(arg, str) for arg in args)
        ):
            raise InvalidInput("args must be a program and its arguments, each a string", code="invalid_args")
        if stdin not in (subprocess.DEVNULL, subprocess.PIPE):
            raise InvalidInput("stdin must be DEVNULL or PIPE", code="invalid_stdin")
        gate = _GATE if stdin == subprocess.PIPE else f"{_GATE} </dev/null"
        try:
            super().__init__(
                ["/bin/sh", "-c", gate, "sh", _find(args[0], cwd, env), *args[1:]],
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(f"no process can be started with these options: {error}", code="invalid_args") from error
        self.args = list(args)
        # The shell cannot have ended yet, and if it was killed it is still there to be waited for.
        started = start_time_of(self.pid)
        assert started is not None
        self.start_time: int = started
        self._gate: IO[bytes] | None = self.stdin
        if stdin == subprocess.DEVNULL:
            self.stdin = None

    def release(self) -> None:
        """Let the program run: call it once the group is recorded. A second call does nothing; any worker."""
        gate, self._gate = self._gate, None
        if gate is None:
            return
        try:
            os.write(gate.fileno(), b"\n")
        except BrokenPipeError:
            # Killed while it was held: `wait` tells.
            return
        finally:
            if gate is not self.stdin:
                gate.close()

    def exited(self) -> Reply[int]:
        """Return a reply with the exit status, for event loops, which `wait` would block."""
        reply: Reply[int] = Reply()
        threading.Thread(target=lambda: reply.set(self.wait()), name="treadle-process", daemon=True).start()
        return reply

    def close(self, term_grace: float = TERM_GRACE_S) -> bool:
        """End the whole group: SIGTERM, then SIGKILL after `term_grace` seconds; close the pipes. Blocks that long.

        Returns:
            Whether nothing is left of the group.
        """
        gone = terminate_group(self.pid, self.start_time, term_grace, reap=self.poll)
        try:
            self.wait(KILL_PATIENCE_S)
        except subprocess.TimeoutExpired:
            gone = False
        for pipe in {self._gate, self.stdin, self.stdout, self.stderr} - {None}:
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # what was still buffered for it has nobody to read it
                continue
        self._gate = None
        return gone


def start_time_of(pid: int) -> int | None:
    """Return an opaque number for when the process started, the same for as long as it lives; None if there is none."""
    if not _HAS_PROC:
        return _start_time_by_ps(pid)
    stat = _stat(pid)
    # Ticks count from boot, so the boot belongs to the number: the same pid may start at the same tick of the next one.
    return None if stat is None else (_boot() << 42) | int(stat[19])


def group_alive(group: int) -> bool:
    """Say whether a process of the group lives; one that is dead and waits to be collected does not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's by now, or by its own doing; there it is
    if not _HAS_PROC:
        return True
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            stat = _stat(int(entry.name))
            # A leader shows as dead while other OS threads of its process still run.
            if stat is not None and int(stat[2]) == group and (stat[0] not in "ZX" or int(stat[17]) > 1):
                return True
    return False


def terminate_group(
    group: int, start_time: int, term_grace: float = TERM_GRACE_S, reap: Callable[[], object] | None = None
) -> bool:
    """End a group that this process started: SIGTERM, then SIGKILL to what is left after `term_grace` seconds.

    Blocks the worker until the group is gone, at most `term_grace` plus a second.

    Args:
        group: its number.
        start_time: of its leader.
        term_grace: seconds.
        reap: called again and again meanwhile, to collect the leader.

    Returns:
        Whether nothing is left of it.
    """
    for number, patience in ((signal.SIGTERM, term_grace), (signal.SIGKILL, KILL_PATIENCE_S)):
        # Without its leader the number is still the group's for as long as it has members.
        if start_time_of(group) not in {None, start_time} or not _signal(group, number):
            return True
        if _gone_within(group, patience, reap):
            return True
    return False


def kill_if_same(group: int, start_time: int) -> bool:
    """Kill a group of an earlier process, if its leader is still the one that was recorded.

    A group whose leader has ended is left alone: nothing tells it from a newer one with the same number.

    Returns:
        Whether it was killed.
    """
    if start_time_of(group) != start_time or not _signal(group, signal.SIGKILL):
        return False
    _gone_within(group, KILL_PATIENCE_S, None)
    return True


def _signal(group: int, number: signal.Signals) -> bool:
    """Signal the group; False when there is none."""
    try:
        os.killpg(group, number)
        if number == signal.SIGTERM:
            os.killpg(group, signal.SIGCONT)  # a stopped process cannot act on it
    except ProcessLookupError:
        return False
    except PermissionError:
        return group_alive(group)
    return True


def _gone_within(group: int, seconds: float, reap: Callable[[], object] | None) -> bool:
    deadline = time.monotonic() + seconds
    pause = POLL_FIRST_S
    while True:
        if reap is not None:
            reap()
        if not group_alive(group):
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        # The system tells nobody when a group empties.
        time.sleep(min(pause, left))
        pause = min(pause * 2, POLL_LAST_S)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from the third on, the state first."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets, and may itself hold brackets and blanks.
    return text[text.rindex(")") + 2 :].split()


def _boot() -> int:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return 0  # some sandboxes hide it; the ticks alone still tell nearly all
    return zlib.crc32(boot) & 0x1FFFFF


def _start_time_by_ps(pid: int) -> int | None:
    shown = subprocess.run(  # noqa: S603 - fixed words and a number
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False, env={"LC_ALL": "C"}
    )
    return zlib.crc32(shown.stdout.strip()) if shown.stdout.strip() else None


def _find(program: str, cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None) -> str:
    """Find the program as the system would, since an error of the shell's `exec` would come too late."""
    if "/" in program:
        program = str(Path(cwd or ".").absolute() / program)
    found = shutil.which(program, path=None if env is None else env.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(f"no program {program!r}")
    return str(Path(found).absolute())
