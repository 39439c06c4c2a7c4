"""The checkpoint inspector, the view of `run.checkpoints` in a notebook's cell.

It has a time machine, whose cursor on the run's return checkpoint, hyperparameters and film follow; a timeline of
checkpoints with their returns and evaluations; layers, gradients and weights of the selected
checkpoint, and its differences from a second one; and forms to evaluate, play, fork and export it. Long tasks run in
threads and show their progress; errors appear under their button.

CSS classes of its widgets:
    workbench-inspector, -table (of checkpoints), -chosen, -other (the two selected), -choice-message, -charts,
    -layers, -differences (tables), -stage (where episodes are played), -time (the time machine), -film, -film-play
    -evaluate, -play, -fork, -export, -record (buttons), each with -NAME-message and its fields -NAME-FIELD: evaluate
    episodes, seed and greedy; play seed, steps and greedy; fork name, fields and replay; export path and replay;
    record seed and steps
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets

from workbench import checkpoints, imports
from workbench.checkpoints import Checkpoint, layer_statistics
from workbench.errors import InvalidInput, UnknownName
from workbench.metrics import MetricsReader
from workbench.playing.branching import MAX_STEPS
from workbench.playing.episodes import evaluate, rollout
from workbench.playing.evaluating import evaluation_log
from workbench.running.reading.checkpoint_list import Checkpoints, Owner
from workbench.tables import counted, number
from workbench.widgets.charts.live import Figure, LiveCharts
from workbench.widgets.inspector import figures, still
from workbench.widgets.inspector.task_form import TaskForm, box, keywords, text, whole
from workbench.widgets.inspector.time_machine import TimeMachine
from workbench.widgets.kernel import closing
from workbench.widgets.kernel.followed import FollowedView
from workbench.widgets.kernel.message_line import message_line
from workbench.widgets.kernel.onlookers import Onlookers
from workbench.widgets.kernel.refresher import Actions, carry_out
from workbench.widgets.kernel.saved_view import Shown
from workbench.widgets.views.table import RowTable

POINTS = 1000  # of the run's mean return
MAX_EPISODES = 10_000
_NONE = "no second checkpoint"
_RESERVED = {"name": "It has a field of its own.", "replay": "It has a box of its own.",
             "checkpoint": "It is the one that is chosen.", **dict.fromkeys(
                 ("launcher", "address", "wait_ready", "ready_timeout_s", "progress"),
                 "Call run.fork(...) in a cell for that.")}


class CheckpointInspector(FollowedView):
    """A view of the checkpoints of a run, or of those that ship with the package.

    Attributes:
        table, layers, differences: tables of checkpoints, of layers, of differences by layer.
        chosen, other: drop-down lists for the first and the second checkpoint.
        forms: evaluate, play, fork, export and record, by name.
        time: the time machine.
        stage: place of the episodes' player.
    """

    period_s = 3.0

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._lock = threading.RLock()
        self._reading = Actions()
        self._checkpoints: dict[str, Checkpoint] = {}
        self._stamp: tuple[Any, ...] = ()
        self._histogram: Figure | None = None
        self._layer = ""
        self._outputs: list[Shown] = []
        self._choosing = False
        self._build()
        self.refresh()

    # --- what is on the screen ----------------------------------------------------------------------------------

    def _build(self) -> None:
        self.table = RowTable(figures.CHECKPOINTS, label=f"Checkpoints of {self._owner.name}", selectable=True,
                              on_select=self.choose, on_pull=self._update, empty="no checkpoint yet")
        self.chosen = ipywidgets.Dropdown(description="Checkpoint", layout={"width": "320px"})
        self.other = ipywidgets.Dropdown(description="Compare to", layout={"width": "320px"})
        self.said = ipywidgets.HTML()
        self.charts = LiveCharts(label=f"Checkpoints of {self._owner.name}", on_pull=self._update)
        self.layers = RowTable(figures.LAYERS, label="Layers", selectable=True, on_select=self._choose_layer)
        self.differences = RowTable(figures.DIFFERENCES, label="Differences by layer", selectable=True,
                                    on_select=self._choose_layer, empty="choose a second checkpoint")
        self.stage = ipywidgets.VBox()
        self.forms = self._task_forms()
        self.time = TimeMachine(self._owner, self.forms["record"].view, on_moved=self._moved)
        self.chosen.observe(self._picked, names="value")
        self.other.observe(self._picked, names="value")
        for widget, name in ((self.table, "table"), (self.chosen, "chosen"), (self.other, "other"),
                             (self.said, "choice-message"), (self.charts, "charts"), (self.layers, "layers"),
                             (self.differences, "differences"), (self.stage, "stage")):
            widget.add_class(f"workbench-inspector-{name}")
        choice = ipywidgets.HBox([self.chosen, self.other], layout={"flex_flow": "row wrap"})
        self.view = ipywidgets.VBox([
            _heading(f"Checkpoints of {self._owner.name}"), self.time.view, self.charts,
            _scrolling(self.table, "260px"), choice, self.said,
            *(form.view for name, form in self.forms.items() if name != "record"), self.stage,
            _heading("Layers (choose one to see its weights)"), _scrolling(self.layers, "380px"),
            _heading("Difference to the second checkpoint, by layer"), _scrolling(self.differences, "380px"),
        ])  # fmt: skip
        self.view.add_class("workbench-inspector")
        self._onlookers = Onlookers(self.table, self.charts, wake=self._follow)

    def _task_forms(self) -> dict[str, TaskForm]:
        seed, steps = partial(whole, "seed", 0, 0, 2**31 - 1), partial(whole, "steps at most", MAX_STEPS, 1, 10_000_000)
        greedy = partial(box, "likeliest action", True)
        return {
            "evaluate": TaskForm(
                "evaluate", "Evaluate",
                {"episodes": whole("episodes", 10, 1, MAX_EPISODES), "seed": seed(), "greedy": greedy()},
                self._evaluate, tooltip="play whole episodes; their mean return with its confidence interval"),
            "play": TaskForm(
                "play", "Play", {"seed": seed(), "steps": steps(), "greedy": greedy()}, self._play,
                tooltip="watch an episode; two checkpoints side by side on the same seed"),
            "fork": TaskForm(
                "fork", "Fork from here",
                {"name": text("name", "the first free one", "220px"),
                 "fields": text("changes", "learning_rate=1e-4, entropy_cost=0.003", "400px"),
                 "replay": box("with its replay", False)},
                self._fork, tooltip="a new run that goes on from this checkpoint, with fields changed"),
            "export": TaskForm(
                "export", "Export",
                {"path": text("to", "a folder, or a file that ends in .zip", "400px"),
                 "replay": box("with its replay", False)},
                self._export, tooltip="copy the checkpoint to a folder, or into a .zip"),
            "record": TaskForm(
                "record", "Record a film", {"seed": seed(), "steps": steps()}, self._record,
                tooltip="play an episode with the checkpoint under the cursor, and keep it"),
        }  # fmt: skip

    def refresh(self) -> None:
        """Reads the checkpoints and evaluations again and shows them. Raises RunNotFound."""
        with self._lock:
            self._stamp = self._now()
            by_name = {checkpoint.path.name: checkpoint for checkpoint in self._owner.checkpoints}
            before, self._checkpoints = list(self._checkpoints), by_name
            self.table.show(figures.checkpoint_rows(
                list(by_name.values()), self._evaluations(), best=self._best())[::-1])
            if list(by_name) != before:
                self._offer(list(by_name)[::-1])
            self._draw()
            self.time.refresh(list(by_name.values()))

    def _offer(self, names: list[str]) -> None:
        """Fills the lists of checkpoints, newest first; a selection stays as long as it exists."""
        first, second = self.chosen.value, self.other.value
        self._choosing = True
        try:
            self.chosen.options = names
            self.other.options = [_NONE, *names]
            self.chosen.value = first if first in names else names[0] if names else None
            self.other.value = second if second in names else _NONE
        finally:
            self._choosing = False
        if (self.chosen.value, self.other.value) != (first, second):
            self._go_and_inspect()

    def _draw(self) -> None:
        reader = MetricsReader(self._owner.directory.metrics)
        pair = [checkpoint for checkpoint in self._pair() if checkpoint is not None]
        charts = {"timeline": figures.timeline(
            list(self._checkpoints.values()), self._evaluations(), chosen=pair, events=reader.events(),
            mean=reader.series("episode_return_mean", max_points=POINTS), best=self._best())}
        if self._histogram is not None:
            charts["histogram"] = self._histogram
        self.charts.show(charts)

    def _evaluations(self) -> list[evaluation_log.LoggedEvaluation]:
        return evaluation_log.kept(self._owner.directory)

    def _best(self) -> Checkpoint | None:
        return Checkpoints(self._checkpoints.values(), self._owner).best

    def _pair(self) -> tuple[Checkpoint | None, Checkpoint | None]:
        """The selected checkpoint, and the one it is compared with."""
        return self._checkpoints.get(self.chosen.value or ""), self._checkpoints.get(self.other.value or "")

    # --- looking at a checkpoint --------------------------------------------------------------------------------

    def choose(self, name: str, other: str | None = None) -> None:
        """Selects the checkpoint with that folder name, and an `other` to compare with. Raises UnknownName."""
        for key in (name, other):
            if key is not None and key not in self._checkpoints:
                raise UnknownName.among("checkpoint", key, self._checkpoints)
        self._select(name, other)
        self._go_and_inspect()

    def _moved(self, name: str) -> None:
        """The time machine's cursor came to rest at that checkpoint."""
        if name in self._checkpoints:
            self._select(name, None)
            self._inspect()

    def _select(self, name: str, other: str | None) -> None:
        with self._lock:
            self._choosing = True
            try:
                self.chosen.value = name
                self.other.value = self.other.value if other is None else other
            finally:
                self._choosing = False

    def _picked(self, _: Any) -> None:
        if not self._choosing:
            self._go_and_inspect()

    def _choose_layer(self, name: str) -> None:
        self._layer = name
        self._reading.submit(self._read_histogram, self._say_failed)

    def _go_and_inspect(self) -> None:
        """Shows the selected checkpoint, with the time machine's cursor at it."""
        if (first := self._pair()[0]) is not None:
            self.time.curve.go(first.frames)
        self._inspect()

    def _inspect(self) -> None:
        """Shows the layers of the selected checkpoint, which a thread reads."""
        first, second = self._pair()
        self.table.selected = first.path.name if first else None
        self._say(f"reading {first.path.name} …" if first else "")
        if first is not None:
            self._reading.submit(lambda: self._read(first, second), self._say_failed)

    def _say_failed(self, words: str) -> None:
        """Show it under the lists: a checkpoint may be damaged, or pruned meanwhile."""
        self._say(words, bad=True)

    def _read(self, first: Checkpoint, second: Checkpoint | None) -> None:
        if (first, second) != self._pair():
            return  # the selection changed meanwhile
        self.time.film.show(first, self._checkpoints)
        layers = list(layer_statistics.layers(first))
        differences = [] if second is None else list(layer_statistics.differences(first, second))
        self.layers.show(figures.layer_rows(layers))
        self.differences.show(figures.difference_rows(differences))
        names = [layer.name for layer in layers]
        if self._layer not in names:
            self._layer = next((layer.name for layer in layers if len(layer.shape) > 1), names[0] if names else "")
        self.layers.selected = self._layer or None
        self._read_histogram()
        has_gradients = any(layer.gradient_norm == layer.gradient_norm for layer in layers)
        self._say("" if has_gradients else "This checkpoint does not tell its gradients: it was written before the "
                  "first update, by an older version, or without its optimizer.")

    def _read_histogram(self) -> None:
        """Draws the selected layer's histogram, with that of the other checkpoint over it if it has the layer."""
        first, second = self._pair()
        tensors = [None if checkpoint is None else checkpoint.open("model").get(self._layer)
                   for checkpoint in (first, second)]
        layers, figure = [tensor for tensor in tensors if tensor is not None], None
        if layers:
            edges = layer_statistics.edges_of(*layers)
            bins = [None if tensor is None else layer_statistics.histogram(tensor, edges=edges) for tensor in tensors]
            figure = figures.histogram(self._layer, bins[0], bins[1])
        with self._lock:
            self._histogram = figure
            self._draw()
            self._keep()

    def _say(self, text: str, *, bad: bool = False) -> None:
        self.said.value = message_line(text, bad=bad)

    # --- what can be done ---------------------------------------------------------------------------------------

    def _needed(self) -> Checkpoint:
        first, _ = self._pair()
        if first is None:
            raise InvalidInput("there is no checkpoint yet. Wait for the first, or write one: run.checkpoint()")
        return first

    def _evaluate(self) -> tuple[str, Callable[[], str]]:
        first, options = self._needed(), _values(self.forms["evaluate"])

        def do() -> str:
            evaluation = evaluate(first, **options)
            if not first.path.is_relative_to(self._owner.directory.path):  # one that ships: its run is not here
                evaluation_log.keep(self._owner.directory, first, evaluation)
            self.refresh()
            self._keep()
            interval = figures.interval(evaluation)
            return f"{first.path.name}: mean return {number(evaluation.mean)}, 95 % interval {interval}"

        return f"playing {counted(options['episodes'], 'episodes')} with {first.path.name}", do

    def _play(self) -> tuple[str, Callable[[], str]]:
        first, second = self._needed(), self._pair()[1]
        options = _values(self.forms["play"])
        both = [first] if second is None or second == first else [first, second]

        def do() -> str:
            steps = options.pop("steps")
            played = [rollout(checkpoint, max_steps=steps, **options) for checkpoint in both]
            closing.put(self.stage, imports.widget("episodes.player").RolloutPlayer(played))
            return "; ".join(f"{checkpoint.path.name}: return {number(episode.episode_return)}"
                             for checkpoint, episode in zip(both, played, strict=True))

        return f"playing {' and '.join(checkpoint.path.name for checkpoint in both)} on seed {options['seed']}", do

    def _record(self) -> tuple[str, Callable[[], str]]:
        first, options = self._needed(), _values(self.forms["record"])
        steps = options.pop("steps")

        def do() -> str:
            episode = rollout(first, max_steps=steps, **options)
            self.time.film.show(self._pair()[0], self._checkpoints)
            return f"{first.path.name}: return {number(episode.episode_return)}"

        return f"playing an episode with {first.path.name}", do

    def _fork(self) -> tuple[str, Callable[[], str]]:
        first, fields = self._needed(), self.forms["fork"].fields
        changes = keywords(fields["fields"].value, reserved=_RESERVED)
        name, replay = fields["name"].value.strip() or None, fields["replay"].value

        def do() -> str:
            new = self._owner.fork(first, name=name, replay=replay, progress=False, **changes)
            new.close()
            return f"{new.name} goes on from {first.frames:,} frames. Its handle: wb.attach({new.name!r})"

        return f"starting a fork from {first.path.name}", do

    def _export(self) -> tuple[str, Callable[[], str]]:
        first, fields = self._needed(), self.forms["export"].fields
        target = fields["path"].value.strip() or f"{self._owner.directory.path.name}-{first.path.name}"
        replay = fields["replay"].value

        def do() -> str:
            path = checkpoints.export(first, target, replay=replay)
            after = "; unzip it, and give the folder in it" if path.suffix == ".zip" else ""
            return f"exported to {path}\nTo start from its weights{after}: wb.launch(..., checkpoint={str(path)!r})"

        return f"copying {first.path.name}", do

    # --- following the run --------------------------------------------------------------------------------------

    def look(self) -> None:
        """Refreshes the inspector if there is anything new."""
        with self._lock:
            if self._now() != self._stamp:
                self.refresh()

    def _now(self) -> tuple[Any, ...]:
        """Names of the checkpoints and the time of the last evaluation: changes with anything new."""
        directory = self._owner.directory
        log = directory.path / evaluation_log.FILE
        names = sorted(path.name for path in directory.checkpoints.glob("[0-9]*"))
        return (*names, log.stat().st_mtime_ns if log.exists() else 0)

    def _update(self) -> None:
        carry_out(self.look, self._say_failed)

    # --- in a notebook ------------------------------------------------------------------------------------------

    def still(self) -> dict[str, Any]:
        """The outputs for a saved notebook: the charts, the table, and the layers on the screen."""
        table = self._owner.checkpoints.table
        return still.bundle(self._owner.name, table, self.charts.figures, self.layers.rows)

    def _keep(self) -> None:
        for output in self._outputs:
            output.keep(self.still())

    def _ipython_display_(self) -> None:
        self._outputs.append(Shown(self.view, self.still()))
        self._onlookers.expect()

    def __repr__(self) -> str:
        return f"<CheckpointInspector of {self._owner.name}>"


def _values(form: TaskForm) -> dict[str, Any]:
    return {name: widget.value for name, widget in form.fields.items()}


def _heading(text: str) -> Any:
    look = "font-weight:600;margin-top:.5em"
    return ipywidgets.HTML(f'<div role="heading" aria-level="3" style="{look}">{html.escape(text)}</div>')


def _scrolling(table: Any, height: str) -> Any:
    return ipywidgets.Box([table], layout={"max_height": height, "overflow": "auto", "flex": "0 0 auto"})
