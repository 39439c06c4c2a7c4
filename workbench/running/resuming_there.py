"""The process in which a run is resumed on its own machine, for a notebook on another (`launchers.ray.run_reader`)."""

from __future__ import annotations

import json

from workbench.errors import WorkbenchError, record_of
from workbench.running.launch import resume


def main(request: str) -> int:
    """Resume by `request`: JSON with run, address, changes and trust_code. Prints {"resumed": true} or {"error":
    {"type", "message"}}, and returns the exit code."""
    asked = json.loads(request)
    try:
        resume(asked["run"], address=asked["address"], trust_code=asked["trust_code"], wait_ready=False, progress=False,
               **asked["changes"])
    except WorkbenchError as error:
        print(json.dumps({"error": record_of(error)}))
        return 1
    print(json.dumps({"resumed": True}))
    return 0
