"""What benchmarks' scripts answer to words of a command line: many of them in one interpreter, which starts bare.

Reads a list of [mode, script, words] as JSON from standard input, with mode "start" (as a process of its own would be,
which has to end at its arguments) or "read" (its arguments only). Writes the answers, and the modules that were loaded.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def answer(mode: str, script: str, words: list[str]) -> dict[str, object]:
    """Exit code, standard output and errors; code -1 where it would have gone on."""
    file, output, errors = BENCHMARKS / script, io.StringIO(), io.StringIO()
    sys.argv, sys.path[0] = [str(file), *words], str(file.parent)
    code: object = -1
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            names = runpy.run_path(str(file), run_name="__main__" if mode == "start" else "asked")
            if mode == "read":
                names["arguments"](words)
        except SystemExit as end:
            code = end.code
    return {"code": code, "output": output.getvalue(), "errors": errors.getvalue()}


if __name__ == "__main__":
    sys.path.insert(0, "")
    found = [answer(*one) for one in json.load(sys.stdin)]
    json.dump({"answers": found, "modules": sorted(sys.modules)}, sys.stdout)
