"""A real JupyterHub on 127.0.0.1, and an SSH tunnel to it, for `make test-hub`.

The servers of its users are this interpreter's. Users are made up: all are this account, and each has a home of their
own, as a container gives them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Page

from tests.browser.driver import Served, ask, end, free_port
from tests.conftest import CHECKOUT, LONGEST_S

PREFIX = "/class/rl/"  # a hub is seldom at the root of its host
PROXY = CHECKOUT / "build" / "hub" / "node_modules" / ".bin" / "configurable-http-proxy"
_STOP_S = 60.0
_CONFIG = """
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{port}{prefix}"
c.JupyterHub.hub_ip, c.JupyterHub.hub_port = "127.0.0.1", {hub_port}
c.ConfigurableHTTPProxy.command, c.ConfigurableHTTPProxy.api_url = ["{proxy}"], "http://127.0.0.1:{proxy_port}"
c.JupyterHub.authenticator_class, c.JupyterHub.spawner_class = "dummy", "simple"
c.DummyAuthenticator.password, c.Authenticator.allow_all = "{password}", True
c.SimpleLocalProcessSpawner.home_dir_template = "{homes}/{{username}}"
c.Spawner.cmd = ["{python}", "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root", "--LabApp.expose_app_in_browser=True"]
c.Spawner.environment = {environment}
c.Spawner.start_timeout = c.Spawner.http_timeout = {longest}
c.JupyterHub.services = [{{"name": "tests", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "tests", "scopes": ["admin:users", "admin:servers"], "services": ["tests"]}}]
"""


class Hub:
    """A hub whose files are in a folder; ended, with its users' servers, at the end of a with block."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str]) -> None:
        self.homes, self.port, self.password = folder / "homes", free_port(), secrets.token_hex(8)
        self._folder, self._token = folder, secrets.token_hex(16)
        self._environment = dict(environment)

    def __enter__(self) -> Self:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        side_panel = dict.fromkeys(("JUPYTER_PATH", "JUPYTER_CONFIG_PATH"), str(CHECKOUT / "jupyter"))
        (self._folder / "jupyterhub_config.py").write_text(_CONFIG.format(
            port=self.port, prefix=PREFIX, hub_port=free_port(), proxy=PROXY, proxy_port=free_port(),
            password=self.password, homes=self.homes, python=sys.executable, longest=LONGEST_S, token=self._token,
            environment={**side_panel, "PATH": path, "PYTHONPATH": str(CHECKOUT), **self._environment}))
        log = self._folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", "jupyterhub_config.py"], cwd=self._folder, stdout=output,
                stderr=output, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PATH": path, "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(32)})
        deadline = time.monotonic() + LONGEST_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                self.ask("GET", "")
                return self
            time.sleep(0.2)
        self.__exit__()
        raise RuntimeError(f"JupyterHub did not start:\n{log.read_text()[-4000:]}")

    def __exit__(self, *_: object) -> None:
        end(self._process, wait_s=_STOP_S)

    def ask(self, method: str, path: str) -> Any:
        """What the hub's REST interface answers."""
        return ask(method, f"http://127.0.0.1:{self.port}{PREFIX}hub/api/{path}", token=self._token)


class Seat(Served):
    """A user's server of a hub, as it is reached at `port` of this machine."""

    kernel = "python3"

    def __init__(self, hub: Hub, user: str, *, port: int) -> None:
        super().__init__(hub.homes / user)
        self.hub, self.user = hub, user
        self._base = f"http://127.0.0.1:{port}{PREFIX}"
        self.root.mkdir(parents=True)
        self.write_settings(self.root / ".jupyter" / "lab" / "user-settings")

    def url(self, notebook: str) -> str:
        """Where the notebook opens."""
        return f"{self._base}user/{self.user}/lab/tree/{notebook}?reset"

    def log_in(self, page: Page) -> None:
        """What a user does with the hub's page, until the server is there."""
        page.goto(f"{self._base}hub/logout")
        page.goto(self._base)
        page.get_by_label("Username").fill(self.user)
        page.get_by_label("Password").fill(self.hub.password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**/user/{self.user}/lab**")

    @property
    def running(self) -> bool:
        """Whether the hub has a server of the user."""
        return bool(self.hub.ask("GET", f"users/{self.user}")["servers"])

    def stop(self) -> None:
        """End the server, as the hub does with one that is idle."""
        self.hub.ask("DELETE", f"users/{self.user}/server")
        deadline = time.monotonic() + LONGEST_S
        while self.running and time.monotonic() < deadline:
            time.sleep(0.2)


@contextmanager
def tunnel(port: int) -> Iterator[int]:
    """A port of this machine from which an SSH connection leads to `port`, which the other end can reach."""
    import asyncssh

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return False  # anybody

        def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
            return dest_port == port

    async def opened() -> tuple[Any, Any, Any]:
        server = await asyncssh.create_server(
            Server, "127.0.0.1", 0, server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")])
        connection = await asyncssh.connect("127.0.0.1", server.get_port(), known_hosts=None, config=None,
                                            client_keys=None, username="tests")
        return server, connection, await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)

    async def closed(server: Any, connection: Any, listener: Any) -> None:
        listener.close()
        connection.close()
        await connection.wait_closed()
        server.close()
        await server.wait_closed()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tunnel", daemon=True)
    thread.start()
    ends = asyncio.run_coroutine_threadsafe(opened(), loop).result(LONGEST_S)
    try:
        yield ends[2].get_port()
    finally:
        asyncio.run_coroutine_threadsafe(closed(*ends), loop).result(LONGEST_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
