"""The helper process of `launchers.ray`: `python -m workbench.launchers.ray.starter ADDRESS`.

It connects to the cluster, and then takes requests, lines of JSON, from standard input: {"start": RUN_DIR} and
{"stop": true}, {"waits_for": RUN_DIR} and {"withdraw": RUN_DIR}. It answers with lines {"connected": …}, {"placed": …},
{"here": …}, {"over": {"code", "error"}}, {"answer": …} or {"error": {"type", "message"}}, and ends when its input does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import ConnectionLost, record_of
from workbench.launchers.ray.connecting import connect
from workbench.rundir import RunDirectory, sealed, untried
from workbench.supervisor.hosts.ray import get_group, granted, group_name, in_group, learners_group
from workbench.supervisor.hosts.ray_actor import Task, host_options, inherited, token_digest
from workbench.wire.endpoints import SUPERVISOR

_GRACE_S = 2000.0  # for a supervisor to stop: the learner's last checkpoint may hold its replay
_PLACED_S = 2.0  # for a placed host to answer
_GONE_S = 20.0  # for the host of a former life to end
_AGAIN_S = 1.0  # between calls to a host that Ray moves

_real_output = os.dup(1)


def _say(**message: Any) -> None:
    os.write(_real_output, (json.dumps(message) + "\n").encode())


def _start(path: str) -> Any:
    """The host of the run's supervisor; it outlives this process."""
    run = RunDirectory(Path(path))
    environment = {**inherited(), sealed.VOUCHED: sealed.vouched(*untried.loaded(run).values())}
    task = Task(SUPERVISOR, str(run.path), ("_supervisor", "RUN"), token_digest(run), 1, environment)
    _remove(run)
    group, resources = learners_group(run)
    _say(placed={"needs": str(resources)})
    return host_options(name=group_name(run), lifetime="detached", max_restarts=-1, num_cpus=0,
                        scheduling_strategy=in_group(group, 0)).remote(task)


def _remove(run: RunDirectory) -> None:
    """Free the place of a former supervisor, if there is one. Raises ConnectionLost if Ray does not free it."""
    import ray

    name, deadline = group_name(run), time.monotonic() + _GONE_S
    while time.monotonic() < deadline:
        remaining = 0
        for find, end in ((ray.get_actor, ray.kill), (get_group, ray.util.remove_placement_group)):
            with suppress(ValueError):
                end(find(name))
                remaining += 1
        if not remaining:
            return
        time.sleep(0.2)
    raise ConnectionLost(f"Ray did not free {name!r}, the place of this run's last life, within {_GONE_S:g} s.")


def _waits_for(run: RunDirectory) -> str:
    """What the host of the run's supervisor waits for, in words; "": Ray holds none. Raises ConnectionLost."""
    import ray

    try:
        ray.get_actor(group_name(run))
        group = get_group(group_name(run))
        state = ray.util.placement_group_table(group)["state"]
    except ValueError:
        return ""
    except Exception as error:
        raise ConnectionLost(f"the Ray cluster does not answer: {type(error).__name__}") from None
    if state == "CREATED":
        return "its start on a node of the cluster"
    learners = run.config().learners
    each = f" for each of its {learners} learners" if learners > 1 else ""
    return f"a node of the cluster with {granted(group, 0)} to spare{each}"


def _watch(host: Any, run: RunDirectory) -> None:
    """Report that the supervisor's host has its place, and later how the supervisor ended; also of one that Ray moves
    when its node is lost."""
    import ray

    while True:
        try:
            ray.get(host.here.remote())
            _say(here=True)
            ending = ray.get(host.until_over.remote())
            return _say(over={"code": ending["code"], "error": ending["error"]})
        except Exception as error:
            if not _moves(host, run, error):
                message = (str(error).strip().splitlines() or [""])[-1]
                failure = {"type": "RunFailed", "message": f"its host on the cluster failed: {message}"}
                return _say(over={"code": 1, "error": failure})
            time.sleep(_AGAIN_S)


def _moves(host: Any, run: RunDirectory, error: Exception) -> bool:
    """Whether a call to this host failed because Ray moves it."""
    import ray

    with suppress(ValueError):
        return isinstance(error, ray.exceptions.RayActorError) and ray.get_actor(group_name(run)) == host
    return False


def _stop(host: Any, run: RunDirectory) -> None:
    """Ask the supervisor to end the run; remove it if it still waits for a place."""
    import ray

    try:
        ray.get(host.here.remote(), timeout=_PLACED_S)
        host.end.remote(_GRACE_S)
    except ray.exceptions.GetTimeoutError:
        _remove(run)


def main(address: str) -> int:
    """Serve requests until standard input ends. Returns the exit code."""
    os.dup2(2, 1)  # Ray may print
    host: Any = None
    try:
        connect(address)
        _say(connected=True)
        for line in sys.stdin:
            request = json.loads(line)
            if "start" in request:
                path = request["start"]
                host = _start(path)
                threading.Thread(target=_watch, args=[host, RunDirectory(Path(path))], daemon=True).start()
            elif "waits_for" in request:
                _say(answer=_waits_for(RunDirectory(Path(request["waits_for"]))))
            elif "withdraw" in request:
                _remove(RunDirectory(Path(request["withdraw"])))
                _say(answer=True)
            elif host is not None:
                _stop(host, RunDirectory(Path(path)))
    except Exception as error:
        _say(error=record_of(error))
        return 1
    with suppress(Exception):
        import ray

        ray.shutdown()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    os._exit(code)  # the watching thread waits for the run's end
