"""`python -m workbench` and `workbench`: the command line, and the entry of each background process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_ENTRIES = ("_supervisor", "_learner", "_actor", "_mirror", "_sweep", "_evaluate", "_rollout", "_branch", "_onnx",
            "_play", "_tracker", "_track", "_resume")


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
    if entry == "_rollout":
        from workbench.playing.worker.rollout import main as roll_out

        return roll_out(arguments[0])
    if entry == "_branch":
        from workbench.playing.worker.branch import main as branch

        return branch(arguments[0])
    if entry == "_onnx":
        from workbench.playing.worker.onnx_export import main as export_onnx

        return export_onnx(arguments[0])
    from workbench.playing.worker.evaluate import main as evaluate

    return evaluate(arguments[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in `arguments` (default: the process's own). The exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _ENTRIES:
        return _background(given[0], given[1:])
    if not sys.flags.safe_path and os.getcwd() not in sys.path:  # as for `python -m`: a module of one's own, by name
        sys.path.append(os.getcwd())
    from workbench.cli.commands import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())
