"""This workbench's V-trace on Pong, launched as a user launches it.

Counter: `run.status.updates` x batch size x unroll length.
Setting: precision ("fp32", or "auto": bf16 where the processor has it), and any other fields of `wb.launch`.
No command line: measure_one.py has it.
"""

from __future__ import annotations

import os
import tempfile
import time
from importlib.metadata import version
from typing import Any

from measuring import ENVIRONMENT, ENVIRONMENTS, UNROLL, Meter

POLL_S = 0.1
READY_S = 900.0  # for the run to train, on a slow machine


def measure(meter: Meter, setting: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="wb") as home:
        os.environ["WORKBENCH_HOME"] = home
        import workbench as wb

        fields = {"actors": 2, "envs_per_actor": ENVIRONMENTS // 2, **setting}
        run = wb.launch(ENVIRONMENT, algorithm="vtrace", network="nature", batch_size=ENVIRONMENTS,
                        unroll_length=UNROLL, total_frames=10**9, ready_timeout_s=READY_S, **fields)
        try:
            while not meter.see((status := run.status).updates * ENVIRONMENTS * UNROLL):
                if not status.alive:
                    raise SystemExit(f"the run ended: {status.line()}\n{status.error}")
                time.sleep(POLL_S)
            precision = status.precision
        finally:
            run.stop()
    return {"counter": "run.status.updates x batch size x unroll length", "precision": precision,
            "version": version("rl-workbench")}
