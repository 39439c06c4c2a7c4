"""How long the README's way takes from `import workbench` to a tuned CartPole and a rollout, step by step.

    python benchmarks/newcomer.py [--frames 60000] [--target 475] [--episodes 10] [--write]

Each line of code is one that the README or the first lesson shows. What a person needs besides, to read and to type, is
not in it; nor is the installation (`make setup`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from arguments import Parser, written
from home import private_home
from throughput import hardware


def steps(frames: int, target: float, episodes: int) -> list[tuple[str, float, str]]:
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
                lambda: wb.launch("CartPole-v1", actors=1, learning_rate=1e-3, ready_timeout_s=900))
    try:
        timed(f"run.wait(frames={frames:_})", lambda: run.wait(frames=frames, timeout_s=900))
        timed("run.tune(learning_rate=2e-3)", lambda: run.tune(learning_rate=2e-3))
        timed(f"run.wait(episode_return={target:g})", lambda: run.wait(episode_return=target, timeout_s=1800))
        timed("wb.rollout(run, seed=0)", lambda: wb.rollout(run, seed=0))
        timed(f"wb.evaluate(run, episodes={episodes})", lambda: wb.evaluate(run, episodes=episodes))
    finally:
        timed("run.stop()", run.stop)
    return found


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--frames", 60_000, "frames (= steps) before the learning rate is changed", most=10**9)
    parser.number("--target", 475.0, "mean return to wait for", least=1, most=500)
    parser.whole("--episodes", 10, "episodes of the evaluation")
    parser.writes("newcomer.md")
    return parser.parse_args(words)


def main() -> None:
    options = arguments()
    with private_home("newcomer-"):
        found = steps(options.frames, options.target, options.episodes)
    rows = [f"| `{code}` | {seconds:.1f} | {said.replace('|', '/')} |" for code, seconds, said in found]
    text = "\n".join([
        "# From the import to a tuned CartPole and a rollout", "", "`python benchmarks/newcomer.py --write`", "",
        f"{hardware()}. {sum(seconds for _, seconds, _ in found):.0f} s in all, reading and typing not counted.", "",
        "| typed | seconds | said |", "|---|---|---|", *rows, "",
    ])  # fmt: skip
    written(text, options.write)


if __name__ == "__main__":
    main()
