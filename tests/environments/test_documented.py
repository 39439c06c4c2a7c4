"""docs/environments.md names every option, preset, protocol and scenario, and no other defaults than the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import workbench
from workbench.config import settings
from workbench.environments import families, make
from workbench.environments.adapters.wrapping import Wrapped
from workbench.environments.atari.protocols import PROTOCOLS
from workbench.environments.atari.vector import AtariOptions
from workbench.environments.dmlab.family import DmlabOptions
from workbench.environments.football.family import FootballOptions
from workbench.environments.presets import PRESETS
from workbench.environments.vizdoom.doom_game import MatchOptions
from workbench.environments.vizdoom.scenarios import SCENARIOS

PAGE = Path(workbench.__file__).parent.parent / "docs" / "environments.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(("title", "options"), [
    ("Atari", AtariOptions), ("Football", FootballOptions), ("ViZDoom", MatchOptions), ("DeepMind Lab", DmlabOptions)])
def test_every_option_is_there_with_its_default(page: str, title: str, options: Any) -> None:
    rows = {}
    for line in section(page, title).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].startswith("`"):
            names, defaults = re.findall(r"`(\w+)`", cells[0]), cells[1].split(", ")
            rows.update(zip(names, defaults if len(defaults) == len(names) else [cells[1]] * len(names), strict=True))
    known = settings(options)
    assert known.keys() <= rows.keys(), known.keys() - rows.keys()
    for name, one in known.items():
        assert rows[name].replace(",", "") == str(one.default), name


def test_every_preset_protocol_and_scenario_is_there(page: str) -> None:
    for name in (*(one.name for one in PRESETS), *PROTOCOLS, *SCENARIOS):
        assert f"`{name}`" in page, name
    for one in (*families.FAMILIES, *families.PACKAGES):
        prefix = getattr(one, "prefix", None)
        assert prefix is None or f"`{prefix}*`" in page, prefix


def test_every_link_on_the_page_resolves(page: str) -> None:
    titles = {re.sub(r"[^\w-]", "", line.lstrip("# ").lower().replace(" ", "-"))
              for line in page.splitlines() if line.startswith("#")}
    for target in re.findall(r"\]\(([^)]+)\)", page):
        if target.startswith("#"):
            assert target[1:] in titles, target
        elif not target.startswith("http"):
            assert (PAGE.parent / target).exists(), target


def test_the_wrapper_of_masks_does_what_the_page_says(page: str) -> None:
    code = page.split("**Action masks.**")[1].split("```python\n")[1].partition("\nrun = ")[0]
    names: dict[str, Any] = {"gymnasium": gymnasium}
    exec(code, names)
    checked = workbench.check_environment("Taxi-v4", wrappers=[names["MaskOfInfo"]])
    assert checked.truncated
    assert make("Taxi-v4", num_envs=2, seed=0, factory=Wrapped(None, (names["MaskOfInfo"],))).spec.action_mask
