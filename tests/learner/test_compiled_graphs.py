"""A compiled graph is a program: only those that this user's own learner has compiled on this machine are used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from workbench.learner.devices.compiled_graphs import LIST, CompiledGraphs
from workbench.rundir import sealed

TOLD: list[str] = []


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's, with two graphs that its learner has vouched for."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    TOLD.clear()
    graphs = CompiledGraphs(tmp_path / "run" / "xla", compiler="xla 1")
    files = graphs.admit(TOLD.append)
    assert files is not None and graphs.found == 0
    (files / "rank-0").mkdir()
    for name in ("1", "rank-0/2"):
        (files / name).write_bytes(b"graph " + name.encode())
    graphs.seal(TOLD.append)
    return tmp_path / "run" / "xla"


def left(folder: Path, *, compiler: str = "xla 1") -> set[str]:
    """What a next life finds."""
    graphs = CompiledGraphs(folder, compiler=compiler)
    files = graphs.admit(TOLD.append)
    assert files is not None
    names = {str(path.relative_to(files)) for path in files.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert graphs.found == len(names) and not TOLD
    return names


def test_a_next_life_finds_what_was_compiled(folder: Path) -> None:
    assert left(folder) == {"1", "rank-0/2"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.rglob("*")) if path.name != "rank-0")


def test_what_was_planted_or_altered_is_deleted_before_the_compiler_sees_it(folder: Path) -> None:
    (folder / "graphs" / "1").write_bytes(b"graph x")  # of the same size
    (folder / "graphs" / "rank-0" / "planted").write_bytes(b"code")
    assert left(folder) == {"rank-0/2"}


def test_links_are_deleted_and_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    (folder / "graphs" / "link").symlink_to(elsewhere / "mine")
    (folder / "graphs" / "folder").symlink_to(elsewhere)
    assert left(folder) == {"1", "rank-0/2"}
    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    assert left(folder) == set() and (elsewhere / "mine").read_text() == "mine"


def test_no_list_but_this_users_own_of_this_machine_and_compiler_vouches_for_any(folder: Path, tmp_path: Path,
                                                                               monkeypatch) -> None:
    copies = [shutil.copytree(folder, tmp_path / f"copy-{number}" / "xla") for number in range(3)]
    assert left(copies[0], compiler="xla 2") == set()
    forged = {"compiler": "xla 1", "files": json.loads(sealed.read(copies[1] / LIST))["files"]}
    (copies[1] / LIST).write_text(json.dumps(forged))
    assert left(copies[1]) == set()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another machine"))
    assert left(copies[2]) == set()


def test_where_nothing_can_be_kept_it_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    graphs = CompiledGraphs(tmp_path / "file" / "xla", compiler="xla 1")
    assert graphs.admit(told.append) is None and "are not kept" in told[0]
    graphs.seal(told.append)
    assert "compile its graphs anew" in told[1]
