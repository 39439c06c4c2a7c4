"""`python -m workbench` and `workbench`: the command line, and the entry of each background process."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

_ENTRIES = {  # the function that is called with the words after the entry
    "_supervisor": "supervisor.main:main",
    "_learner": "learner.main:main",
    "_actor": "actor.main:main",
    "_sweep": "sweeping.process:main",
    "_tracker": "trackers.main:main",
    "_track": "trackers.main:once",
    "_resume": "running.resuming_there:main",
    "_play": "playing.worker.game_server:main",
    "_evaluate": "playing.worker.evaluate:main",
    "_rollout": "playing.worker.played_episode:main",
    "_branch": "playing.worker.branch:main",
    "_onnx": "playing.worker.onnx_export:main",
}
_WITH_PARENT = {"_learner", "_track", "_evaluate", "_rollout", "_branch", "_onnx"}  # end with it from the beginning
# End once their work is done: Python's own shutdown waits for threads and processes that an environment forked.
_AT_ONCE = {"_learner", "_play", "_evaluate", "_rollout", "_branch"}
_CLOSING = {"_evaluate", "_rollout", "_branch"}  # close their environments at SIGTERM


def _background(entry: str, words: Sequence[str]) -> int:
    """Run the process that another process of the workbench asked for."""
    from workbench.wire.lifeline import Lifeline, at_sigterm, leave

    if entry in _CLOSING:
        at_sigterm(lambda *_: sys.exit(128 + signal.SIGTERM))
    lifeline = Lifeline() if entry in _WITH_PARENT else None  # before torch is loaded, which may take long
    module, _, name = _ENTRIES[entry].partition(":")
    function = getattr(import_module(f"workbench.{module}"), name)
    try:
        code = int(function(*words, lifeline=lifeline) if entry == "_learner" else function(*words))
    except Exception:
        if entry not in _AT_ONCE:
            raise
        traceback.print_exc()
        code = 1
    except SystemExit as ending:
        if entry not in _CLOSING:
            raise
        code = int(ending.code or 0)
    if entry in _AT_ONCE:
        leave(code)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in `arguments` (default: the process's own). The exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _ENTRIES:
        return _background(given[0], given[1:])
    with suppress(FileNotFoundError):  # the working directory is gone
        if not sys.flags.safe_path and (here := os.getcwd()) not in sys.path:  # one's own modules, as `python -m` does
            sys.path.append(here)
    try:
        from workbench.cli.commands import run

        return run(given)
    except KeyboardInterrupt:  # also while modules are loaded
        print(file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
