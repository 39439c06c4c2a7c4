"""Makes docs/first-minute.gif, from a real run in a real JupyterLab: launch, panel, slider, return, a rollout.

    python docs/moving_picture.py [--keep FOLDER]

A browser types and clicks what a person would. Waiting is shortened: a frame is taken twice a second, a
scene keeps a fixed number of them, and the rollout is shown at the game's own pace. Nothing else is changed. `--keep`
writes the frames as files, too. Look at the result afterwards.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Locator

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.browser.conftest import chromium
from tests.browser.driver import CURRENT, Browser, Notebook, Server
from tests.browser.on_screen import Panel
from tests.browser.photograph import COLOURS
from workbench import rundir
from workbench.errors import WorkbenchError
from workbench.running.handle import attach

PICTURE = Path(__file__).parent / "first-minute.gif"
NAME = "first-minute.ipynb"
KERNEL = {"name": "rl-workbench-cpu", "display_name": "RL Workbench (CPU)", "language": "python"}
WIDTH, HEIGHT = 1000, 740  # of the window, in px
LAUNCH = ["import workbench as wb", "", 'cartpole = wb.launch("CartPole-v1", actors=1, learning_rate=1e-4)', "cartpole"]
ROLLOUT = ['wb.rollout(wb.pretrained("pong"), seed=0, saliency="gradient", max_steps=400)']
LONGEST_S = 1200.0  # of one scene, on a machine with other work
STILL_BAD, LEARNT = 60_000, 450.0  # frames before the slider is moved, and the mean return that ends the second scene
PLAYED = 150  # the step from which the rollout is shown: the expert is about to score
TOP = 70  # px from the window's top, below the notebook's toolbar
SLID = 0.7  # of the slider's length: from 0.0001 to about 0.0015
STEPS, STEPS_PER_S = 2, 15  # of the rollout: between two frames, and the game's own pace
LETTERS = 6  # typed between two frames
POINTER = """() => { const arrow = document.createElement('div'); document.body.append(arrow);
  arrow.innerHTML = '<svg width="22" height="22" viewBox="0 0 22 22">'
    + '<path d="M3 1 L3 18 L8 14 L11 21 L14 20 L11 13 L17 13 Z" fill="#111" stroke="#fff" stroke-width="1.5"/></svg>';
  Object.assign(arrow.style, {position: 'fixed', left: 0, top: 0, zIndex: 99999, pointerEvents: 'none'});
  const follow = at => { arrow.style.transform = `translate(${at.clientX - 3}px, ${at.clientY - 1}px)` };
  addEventListener('mousemove', follow, true) }"""


class Recorder:
    """The frames so far, and for how many milliseconds each is shown."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook, self.page = notebook, notebook.page
        self.frames: list[Image.Image] = []
        self.shown_ms: list[int] = []
        self._at = (WIDTH * 0.7, HEIGHT * 0.6)

    def shot(self, shown_ms: int) -> None:
        """Keep the page as it is; a frame that is as the one before prolongs that one."""
        frame = Image.open(io.BytesIO(self.page.screenshot(caret="initial"))).convert("RGB")
        if self.frames and frame.tobytes() == self.frames[-1].tobytes():
            self.shown_ms[-1] += shown_ms
        else:
            self.frames.append(frame)
            self.shown_ms.append(shown_ms)

    def until(self, done: Callable[[], bool], *, shown_ms: int, most: int) -> None:
        """A frame each half a second until it is done; of more than `most`, evenly as many are kept."""
        first, ends = len(self.frames), time.monotonic() + LONGEST_S
        while not done():
            assert time.monotonic() < ends, "it takes too long"
            self.shot(shown_ms)
            self.page.wait_for_timeout(500)
        taken = self.frames[first:]
        if len(taken) > most:
            self.frames[first:] = [taken[number * len(taken) // most] for number in range(most)]
            self.shown_ms[first:] = [shown_ms] * most

    def type(self, lines: list[str]) -> None:
        """Type these lines into the cell that has the focus, as a person does."""
        for number, line in enumerate(lines):
            if number:
                self.page.keyboard.press("Enter")
            for start in range(0, len(line), LETTERS):
                self.page.keyboard.type(line[start : start + LETTERS])
                self.shot(50)

    def point(self, x: float, y: float, *, frames: int = 4) -> None:
        """Move the pointer there."""
        (from_x, from_y), self._at = self._at, (x, y)
        for part in (number / frames for number in range(1, frames + 1)):
            self.page.mouse.move(from_x + part * (x - from_x), from_y + part * (y - from_y))
            self.shot(50)

    def click(self, target: Locator) -> None:
        """Move the pointer to an element, and press."""
        self.point(*_middle(target))
        self.page.mouse.down()
        self.page.mouse.up()
        self.page.wait_for_timeout(250)
        self.shot(150)

    def scroll(self, target: Locator, *, top: float, frames: int = 4) -> None:
        """Scroll the notebook until the element's top is `top` px below the window's."""
        way = target.bounding_box()["y"] - top  # type: ignore[index]
        for _ in range(frames):
            target.evaluate("(one, by) => { one.closest('.jp-WindowedPanel-outer').scrollTop += by }", way / frames)
            self.page.wait_for_timeout(40)
            self.shot(60)

    def write(self, path: Path) -> None:
        """All frames with one palette, so that only what changes between two of them takes bytes."""
        sample = Image.new("RGB", (WIDTH, HEIGHT * 6))
        for number in range(6):
            sample.paste(self.frames[round(number / 5 * (len(self.frames) - 1))], (0, HEIGHT * number))
        palette = sample.quantize(COLOURS - 1, dither=Image.Dither.NONE)  # one is left for "as before"
        first, *rest = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in self.frames]
        first.save(path, save_all=True, append_images=rest, duration=self.shown_ms, loop=0, optimize=True)


def film(notebook: Notebook) -> Recorder:
    """Every scene, in a notebook of two empty cells."""
    recorder = Recorder(notebook)
    notebook.page.evaluate(POINTER)
    panel = launched(recorder)
    tuned(recorder, panel)
    played(recorder)
    return recorder


def launched(recorder: Recorder) -> Panel:
    """A cell is typed and run, and its panel fills."""
    notebook, page = recorder.notebook, recorder.page
    notebook.cell(0).locator(".cm-content").click()
    recorder.shot(400)
    recorder.type(LAUNCH)
    recorder.shot(300)
    page.keyboard.press("Control+Enter")
    panel = Panel(notebook, 0)
    recorder.until(lambda: panel.root.count() > 0, shown_ms=120, most=6)
    recorder.until(lambda: _frames() > STILL_BAD / 2, shown_ms=120, most=8)
    page.keyboard.press("Escape")
    recorder.scroll(panel.part("headline"), top=TOP, frames=4)
    recorder.until(lambda: _frames() > STILL_BAD, shown_ms=120, most=8)
    return panel


def tuned(recorder: Recorder, panel: Panel) -> None:
    """The slider of the learning rate is moved, and the return answers."""
    recorder.scroll(panel.part("toggle-hyperparameters"), top=200)
    recorder.click(panel.part("toggle-hyperparameters"))
    handle, bar = (panel.part("slider-learning_rate").locator(name) for name in (".noUi-touch-area", ".noUi-base"))
    recorder.point(*(start := _middle(handle)))
    recorder.page.mouse.down()
    recorder.point(bar.bounding_box()["x"] + SLID * bar.bounding_box()["width"], start[1], frames=7)  # type: ignore[index]
    recorder.page.mouse.up()
    recorder.shot(500)
    recorder.scroll(panel.part("headline"), top=TOP)
    recorder.point(WIDTH * 0.8, HEIGHT * 0.2)
    shown = panel.part("main").locator("b").first
    recorder.until(lambda: float(shown.inner_text()) > LEARNT, shown_ms=120, most=26)
    recorder.shot(900)
    attach("cartpole-vtrace-1").stop()


def played(recorder: Recorder) -> None:
    """An episode of Pong's expert, with what its actions depend on."""
    notebook, page = recorder.notebook, recorder.page
    recorder.scroll(notebook.cell(1), top=TOP, frames=3)
    page.evaluate(f"() => {{ {CURRENT}.content.activeCellIndex = 1 }}")
    notebook.cell(1).locator(".cm-content").click()
    recorder.type(ROLLOUT)
    page.keyboard.press("Control+Enter")
    player = notebook.cell(1).locator(".wb-player")
    recorder.shot(300)
    player.wait_for()
    player.locator(".wb-where", has_text="step 0 of").wait_for()
    player.locator(".wb-scrub").fill(str(PLAYED))
    if not player.locator(".wb-overlay").is_checked():
        player.locator(".wb-overlay").check()
    recorder.scroll(player, top=TOP, frames=2)
    for step in range(PLAYED + STEPS, PLAYED + 30 * STEPS, STEPS):
        player.locator(".wb-scrub").fill(str(step))
        player.locator(".wb-where", has_text=f"step {step} of").wait_for()
        recorder.shot(round(1000 * STEPS / STEPS_PER_S))
    recorder.shot(900)


def _middle(target: Locator) -> tuple[float, float]:
    target.wait_for()
    box = target.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _frames() -> int:
    with suppress(WorkbenchError):
        return int(attach("cartpole-vtrace-1").status.frames)
    return 0


def main() -> None:
    """Record, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder for the single frames")
    arguments = parser.parse_args()
    executable = chromium()
    assert executable, "no browser: apt-get install chromium, or set CHROMIUM"
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        os.environ["WORKBENCH_HOME"] = folder
        (Path(folder) / "notebooks").mkdir()
        try:
            with (Server(Path(folder) / "notebooks", environment={"WORKBENCH_HOME": folder}) as server,
                  Browser(executable, width=WIDTH, height=HEIGHT) as browser):
                cells = [nbformat.v4.new_code_cell() for _ in range(2)]
                empty = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
                nbformat.write(empty, server.root / NAME)
                notebook = Notebook(browser.page, server, NAME).open()
                for bare in ("toggle-left-area", "toggle-side-tabbar"):
                    notebook.command(f"application:{bare}", {"side": "left"})
                notebook.command("statusbar:toggle")
                recorder = film(notebook)
        finally:
            for run in rundir.home().glob("runs/*"):
                with suppress(WorkbenchError):
                    attach(run.name).stop(timeout_s=0)
    recorder.write(PICTURE)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        for number, frame in enumerate(recorder.frames):
            frame.save(arguments.keep / f"{number:03}-{recorder.shown_ms[number]}.png")
    print(f"{PICTURE.name}: {len(recorder.frames)} frames, {sum(recorder.shown_ms) / 1000:.1f} s, "
          f"{PICTURE.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
