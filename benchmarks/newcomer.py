"""How long the README's way takes from `import workbench` to a tuned CartPole and a rollout, step by step.

    python benchmarks/newcomer.py [--write]

Each line of code is one that the README or the first lesson shows. What a person needs besides, to read and to type, is
not in it; nor is the installation (`make setup`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from throughput import hardware

RESULT = Path(__file__).parent / "results" / "newcomer.md"


def steps() -> list[tuple[str, float, str]]:
    """What was typed, seconds that it took, and what it said."""
    found: list[tuple[str, float, str]] = []

    def timed(code: str, call: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        made = call()
        quiet = made is None or isinstance(made, ModuleType)
        said = "" if quiet else made.line() if hasattr(made, "line") else repr(made).splitlines()[0]
        found.append((code, time.perf_counter() - began, said))
        print(f"{found[-1][1]:6.1f} s  {code}: {said}", flush=True)
        return made

    wb = timed("import workbench as wb", lambda: __import__("workbench"))
    run = timed('run = wb.launch("CartPole-v1", actors=1, learning_rate=1e-3)',
                lambda: wb.launch("CartPole-v1", actors=1, learning_rate=1e-3))
    try:
        timed("run.wait(frames=60_000)", lambda: run.wait(frames=60_000, timeout_s=300))
        timed("run.tune(learning_rate=2e-3)", lambda: run.tune(learning_rate=2e-3))
        timed("run.wait(episode_return=475)", lambda: run.wait(episode_return=475, timeout_s=600))
        timed("wb.rollout(run, seed=0)", lambda: wb.rollout(run, seed=0))
        timed("wb.evaluate(run, episodes=10)", lambda: wb.evaluate(run, episodes=10))
    finally:
        timed("run.stop()", run.stop)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"also write {RESULT.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as home:
        os.environ["WORKBENCH_HOME"] = home
        found = steps()
    rows = [f"| `{code}` | {seconds:.1f} | {said.replace('|', '/')} |" for code, seconds, said in found]
    text = "\n".join([
        "# From the import to a tuned CartPole and a rollout", "", "`python benchmarks/newcomer.py --write`", "",
        f"{hardware()}. {sum(seconds for _, seconds, _ in found):.0f} s in all, reading and typing not counted.", "",
        "| typed | seconds | said |", "|---|---|---|", *rows, "",
    ])  # fmt: skip
    print(text)
    if options.write:
        RESULT.write_text(text)


if __name__ == "__main__":
    main()
