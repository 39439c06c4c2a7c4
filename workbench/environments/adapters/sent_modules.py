"""Modules beside the notebook travel with a run as the text that they have at its launch.

Beside the notebook is a file `.py`, or a package, in a folder of the import path that holds neither Python's own nor
installed packages: the notebook's folder, and folders of $PYTHONPATH and `sys.path.append`. Sent are those that the
run's code refers to, and all that they import by name, also inside functions. The other process imports them from that
text, whatever lies in the folder by then; what is not sent is found in the folder, where that exists.
"""

from __future__ import annotations

import dis
import importlib.abc
import importlib.util
import linecache
import site
import sys
import sysconfig
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from workbench.errors import InvalidInput
from workbench.rundir.files import absolute

LARGEST = 16 * 2**20  # bytes of all modules of a run; each actor on another node gets them once for each of its lives

Source = tuple[str, bytes, bool]  # the file, its text, and whether it is a package
Sources = dict[str, Source]  # by the module's name

_OURS = "workbench"  # whose versions are compared instead
_SITES = {"site-packages", "dist-packages"}  # also of another Python, as $PYTHONPATH has them on many clusters
_MAIN = ("__main__", "__mp_main__")  # by value

_lock = threading.RLock()
_keeps = sys.orig_argv[1:4] == ["-P", "-m", "workbench"]  # a process of a run, and no kernel


def keep_for_good() -> None:
    """Let this process import sent modules to its end; a kernel does so only while it loads a run's code."""
    global _keeps
    _keeps = True


# --- the process that sends -----------------------------------------------------------------------------------------


def collected(names: Iterable[str]) -> tuple[Sources, dict[str, str]]:
    """The modules beside the notebook among these names and all that they import; and those without a text: why.

    Executes and imports nothing. Raises InvalidInput if they are larger than LARGEST.
    """
    sources: Sources = {}
    unsent: dict[str, str] = {}
    specs: dict[str, ModuleSpec | None] = {}
    waiting = deque(names)
    while waiting:
        for name in _with_parents(waiting.popleft()):
            if name in specs:
                continue
            above = name.rpartition(".")[0]
            if above and above not in sources:
                break
            spec = specs[name] = _spec(name, specs.get(above))
            if spec is None or not (above or _is_beside(spec)):
                continue
            source = _source(name, spec)
            if isinstance(source, str):
                unsent[name] = source
                continue
            sources[name] = source
            waiting.extend(_imported_by(name, source))
    size = sum(len(text) for _, text, _ in sources.values())
    if size > LARGEST:
        largest = max(sources.values(), key=lambda source: len(source[1]))
        raise InvalidInput(
            f"{len(sources)} modules beside the notebook would travel with the run, {size / 2**20:,.1f} MiB of text "
            f"where {LARGEST / 2**20:g} MiB are the most (the largest is {largest[0]}). Move data out of them, into "
            "files that the nodes share.")
    return sources, unsent


def is_beside(name: str) -> bool:
    """Whether the module of that name lies beside the notebook. Imports nothing."""
    spec = _spec(name.partition(".")[0], None)
    return spec is not None and _is_beside(spec)


def imports_of(code: types.CodeType, package: str = "") -> Iterator[str]:
    """Names of the modules that code may import, wherever in it; `package`: that of relative names."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for level, names, step in zip(steps, steps[1:], steps[2:], strict=False):
        if step.opname != "IMPORT_NAME":
            continue
        with suppress(ImportError, ValueError):  # beyond the top of its package
            name = importlib.util.resolve_name("." * int(level.argval) + step.argval, package)
            yield name
            yield from (f"{name}.{each}" for each in names.argval or ())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from imports_of(constant, package)


def compiled(source: Source) -> types.CodeType | None:
    """The code of a module, which is not run; None for what is no Python: whoever imports it gets the error."""
    file, text, _ = source
    with suppress(SyntaxError, ValueError):
        return compile(text, file, "exec", dont_inherit=True)
    return None


def _with_parents(name: str) -> list[str]:
    """a.b.c → a, a.b, a.b.c."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _spec(name: str, parent: ModuleSpec | None) -> ModuleSpec | None:
    """How Python finds the module; None: it does not. A module that is loaded is the one that is meant."""
    if name in _MAIN:
        return None
    if (module := sys.modules.get(name)) is not None:
        return getattr(module, "__spec__", None)
    with suppress(Exception):  # whatever lies in a folder
        for finder in _finders():
            if (spec := finder.find_spec(name)) is not None:
                return spec
        if "." not in name:
            return PathFinder.find_spec(name)
        if parent is not None and parent.submodule_search_locations is not None:
            return PathFinder.find_spec(name, list(parent.submodule_search_locations))
    return None


def _is_beside(spec: ModuleSpec) -> bool:
    """Whether a module, which is part of no package, lies beside the notebook, or was sent to this process."""
    if isinstance(spec.loader, SentModules):
        return True
    if spec.name == _OURS:
        return False
    folders = list(spec.submodule_search_locations or ())
    if spec.origin is not None and spec.has_location and not folders:
        folders = [spec.origin]
    return any(not _is_installed(Path(folder).absolute().parent) for folder in folders[:1])


def _is_installed(folder: Path) -> bool:
    """Whether it is a folder of Python's own or of installed packages, and not the notebook's."""
    installed, linked = _installed()
    if _SITES & set(folder.parts) or any(path == folder or path in folder.parents for path in installed):
        return True
    return (folder in linked or any(folder.glob("*.dist-info"))) and str(folder) not in absolute([""])


@cache
def _installed() -> tuple[set[Path], set[Path]]:
    """Folders of modules that are Python's own or installed, and those which installed packages link (`pip -e`)."""
    paths = sysconfig.get_paths()
    packages = {*site.getsitepackages(), site.getusersitepackages(), paths["purelib"], paths["platlib"]}
    linked = set()
    for folder in map(Path, packages):
        for file in folder.glob("*.pth"):
            lines = file.read_text(errors="replace").splitlines()
            linked |= {(folder / line).absolute() for line in lines if line and not line.startswith(("import", "#"))}
    installed = {Path(folder) for folder in {*packages, paths["stdlib"], paths["platstdlib"]}}
    return installed | {path.resolve() for path in installed}, linked


def _source(name: str, spec: ModuleSpec) -> Source | str:
    """A module's text; or why it has none."""
    if isinstance(spec.loader, SentModules):
        return spec.loader.sources[name]
    is_package = spec.submodule_search_locations is not None
    if not spec.has_location or spec.origin is None:  # a folder without __init__.py
        folders = list(spec.submodule_search_locations or ())
        if not folders:
            return f"{name} was made by other code, and has no file"
        return str(Path(folders[0]).absolute() / "__init__.py"), b"", True
    path = Path(spec.origin).absolute()
    if path.suffix != ".py":
        return f"{path.name} is compiled"
    try:
        return str(path), path.read_bytes(), is_package
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"


def _imported_by(name: str, source: Source) -> list[str]:
    code = compiled(source)
    return [] if code is None else list(imports_of(code, name if source[2] else name.rpartition(".")[0]))


# --- the process that gets them ---------------------------------------------------------------------------------------


class SentModules(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]  # typeshed's own
    """Finds and loads modules that were sent. Their `__file__` is where they lay, which need not exist here."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`; None where another loader's module is loaded again."""
        if fullname not in self.sources or getattr(getattr(target, "__spec__", None), "loader", self) is not self:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def get_filename(self, fullname: str) -> str:
        """See `importlib.abc.ExecutionLoader`."""
        if fullname not in self.sources:
            raise ImportError(f"{fullname} was not sent", name=fullname)
        return self.sources[fullname][0]

    def is_package(self, fullname: str) -> bool:
        """See `importlib.abc.InspectLoader`."""
        return self.sources[fullname][2]

    def get_data(self, path: str) -> bytes:
        """See `importlib.abc.ResourceLoader`: a module's text as it was sent, else a file."""
        for file, text, _ in self.sources.values():
            if file == path:
                return text
        return Path(path).read_bytes()


@contextmanager
def importable(sources: Sources) -> Iterator[None]:
    """In the block, and in a run's process from then on, sent modules are what is imported by their names.

    Where another text of one of them is loaded, as an opponent's network may have been written with an older one, the
    block gets modules of its own, and the others return after it.
    """
    if not sources:
        yield
        return
    with _lock:
        loaded = {name: sys.modules[name] for name in sources if name in sys.modules}
        earlier = [item for finder in _finders() for item in finder.sources.items()]
        apart = any(source != sources.get(name, source) for name, source in earlier) or any(
            not _is_same(module, sources[name]) for name, module in loaded.items())
        stays = _keeps and not apart
        if apart:
            _forget(loaded)
        finder = SentModules(sources)
        sys.meta_path.insert(0, finder)
        _show_lines(sources)
        try:
            yield
        finally:
            if not stays:
                sys.meta_path.remove(finder)
            if apart or not (stays or all(map(_is_in_place, sources.values()))):
                _forget(name for name in sources if apart or name not in loaded)
                sys.modules.update(loaded)


def _finders() -> list[SentModules]:
    return [finder for finder in sys.meta_path if isinstance(finder, SentModules)]


def _forget(names: Iterable[str]) -> None:
    for name in list(names):
        sys.modules.pop(name, None)


def _is_same(module: types.ModuleType, source: Source) -> bool:
    """Whether a loaded module has the text that was sent."""
    spec = getattr(module, "__spec__", None)
    if spec is not None and isinstance(spec.loader, SentModules):
        return spec.loader.sources.get(module.__name__) == source
    file = getattr(module, "__file__", None)
    return _is_in_place((file, *source[1:])) if file else not source[1]


def _is_in_place(source: Source) -> bool:
    """Whether the file has that text here, too."""
    file, text, _ = source
    with suppress(OSError):
        return Path(file).read_bytes() == text
    return not text and Path(file).parent.is_dir()  # of a folder without __init__.py


def _show_lines(sources: Mapping[str, Source]) -> None:
    """Let tracebacks show the lines that run: of files that are not here, and in a run's process also after an edit."""
    for file, text, _ in sources.values():
        if not _keeps and Path(file).exists():
            continue  # a kernel shows its own
        with suppress(SyntaxError, UnicodeDecodeError):
            lines = importlib.util.decode_source(text).splitlines(keepends=True)
            # no modification time: linecache.checkcache leaves the entry alone
            linecache.cache[file] = (len(text), None, lines, file)
