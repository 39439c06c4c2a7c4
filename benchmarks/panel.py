"""What an open panel costs: page memory, CPU of the page and of the kernel, and how long it takes to open.

    python benchmarks/panel.py [--minutes 60] [--steps 10000000] [--looks 30] [--openings 5] [--write]

A real run of CartPole is given a recorded history of that many steps and goes on from there. JupyterLab in headless
Chromium (software rendering) opens its panel in a fresh kernel, then some times more; then one stays open on a page of
its own. A panel is open when all its charts in view are drawn. CPU is in shares of one core, as the system counts it
for the page's process (its renderer) and the kernel's; memory is what JavaScript uses after a garbage collection. The
same page without a panel is measured first, for a minute at most.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
from arguments import Parser, written
from home import private_home
from throughput import hardware

import workbench as wb

if TYPE_CHECKING:
    from tests.browser.driver import Browser, Notebook
    from workbench.metrics.status import RunStatus

sys.path.insert(0, str(Path(__file__).parent.parent))

NAME = "long"
STEPS_PER_SECOND, EPISODE_STEPS, EVENTS = 1000, 200, 40  # of the history: as a small Atari run has them
COMMIT_ROWS = 2000
SMALL = {"actors": 1, "envs_per_actor": 8, "batch_size": 8, "unroll_length": 20, "learner_threads": 1}
CELLS = [f"import os, workbench as wb\nrun = wb.attach({NAME!r})\nprint(os.getpid())", "run.dashboard()"]
COLLECTIONS = 3  # what one sets free, the next one finds
REST_MS = 6000  # before a panel is opened again
OPENED = (("first", "the first of a new kernel (imports included), while the run trains on the same cores", ""),
          ("training", "again, while it trains (median)", ""), ("paused", "again, while it is paused", "1 s"))
OLD = "() => document.querySelector('.workbench-panel')?.setAttribute('data-old', '')"
DRAWN = """() => { const all = [...document.querySelectorAll('.workbench-panel:not([data-old]) canvas')];
  const inked = one => one.width && one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(
    (value, place) => place % 4 === 3 && value > 0);
  return all.length > 2 && all.every(inked) }"""


@dataclass(frozen=True)
class Sample:
    """One look: minutes since the panel was opened; CPU since the last look."""

    minutes: float
    heap_mb: float
    nodes: int
    page_cpu: float
    drawing_cpu: float
    kernel_cpu: float
    kernel_mb: float


# --- the run ----------------------------------------------------------------------------------------------------------


def long_run(steps: int) -> wb.Run:
    """A living run with a history of that many steps before its own."""
    from workbench import checkpoints

    run = wb.launch("CartPole-v1", name=NAME, total_frames=100 * steps, progress=False, ready_timeout_s=900.0, **SMALL)
    run.wait(updates=20, timeout_s=900, progress=False)
    names = run.metric_names
    run.stop()
    updates = _record(run, names, steps)
    newest = run.checkpoints[-1]
    meta = {**newest.meta, "steps": steps, "updates": updates, "time_s": steps / STEPS_PER_SECOND}
    checkpoints.write(run.directory.checkpoints, frames=steps, requested=False, meta=meta,
                      groups={group: newest.load(group) for group in newest.groups})
    return wb.resume(NAME, progress=False)


def _record(run: wb.Run, names: list[str], steps: int) -> int:
    """Replace the run's metrics by a history; its updates. Every second a value of each metric, as a learner writes."""
    from workbench.metrics import MetricsReader, MetricsWriter, Progress

    last = {name: float(MetricsReader(run.directory.metrics).series(name)["value"][-1]) for name in names}
    for file in run.directory.path.glob("metrics.sqlite*"):
        file.unlink()
    random, seconds = np.random.default_rng(0), steps // STEPS_PER_SECOND
    writer = MetricsWriter(run.directory.metrics)
    batch_steps = SMALL["batch_size"] * SMALL["unroll_length"]
    for second in range(1, seconds + 1):
        now = second * STEPS_PER_SECOND
        at = Progress(frames=now, steps=now, updates=now // batch_steps, time_s=float(second))
        values = {name: value * float(random.normal(1 + second / seconds, 0.2)) for name, value in last.items()
                  if name not in ("episode_return", "episode_length", "evaluation_return")}
        writer.scalars(at, values)
        for index in range(STEPS_PER_SECOND // EPISODE_STEPS):
            gained = float(random.normal(20 + 400 * second / seconds, 20))
            writer.episode(at, env_id=index, episode_return=gained, length_steps=EPISODE_STEPS)
        if second % (seconds // EVENTS) == 0:
            writer.event("tune", "learning_rate 0.0006 → 0.0003", progress=at)
        elif second % COMMIT_ROWS == 0:
            writer.commit()
    writer.close()
    return steps // batch_steps


# --- looking ----------------------------------------------------------------------------------------------------------


class Meters:
    """What the page and the kernel take."""

    def __init__(self, browser: Browser, kernel: int | None) -> None:
        self._session = browser.page.context.new_cdp_session(browser.page)
        self._page, self._drawing = _of_type(browser, "renderer"), _of_type(browser, "gpu-process")
        self._kernel = psutil.Process(kernel) if kernel else None
        self._opened = self._at = time.monotonic()
        self._before = self._cpu()

    def look(self) -> Sample:
        """A sample since the last one."""
        now, cpu = time.monotonic(), self._cpu()
        page, drawing, kernel = ((after - before) / (now - self._at)
                                 for after, before in zip(cpu, self._before, strict=True))
        self._at, self._before = now, cpu
        for _ in range(COLLECTIONS):
            self._session.send("HeapProfiler.collectGarbage")
        heap = self._session.send("Runtime.getHeapUsage")["usedSize"]
        nodes = self._session.send("Memory.getDOMCounters")["nodes"]
        memory = self._kernel.memory_info().rss if self._kernel else 0
        return Sample((now - self._opened) / 60, heap / 1e6, nodes, page, drawing, kernel, memory / 1e6)

    def _cpu(self) -> tuple[float, float, float]:
        kernel = [self._kernel] if self._kernel else []
        return _seconds(self._page), _seconds(self._drawing), _seconds(kernel)


def _of_type(browser: Browser, kind: str) -> list[psutil.Process]:
    mine = f"--user-data-dir={browser.profile}"
    started = [one for one in psutil.process_iter(["cmdline"]) if mine in (one.info["cmdline"] or [])]
    below = {child for one in started for child in one.children(recursive=True)}
    return [one for one in below if f"--type={kind}" in one.cmdline()]


def _seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes if one.is_running())


def followed(meters: Meters, browser: Browser, *, minutes: float, looks: int) -> Iterator[Sample]:
    """Evenly spaced samples; the page goes on meanwhile."""
    for _ in range(looks):
        browser.page.wait_for_timeout(minutes * 60_000 / looks)
        yield meters.look()


def opened(notebook: Notebook) -> float:
    """Seconds from running the cell until all charts in view are drawn."""
    notebook.page.evaluate(OLD)
    started = time.monotonic()
    notebook.run(1, wait=False)
    notebook.page.wait_for_function(DRAWN, polling=20, timeout=60_000)
    return time.monotonic() - started


def attached(notebook: Notebook) -> int:
    """Run the first cell; the kernel's process."""
    notebook.run(0)
    return int(notebook.output(0).inner_text())


def repeated(notebook: Notebook, openings: int) -> list[float]:
    """The same several times, in a kernel that has opened one before."""
    found = []
    for _ in range(openings):
        notebook.page.wait_for_timeout(REST_MS)
        found.append(opened(notebook))
    return found


def measure(folder: Path, given: argparse.Namespace) -> str:
    """All of it, as Markdown."""
    from tests.browser.driver import Browser, Notebook, Server

    run = long_run(given.steps)
    with (Server(folder, environment={"WORKBENCH_HOME": os.environ["WORKBENCH_HOME"]}) as server,
          Browser(given.browser) as browser):
        notebook = Notebook(browser.page, server, server.write(CELLS)).open()
        kernel = attached(notebook)
        empty = list(followed(Meters(browser, kernel), browser, minutes=min(1.0, given.minutes / 5), looks=1))
        first = opened(notebook)
        times = {"training": repeated(notebook, given.openings)}
        with run.paused():
            times["paused"] = repeated(notebook, given.openings)
        browser.page.goto("about:blank")  # whoever runs a cell again leaves the widgets of before in the memory
        server.end_kernels()
        kernel = attached(notebook.open())
        opened(notebook)
        samples = []
        for one in followed(Meters(browser, kernel), browser, minutes=given.minutes, looks=given.looks):
            samples.append(one)
            print(_row(f"{one.minutes:.1f} min", one), file=sys.stderr, flush=True)
        browser.page.screenshot(path=folder / "panel.png")
        status = run.status
    return report(given, status, {"first": [first], **times}, empty[0], samples)


def report(given: argparse.Namespace, status: RunStatus, times: dict[str, list[float]], empty: Sample,
           samples: list[Sample]) -> str:
    """The tables."""
    settled = samples[len(samples) // 4 :]
    slope = np.polyfit([one.minutes for one in settled], [one.heap_mb for one in settled], 1)[0] * 60
    means = {name: statistics.mean(getattr(one, name) for one in samples)
             for name in ("page_cpu", "drawing_cpu", "kernel_cpu")}
    shown = samples[:: max(1, len(samples) // 6)]
    return "\n".join([
        f"`python benchmarks/panel.py --minutes {given.minutes:g} --steps {given.steps}`", "",
        f"{hardware()}; load average {os.getloadavg()[0]:.1f}. CartPole with {status.steps:,} steps of history at the "
        f"end, training at {status.steps_per_second:,.0f} steps/s meanwhile; JupyterLab in headless Chromium, software "
        "rendering.", "",
        "| | measured | bound |", "|---|---|---|",
        *(f"| opens, {how} | {statistics.median(times[what]):.2f} s | {bound} |" for what, how, bound in OPENED),
        f"| CPU of the page | {means['page_cpu']:.1%} of a core | 20 % |",
        f"| CPU of the process that puts it on the screen | {means['drawing_cpu']:.1%} of a core | |",
        f"| CPU of the kernel | {means['kernel_cpu']:.1%} of a core | 5 % |",
        f"| JavaScript heap after collection | {samples[0].heap_mb:.1f} → {samples[-1].heap_mb:.1f} MB | flat |",
        f"| its slope after the first quarter | {slope:+.2f} MB/h | |", "",
        "| | heap, MB | nodes | page | screen | kernel | kernel, MB |", "|---|---|---|---|---|---|---|",
        _row("no panel", empty), *(_row(f"{one.minutes:.1f} min", one) for one in shown), "",
    ])


def _row(title: str, one: Sample) -> str:
    return (f"| {title} | {one.heap_mb:.1f} | {one.nodes:,} | {one.page_cpu:.1%} | {one.drawing_cpu:.1%} | "
            f"{one.kernel_cpu:.1%} | {one.kernel_mb:.0f} |")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.number("--minutes", 60.0, "minutes for which the panel stays open", least=0.05, most=10_000)
    parser.whole("--looks", 30, "samples in that time", least=2, most=10_000)
    parser.whole("--steps", 10_000_000, "steps of recorded history", least=STEPS_PER_SECOND * EVENTS, most=10**9)
    parser.whole("--openings", 5, "times that it is opened again, while it trains and while it is paused")
    parser.writes("panel.md", "the table")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    given.browser = Parser(script=__file__).browser()
    with private_home() as home:
        notebooks = Path(home) / "notebooks"
        notebooks.mkdir()
        table = measure(notebooks, given)
    written(f"# An open panel: memory, CPU, time to open\n\n{table}", given.write)


if __name__ == "__main__":
    main()
