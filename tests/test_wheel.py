"""What a user installs: the wheel and the sdist hold exactly git's files; the README's snippets run from it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.test_readme import snippets

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
FOLDERS = ("protocol", "storage", "actors", "agents", "hosting")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def tracked(*paths: str) -> list[str]:
    return [
        name
        for name in run("git", "ls-files", "-z", *paths, cwd=ROOT).split("\0")
        if name and os.path.lexists(ROOT / name)
    ]


def code_files() -> set[str]:
    return {f"treadle/{name}" for name in tracked(*FOLDERS)}


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def build_wheel(source: Path, target: Path) -> Path:
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        target,
        source,
        cwd=source,
    )
    (wheel,) = target.glob("treadle-*.whl")
    return wheel


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy git's files, links as links: building leaves `build/` behind, whose files would get into the next wheel."""
    target = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            copy.symlink_to((ROOT / name).readlink())
        else:
            copy.write_bytes((ROOT / name).read_bytes())
    return target


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment of its own and return its interpreter; dependencies come from this one."""
    target = tmp_path_factory.mktemp("environment")
    venv.create(target, with_pip=False)
    python = target / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=target)
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=target).strip())
    # A path file is not read for further path files, so this environment's editable treadle does not come along.
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (own / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return python


def test_the_wheel_holds_exactly_the_files_that_git_has(wheel: Path) -> None:
    assert files_of(wheel) == code_files()


def test_the_sdist_holds_the_code_and_builds_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, cwd=checkout)
    (sdist,) = tmp_path.glob("treadle-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())

    again = build_wheel(unpacked, tmp_path / "again")

    assert files_of(again) == files_of(wheel)


def test_treadle_is_imported_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = run(
        installed, "-W", "error", "-c", "import treadle.protocol; print(treadle.protocol.__file__)", cwd=tmp_path
    )

    assert Path(where.strip()).is_relative_to(installed.parent.parent)


@pytest.mark.parametrize("snippet", snippets())
def test_the_snippets_of_the_readme_run_from_the_wheel(snippet: str, installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(snippet)

    run(installed, "-W", "error", script, cwd=tmp_path)
