"""A user's first hour in a real JupyterLab, as one script: seconds from a person's act until the page shows the result.

    python benchmarks/first_hour.py [--rounds 1] [--parts lab,panel] [--longest 60] [--pictures DIR] [--out FILE]

A server and a headless Chromium start with homes of their own. The script launches CartPole, opens its panel in a fresh
kernel, and steers, looks at and ends the run as a person does; all on the CPU. It looks at the page every 20 ms. "—":
not within --longest seconds, or this commit has no such thing. --pictures takes the panel at three widths and the other
views, in both themes.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arguments import Parser, number, some
from home import private_home

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.driver import Browser, Notebook
    from tests.browser.on_screen import Panel

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

LOOK_MS = 20
WIDTHS = (1400, 1000, 600)  # of pictures, in px, and their height, in which a panel has room
TALL = 3000
AGAIN_S = 1.5  # after which a person presses Tab again: the page waits a second for the kernel, and gives up
FIELDS = "actors=2, envs_per_actor=8, total_frames=10**9"
SWEEP = 'sweep = wb.sweep("CartPole-v1", space={"learning_rate": (1e-3, 1e-2)}, trials=2, parallel=1, name="searched", '
CELLS = {
    "launch": f'import workbench as wb\nfirst = wb.launch("CartPole-v1", name="first", {FIELDS})',
    "bare": "run",
    "panel": 'import workbench as wb\nrun = wb.attach("first")\nrun',
    "second panel": "run.dashboard()",
    "inspector": "run.checkpoints", "runs": "wb.runs()", "environments": "wb.environments()", "card": "run.card()",
    "rollout": "wb.rollout(run, max_steps=50)", "watch": "run.watch(0)", "compare": 'wb.compare(["first", "second"])',
    "play": 'game = wb.play("CartPole-v1")\ngame', "close": "game.close()",
    "sweep": f"{SWEEP}total_frames=3_000, actors=1)\nsweep",
    "complete": "",
    "negative": 'wb.launch("CartPole-v1", learning_rate=-1.0)', "no actors": 'wb.launch("CartPole-v1", actors=0)',
    "wrong type": 'wb.launch("CartPole-v1", learning_rate="fast")', "misspelt": 'wb.launch("CartPole-v11")',
}  # fmt: skip
COMPLETIONS = {  # by what is typed before Tab
    "wb.lau": "launch", 'wb.launch("CartPole-v1", lear': "learning_rate", 'wb.launch("ALE/Po': "ALE/Pong-v5",
    "run.tune(lear": "learning_rate", 'run.metrics("episode_re': "episode_return",
}  # fmt: skip

# Of a cell's output: something is there to be seen; a picture is drawn, once a person has scrolled to it; a panel has
# numbers; text in all of it.
OUTPUT = "([panel, at]) => { const cell = document.querySelectorAll(`${panel} .jp-Notebook .jp-Cell`)[at];"
SEEN = OUTPUT + """ return [...cell.querySelectorAll('.jp-OutputArea-output')].some(one =>
  one.getBoundingClientRect().height > 10 && (one.innerText.trim() || one.querySelector('canvas,img,svg,input'))) }"""
DRAWN = OUTPUT + """ cell.querySelector('.workbench-card')?.scrollIntoView({ block: 'center' });
  const all = [...cell.querySelectorAll('.jp-OutputArea-output canvas')].filter(one => one.width);
  return all.length && all.some(one => one.getContext('2d') && one.getContext('2d').getImageData(0, 0, one.width,
    one.height).data.some((value, place) => place % 4 === 3 && value > 0)) }"""
NUMBERS = OUTPUT + r""" const text = cell.querySelector('.workbench-panel')?.innerText ?? '';
  return /\d[\d,.]*\s*[kMG]?\s*(of [\d,.]+ [kMG]? ?)?(frames|steps)|(frames|steps|return)\s+-?\d/i.test(text) }"""
ENDED = OUTPUT + r" return /\[\d+\]/.test(cell.querySelector('.jp-InputPrompt')?.innerText ?? '') }"
DETACHED = re.compile(r"detached|last seen|kernel|wb\.attach\(", re.IGNORECASE)


@dataclass
class Hour:
    """One person at one page, and what was measured.

    Attributes:
        rows: seconds (None: —) and what was seen, by task.
    """

    notebook: Notebook
    browser: Browser
    longest_s: float
    pictures: Path | None
    rows: dict[str, tuple[float | None, str]] = field(default_factory=dict)

    def add(self, task: str, seconds: float | None, remark: str = "") -> None:
        """Record a task, and say it."""
        self.rows[task] = seconds, remark
        print(f"{'—' if seconds is None else f'{seconds:.2f}':>7} s  {task}  {remark}", file=sys.stderr, flush=True)

    @contextmanager
    def trying(self, task: str) -> Iterator[None]:
        """A task that this commit may not have, or in which something fails: then it is —, with the reason."""
        from playwright.sync_api import Error

        try:
            yield
        except (Error, AssertionError, LookupError) as error:
            words = str(error).strip().splitlines() or [type(error).__name__]
            self.add(task, None, words[0][:100])

    def after(self, act: Callable[[], Any], until: Callable[[], Any], task: str, remark: Any = "") -> float:
        """Time from an act until `until`, which is tried every 20 ms; returns when it began. See `waited`."""
        began = time.monotonic()
        with self.trying(task):
            act()
            self.waited(began, until, task, remark)
        return began

    def waited(self, began: float, until: Callable[[], Any], task: str, remark: Any = "") -> None:
        """Time from that moment until `until`; `remark`: what was seen, or a function that returns it."""
        with self.trying(task):
            while not until():
                if time.monotonic() - began > self.longest_s:
                    raise AssertionError(f"not within {self.longest_s:g} s")
                self.notebook.page.wait_for_timeout(LOOK_MS)
            seconds = time.monotonic() - began
            self.add(task, seconds, remark() if callable(remark) else remark)

    # --- cells --------------------------------------------------------------------------------------------------

    def at(self, cell: str) -> int:
        return list(CELLS).index(cell)

    def run(self, cell: str) -> None:
        """Run a cell, and do not wait."""
        self.output(cell).first.scroll_into_view_if_needed() if self.output(cell).count() else None
        self.notebook.run(self.at(cell), wait=False)

    def output(self, cell: str) -> Locator:
        return self.notebook.output(self.at(cell))

    def is_(self, what: str, cell: str) -> bool:
        """Whether a script about a cell's output says yes."""
        from tests.browser.driver import PANEL

        return bool(self.notebook.page.evaluate(what, [PANEL, self.at(cell)]))

    def text(self, cell: str) -> str:
        """All that a cell shows, in one line."""
        return " ".join(" ".join(self.output(cell).all_inner_texts()).split())

    def shows(self, cell: str, task: str, selector: str) -> None:
        """Time a cell until its output has something to be seen, and until it has that."""
        began = self.after(lambda: self.run(cell), lambda: self.is_(SEEN, cell), f"{task}: first content")
        wanted = self.output(cell).locator(selector).locator("visible=true")
        self.waited(began, wanted.count, f"{task}: there")

    def settle(self, cell: str) -> None:
        """Until a cell has ended, at most as long as anything is waited for."""
        with suppress(Exception):
            deadline = time.monotonic() + self.longest_s
            while not self.is_(ENDED, cell) and time.monotonic() < deadline:
                self.notebook.page.wait_for_timeout(LOOK_MS)


# --- the parts of the hour, in their order ----------------------------------------------------------------------------


def launched(hour: Hour) -> None:
    began = hour.after(lambda: hour.run("launch"), lambda: hour.is_(SEEN, "launch"), "launch CartPole: first word")
    hour.waited(began, lambda: hour.is_(ENDED, "launch"), "launch CartPole: returned",
                lambda: f"the cell says: {hour.text('launch')[-90:]}")


def first_panel(hour: Hour) -> None:
    hour.notebook.restart()
    hour.after(lambda: hour.run("bare"), lambda: hour.is_(ENDED, "bare"), "a bare `run` in a fresh kernel",
               lambda: f"says: {hour.text('bare')[:90]}")
    for cell, task in (("panel", "first panel of a fresh kernel"), ("second panel", "second panel")):
        began = hour.after(lambda cell=cell: hour.run(cell), lambda cell=cell: hour.is_(SEEN, cell),
                           f"{task}: first content")
        for what, words in ((NUMBERS, "numbers"), (DRAWN, "a chart drawn")):
            hour.waited(began, lambda cell=cell, what=what: hour.is_(what, cell), f"{task}: {words}")
    hour.settle("second panel")


def panel_of(hour: Hour) -> Panel:
    """The panel, in view."""
    from tests.browser.on_screen import Panel

    shown = Panel(hour.notebook, hour.at("panel"))
    shown.root.first.scroll_into_view_if_needed()
    return shown


def rate() -> float:
    """The learning rate of the run."""
    from workbench.running.handle import attach

    return float(attach("first").config.value("learning_rate"))


def says(panel: Panel, state: str) -> bool:
    return state in panel.part("headline").first.inner_text()


def steered(hour: Hour) -> None:
    panel = panel_of(hour)
    for button, state in (("pause", "paused"), ("resume", "training")):
        hour.after(lambda button=button: panel.press(button), lambda state=state: says(panel, state), f"{button}")
    with hour.trying("the section of hyperparameters"):
        panel.unfold("hyperparameters")
    field = panel.field("learning_rate")
    hour.after(lambda: panel.type("learning_rate", "2e-4"), lambda: rate() == 2e-4, "learning rate typed")
    hour.after(lambda: panel.slide("learning_rate", 0.7), lambda: rate() not in (2e-4, 6e-4), "learning rate by slider")
    moved = rate()
    hour.after(lambda: panel.press("undo-learning_rate"), lambda: rate() != moved, "undo")
    error = panel.part("error-learning_rate")
    hour.after(lambda: panel.type("learning_rate", "1000"), lambda: "1000" in error.inner_text(),
               "out of bounds: message", lambda: f"says: {error.inner_text().strip()[:90]}")
    hour.after(lambda: (field.fill("3e-4"), field.press("Enter")), lambda: not error.inner_text().strip(),
               "out of bounds: message gone after a right value")


def scaled(hour: Hour) -> None:
    from tests.browser.on_screen import actor_row
    from workbench.running.handle import attach

    panel = panel_of(hour)
    with hour.trying("kill an actor: confirmation"):
        panel.unfold("actors")
        row, old = actor_row(panel, 1), str(attach("first").status.actors[1].pid)
        kill = row.get_by_role("button", name="Kill")
        hour.after(lambda: kill.first.click(), lambda: kill.count() and "Kill actor" in row.inner_text(),
                   "kill an actor: confirmation")
        hour.after(lambda: kill.last.click(), lambda: old not in row.inner_text() and "alive" in row.inner_text(),
                   "kill an actor: new one alive")
        hour.after(lambda: panel.type("actors", "3"), lambda: "alive" in actor_row(panel, 2).inner_text(),
                   "scale to three actors")
        panel.type("actors", "2")
        panel.fold("hyperparameters")
        panel.fold("actors")


def looked(hour: Hour) -> None:
    hour.shows("inspector", "inspector", ".workbench-inspector")
    hour.shows("runs", "table of runs", ".workbench-runs")
    hour.shows("environments", "environments", "table")
    hour.shows("card", "card", "table")


def played(hour: Hour) -> None:
    hour.shows("rollout", "rollout", ".wb-player canvas")
    hour.after(lambda: hour.output("rollout").locator(".wb-player").press("ArrowRight"),
               lambda: "step 1" in hour.text("rollout"), "rollout: a step by the keyboard")
    hour.shows("watch", "watch", ".wb-player canvas")
    began = hour.after(lambda: hour.run("compare"), lambda: hour.is_(SEEN, "compare"), "compare: first content")
    hour.waited(began, lambda: hour.is_(DRAWN, "compare"), "compare: there")
    hour.shows("play", "play", ".wb-game canvas")
    hour.settle("play")
    hour.run("close")


def searched(hour: Hour) -> None:
    from workbench.errors import WorkbenchError
    from workbench.sweeping.sweep import attach_sweep

    def ended() -> bool:
        with suppress(WorkbenchError):
            return attach_sweep("searched").state in ("finished", "failed")
        return False

    began = time.monotonic()
    hour.shows("sweep", "sweep", ".workbench-sweep")
    while not ended() and time.monotonic() - began < 10 * hour.longest_s:
        hour.notebook.page.wait_for_timeout(200)
    hour.add("sweep: both trials done", time.monotonic() - began if ended() else None)


def completed(hour: Hour) -> None:
    from tests.browser.driver import CURRENT

    page, at = hour.notebook.page, hour.at("complete")
    source = f"() => {CURRENT}.content.widgets[{at}].model.sharedModel.getSource()"
    for typed, added in COMPLETIONS.items():
        presses: list[float] = []

        def press(presses: list[float] = presses) -> None:
            page.keyboard.press("Tab")
            presses.append(time.monotonic())

        def offered(added: str = added, presses: list[float] = presses, press: Callable[[], None] = press) -> bool:
            popup = page.locator(".jp-Completer:visible")
            if not popup.count() and time.monotonic() - presses[-1] > AGAIN_S:
                press()
            return added in (popup.first.inner_text() if popup.count() else page.evaluate(source))

        with hour.trying(task := f"Tab after `{typed}`"):
            hour.notebook.write(at, typed)
            hour.notebook.cell(at).locator(".cm-content").click()
            page.keyboard.press("Control+End")
            hour.after(press, offered, task, lambda presses=presses: f"{len(presses)} times" if presses[1:] else "")
            page.keyboard.press("Escape")
    hour.notebook.write(at, "")


def failed(hour: Hour) -> None:
    for cell in ("negative", "no actors", "wrong type", "misspelt"):
        hour.after(lambda cell=cell: hour.run(cell), lambda cell=cell: hour.is_(ENDED, cell) and hour.is_(SEEN, cell),
                   f"error of `{CELLS[cell]}`",
                   lambda cell=cell: f"{len(hour.output(cell).first.inner_text().splitlines())} lines")


def restarted(hour: Hour) -> None:
    task = "kernel restarted: the panel says so"
    hour.after(hour.notebook.restart, lambda: DETACHED.search(hour.text("panel")), task,
               lambda: f"says: {hour.text('panel')[:90]}")
    if hour.rows[task][0] is None:
        hour.add(task, None, f"it still says: {hour.text('panel')[:90]}")


def stopped(hour: Hour) -> None:
    hour.run("panel")
    hour.settle("panel")
    panel = panel_of(hour)
    with hour.trying("stop: confirmation"):
        panel.part("stop").wait_for(timeout=1000 * hour.longest_s)
        hour.after(lambda: panel.press("stop"), lambda: panel.part("confirm").is_visible(), "stop: confirmation")
        hour.after(lambda: panel.press("confirm"), lambda: "stopped" in hour.text("panel"),
                   "stop: the panel says stopped")


def reopened(hour: Hour) -> None:
    notebook = hour.notebook
    with hour.trying("a picture in the place of the panel"):
        hour.output("panel").locator("img:visible").first.wait_for()
    notebook.save()
    notebook.page.goto("about:blank")
    notebook.server.end_kernels()
    hour.after(lambda: notebook.page.goto(notebook.server.url(notebook.name)),
               lambda: hour.output("panel").locator("img:visible").count(), "reopened without its kernel: a picture")
    notebook.wait_for_kernel()


def photographed(hour: Hour) -> None:
    """The panel at each width, and the other views at the first, in both themes."""
    from tests.browser.photograph import THEMES, photograph

    folder = hour.pictures
    if folder is None:
        return
    views = [*(("panel", width) for width in WIDTHS), *((cell, WIDTHS[0]) for cell in (
        "inspector", "runs", "environments", "card", "rollout", "watch", "compare", "sweep"))]
    hour.notebook.command("application:toggle-left-area")
    for theme, word in THEMES:
        hour.notebook.theme(theme)
        for cell, width in views:
            hour.notebook.page.set_viewport_size({"width": width, "height": TALL})
            if hour.output(cell).count():
                with hour.trying(f"a picture of the {cell}"):
                    photograph(hour.notebook, hour.output(cell).first, folder / f"{cell}-{width}-{word}.png")
    hour.notebook.theme(THEMES[0][0])
    hour.notebook.page.set_viewport_size({"width": WIDTHS[0], "height": 1000})
    hour.notebook.command("application:toggle-left-area")


PARTS: dict[str, tuple[Callable[[Hour], None], ...]] = {
    "lab": (), "launch": (launched,), "panel": (first_panel,), "steering": (steered, scaled), "views": (looked,),
    "playing": (played,), "sweep": (searched,), "completion": (completed,), "errors": (failed,),
    "pictures": (photographed,), "restart": (restarted,), "ending": (stopped, reopened),
}  # fmt: skip
NEEDED = {"lab", "launch", "panel"}  # without which nothing else can be done


# --- rounds -----------------------------------------------------------------------------------------------------------


def one_round(given: argparse.Namespace) -> dict[str, tuple[float | None, str]]:
    """What one person measured in a home of their own."""
    with private_home("wb-") as home:
        folder = Path(home) / "notebooks"
        folder.mkdir()
        second_run()
        try:
            return in_browser(given, folder, {"WORKBENCH_HOME": home, "HOME": home, "CUDA_VISIBLE_DEVICES": ""})
        finally:
            end_sweep()


def second_run() -> None:
    """A run that has ended, to compare with."""
    from workbench.running.launch import launch

    run = launch("CartPole-v1", name="second", actors=1, envs_per_actor=8, total_frames=5_000, progress=False,
                 ready_timeout_s=900.0)
    run.wait(timeout_s=900, progress=False)


def end_sweep() -> None:
    from workbench.errors import WorkbenchError
    from workbench.sweeping.sweep import attach_sweep

    with suppress(WorkbenchError):
        if (sweep := attach_sweep("searched")).state == "running":
            sweep.stop()


def in_browser(given: argparse.Namespace, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    from playwright.sync_api import expect

    from tests.browser.driver import Browser, Notebook, Server

    began = time.monotonic()
    with Server(folder, environment=environment) as server, Browser(given.browser, width=WIDTHS[0]) as browser:
        hour = Hour(Notebook(browser.page, server, server.write(list(CELLS.values()))), browser, given.longest,
                    given.pictures)
        hour.add("lab: the server answers, and a browser", time.monotonic() - began)
        hour.after(hour.notebook.open, lambda: True, "lab: the page with its kernel")
        browser.page.set_default_timeout(1000 * given.longest)
        expect.set_options(timeout=1000 * given.longest)
        for part, tasks in PARTS.items():
            if part in given.parts or part in NEEDED:
                for task in tasks:
                    with hour.trying(f"{part}: broken off"):
                        task(hour)
        if browser.complaints:
            hour.add("errors on the page's console", None, f"{len(browser.complaints)}: {browser.complaints[0][:90]}")
        browser.page.goto("about:blank")
    return hour.rows


def report(rounds: list[dict[str, tuple[float | None, str]]], given: argparse.Namespace, loads: list[float]) -> str:
    """The table."""
    from throughput import hardware

    tasks = list(dict.fromkeys(task for rows in rounds for task in rows))
    return "\n".join([
        "# A user's first hour in JupyterLab", "",
        f"`python benchmarks/first_hour.py --rounds {given.rounds}`", "",
        f"Commit {commit()}. {hardware()}, load average {min(loads):.1f} to {max(loads):.1f}; headless Chromium. "
        f"Medians of {given.rounds} rounds; —: not within {given.longest:g} s, or not there.", "",
        "| task | seconds | seen |", "|---|---|---|", *(row(task, rounds) for task in tasks), "",
    ])


def row(task: str, rounds: list[dict[str, tuple[float | None, str]]]) -> str:
    """A task's median, its least and most, and what the last round saw."""
    cells = [rows[task] for rows in rounds if task in rows]
    seconds = sorted(value for value, _ in cells if value is not None)
    median = f"{statistics.median(seconds):.2f}" if seconds else "—"
    spread = f" ({seconds[0]:.2f} to {seconds[-1]:.2f})" if len(seconds) > 1 else ""
    return f"| {in_cell(task)} | {median}{spread} | {in_cell(cells[-1][1])} |"


def in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/").replace("<", "&lt;")


def commit() -> str:
    """The commit of this checkout."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "workbench", "widgets") else ""
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def a_file(text: str) -> Path:
    """A file in a folder that is there."""
    if not (path := Path(text)).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {str(path.parent)!r}; make it, or name another")
    return path


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(1)
    parser.add_argument("--parts", type=some(list(PARTS)), default=list(PARTS), metavar="PART,PART",
                        help=f"of the hour, out of {', '.join(PARTS)}; the first three are always done (default: all)")
    parser.add_argument("--longest", type=number(1, 3600), default=60.0, metavar="SECONDS",
                        help="seconds that anything is waited for: 1 to 3,600 (default: 60)")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="folder for pictures; it is made")
    parser.add_argument("--out", type=a_file, metavar="FILE", help="file for the table, which is printed, too")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    given.browser = Parser(script=__file__).browser()
    if given.pictures is not None:
        given.pictures.mkdir(parents=True, exist_ok=True)
    loads, rounds = [os.getloadavg()[0]], []
    for _ in range(given.rounds):
        rounds.append(one_round(given))
        loads.append(os.getloadavg()[0])
    table = report(rounds, given, loads)
    print(table)
    if given.out is not None:
        given.out.write_text(table)


if __name__ == "__main__":
    main()
