"""One server of each kind and one browser for all tests of this folder, and what no page may do in any of them.

A test fails on a request that leaves the machine and on an error on the console. A picture of the page of each test
that failed is in build/browser/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.driver import Browser, Notebook, Server
from tests.conftest import LONGEST_S, SMALL, private_home
from workbench.running.handle import Run
from workbench.running.launch import launch

HERE = Path(__file__).parent
PICTURES = HERE.parent.parent / "build" / "browser"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "apt-get install --yes --no-install-recommends chromium fonts-dejavu-core"
INSTALL_S = 300

Open = Callable[..., Notebook]

expect.set_options(timeout=LONGEST_S * 1000)


def chromium() -> str | None:
    """Path of a browser: $CHROMIUM, or the one that is installed."""
    found = (os.environ.get("CHROMIUM"), *map(shutil.which, CHROMIUMS))
    return next((one for one in found if one), None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install the browser once, where tests want it, it is missing, and that can be done without asking."""
    wanted = any(HERE in item.path.parents for item in session.items)
    if not wanted or chromium() or session.config.option.collectonly:
        return
    if os.getuid() == 0 and shutil.which("apt-get"):
        for command in ("apt-get update", INSTALL):
            with suppress(subprocess.SubprocessError):  # then these tests are skipped, and say what to install
                subprocess.run(command.split(), capture_output=True, timeout=INSTALL_S,
                               env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


@pytest.fixture(scope="package")
def browser_home() -> Iterator[Path]:
    """The home of all runs of this folder."""
    yield from private_home()


@pytest.fixture(scope="package")
def pong(browser_home: Path) -> Run:
    """A run of Pong that was stopped early, with three checkpoints."""
    run = launch("ALE/Pong-v5", name="pong", total_frames=10**9, progress=False, **SMALL)
    for updates in (3, 8):
        run.wait(updates=updates, timeout_s=240, progress=False)
        run.checkpoint()
    run.stop()
    return run


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    executable = chromium()
    if executable is None:
        pytest.skip(f"needs a browser: {INSTALL} (or set CHROMIUM to the path of one)")
    with Browser(executable) as started:
        yield started


@pytest.fixture(scope="package")
def servers(browser_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """servers("jupyterlab") and servers("notebook"): started when first asked for, and ended after the last test."""
    started: dict[str, Server] = {}
    environment = {"WORKBENCH_HOME": str(browser_home), "OMP_NUM_THREADS": "1"}
    with ExitStack() as stack:

        def server(app: str) -> Server:
            if app not in started:
                folder = tmp_path_factory.mktemp(app)
                started[app] = stack.enter_context(Server(folder, app=app, environment=environment))
            return started[app]

        yield server


@pytest.fixture(scope="module")
def open_notebook(browser: Browser, servers: Callable[[str], Server],
                  request: pytest.FixtureRequest) -> Iterator[Open]:
    """open_notebook([cell, ...], run=[0]) opens a new one in the page and runs these cells; its kernel ends after the
    module."""
    used: set[str] = set()

    def opened(cells: Sequence[str], *, run: Sequence[int] = (), app: str = "jupyterlab", name: str = "") -> Notebook:
        used.add(app)
        name = name or f"{Path(str(request.path)).stem}-{len(list(servers(app).root.iterdir()))}.ipynb"
        notebook = Notebook(browser.page, servers(app), servers(app).write(cells, name=name)).open()
        for cell in run:
            notebook.run(cell)
        return notebook

    yield opened
    browser.page.goto("about:blank")  # it would complain that its kernel has gone
    for app in used:
        servers(app).end_kernels()


@pytest.fixture(autouse=True)
def _well_behaved(request: pytest.FixtureRequest, browser: Browser) -> Iterator[None]:
    """Fails a test whose page asked another machine for something, or complained."""
    browser.forget()
    yield
    outside, complaints = list(browser.outside), list(browser.complaints)
    if outside or complaints:
        _keep_picture(browser, request.node.nodeid)
    assert not outside, f"the page asked other machines: {outside}"
    assert not complaints, f"the page complained: {complaints}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Keep a picture of the page where a test failed."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("browser")
    if report.failed and report.when == "call" and isinstance(browser, Browser):
        _keep_picture(browser, item.nodeid)
    return report


def _keep_picture(browser: Browser, test: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", test.removeprefix("tests/browser/"))
    browser.page.screenshot(path=PICTURES / f"{name}.png")
