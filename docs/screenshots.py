"""Takes the pictures of the widgets in docs/, in both themes, from real runs in a real JupyterLab.

    python docs/screenshots.py [--run DIRECTORY] [--minutes 3] [--only NAME ...]

Without `--run`, a run of Pong is trained for that long; with it, a copy of that run goes on from where it was. Two
short runs of CartPole, which differ in one field, are for the table and the comparison, and a sweep of CartPole for its
own view. "What if" asks the expert of Pong that ships with the package. Look at every picture afterwards.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.browser.conftest import chromium
from tests.browser.driver import Browser, Notebook, Server
from tests.browser.photograph import THEMES, photograph
from workbench import rundir
from workbench.errors import WorkbenchError
from workbench.running.handle import Run, attach
from workbench.running.launch import launch, resume
from workbench.sweeping.sweep import sweep

HERE = Path(__file__).parent
PONG = "pong-vtrace-1"
SWEEP = "cartpole-sweep"
WIDE, TALL = 1420, 3000  # of the window: tall enough for every widget to be seen whole
NARROWER = (1000, 600)  # windows in which the panel is shown as well
SIDE = ".lm-TabBar-tab[data-id='rl-workbench-runs']"
CARTPOLE = {"actors": 1, "envs_per_actor": 8, "batch_size": 8, "unroll_length": 20, "total_frames": 60_000,
            "progress": False, "wait_ready": True}
SPACE = {"learning_rate": (1e-4, 1e-1), "entropy_cost": (1e-4, 0.1), "batch_size": [4, 8, 16, 32]}


@dataclass(frozen=True)
class Picture:
    """One widget: what a cell runs, what is shot, what is done before, and in which further windows it is shot."""

    name: str
    cell: str
    selector: str
    prepare: Callable[[Locator], None] = lambda widget: None
    narrower: tuple[int, ...] = ()


def _panel(widget: Locator) -> None:
    widget.locator(".workbench-toggle-hyperparameters").click()
    widget.locator(".workbench-toggle-actors").click()


def _player(widget: Locator) -> None:
    widget.locator(".wb-where", has_text="step 0 of").wait_for()
    widget.locator(".wb-reward").click()
    for _ in range(8):
        widget.locator(".wb-back").click()
    widget.locator(".wb-overlay").check()


def _wall(widget: Locator) -> None:
    widget.locator(".wb-tile canvas").last.wait_for()
    widget.page.wait_for_timeout(3000)  # until each environment has sent a picture


def _what_if(widget: Locator) -> None:
    """It does not go where the ball comes, and misses it."""
    widget.locator(".wb-whatif > summary").click()
    widget.locator(".wb-scrub").fill("340")
    widget.locator(".wb-action").select_option(label="LEFT")
    widget.locator(".wb-repeat").fill("20")
    widget.locator(".wb-branch").click()
    widget.locator(".wb-told", has_text="return").wait_for(timeout=240_000)
    widget.locator(".wb-scrub").fill("347")


def _game(widget: Locator) -> None:
    widget.locator(".wb-stage").click()
    widget.page.keyboard.press("Tab")  # the agent has the controls
    for step in range(1, 61):
        widget.page.keyboard.press("Enter")
        widget.locator(".wb-said", has_text=f"step {step} ").wait_for()
    widget.page.keyboard.press("ArrowRight")
    widget.locator(".wb-said", has_text="you did").wait_for()


def _inspector(widget: Locator) -> None:
    widget.locator(".workbench-inspector-other select").select_option(index=2)
    widget.locator(".workbench-inspector-evaluate-greedy input").uncheck()
    widget.locator(".workbench-inspector-evaluate-episodes input").fill("3")
    widget.locator(".workbench-inspector-evaluate-episodes input").press("Tab")
    widget.locator(".workbench-inspector-evaluate").click()
    widget.locator(".workbench-inspector-evaluate-message", has_text="interval").wait_for(timeout=240_000)


PICTURES = (
    Picture("panel", f"wb.attach({PONG!r})", ".workbench-panel", _panel, NARROWER),
    Picture("player", f"wb.rollout(wb.attach({PONG!r}).checkpoints[-1], max_steps=900, saliency='gradient')",
            ".wb-player", _player),
    Picture("what-if", "wb.rollout(wb.pretrained('pong'), seed=0, max_steps=500)", ".wb-player", _what_if),
    Picture("watch", f"wb.attach({PONG!r}).watch(0)", ".wb-player"),
    Picture("wall", f"wb.attach({PONG!r}).watch()", ".wb-wall", _wall, NARROWER),
    Picture("compare", "wb.compare(['cartpole-fast', 'cartpole-slow'])", ".jp-OutputArea-output"),
    Picture("runs", "wb.runs()", ".workbench-runs"),
    Picture("game", f"wb.play(wb.attach({PONG!r}), turns=True)", ".wb-game", _game),
    Picture("sweep", f"wb.attach_sweep({SWEEP!r})", ".workbench-sweep"),
    Picture("inspector", f"wb.attach({PONG!r}).checkpoints", ".workbench-inspector", _inspector),
)


def runs(arguments: argparse.Namespace) -> list[Run]:
    """The runs that are shown, the first of them alive."""
    made = [launch("CartPole-v1", name=name, learning_rate=rate, **CARTPOLE)
            for name, rate in (("cartpole-fast", 2e-3), ("cartpole-slow", 3e-4))]
    for one in made:
        one.wait(timeout_s=300, progress=False)
    if "sweep" in arguments.only:
        sweep("CartPole-v1", space=SPACE, trials=16, name=SWEEP, actors=1, total_frames=20_000).wait(progress=False)
    if arguments.run is None:
        pong = launch("ALE/Pong-v5", name=PONG, total_frames=20_000_000, progress=False)
        pong.tune(learning_rate=3e-4)
    else:
        shutil.copytree(arguments.run, rundir.home() / "runs" / PONG, ignore=shutil.ignore_patterns("*.sock"))
        pong = resume(PONG, total_frames=100_000_000, progress=False)
    seconds = 60 * arguments.minutes
    with suppress(WorkbenchError):  # the time is over
        pong.wait(frames=10**9, timeout_s=seconds / 2, progress=False)
    pong.checkpoint()
    with suppress(WorkbenchError):
        pong.wait(frames=10**9, timeout_s=seconds / 2, progress=False)
    return [pong, *made]


def shoot(notebook: Notebook, picture: Picture, cell: int) -> None:
    """One widget in both themes."""
    notebook.run(cell)
    widget = notebook.cell(cell).locator(picture.selector).first
    widget.wait_for(timeout=60_000)
    picture.prepare(widget)
    for width in (WIDE, *picture.narrower):
        notebook.page.set_viewport_size({"width": width, "height": TALL if width == WIDE else 2 * TALL})
        size = "" if width == WIDE else f"-{width}"
        for theme, word in THEMES:
            notebook.theme(theme)
            photographed(notebook, widget, f"{picture.name}{size}-{word}.png")
    notebook.page.set_viewport_size({"width": WIDE, "height": TALL})


def shoot_side_panel(notebook: Notebook) -> None:
    """The side panel with all runs, in both themes."""
    notebook.page.set_viewport_size({"width": WIDE, "height": 1000})
    notebook.page.locator(SIDE).click()
    panel = notebook.page.get_by_role("region", name="RL Workbench: runs and sweeps")
    panel.locator("li").first.wait_for()
    for theme, word in THEMES:
        notebook.theme(theme)
        photographed(notebook, panel, f"side-panel-{word}.png")


def shoot_shared(notebook: Notebook, shared: Path) -> None:
    """The charts of a page of `run.share()`, in both themes."""
    notebook.page.goto(shared.as_uri())
    for word in ("dark", "light"):
        notebook.page.emulate_media(color_scheme=word)
        photographed(notebook, notebook.page.locator("#charts"), f"shared-{word}.png")


def photographed(notebook: Notebook, widget: Locator, name: str) -> None:
    """Write a picture of a widget, and say its size."""
    photograph(notebook, widget, path := HERE / name)
    print(f"{name}: {path.stat().st_size // 1024} kB", flush=True)


def main() -> None:
    """Take those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, help="directory of a run of Pong to show a copy of")
    parser.add_argument("--minutes", type=float, default=3.0, help="that Pong trains before the pictures")
    parser.add_argument("--only", nargs="*", default=[*(one.name for one in PICTURES), "side-panel", "shared"],
                        help="names of pictures")
    arguments = parser.parse_args()
    executable = chromium()
    assert executable, "no browser: apt-get install chromium, or set CHROMIUM"
    wanted = [one for one in PICTURES if one.name in arguments.only]
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        os.environ["WORKBENCH_HOME"] = folder
        (Path(folder) / "notebooks").mkdir()
        try:
            runs(arguments)
            with (Server(Path(folder) / "notebooks", environment={"WORKBENCH_HOME": folder}) as server,
                  Browser(executable, width=WIDE, height=TALL) as browser):
                cells = ["import workbench as wb", *(one.cell for one in wanted)]
                notebook = Notebook(browser.page, server, server.write(cells)).open()
                notebook.command("application:toggle-left-area")
                notebook.run(0)
                for cell, picture in enumerate(wanted, 1):
                    shoot(notebook, picture, cell)
                if "side-panel" in arguments.only:
                    shoot_side_panel(notebook)
                if "shared" in arguments.only:
                    shoot_shared(notebook, attach("cartpole-fast").share(Path(folder) / "shared.html"))
        finally:
            with suppress(WorkbenchError):
                attach(PONG).stop(timeout_s=0)


if __name__ == "__main__":
    main()
