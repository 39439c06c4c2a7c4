"""The addresses of the side panel on Jupyter's server, under `workbench/api/`.

They answer only who is logged in; what changes something also needs the page's XSRF token, as all of Jupyter's
addresses do. Work is done in threads, so that a slow disk does not hold the server up.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from workbench.errors import RunNotFound, WorkbenchError, printable
from workbench.rundir.record_folder import RECORD_NAME
from workbench.widgets.side_panel.overview import Overview

LOOK_S = 20.0  # until a page hears that the disk is slow
ACT_S = 10.0  # until a page hears that an action goes on: its row shows what becomes of it
_THREADS = 8


class _Handler(APIHandler):
    """Answers JSON, and one message where something fails."""

    auth_resource = "workbench"

    def initialize(self, overview: Overview, threads: ThreadPoolExecutor) -> None:
        self._overview, self._threads = overview, threads

    def answer(self, content: dict[str, Any], status: int = 200) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(content, allow_nan=False))


class OverviewHandler(_Handler):
    """GET overview: all runs and sweeps."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._overview.look)
        done, _ = await asyncio.wait({work}, timeout=LOOK_S)
        if not done:
            self.answer({"message": f"the runs could not be read within {LOOK_S:g} s: is their disk slow?"}, 503)
        elif error := work.exception():
            self.log.error("the side panel's runs cannot be read", exc_info=error)
            self.answer({"message": f"the runs cannot be read: {printable(str(error))[:300]}"}, 500)
        else:
            self.answer(work.result())


class ActionHandler(_Handler):
    """POST runs/NAME/ACTION or sweeps/NAME/ACTION."""

    @web.authenticated
    @authorized
    async def post(self, kind: str, name: str, action: str) -> None:
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._overview.act, kind, name, action)
        done, _ = await asyncio.wait({work}, timeout=ACT_S)
        if not done:
            work.add_done_callback(lambda late: late.exception())  # its row says what went wrong
            self.answer({"message": f"{action} of {name} goes on."}, 202)
        elif error := work.exception():
            if not isinstance(error, WorkbenchError):
                self.log.error("%s of %s failed", action, name, exc_info=error)
            self.answer({"message": printable(str(error))}, 404 if isinstance(error, RunNotFound) else 409)
        else:
            self.answer({"message": work.result()})


def add_to(application: web.Application) -> None:
    """Adds the panel's addresses to Jupyter's application."""
    shared = {"overview": Overview(), "threads": ThreadPoolExecutor(_THREADS, thread_name_prefix="workbench")}
    base = url_path_join(application.settings["base_url"], "workbench", "api")
    application.add_handlers(r".*$", [
        (url_path_join(base, "overview"), OverviewHandler, shared),
        (url_path_join(base, rf"(run|sweep)s/({RECORD_NAME.pattern})/(stop|resume|delete)"), ActionHandler, shared),
    ])
