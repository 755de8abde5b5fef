from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import processes
from treadle.actors.processes import OwnedProcess, group_alive, kill_if_same, start_time_of, terminate_group
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD = 60
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 60; done"


@pytest.fixture
def started() -> Iterator[list[OwnedProcess]]:
    made: list[OwnedProcess] = []
    yield made
    for process in made:
        assert process.close(term_grace=0)
        process.wait(GUARD)


def spawn(started: list[OwnedProcess], *args: str, **options: Any) -> OwnedProcess:
    process = OwnedProcess(args, **options)
    started.append(process)
    return process


def first_line(process: OwnedProcess) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_nothing_runs_before_the_release(started: list[OwnedProcess], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    process = spawn(started, "touch", str(mark))
    assert process.poll() is None
    assert not mark.exists()
    assert start_time_of(process.pid) == process.start_time
    process.release()
    process.release()

    assert process.wait(GUARD) == 0
    assert mark.exists()


def test_a_program_keeps_its_number_group_and_start_time_when_it_is_released(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sh", "-c", "echo $$; sleep 60", stdout=subprocess.PIPE)
    process.release()

    assert int(first_line(process)) == process.pid == os.getpgid(process.pid) == os.getsid(process.pid)
    assert start_time_of(process.pid) == process.start_time


def test_a_held_program_never_runs_when_its_runtime_dies(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = """if True:
        import os, sys
        from treadle.actors.processes import OwnedProcess
        print(OwnedProcess(["touch", sys.argv[1]]).pid, flush=True)
        os._exit(0)
    """
    runtime = subprocess.run([sys.executable, "-c", code, str(mark)], stdout=subprocess.PIPE, check=True, timeout=300)
    held = int(runtime.stdout)
    assert processes._gone_within(held, GUARD, None)

    assert not mark.exists()


def test_what_is_written_to_its_input_reaches_it_whole(started: list[OwnedProcess]) -> None:
    process = spawn(started, "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.release()
    out, _ = process.communicate(b"first\nsecond\\ third", timeout=GUARD)

    assert out == b"first\nsecond\\ third"


def test_without_an_input_it_reads_nothing(started: list[OwnedProcess]) -> None:
    process = spawn(started, "cat", stdout=subprocess.PIPE)
    process.release()

    assert process.communicate(timeout=GUARD)[0] == b""
    assert process.stdin is None


def test_arguments_environment_and_directory_arrive_unchanged(started: list[OwnedProcess], tmp_path: Path) -> None:
    odd = ["", "a b", "$HOME", "'\"", "-n", "`id`", "ü\n"]
    code = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['ONLY'])"
    environment = {"ONLY": "this"}
    process = spawn(started, sys.executable, "-c", code, *odd, cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    process.release()
    out, _ = process.communicate(timeout=GUARD)

    assert out.decode() == f"{odd} {tmp_path} this\n"
    assert process.args == [sys.executable, "-c", code, *odd]


def test_no_stray_descriptor_is_passed_on(started: list[OwnedProcess]) -> None:
    process = spawn(started, "ls", "/proc/self/fd", stdout=subprocess.PIPE)
    process.release()
    out, _ = process.communicate(timeout=GUARD)

    assert out.split() == [b"0", b"1", b"2", b"3"]  # the last is of ls itself


def test_a_missing_program_and_wrong_arguments_are_told_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        OwnedProcess(["no-such-program"])
    with pytest.raises(FileNotFoundError):
        OwnedProcess(["./no-such-program"], cwd=tmp_path)
    with pytest.raises(FileNotFoundError):
        OwnedProcess(["true"], env={"PATH": str(tmp_path)})
    for args in ("true", [], ["true", 1], None, 5, {"true": "x"}, {"true"}):
        with pytest.raises(InvalidInput):
            OwnedProcess(args)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        OwnedProcess(["true"], stdin=subprocess.STDOUT)
    with pytest.raises(InvalidInput):
        OwnedProcess(["true"], stdin=[])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"cwd": 5}, {"cwd": "a\0b"}, {"env": {"A": 5}}, {"env": {"A=": "x"}}, {"env": 5}, {"stdout": "x"}],
    ids=str,
)
def test_options_that_no_process_can_have_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        OwnedProcess(["true"], **options)
    assert caught.value.code == "invalid_args"


def test_a_program_is_found_from_its_own_directory(started: list[OwnedProcess], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    process = spawn(started, "./script", cwd=tmp_path)
    process.release()

    assert process.wait(GUARD) == 7


def test_closing_ends_the_whole_group(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sh", "-c", "sleep 60 & echo $!; wait", stdout=subprocess.PIPE)
    process.release()
    child = int(first_line(process))
    assert os.getpgid(child) == process.pid

    assert process.close(term_grace=3_600)  # which nobody waits for
    assert process.returncode == -signal.SIGTERM
    assert not group_alive(process.pid)


def test_closing_ends_a_group_whose_leader_has_ended(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sh", "-c", "sleep 60 & echo $!", stdout=subprocess.PIPE)
    process.release()
    first_line(process)
    assert process.wait(GUARD) == 0
    assert group_alive(process.pid)

    assert process.close()
    assert not group_alive(process.pid)


def test_what_ignores_the_first_signal_gets_the_second(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sh", "-c", STUBBORN, stdout=subprocess.PIPE)
    process.release()
    assert first_line(process) == b"ready\n"

    assert process.close(term_grace=0.05)
    assert process.returncode == -signal.SIGKILL


def test_a_stopped_process_is_ended_by_the_first_signal(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sleep", "60")
    process.release()
    os.killpg(process.pid, signal.SIGSTOP)

    assert process.close(term_grace=GUARD)
    assert process.returncode == -signal.SIGTERM


def test_closing_a_held_process_ends_it(started: list[OwnedProcess], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    process = spawn(started, "touch", str(mark))

    assert process.close()
    assert not mark.exists()
    process.release()


def test_releasing_a_process_that_was_killed_while_held_does_not_raise(started: list[OwnedProcess]) -> None:
    process = spawn(started, "true")
    process.kill()
    process.wait(GUARD)
    process.release()

    assert process.returncode == -signal.SIGKILL


def test_closing_twice_is_harmless(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sleep", "60", stdin=subprocess.PIPE)
    process.release()

    assert process.close()
    assert process.close()


def test_a_group_whose_number_now_names_another_process_is_left_alone(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sleep", "60")
    process.release()

    assert terminate_group(process.pid, process.start_time + 1)
    assert not kill_if_same(process.pid, process.start_time + 1)
    assert process.poll() is None


def test_recovery_kills_a_group_that_is_still_the_same(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sh", "-c", STUBBORN, stdout=subprocess.PIPE)
    process.release()
    first_line(process)

    assert kill_if_same(process.pid, process.start_time)
    assert process.wait(GUARD) == -signal.SIGKILL
    assert not kill_if_same(process.pid, process.start_time)


def test_a_process_whose_first_os_thread_has_ended_is_alive(started: list[OwnedProcess]) -> None:
    code = """if True:
        import ctypes, threading, time
        threading.Thread(target=lambda: (time.sleep(0), print("ready", flush=True), threading.Event().wait())).start()
        ctypes.CDLL(None).syscall(60 if __import__("platform").machine() == "x86_64" else 93, 0)
    """
    process = spawn(started, sys.executable, "-c", code, stdout=subprocess.PIPE)
    process.release()
    assert first_line(process) == b"ready\n"
    while processes._stat(process.pid)[0] != "Z":  # type: ignore[index]
        os.sched_yield()

    assert group_alive(process.pid)


def test_a_process_that_is_not_there_has_no_start_time(started: list[OwnedProcess]) -> None:
    process = spawn(started, "true")
    process.release()
    process.wait(GUARD)

    assert start_time_of(process.pid) is None
    assert not group_alive(process.pid)


def test_a_name_with_brackets_and_blanks_does_not_confuse_the_start_time(
    started: list[OwnedProcess], tmp_path: Path
) -> None:
    program = tmp_path / "a) b (c"
    program.symlink_to("/bin/sleep")
    process = spawn(started, str(program), "60")
    process.release()

    assert start_time_of(process.pid) == process.start_time


def test_start_times_fit_where_they_are_stored() -> None:
    now = start_time_of(os.getpid())

    assert now is not None
    assert 0 <= now < 1 << 63


def test_where_there_is_no_proc_the_system_is_asked_otherwise(
    started: list[OwnedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/bin/ps").exists():
        monkeypatch.setattr(processes, "_start_time_by_ps", lambda pid: 5 if pid == os.getpid() else None)
    monkeypatch.setattr(processes, "_HAS_PROC", False)

    assert start_time_of(os.getpid()) == start_time_of(os.getpid()) is not None
    assert start_time_of(2**22) is None
    assert group_alive(os.getpgrp())


def test_the_exit_can_be_awaited(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sh", "-c", "exit 3")

    async def main() -> int:
        process.release()
        return await asyncio.wait_for(process.exited(), GUARD)

    assert asyncio.run(main()) == 3


def test_workers_may_wait_and_close_at_once(started: list[OwnedProcess]) -> None:
    process = spawn(started, "sleep", "60")
    process.release()
    statuses: list[int] = []
    waiting = threading.Thread(target=lambda: statuses.append(process.wait(GUARD)))
    waiting.start()
    assert process.close(term_grace=3_600)  # which nobody waits for
    waiting.join(GUARD)

    assert statuses == [-signal.SIGTERM]
