"""Imports point down only (but for imports.widget, which loads a widget by its name), and torch stays where the
accelerator is."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import workbench

PACKAGE = Path(workbench.__file__).parent

LAYERS = [
    {"errors", "config", "environment_spec", "trajectory", "rundir", "metrics", "checkpoints", "tables", "imports"},
    {"algorithms"},
    {"replay", "networks", "environments", "testing"},
    {"wire"},
    {"policies", "trackers", "copies"},
    {"supervisor", "learner", "actor"},
    {"launchers"},
    {"running", "playing", "sweeping", "planning"},
    {"widgets"},
    {"lessons"},
    {"__init__", "__main__", "cli"},
]
STRANGERS = {"supervisor", "learner", "actor"}  # processes: they talk over the wire and never import each other
TORCH = {"algorithms", "networks", "replay", "policies", "learner", "playing.worker", "lessons.exercises"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """All that is under `if TYPE_CHECKING`."""
    blocks = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {node for block in blocks for node in ast.walk(block)}


def imported(path: Path, *, only_loaded: bool = False) -> set[str]:
    """Dotted names of all that a module imports, wherever in it; `only_loaded`: and that is there when it runs."""
    found, tree = set(), ast.parse(path.read_text())
    left_out = for_type_checkers(tree) if only_loaded else set()
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} has a relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module.startswith("workbench")}
    return found


def inner(names: set[str]) -> set[str]:
    return {name.removeprefix("workbench.") for name in names if name.startswith("workbench.")}


def layer(top: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if top in names)


def test_imports_point_down() -> None:
    wrong = []
    for path in modules():
        mine = dotted(path).partition(".")[0]
        for name in inner(imported(path)):
            top = name.partition(".")[0]
            if not (PACKAGE / top).is_dir() and not (PACKAGE / f"{top}.py").exists():
                continue  # a name of workbench/__init__.py, which is above everything that may use it
            if layer(top) > layer(mine):
                wrong.append(f"{dotted(path)} imports {name}, which is above it")
            if top != mine and {top, mine} <= STRANGERS:
                wrong.append(f"{dotted(path)} imports {name}: another process")
    assert not wrong


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Nor inside a function. What a package's own file gathers from those beside it is no circle."""
    files = {dotted(path).removesuffix(".__init__"): path for path in modules()}
    graph = {name: {one for one in inner(imported(path, only_loaded=True)) & files.keys()
                    if not name.startswith(f"{one}.") and not one.startswith(f"{name}.")}
             for name, path in files.items() if name != "__init__"}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_torch_is_imported_only_where_the_accelerator_is() -> None:
    importers = {dotted(path) for path in modules() if "torch" in {name.partition(".")[0] for name in imported(path)}}
    assert importers, "this test finds imports of torch"
    assert {one for one in importers if not any(f"{one}.".startswith(f"{home}.") for home in TORCH)} == set()


def test_every_module_has_a_layer() -> None:
    tops = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    assert tops <= set().union(*LAYERS)


PROCESSES_WITHOUT_AN_ACCELERATOR = [
    "workbench",
    "workbench.actor.main",
    "workbench.supervisor.main",
    "workbench.running.launch, workbench.playing.episodes, workbench.running.reading.listing",
    "workbench.cli.commands",
    "workbench.widgets.panel.panel",
]


def test_a_process_without_an_accelerator_loads_no_torch() -> None:
    """All in one process, in which each of them would be the one that loads it."""
    code = f"""
import sys
for modules in {PROCESSES_WITHOUT_AN_ACCELERATOR!r}:
    exec(f"import {{modules}}")
    assert "torch" not in sys.modules, modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
