"""Lists all environments, which of them are installed, and how to install the rest. Makes none of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.environments.families import FAMILIES, PACKAGES, importing, lacking, package_of
from workbench.environments.presets import presets_of
from workbench.environments.registration import known_ids, registered_names
from workbench.errors import WrongType
from workbench.tables import Columns, Table


@dataclass(frozen=True)
class FamilyRow:
    """One family of environments.

    Attributes:
        name: the argument of `environments` that lists it.
        count: of its names; names of a package that is not installed may be unknown.
        install: the command that installs it; "" if it is installed.
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
        presets: names of its presets, its default first.
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
        package = package_of(name)  # beside its family's
        missing = self.install if not self.installed else package.install if package and not package.installed else ""
        return EnvironmentRow(name, self.name, not missing, tuple(preset.name for preset in presets_of(name)), missing)


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
    """A table of all families, or of the environments that match `pattern`.

    Args:
        pattern: a family such as "football/" or "mujoco", or a part of a name; case does not matter.
    """
    families = _families()
    if pattern is None:
        return Table([family.row for family in families], _FAMILY_COLUMNS, empty="")
    if not isinstance(pattern, str):
        raise WrongType(f"pattern={pattern!r:.100} must be a word, such as wb.environments('mujoco').")
    word = pattern.lower()
    family = next((family for family in families if word.rstrip("/") == family.name.rstrip("/").lower()), None)
    rows = family.rows if family else [
        row for each in families for row in each.rows if word in row.name.lower()]
    return Table(rows, _COLUMNS, empty=_no_match(pattern, family, families))


def every_name() -> list[str]:
    """The names of all environments that are installed, sorted."""
    return sorted(name for family in _families() if family.installed for name in family.names)


def _no_match(pattern: str, family: _Family | None, families: Iterable[_Family]) -> str:
    """The text of an empty table."""
    if family:
        return f"no names of {family.name} are known" + (
            "" if family.installed else f": it is not installed. {family.install}")
    names = {name.lower(): name for family in families for name in (family.name, *family.names)}
    near = difflib.get_close_matches(pattern.lower(), names, n=3, cutoff=0.5)
    return f"no environment has {pattern!r} in its name" + (
        f"; near: {', '.join(names[name] for name in near)}" if near else "")


def _families() -> list[_Family]:
    """All families, those with adapters of their own behind Gymnasium's."""
    for package in PACKAGES:
        importing(package.starts[0])  # registers MiniGrid's ids
    specs = {name: spec for name, spec in sorted(known_ids().items()) if not lacking(name)}
    families = []
    for title, what, starts, example in _GYMNASIUM:
        names = tuple(name for name in specs if name.startswith(starts) or _module(specs[name]).startswith(starts))
        needed_package = next(filter(None, map(package_of, starts)), None)
        families.append(_Family(title, what, names, needed_package is None or needed_package.installed,
                                needed_package.install if needed_package else "", example))
    families += [_Family(family.prefix, family.title, tuple(family.adapter_module().names()), family.installed,
                         family.install, _EXAMPLES.get(family.prefix, "")) for family in FAMILIES]
    testing = tuple(name for name in specs if name.startswith("testing/"))
    families.append(_Family("testing/", "with known answers, for tests", testing, example="testing/catch-v0"))
    families.append(_Family("yours", "given to wb.register_environment in this process", registered_names()))
    listed = {name for family in families for name in family.names}
    others = tuple(name for name, spec in specs.items() if name not in listed and _makeable(spec))
    if others:
        families.append(_Family("other", "more ids that Gymnasium knows here", others))
    return families


def _module(spec: object) -> str:
    """The module of an id's entry point; "" if it is not a string."""
    entry = getattr(spec, "entry_point", None)
    return entry if isinstance(entry, str) else ""


def _makeable(spec: object) -> bool:
    """Whether to list an id: Gymnasium's removed ids, Atari's old ones and JAX's are left out."""
    return bool(_module(spec)) and not _module(spec).startswith(("ale_py", *_JAX))
