"""A run behind JupyterHub, under a path of its own and through an SSH tunnel: `make test-hub`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import expect

from tests.browser.driver import Browser, Notebook
from tests.browser.hub import PROXY, Hub, Seat, tunnel
from tests.browser.on_screen import Panel
from tests.browser.test_side_panel import TAB
from tests.conftest import CALM, eventually, private_home
from workbench.running.handle import Run, attach

pytestmark = pytest.mark.skipif(not (find_spec("jupyterhub") and PROXY.exists()), reason="needs make test-hub")

LAUNCH, PANEL = range(2)
CELLS = [f"import workbench as wb\nrun = wb.launch('testing/catch-v0', name='behind', total_frames=10**9, **{CALM})",
         "import workbench as wb\nrun = wb.attach('behind')\nrun"]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with (TemporaryDirectory(prefix="wb-hub-") as folder,  # short: a socket's path may have 107 bytes
          Hub(Path(folder), environment={"OMP_NUM_THREADS": "1"}) as hub):
        yield hub


@pytest.fixture(scope="module")
def alice(hub: Hub) -> Iterator[Seat]:
    """Her seat through an SSH tunnel. Her runs are ended after the tests."""
    with tunnel(hub.port) as port:
        yield Seat(hub, "alice", port=port)


@pytest.fixture(scope="module")
def alices_home(alice: Seat) -> Iterator[Path]:
    yield from private_home(alice.root / ".workbench")


@pytest.fixture(scope="module")
def run(alice: Seat, alices_home: Path, browser: Browser) -> Run:
    """Her run, from a cell."""
    alice.log_in(browser.page)
    notebook = Notebook(browser.page, alice, alice.write(CELLS)).open()
    notebook.run(LAUNCH)
    return attach("behind")


@pytest.fixture(scope="module")
def panel(run: Run, alice: Seat, browser: Browser) -> Panel:
    notebook = Notebook(browser.page, alice, "test.ipynb")
    notebook.run(PANEL)
    return Panel(notebook, PANEL)


def test_the_panel_steers_a_run(panel: Panel, run: Run) -> None:
    panel.press("pause")
    eventually(lambda: run.status.state == "paused")
    panel.press("resume")
    eventually(lambda: run.status.state == "training")
    panel.notebook.save()


def test_the_side_panel_lists_it(panel: Panel, browser: Browser) -> None:
    browser.page.locator(TAB).click()
    side = browser.page.get_by_role("region", name="RL Workbench: runs and sweeps")
    expect(side.locator("li[data-kind='run'][data-name='behind']")).to_be_visible()


def test_the_run_outlives_its_users_server(panel: Panel, run: Run, alice: Seat, browser: Browser) -> None:
    browser.page.goto("about:blank")
    alice.stop()
    assert not alice.running
    before = run.status.updates
    run.wait(updates=before + 20, timeout_s=240, progress=False)
    alice.log_in(browser.page)
    notebook = Notebook(browser.page, alice, "test.ipynb").open()
    notebook.shows_no_broken_widget(browser)
    notebook.run(PANEL)
    again = Panel(notebook, PANEL)
    again.press("pause")
    eventually(lambda: run.status.state == "paused")


def test_another_user_does_not_see_it(run: Run, hub: Hub, browser: Browser) -> None:
    bob = Seat(hub, "bob", port=hub.port)
    bob.log_in(browser.page)
    cell = "import workbench as wb\n[run.name for run in wb.runs()]"
    notebook = Notebook(browser.page, bob, bob.write([cell])).open()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("[]")
    browser.page.locator(TAB).click()
    side = browser.page.get_by_role("region", name="RL Workbench: runs and sweeps")
    expect(side).to_be_visible()
    expect(side.locator("li[data-kind='run']")).to_have_count(0)
