"""The committed bundles are what their sources build; types, unit tests and every chart hold in the browser's tools.

Needs node and the packages of widgets/package-lock.json (`npm ci --prefix widgets`); where the registry cannot be
reached, these tests are skipped and say so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench
from tests.widgets.test_dashboard import everything
from workbench.widgets.charts.axes import AXES
from workbench.widgets.charts.live import rows
from workbench.widgets.kernel import assets
from workbench.widgets.panel import dashboard

WIDGETS = Path(__file__).parents[2] / "widgets"
LAB = WIDGETS.parent / "jupyter" / "labextensions" / "rl-workbench"
STATIC = Path(workbench.__file__).parent / "widgets" / "static"


@pytest.fixture(scope="module")
def tools() -> Path:
    """Where node's packages are, installed if need be."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("needs node 20 or newer, with npm")
    if not (WIDGETS / "node_modules" / "vega").exists():
        try:
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=WIDGETS, capture_output=True, timeout=240,
                           check=True)
        except subprocess.SubprocessError:
            pytest.skip("needs npm's registry once: npm ci --prefix widgets")
    return WIDGETS


def run(*command: str, within: Path, told: str | None = None) -> str:
    done = subprocess.run(command, cwd=within, input=told, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_the_committed_bundles_are_what_the_sources_build(tools: Path, tmp_path: Path) -> None:
    run("node", "build.mjs", str(tmp_path), within=tools)
    built = {path.name: path.read_bytes() for path in tmp_path.glob("*.js")}
    assert built.keys() == {path.name for path in STATIC.glob("*.js")}
    for name, text in built.items():
        assert text == (STATIC / name).read_bytes(), f"{name} is stale: node widgets/build.mjs"
    extension = contents(LAB)
    assert len([name for name in extension if name.startswith("static/remoteEntry.")]) == 1
    assert contents(tmp_path / "lab") == extension, "JupyterLab's extension is stale: node widgets/build.mjs"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_sources_have_sound_types(tools: Path) -> None:
    run("node", "node_modules/typescript/bin/tsc", "--noEmit", within=tools)


def test_the_sources_pass_their_own_tests(tools: Path) -> None:
    run("node", "--test", *(str(path) for path in sorted((tools / "tests").glob("*.test.js"))), within=tools)


def test_every_chart_is_drawn_by_vega_over_every_axis(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    now = dashboard.read(everything("one"))
    specs: dict[str, Any] = {
        f"{key} over {axis}": one.spec() | {"datasets": {name: rows(table) for name, table in one.tables.items()}}
        for axis in AXES for key, one in dashboard.figures(now, axis=axis).items()
    }
    specs["returns of a new run"] = specs["returns over frames"] | {
        "datasets": dict.fromkeys(specs["returns over frames"]["datasets"], [])}
    drawn = json.loads(run("node", "tests/draw.mjs", within=tools, told=json.dumps(specs, default=np.ndarray.tolist)))
    assert drawn.keys() == specs.keys()
    assert {key: one for key, one in drawn.items() if one["problems"] or not one["marks"]} == {}


def test_no_bundle_or_sheet_names_another_machine_to_load_from() -> None:
    for path in STATIC.iterdir():
        text = assets.text(path.name)
        for word in ("@import", "importScripts(", "cdn.jsdelivr", "unpkg.com", "esm.sh", "url(http"):
            assert word not in text, (path.name, word)
