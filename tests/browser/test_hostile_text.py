"""Hostile text in the real page: tables, panel, inspector, sweep, comparison and card show it, and it does nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from tests.attacks import hostile
from tests.attacks.hostile import MARK, TEXT
from tests.browser.driver import Notebook
from tests.browser.on_screen import pictures
from tests.conftest import eventually
from tests.widgets import swept
from workbench import checkpoints
from workbench.environment_spec import EnvironmentSpec
from workbench.sweeping import sweep_folder

RUN, SWEEP = hostile.file_name(TEXT), hostile.file_name("sweep" + TEXT)
VIEWS = {  # a cell, and what is on the screen once its view is there
    "runs": ("wb.runs()", "table[aria-label='Runs'] tbody tr[data-key]"),
    "picture": (f"wb.attach({RUN!r})", "img"),
    "inspector": (f"wb.attach({RUN!r}).checkpoints", ".workbench-inspector-layers tbody tr[data-key]"),
    "checkpoint": (f"wb.attach({RUN!r}).checkpoints[-1]", ""),
    "sweep": (f"wb.attach_sweep({SWEEP!r})", ".workbench-sweep table tbody tr[data-key]"),
    "sweeps": ("wb.sweeps()", "table"),
    "compare": (f"wb.compare([{RUN!r}, 'harmless'], 'episode_return')", ""),
    "card": (f"wb.attach({RUN!r}).card()", "h1"),
}


@pytest.fixture(scope="module")
def notebook(open_notebook, browser_home: Path) -> Notebook:
    made = hostile.run(browser_home, TEXT, RUN)
    hostile.run(browser_home, "harmless", "harmless")
    for frames in (1, 2):
        checkpoints.write(made.checkpoints, frames=frames, requested=True, meta={
            "steps": 1, "updates": 1, "time_s": 1.0, "config": made.config().to_json(), "trained": [TEXT],
            "environment": EnvironmentSpec(TEXT[:200], (4,), "float32", 2).to_json(), "reason": TEXT},
            groups={"model": {TEXT: np.eye(3, dtype=np.float32)}})
    swept.by_hand("hostile", network=TEXT, note=TEXT)
    folder = (sweep_folder.folder() / "hostile").rename(sweep_folder.folder() / SWEEP)
    record = json.loads((folder / "sweep.json").read_text())
    record |= {"state": "failed", "error": {"type": TEXT, "message": TEXT}}
    (folder / "sweep.json").write_text(json.dumps(record))
    return open_notebook([f"import workbench as wb\n{cell}" for cell, _ in VIEWS.values()])


def nothing_came_of_it(output: Locator) -> None:
    """No script of the text ran, no element is of its making, and nothing of it was set as mathematics."""
    assert not output.locator("mjx-container").count()
    assert output.page.evaluate("() => window.broken") is None
    made = output.evaluate("""root => [...root.querySelectorAll('*')].filter(one =>
        ['SCRIPT', 'IFRAME', 'BASE', 'OBJECT', 'EMBED'].includes(one.tagName)
        || [...one.attributes].some(its => its.name.startsWith('on')
            || (['href', 'src', 'xlink:href', 'srcdoc', 'action'].includes(its.name)
                && /^(?!data:).*(evil|javascript|broken)/.test(its.value)))).map(one => one.outerHTML.slice(0, 300))""")
    assert made == [], made


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_text_is_shown_and_does_nothing(notebook: Notebook, view: str) -> None:
    index = list(VIEWS).index(view)
    notebook.run(index)
    output = notebook.cell(index).locator(".jp-OutputArea")
    there = VIEWS[view][1]
    if there:
        expect(output.locator(there).first).to_be_visible()
    else:
        eventually(lambda: output.inner_text().strip() or any(pictures(output)), what="something on the screen")
    nothing_came_of_it(output)
    if view not in ("picture", "checkpoint", "compare"):  # these have it in charts, or not
        assert MARK in output.inner_text()


def test_hostile_text_in_the_live_panel(notebook: Notebook) -> None:
    output = notebook.cell(list(VIEWS).index("runs")).locator(".jp-OutputArea")
    output.get_by_role("button", name=f"Attach {RUN}").click()
    panel = output.locator(".workbench-panel")
    expect(panel.locator("canvas").first).to_be_visible()
    expect(panel).to_contain_text(MARK)
    nothing_came_of_it(output)
