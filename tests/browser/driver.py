"""Drives a real notebook server and a real browser: JupyterLab 4 and Notebook 7, over Playwright's synchronous API.

    with Server(folder, app="jupyterlab") as server, Browser(chromium) as browser:
        notebook = Notebook(browser.page, server, server.write(["1 + 1"])).open()
        notebook.run(0)

The server has directories of its own for configuration, data and settings, so that nothing of the person who runs the
tests is read or changed. What a page asks of another machine, and what it complains of, is recorded in `Browser`.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import nbformat
from playwright.sync_api import Locator, Page, expect, sync_playwright

from tests.conftest import CHECKOUT, LONGEST_S

KERNEL = "workbench-tests"
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
CURRENT = "window.jupyterapp.shell.currentWidget"

_APPS = {  # what exposes the application to the page, and where a notebook opens
    "jupyterlab": ("--LabApp.expose_app_in_browser=True", "lab/tree/{}?reset&token={}"),
    "notebook": ("--JupyterNotebookApp.expose_app_in_browser=True", "notebooks/{}?token={}"),
}
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},  # asks the internet otherwise
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell stays in the page
    "docmanager-extension/plugin": {"autosave": False},  # tests say when to save
}
_FLAGS = ["--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
_STOP_S = 20.0
_NOT_OURS = (
    "reading 'schema'",  # Notebook 7.6 loads settings of plugins that it leaves out, with an empty page, too
    '"stream.stderr" is not valid JSON',  # a kernel that is restarted may send two messages into each other (seen once)
)
_HERE = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "about:", "file:")


class Served:
    """The notebooks of a server, in the folder `root`."""

    kernel = KERNEL

    def __init__(self, root: Path) -> None:
        self.root = root

    def url(self, notebook: str) -> str:
        """Where the notebook opens."""
        raise NotImplementedError

    def write(self, cells: Sequence[str], *, name: str = "test.ipynb") -> str:
        """A new notebook of these code cells; its name."""
        kernel = {"name": self.kernel, "display_name": self.kernel, "language": "python"}
        made = [nbformat.v4.new_code_cell(source) for source in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), self.root / name)
        return name

    def saved(self, name: str) -> list[Any]:
        """The cells of a notebook as they are on disk."""
        return list(nbformat.read(self.root / name, as_version=4).cells)

    @staticmethod
    def write_settings(folder: Path) -> None:
        """Settings of JupyterLab that tests need."""
        for plugin, value in _SETTINGS.items():
            _write_json(folder / "@jupyterlab" / f"{plugin}.jupyterlab-settings", value)


class Server(Served):
    """A notebook server on 127.0.0.1 whose kernels are this interpreter; ended, with its kernels, at the end of a with
    block."""

    def __init__(self, root: Path, *, app: str = "jupyterlab", environment: Mapping[str, str] | None = None) -> None:
        super().__init__(root)
        self.app, self.port, self.token = app, free_port(), secrets.token_hex(16)
        self._state = Path(tempfile.mkdtemp(prefix="wb-lab-"))
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.write_settings(self._state / "settings")
        self._write_kernel()
        expose, _ = _APPS[self.app]
        command = [sys.executable, "-m", self.app, "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
                   f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0",
                   f"--ServerApp.root_dir={self.root}", expose]
        with (self._state / "log").open("wb") as log:
            self._process = subprocess.Popen(command, env=self._variables(), stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log, cwd=self.root, start_new_session=True)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, notebook: str) -> str:
        """Where the notebook opens."""
        return f"{self.base}/{_APPS[self.app][1].format(notebook, self.token)}"

    def ask(self, method: str, path: str) -> Any:
        """What the server's REST interface answers."""
        return ask(method, self.base + path, token=self.token)

    def end_kernels(self) -> None:
        """End every session and its kernel."""
        for session in self.ask("GET", "/api/sessions"):
            self.ask("DELETE", f"/api/sessions/{session['id']}")

    def stop(self) -> None:
        """End the server and its kernels."""
        if self._process is not None:
            end(self._process, wait_s=_STOP_S)
        shutil.rmtree(self._state, ignore_errors=True)

    def _variables(self) -> dict[str, str]:
        own = {f"JUPYTER_{name.upper()}_DIR": name for name in ("config", "data", "runtime")}
        own |= {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
                "IPYTHONDIR": "ipython"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
        side_panel = dict.fromkeys(("JUPYTER_PATH", "JUPYTER_CONFIG_PATH"), str(CHECKOUT / "jupyter"))  # as built last
        return {**kept, **side_panel, **{name: str(self._state / folder) for name, folder in own.items()},
                "JUPYTER_TOKEN": self.token, "PYDEVD_DISABLE_FILE_VALIDATION": "1", **self._environment}

    def _write_kernel(self) -> None:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": KERNEL, "language": "python"}
        _write_json(self._state / "data" / "kernels" / KERNEL / "kernel.json", spec)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + LONGEST_S
        while True:
            with suppress(OSError):
                self.ask("GET", "/api/status")
                return
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.app} did not start:\n{(self._state / 'log').read_text()[-4000:]}")
            time.sleep(0.1)


class Browser:
    """Chromium with an empty profile and one page.

    Attributes:
        outside: addresses of other machines that the page asked for.
        complaints: errors on the page's console, and those that nobody caught.
        profile: folder of this browser's own profile.
    """

    def __init__(self, executable: str, *, width: int = 1400, height: int = 1000) -> None:
        self.outside: list[str] = []
        self.complaints: list[str] = []
        self._executable, self._size = executable, {"width": width, "height": height}

    def __enter__(self) -> Self:
        self.profile = tempfile.mkdtemp(prefix="wb-chromium-")
        self._playwright = sync_playwright().start()
        try:
            self._context = self._playwright.chromium.launch_persistent_context(
                self.profile, executable_path=self._executable, headless=True, args=_FLAGS, chromium_sandbox=False,
                viewport=self._size,
            )
        except BaseException:
            self._playwright.stop()
            raise
        self._context.set_default_timeout(LONGEST_S * 1000)
        self.page = self._context.pages[0] if self._context.pages else self._context.new_page()
        self._context.on("request", lambda request: self._asked(request.url))
        self.page.on("websocket", lambda socket: self._asked(socket.url))
        self._context.on("console", lambda message: self._said(message.type, message.text, message.location))
        self._context.on("weberror", lambda error: self._complained(f"not caught: {error.error.stack}"))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._context.close()
        finally:
            self._playwright.stop()
            shutil.rmtree(self.profile, ignore_errors=True)

    def forget(self) -> None:
        """Begin to record anew."""
        self.outside.clear()
        self.complaints.clear()

    def grant(self, permission: str, origin: str) -> None:
        """Answer for the person whom the page asks for a permission."""
        self._context.grant_permissions([permission], origin=origin)

    def forgive(self, text: str) -> None:
        """Forget complaints that contain this."""
        self.complaints = [one for one in self.complaints if text not in one]

    def _asked(self, url: str) -> None:
        if not url.startswith(_HERE):
            self.outside.append(url)

    def _said(self, kind: str, text: str, where: Any) -> None:
        if kind == "error":
            self._complained(f"{text} ({where.get('url', '')}:{where.get('lineNumber', '')})")

    def _complained(self, text: str) -> None:
        if not any(known in text for known in _NOT_OURS):
            self.complaints.append(text)


class Notebook:
    """One notebook, open in the page."""

    def __init__(self, page: Page, server: Served, name: str) -> None:
        self.page, self.server, self.name = page, server, name

    # --- opening ------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Open it, and return once its kernel is there."""
        self.page.goto(self.server.url(self.name))
        self.wait_for_kernel()
        return self

    def reload(self) -> None:
        """What a person does with F5."""
        self.page.reload()
        self.wait_for_kernel(busy=True)

    def restart(self) -> None:
        """Restart the kernel."""
        self.page.evaluate(f"() => {CURRENT}.sessionContext.session.kernel.restart()")
        self.wait_for_kernel()

    def wait_for_kernel(self, *, busy: bool = False) -> None:
        """Until the session is there. A cell that is run earlier opens a dialog that asks for a kernel."""
        self.page.wait_for_selector(f"{PANEL} .jp-Notebook")
        idle = "true" if busy else "s.session.kernel.status === 'idle'"
        self.page.wait_for_function(
            f"() => {{ const s = {CURRENT}?.sessionContext;"
            f" return s?.isReady && s.session?.kernel?.connectionStatus === 'connected' && {idle} }}")

    # --- what is in it ------------------------------------------------------------------------------------------

    @property
    def panel(self) -> Locator:
        return self.page.locator(PANEL)

    def cell(self, index: int) -> Locator:
        return self.panel.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-OutputArea-output")

    def shows_no_broken_widget(self, browser: Browser) -> None:
        """Until the page has found out that a widget's kernel is gone; nothing of that is to be seen."""
        said = self.panel.get_by_text("Error displaying widget")
        expect(said.first).to_be_attached()
        for one in said.all():
            expect(one).to_be_hidden()
        browser.forgive("widget model not found")

    # --- doing --------------------------------------------------------------------------------------------------

    def run(self, index: int, *, wait: bool = True) -> None:
        """Run a cell, and return once it has ended, or at once without `wait`. Fails if it raised."""
        self.page.evaluate(f"i => {{ {CURRENT}.content.activeCellIndex = i }}", index)
        self.command("notebook:run-cell", wait=wait)
        if wait:
            self.wait(index)

    def wait(self, index: int) -> None:
        """Until the cell has a number. (Not by the kernel's status: that is idle while a subshell answers.)"""
        prompt = self.cell(index).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"))
        failed = self.cell(index).locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.error'], "
                                          ".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']")
        assert not failed.count(), failed.first.inner_text()

    def write(self, index: int, source: str) -> None:
        """Replace what is in a cell."""
        self.page.evaluate(f"([i, s]) => {{ {CURRENT}.content.widgets[i].model.sharedModel.setSource(s) }}",
                           [index, source])

    def save(self) -> list[Any]:
        """Save it; the cells as they are on disk."""
        self.command("docmanager:save")
        return self.server.saved(self.name)

    def theme(self, name: str) -> None:
        """Switch the theme and wait until it is on."""
        self.command("apputils:change-theme", {"theme": name})
        sheet = "theme-dark-extension" if name == DARK else "theme-light-extension"
        # Until its sheet is there: the application trips over a second switch before that.
        self.page.wait_for_function(f"() => [...document.styleSheets].some(one => one.href?.includes('{sheet}'))")

    def command(self, command: str, arguments: Mapping[str, Any] | None = None, *, wait: bool = True) -> None:
        """Do a command of the application. The page's own promise has no time limit, so a flag is awaited."""
        flag = f"__command_{secrets.token_hex(4)}"
        self.page.evaluate(
            "([flag, command, given]) => { window[flag] = {}; window.jupyterapp.commands.execute(command, given)"
            ".then(() => { window[flag].done = true }, e => { window[flag] = {done: true, error: String(e)} }) }",
            [flag, command, dict(arguments or {})])
        if wait:
            self.page.wait_for_function(f"() => window.{flag}.done")
            error = self.page.evaluate(f"() => window.{flag}.error")
            assert not error, f"{command}: {error}"


def ask(method: str, url: str, *, token: str) -> Any:
    """What a REST interface of Jupyter answers."""
    request = urllib.request.Request(url, method=method, headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=LONGEST_S) as answer:
        data = answer.read()
    return json.loads(data) if data else None


def end(process: subprocess.Popen[bytes], *, wait_s: float) -> None:
    """End a process of ours, by force after `wait_s`."""
    process.terminate()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
