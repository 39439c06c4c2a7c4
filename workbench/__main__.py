"""`python -m workbench` and `workbench`: the command line, and the entry of each background process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

_WORKERS = {  # modules of playing.worker, each of which answers one request
    "_evaluate": "evaluate", "_rollout": "rollout", "_branch": "branch", "_onnx": "onnx_export",
}
_ENTRIES = ("_supervisor", "_learner", "_actor", "_mirror", "_sweep", *_WORKERS, "_play", "_tracker", "_track",
            "_resume")


def _background(entry: str, arguments: Sequence[str]) -> int:
    """Run the process that another process of the workbench asked for."""
    if entry == "_supervisor":
        from workbench.supervisor.main import main as supervise

        return supervise(arguments[0], *map(int, arguments[1:]))
    if entry == "_learner":
        from workbench.wire.lifeline import end_with_parent, leave

        lifeline = end_with_parent()  # before torch is loaded, which may take long
        from workbench.learner.main import main as learn

        rank = int(arguments[arguments.index("--rank") + 1]) if "--rank" in arguments else 0
        leave(learn(arguments[0], rank, lifeline))
    if entry == "_actor":
        from workbench.actor.main import main as act

        return act(arguments[0], int(arguments[arguments.index("--index") + 1]))
    if entry == "_mirror":
        from workbench.launchers.colab.mirror import main as mirror

        return mirror(arguments[0], arguments[1])
    if entry == "_sweep":
        from workbench.sweeping.process import main as search

        return search(arguments[0])
    if entry == "_tracker":
        from workbench.trackers.main import main as follow

        return follow(arguments[0], arguments[1])
    if entry == "_resume":
        from workbench.running.resuming_there import main as resume

        return resume(arguments[0])
    if entry == "_play":
        from workbench.playing.worker.game import main as play
        from workbench.wire.lifeline import leave

        leave(play(arguments[0]))
    from workbench.wire.lifeline import end_with_parent

    end_with_parent()
    if entry == "_track":
        from workbench.trackers.main import once

        return once(arguments[0])
    return int(import_module(f"workbench.playing.worker.{_WORKERS[entry]}").main(arguments[0]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in `arguments` (default: the process's own). The exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _ENTRIES:
        return _background(given[0], given[1:])
    if not sys.flags.safe_path and os.getcwd() not in sys.path:  # as for `python -m`: a module of one's own, by name
        sys.path.append(os.getcwd())
    try:
        from workbench.cli.commands import run

        return run(given)
    except KeyboardInterrupt:  # also while modules are loaded
        print(file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
