"""Modules beside a notebook travel as they were at the launch, to processes that do not see their folder."""

from __future__ import annotations

import importlib
import linecache
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_files
from workbench.environments.adapters import sent_modules
from workbench.environments.adapters.code_by_value import dumps, loads
from workbench.environments.adapters.edited_modules import edited
from workbench.environments.adapters.sent_modules import SentModules, collected, importable
from workbench.errors import EnvironmentFailed, InvalidInput

FILES = {
    "maze.py": '''
from __future__ import annotations
import walls
from rooms.doors import Door
from rooms import keys as all_keys

MADE = []  # the module's state

class Maze(walls.Walled):
    def __init__(self):
        MADE.append(self)
    def facts(self):
        from rooms.late import late  # in a function
        return [len(MADE), walls.HIGH, Door.width, all_keys.ONE, late()]
def broken():
    raise IndexError("off the wall")
''',
    "walls.py": "import rooms.doors\nHIGH = 3\nclass Walled:\n    pass\n",
    "rooms/__init__.py": "COUNT = 1\n",
    "rooms/doors.py": "from . import COUNT\nfrom .keys import ONE\nclass Door:\n    width = COUNT + ONE\n",
    "rooms/keys/__init__.py": "from .. import COUNT\nONE = 10 * COUNT\n",
    "rooms/late.py": "def late():\n    return 'late'\n",
    "rooms/unused.py": "raise RuntimeError('nobody imports it')\n",
    "folder/inside.py": "VALUE = 5\n",
}
FACTS = [1, 3, 11, 10, "late"]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A notebook's folder on the import path of this process, and no trace of its modules afterwards."""
    folder = write_files(tmp_path / "notebook", FILES)
    monkeypatch.syspath_prepend(folder)
    before, finders, lines = dict(sys.modules), list(sys.meta_path), dict(linecache.cache)
    yield folder
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)
    sys.meta_path[:] = finders
    linecache.cache.clear()
    linecache.cache.update(lines)


def in_another_process(data: bytes, work: str, folder: Path) -> str:
    """What `work` prints, where `made` is what those bytes hold, in a run's process on a machine without the folder."""
    (file := folder.parent / "data").write_bytes(data)
    away = folder.rename(folder.with_name("away"))
    code = ("import sys\nfrom workbench.environments.adapters import code_by_value, sent_modules\n"
            f"sent_modules.keep_for_good()\nmade = code_by_value.loads(open({str(file)!r}, 'rb').read())\n" + work)
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=240, check=False,
                          cwd=folder.parent)
    away.rename(folder)
    return done.stdout.strip() if done.returncode == 0 else done.stderr


def test_a_class_and_all_that_its_module_imports_run_where_the_folder_is_not(notebook: Path) -> None:
    maze = importlib.import_module("maze")
    data = dumps(maze.Maze)
    names = set(pickle.loads(data)[3])
    assert names == {"maze", "walls", "rooms", "rooms.doors", "rooms.keys", "rooms.late"}
    assert in_another_process(data, "print(made().facts())", notebook) == str(FACTS)


def test_code_of_a_cell_takes_along_what_it_imports_also_inside_of_functions(notebook: Path) -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec("def build():\n    import maze, folder.inside\n    return maze.Maze().facts()[1] + folder.inside.VALUE", cell)
    assert in_another_process(dumps(cell["build"]), "print(made())", notebook) == "8"
    exec("import rooms.doors\ndef build():\n    return rooms.doors.Door.width", cell)
    assert in_another_process(dumps(cell["build"]), "print(made())", notebook) == "11"


def test_modules_that_a_wrapped_or_partial_factory_needs_are_one_module_with_one_state(notebook: Path) -> None:
    maze = importlib.import_module("maze")
    data = dumps(lambda: (maze.Maze, maze))
    work = "cls, module = made()\nprint(cls is module.Maze, sys.modules['maze'] is module, len(module.MADE))"
    assert in_another_process(data, work, notebook) == "True True 0"


def test_what_arrived_is_sent_on_to_processes_of_its_own(notebook: Path) -> None:
    """As an actor on another node sends its environments to the processes of `spread`."""
    data = dumps(importlib.import_module("maze").Maze)
    work = "import pickle\nprint(sorted(pickle.loads(code_by_value.dumps(made))[3].items()))"
    assert in_another_process(data, work, notebook) == str(sorted(pickle.loads(data)[3].items()))


def test_a_traceback_shows_the_lines_that_run_after_the_file_was_edited(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_modules, "_keeps", True)
    maze = importlib.import_module("maze")
    data = dumps(maze.broken)
    (notebook / "maze.py").write_text("# nothing is here any more\n" * 30)
    with pytest.raises(IndexError) as raised:
        loads(data)()
    shown = "".join(traceback.format_exception(raised.value))
    assert f'File "{notebook}/maze.py", line 16, in broken' in shown and 'raise IndexError("off the wall")' in shown


def test_an_edit_after_the_launch_changes_neither_the_run_nor_what_the_kernel_imports(notebook: Path) -> None:
    walls = importlib.import_module("walls")
    data = dumps(walls.Walled)
    (notebook / "walls.py").write_text("import rooms.doors\nHIGH = 40\nclass Walled:\n    pass\n")
    work = "print(sys.modules['walls'].HIGH)"
    assert in_another_process(data, work, notebook) == "3"
    importlib.reload(walls)
    theirs = loads(data)
    assert theirs is not walls.Walled and theirs.__init__.__qualname__ and sys.modules["walls"] is walls
    assert importlib.reload(walls).HIGH == 40 and not any(isinstance(one, SentModules) for one in sys.meta_path)


def test_functions_that_were_edited_since_their_import_are_named_and_moved_ones_are_not(notebook: Path) -> None:
    write_files(notebook, {"game.py": """
import functools
import walls
class Game(walls.Walled):
    @functools.cache
    def loss(self):
        return [value + 5.0 for value in (1, 2)]
    @property
    def size(self):
        return 1
    def same(self):
        return lambda: 3
def free():
    return 1
"""})
    importlib.import_module("game")
    text = (notebook / "game.py").read_text()
    assert edited(["game"]) == {}
    (notebook / "game.py").write_text("# a line more\n\n" + text)
    assert edited(["game"]) == {}
    (notebook / "game.py").write_text(text.replace("+ 5.0", "+ 99.0").replace("    return 1\n", "    return True\n"))
    assert edited(["game"]) == {"game.py": ["Game.loss", "Game.size", "free"]}
    (notebook / "game.py").write_text("class Game(:\n")
    assert edited(["game"]) == {}  # whoever imports it gets the error
    (notebook / "game.py").write_text(text)
    (notebook / "walls.py").write_text("class Walled:\n    def more(self): pass\n")
    assert edited(["game"]) == {}  # what is new was never loaded
    assert edited(["json"]) == edited(["__main__"]) == {}


def test_a_kernel_whose_file_is_the_same_keeps_its_own_class(notebook: Path) -> None:
    walls = importlib.import_module("walls")
    assert loads(dumps(walls.Walled)) is walls.Walled


def test_two_versions_of_a_module_live_in_one_process(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a learner has them, whose opponent was trained before the notebook's module was edited."""
    monkeypatch.setattr(sent_modules, "_keeps", True)
    old = dumps(importlib.import_module("walls").Walled)
    (notebook / "walls.py").write_text("HIGH = 40\nclass Walled:\n    high = HIGH\n")
    importlib.reload(sys.modules["walls"])
    new = dumps(sys.modules["walls"].Walled)
    for name in ("walls", "rooms", "rooms.doors", "rooms.keys"):
        sys.modules.pop(name, None)
    first, second = loads(new), loads(old)
    assert first.high == 40 and not hasattr(second, "high")
    assert loads(new) is first and sys.modules["walls"].HIGH == 40


def test_installed_packages_and_the_workbench_do_not_travel() -> None:
    sources, unsent = collected(["numpy.linalg", "gymnasium", "json", "workbench.testing", "sys", "no_such_module"])
    assert sources == {} and unsent == {}


@pytest.mark.parametrize("place", ["lib/python3/site-packages", "dist-packages", "target"])
def test_packages_that_are_installed_elsewhere_on_the_path_do_not_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / place
    (folder / "installed_there").mkdir(parents=True)
    (folder / "installed_there/__init__.py").touch()
    (folder / "installed_there-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(folder)
    assert collected(["installed_there"]) == ({}, {})


def test_a_folder_without_init_is_a_package_there_too(notebook: Path) -> None:
    inside = importlib.import_module("folder.inside")
    cell: dict[str, Any] = {"__name__": "__main__", "inside": inside}
    exec("def build():\n    return inside.VALUE", cell)
    assert in_another_process(dumps(cell["build"]), "print(made())", notebook) == "5"


def test_a_module_that_other_code_makes_is_left_to_it(notebook: Path) -> None:
    """As `six.moves`, where six lies in a package beside the notebook."""
    write_files(notebook, {
        "rooms/made.py": "import sys\nfrom importlib.machinery import ModuleSpec\nfrom importlib.util import "
                         "module_from_spec\nspec = ModuleSpec('rooms.moves', None)\n"
                         "spec.submodule_search_locations = []\nmoves = module_from_spec(spec)\nmoves.FAR = 7\n"
                         "sys.modules['rooms.moves'] = moves\n",
        "mover.py": "import rooms.made\nfrom rooms.moves import FAR\ndef far():\n    return FAR\n"})
    mover = importlib.import_module("mover")
    data = dumps(mover.far)
    assert in_another_process(data, "print(made())", notebook) == "7"


def test_modules_that_are_too_large_are_refused_with_their_size(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_modules, "LARGEST", 100)
    with pytest.raises(InvalidInput, match=r"6 modules beside the notebook .* MiB .*the largest is .*maze\.py"):
        dumps(importlib.import_module("maze").Maze)


def test_a_compiled_module_is_named_where_it_is_missing(notebook: Path) -> None:
    (notebook / "fast.cpython-311-x86_64-linux-gnu.so").touch()
    sources, unsent = collected(["fast"])
    if not unsent:
        pytest.skip("another Python's suffix")
    assert sources == {} and unsent == {"fast": "fast.cpython-311-x86_64-linux-gnu.so is compiled"}
    payload = b"cfast\nbuild\n."  # a reference to fast.build, as pickle writes it
    (notebook / "fast.cpython-311-x86_64-linux-gnu.so").unlink()
    with pytest.raises(EnvironmentFailed, match=r"the module fast was not sent, since fast\..*\.so is compiled\."):
        loads(pickle.dumps(({}, [], payload, {}, unsent)))


def test_nothing_is_left_behind_by_a_block_that_fails(notebook: Path) -> None:
    before, finders = set(sys.modules), list(sys.meta_path)
    with pytest.raises(SyntaxError), importable({"torn": (str(notebook / "torn.py"), b"def (", False)}):
        importlib.import_module("torn")
    assert set(sys.modules) == before and sys.meta_path == finders
