"""What environments there are, what is installed of them, and how to install the rest. Makes none of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.environments import registry
from workbench.environments.families import FAMILIES, PACKAGES, Package, importing, lacking, package_of
from workbench.environments.presets import presets_of
from workbench.tables import Columns, Table


@dataclass(frozen=True)
class FamilyRow:
    """One family of environments.

    Attributes:
        name: what `environments(name)` lists it by.
        count: of its names; those of a package that is not installed may not be known.
        install: the command that installs it; "" where it is installed.
        example: one of its names.
    """

    name: str
    what: str
    installed: bool
    count: int
    install: str
    example: str


@dataclass(frozen=True)
class EnvironmentRow:
    """One environment.

    Attributes:
        name: as `launch` takes it.
        presets: that fit it, its own first.
    """

    name: str
    family: str
    installed: bool
    presets: tuple[str, ...]
    install: str


@dataclass(frozen=True)
class _Family:
    """A family with all its names."""

    name: str
    what: str
    names: tuple[str, ...]
    installed: bool = True
    install: str = ""
    example: str = ""

    @property
    def row(self) -> FamilyRow:
        example = self.example or (self.names[0] if self.names else "")
        return FamilyRow(self.name, self.what, self.installed, len(self.names), "" if self.installed else self.install,
                         example)

    @property
    def rows(self) -> list[EnvironmentRow]:
        return [self._row_of(name) for name in self.names]

    def _row_of(self, name: str) -> EnvironmentRow:
        more = package_of(name)  # that this one needs beside its family's
        missing = self.install if not self.installed else more.install if more and not more.installed else ""
        return EnvironmentRow(name, self.name, not missing, tuple(one.name for one in presets_of(name)), missing)


_FAMILY_COLUMNS: Columns = {
    "family": lambda row: row.name,
    "what": lambda row: row.what,
    "names": lambda row: str(row.count) if row.count else "",
    "installed": lambda row: "yes" if row.installed else "no",
    "install it with": lambda row: row.install,
    "such as": lambda row: row.example,
}
_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "family": lambda row: row.family,
    "installed": lambda row: "yes" if row.installed else f"no: {row.install}",
    "presets": lambda row: ", ".join(row.presets),
}

# Families of Gymnasium's registry: name, what, how a bare id or its entry point's module begins, an example.
_GYMNASIUM = (
    ("ALE/", "Atari 2600, native", ("ALE/",), "ALE/Pong-v5"),
    ("classic", "Gymnasium's classic control and toy text",
     ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text"), "CartPole-v1"),
    ("box2d", "Gymnasium's Box2D", ("gymnasium.envs.box2d",), "LunarLander-v3"),
    ("mujoco", "Gymnasium's MuJoCo, continuous actions", ("gymnasium.envs.mujoco",), "HalfCheetah-v5"),
    ("minigrid", "MiniGrid and BabyAI", ("minigrid",), "MiniGrid-MemoryS7-v0"),
)
_JAX = ("gymnasium.envs.phys2d", "gymnasium.envs.tabular")  # of Gymnasium, for its own JAX vectors
_EXAMPLES = {
    "football/": "football/academy_empty_goal_close",
    "vizdoom/": "vizdoom/health-gathering",
    "pettingzoo/": "pettingzoo/butterfly/knights_archers_zombies_v11",
}


def environments(pattern: str | None = None) -> Table[FamilyRow] | Table[EnvironmentRow]:
    """Every family of environments, or the names of those that `pattern` asks for, as a table.

    Args:
        pattern: a family such as "football/" or "mujoco", or what a name has in it, in capitals or not.
    """
    families = _families()
    if pattern is None:
        return Table([family.row for family in families], _FAMILY_COLUMNS, empty="")
    word = pattern.lower()
    of_it = [family for family in families if word.rstrip("/") == family.name.rstrip("/").lower()]
    rows = [row for family in of_it or families for row in family.rows if of_it or word in row.name.lower()]
    return Table(rows, _COLUMNS, empty=_nothing(pattern, of_it, families))


def _nothing(pattern: str, of_it: list[_Family], families: Iterable[_Family]) -> str:
    """What is said where a search finds nothing."""
    if of_it:
        return f"no names of {of_it[0].name} are known" + (
            "" if of_it[0].installed else f": it is not installed. {of_it[0].install}")
    names = {name.lower(): name for family in families for name in (family.name, *family.names)}
    near = difflib.get_close_matches(pattern.lower(), names, n=3, cutoff=0.5)
    return f"no environment has {pattern!r} in its name" + (
        f"; near: {', '.join(names[name] for name in near)}" if near else "")


def _families() -> list[_Family]:
    """All families, those with adapters of their own behind Gymnasium's."""
    for package in PACKAGES:
        importing(package.starts[0])  # MiniGrid's ids are there only then
    known = {name: spec for name, spec in registry.known_ids().items() if not lacking(name)}
    listed: set[str] = set()
    found = []
    for name, what, starts, example in _GYMNASIUM:
        needed = next((one for one in PACKAGES if any(one is package_of(start) for start in starts)), None)
        names = tuple(sorted(one for one in known if one.startswith(starts) or _module(known[one]).startswith(starts)))
        listed.update(names)
        found.append(_of_package(name, what, names, needed, example))
    found += [_Family(family.prefix, family.title, tuple(family.adapter_module().names()), family.installed,
                      family.install, _EXAMPLES.get(family.prefix, "")) for family in FAMILIES]
    testing = tuple(sorted(one for one in known if one.startswith("testing/")))
    found.append(_Family("testing/", "with known answers, for tests", testing, example="testing/catch-v0"))
    found.append(_Family("yours", "given to wb.register_environment in this process", registry.registered_names()))
    others = tuple(sorted(one for one in known if one not in listed and one not in testing and _makeable(known[one])))
    if others:
        found.append(_Family("other", "more ids that Gymnasium knows here", others))
    return found


def _of_package(name: str, what: str, names: tuple[str, ...], needed: Package | None, example: str) -> _Family:
    return _Family(name, what, names, needed is None or needed.installed, "" if needed is None else needed.install,
                   example)


def _module(spec: object) -> str:
    """The module of an id's entry point; "" where that is no text."""
    entry = getattr(spec, "entry_point", None)
    return entry if isinstance(entry, str) else ""


def _makeable(spec: object) -> bool:
    """Whether an id is one to list: not an old one that only says it is gone, nor Atari's old spelling, nor JAX's."""
    return bool(_module(spec)) and not _module(spec).startswith(("ale_py", *_JAX))
