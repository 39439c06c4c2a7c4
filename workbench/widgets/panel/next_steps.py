"""What a person does with a run that has ended: buttons for it, their result, and the view that one of them opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets

from workbench.metrics.status_facts import FACTS
from workbench.tables import number, readable
from workbench.widgets.kernel import assets, closing
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.panel.buttons import Notes, button

if TYPE_CHECKING:
    from workbench.running.handle import Run

STEPS = {  # what each button's label, icon and tooltip are
    "resume-run": ("Resume", "play", "continue from its newest checkpoint; a finished run, to twice its frames"),
    "evaluate": ("Evaluate", "check", "play ten whole episodes, and say their returns"),
    "play": ("Play", "gamepad", "play by the keyboard beside the agent"),
    "fork": ("Fork", "code-fork", "start another run from its newest checkpoint; a finished one, to twice its frames"),
    "rescue-run": ("Rescue", "life-ring", "start another run from its best checkpoint, with half the learning rate"),
}


class NextSteps:
    """The buttons of a run that has ended; hidden while it goes on.

    Attributes:
        view: the widget.
        all: the buttons, by name.
        notes: their results.
    """

    def __init__(self, run: Run, *, on_resume: Callable[[], None]) -> None:
        self._run, self._on_resume = run, on_resume
        self._actions = Actions()
        self._ended = self._clearing = False  # clearing: whether the view below the buttons is about to be closed
        self.all = {name: button(name, *texts) for name, texts in STEPS.items()}
        for name in STEPS:
            self.all[name].on_click(lambda _, name=name: self.press(name))
        self.notes = Notes(whose="next-")
        self._place = ipywidgets.VBox()
        style = ipywidgets.HTML(f"<style>{assets.text('panel.css')}</style>", layout={"display": "none"})
        row = ipywidgets.HBox(list(self.all.values()), layout={"flex_flow": "row wrap"})
        self.view = ipywidgets.VBox(
            [style, row, self.notes.box, self._place], layout={"display": "none"}).add_class("workbench-next")

    def show(self, *, ended: bool, collapsed: bool) -> None:
        """Show the buttons if the run has ended; Rescue only where its return had collapsed."""
        self.view.layout.display = "" if ended else "none"
        self.all["rescue-run"].layout.display = "" if collapsed else "none"
        self._ended = ended
        if not ended and self._place.children and not self._clearing:
            self._clearing = True
            self._actions.submit(self._clear)

    def _clear(self) -> None:
        """Close the view that a step opened; a game may take seconds to end."""
        self._clearing = False
        if not self._ended:  # it may have failed to go on
            closing.put(self._place)

    def press(self, name: str) -> None:
        """Take a step in another thread; its button is disabled meanwhile."""
        title = STEPS[name][0]
        line, self.all[name].disabled = self.notes.say(f"{title} …", of=name), True

        def end(words: str, *, bad: bool = False) -> None:
            self.notes.say(words, bad=bad, instead=line, of=name, stays=True)
            self.all[name].disabled = False

        self._actions.submit(lambda: end(_TAKEN[name](self)), lambda words: end(f"{title}: {words}", bad=True))

    def _resume(self) -> str:
        from workbench.running.launch import resume

        run = resume(self._run.path, progress=False, **self._changes())
        self._on_resume()
        return f"it trains again, from {FACTS['frames'].said(run.last_status, number)} to {self._goal(run)}"

    def _changes(self) -> dict[str, Any]:
        from workbench.running.connection import to_go_on

        return to_go_on(self._run.config, self._run.status)

    @staticmethod
    def _goal(run: Run) -> str:
        return FACTS["frames"].written(run.config.total_frames, number, unit=True)

    def _evaluate(self) -> str:
        from workbench.playing.episodes import evaluate

        result = evaluate(self._run.path, episodes=10)
        return (f"mean return {number(result.mean)} {result.uncertainty} in {len(result.returns)} episodes at "
                f"{number(result.checkpoint_frames)} frames")

    def _play(self) -> str:
        from workbench.playing.by_hand.game import play
        from workbench.widgets.episodes.game_view import GameView

        game = play(self._run.path)
        closing.put(self._place, GameView(game))
        return game.title

    def _fork(self) -> str:
        from workbench.running.handle import attach

        forked = attach(self._run.path).fork(progress=False, **self._changes())
        return f"{forked.name} trains, to {self._goal(forked)}. To see it: wb.attach({forked.name!r})"

    def _rescue(self) -> str:
        from workbench.running.handle import attach

        rescued = attach(self._run.path).rescue(progress=False)
        return (f"{rescued.name} trains with a learning rate of {readable(rescued.config.value('learning_rate'))}. "
                f"To see both: wb.compare([{self._run.path.name!r}, {rescued.name!r}])")


_TAKEN: dict[str, Callable[[NextSteps], str]] = {
    "resume-run": NextSteps._resume, "evaluate": NextSteps._evaluate, "play": NextSteps._play, "fork": NextSteps._fork,
    "rescue-run": NextSteps._rescue,
}
