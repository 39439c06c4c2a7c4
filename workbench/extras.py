"""What an extra of this distribution needs, and the command that installs it.

The command names the packages themselves and never the distribution: whoever registered that name at a package index
could hand its readers any code. pyproject.toml alone says what an extra needs; it is read from the metadata that an
installation leaves.
"""

from __future__ import annotations

import importlib.metadata
import shlex

from packaging.requirements import Requirement

DISTRIBUTION = "rl-workbench"


def packages(extra: str) -> tuple[str, ...]:
    """Requirements of `extra` with their bounds, such as ("vizdoom<1.4,>=1.3.2",); empty where the distribution is not
    installed, as in a checkout that is only on the path."""
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(_bare(one) for one in map(Requirement, lines) if _is_of(one, extra))


def _is_of(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _bare(requirement: Requirement) -> str:
    requirement.marker = None
    return str(requirement)


def install(extra: str, *words: str) -> str:
    """The command that installs what `extra` needs, with more `words` for pip: `pip install envpool==1.2.5`."""
    needed = packages(extra)
    if not needed:
        return f"{shlex.join(['pip', 'install', *words, f'.[{extra}]'])}, in a checkout of RL Workbench"
    return shlex.join(["pip", "install", *words, *needed])
