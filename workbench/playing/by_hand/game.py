"""`play`: a person plays an environment beside the agent's advice, and the episode is stored as a rollout."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from workbench import environments, imports, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import InvalidInput, RunNotFound, UnknownName, WorkbenchError, checked_arguments
from workbench.playing import action_words, store, worker_process
from workbench.playing.by_hand.game_process import GameProcess
from workbench.playing.by_hand.keyboard import KeyMap, keymap
from workbench.playing.by_hand.moment import AGENT, PERSON, Action, Advice, Moment
from workbench.playing.by_hand.own_units import from_own_units
from workbench.playing.given_classes import code_folder, with_classes
from workbench.playing.rollout import Rollout, load
from workbench.playing.store import JOURNAL, read_journal
from workbench.playing.worker_process import GREEDY, SEED
from workbench.rundir import sealed
from workbench.running.choosing import GIVE_GREEDY, to_play
from workbench.running.handle import Run
from workbench.running.starts.checking import label_of
from workbench.running.starts.starting import stem_of
from workbench.tables import plain

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
_LONGEST_NAME = 200  # characters of a name in a journal


class Game:
    """A game in a process of its own. `wb.play` creates one; a cell shows it, to be played by keys.

    In a program time stands still before `run()`: `step(action)` is a step by the person, and after `hand_over()`
    `step()` is one by the agent. Dropping the handle ends the process, which stores the current episode.

    Attributes:
        keys: the meanings of the keys.
        spec: of the environment.
        title: environment and policy, in words.
    """

    def __init__(self, request: Mapping[str, Any], *, title: str, keys: Mapping[str, Any] | None = None,
                 turns: bool | None = None, frames_per_second: float | None = None,
                 classes: Mapping[str, Any] | None = None) -> None:
        # for `stop`, which may start another process
        self._trust_code, self._classes = bool(request["trust_code"]), classes or {}
        self._process = GameProcess(request)
        self._end = weakref.finalize(self, self._process.close)
        try:
            header = self._process.header
            self.spec = EnvironmentSpec.from_json(header["spec"])
            self.action_names: tuple[str, ...] = tuple(header["action_names"])
            self.has_agent, self.note, self.title = bool(header["agent"]), str(header["note"]), title
            self.entries = tuple(header["entries"] or ())  # names of the observation's numbers, without a picture
            self.keys: KeyMap = keymap(self.spec, self.action_names, keys)
            self.usual_rate = header["fps"] if frames_per_second is None else (
                frames_per_second / self.spec.frames_per_step)
            self._kept: list[Path] = []
            self._view: Any = None
            self._process.ask("set", rate=self.usual_rate, rest=self.keys.rest,
                              turns=not self.keys.idle if turns is None else turns)
        except BaseException:
            self.close()
            raise

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def moment(self) -> Moment:
        """The current state of the game."""
        return Moment.of(*self._process.latest, spec=self.spec)

    @property
    def advice(self) -> Advice | None:
        """The agent's current advice; None without an agent, or when the episode is over."""
        return self.moment.advice

    @property
    def alive(self) -> bool:
        """Whether its process is alive."""
        return self._process.alive

    @property
    def journal(self) -> Path | None:
        """The file from which `wb.play` continues an episode whose process was killed, if it exists."""
        name = str(self._process.latest[0].get("journal", ""))
        return Path(name) if name and Path(name).exists() else None

    def _going_on(self, journal: Path) -> str:
        """The call that goes on with a journal."""
        own = self._classes.get("environment") is not None and self.title.isidentifier()
        return f"wb.play({str(journal)!r}{f', environment={self.title}' if own else ''})"

    def in_words(self, action: Action | None) -> str:
        """The name of an action."""
        return "" if action is None else action_words.in_words(self.spec.actions, self.action_names, np.asarray(action))

    # --- playing --------------------------------------------------------------------------------------------------

    def step(self, action: Action | Mapping[str, Any] | None = None, *, own_units: bool = False) -> Moment:
        """Take the person's `action`, or the agent's if it is None; a mixed one also by its parts' names.

        Args:
            action: choices are whole numbers from 0 on, numbers lie within [-1, 1], the environment's bounds.
            own_units: whether `action` is one of the environment's own action space instead, as for its `step`; it
                gets the numbers to float32's precision of the distance between their bounds.

        Raises InvalidInput, EnvironmentFailed.
        """
        if Setting("own_units", bool, False, "").check(own_units) and action is not None:
            action = from_own_units(self.spec.actions, action)
        return self._command("step", action=_plain(action_words.columns_of(
            self.spec.actions, self.action_names, action)))

    def press(self, *keys: str) -> Moment:
        """Take the action of these keys, held together. Raises InvalidInput for keys without an action."""
        action = self.keys.action_of(keys)
        if action is None:
            meanings = "; ".join(f"{names}: {meaning}" for names, meaning in self.keys.table)
            raise InvalidInput(f"the keys {', '.join(map(repr, keys))} mean no action of {self.spec.name}: {meanings}.")
        self.take_over()
        return self.step(action)

    def hold(self, *keys: str) -> None:
        """Hold exactly these keys from now on: they give the person's action while time runs."""
        self._process.tell("set", held=self.keys.action_of(keys))

    def hand_over(self) -> Moment:
        """Let the agent choose. Raises InvalidInput without an agent."""
        return self._command("set", playing=AGENT)

    def take_over(self) -> Moment:
        """Let the person choose again."""
        return self.moment if self.moment.playing == PERSON else self._command("set", playing=PERSON)

    def run(self) -> Moment:
        """Let time pass at `rate` steps per second; with `turns` only while the agent plays."""
        return self._command("set", running=True)

    def pause(self) -> Moment:
        """Stop time."""
        return self._command("set", running=False)

    def pace(self, *, speed: float = 1.0, turns: bool | None = None) -> Moment:
        """Set the speed of time (1: the environment's usual frame rate), and whether it waits for keys."""
        speed = Setting("speed", float, 1.0, "", low=0.01, high=100).check(speed)
        changes = {} if turns is None else {"turns": Setting("turns", bool, False, "").check(turns)}
        return self._command("set", rate=self.usual_rate * speed, **changes)

    def restart(self, seed: int | None = None) -> Moment:
        """Begin another episode, by default with the next seed. An unfinished episode is dropped unless it was kept."""
        return self._command("restart", seed=None if seed is None else SEED.check(seed))

    def keep(self) -> Rollout:
        """Store the episode so far as a rollout, which a later `keep` or the episode's end replaces.

        Raises InvalidInput before the first step, StorageFailed.
        """
        folder = self._command("keep").kept
        assert folder is not None
        return load(folder)

    def stop(self) -> Rollout | None:
        """End the game. Returns the rollout of the episode so far, or None before the first step.

        If the process was killed, the episode is replayed from its journal. Raises WorkbenchError if that fails.
        """
        if not self._process.alive and (journal := self.journal) is not None:
            with resumed(journal, trust_code=self._trust_code, classes=self._classes) as game:
                return game.stop()
        if self._process.alive and self.moment.step:
            state = self._process.ask("end")
            self.close()
            return load(Path(state["kept"]))
        self.close()
        folder = self.moment.kept
        return load(folder) if folder is not None else None

    def close(self) -> None:
        """End the process, which stores the current episode."""
        self._end()

    def listen(self, listener: Any) -> None:
        """Call `listener(message, picture)` for each message of the process, in a thread of this one."""
        self._process.listener = listener

    def _command(self, what: str, **fields: Any) -> Moment:
        try:
            self._process.ask(what, **fields)
        except WorkbenchError as error:
            journal = None if self._process.alive else self.journal
            if journal is None:
                raise
            raise WorkbenchError(f"{error}\nThe episode is not lost: {self._going_on(journal)} goes on with it, and "
                                 "game.stop() keeps it.") from None
        return self.moment

    def __enter__(self) -> Game:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        now = self.moment
        state = now.over or (f"the {now.playing} plays" if self.alive else "ended")
        return plain(f"Game({self.title}: step {now.step:,}, {now.frames:,} frames, "
                     f"return {now.episode_return:.4g}, {state})")

    def _ipython_display_(self) -> None:
        imports.show(self, self._shared_view)

    def _shared_view(self) -> Any:
        if self._view is None or self._view.comm is None:
            self._view = imports.widget("episodes.game_view").GameView(self)
        return self._view


@checked_arguments(source="Give a run, a checkpoint, or an environment by its name or class", deterministic=GIVE_GREEDY,
                   wrappers="Give a function that makes the environment with its wrappers.")
def play(
    source: Checkpoint | Run | str | Path | Callable[..., Any],
    *,
    seed: int = 0,
    keys: Mapping[str, Any] | None = None,
    frames_per_second: float | None = None,
    turns: bool | None = None,
    greedy: bool = True,
    environment_options: Mapping[str, Any] | None = None,
    trust_code: bool = False,
    algorithm: type | None = None,
    network: Callable[..., Any] | None = None,
    environment: Callable[..., Any] | None = None,
) -> Game:
    """A game to play by the keyboard in a cell, beside the agent's advice; or by `step` in a program.

    Environment and policy run in a separate process on the CPU, as in training: with its wrappers, options and frame
    stack. Each episode is stored as a rollout when it ends, or by `keep()`, with who chose each action
    (`Rollout.by_person`): `run.rollouts`, or `wb.rollout(game.moment.kept)`.

    Args:
        source: a run (its last good checkpoint, or its best after a collapse; which one is said), a checkpoint, its
            folder, a file of `wb.export_policy`; to play without an agent, an environment's name, or a class or
            function that makes one; or the journal of an episode whose process was killed.
        seed: of the first episode; later ones get the next seeds.
        keys: actions by key, {"ArrowLeft": 0, "ArrowRight+Space": 3}; None: by the names of the actions, with arrows,
            WASD and space; else by digits.
        frames_per_second: speed of time; None: the environment's usual frame rate.
        turns: whether time waits for the person's keys; None: if no action does nothing.
        greedy: whether the agent takes the likeliest action, or samples.
        environment_options: of an environment without an agent.
        trust_code: let code that was typed in a cell for the run execute as you, wherever the run comes from.
        algorithm, network, environment: as in `wb.evaluate`.

    Raises:
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        InvalidInput, CheckpointCorrupt: the source does not exist, or keys are wrong.
        MissingPackage, EnvironmentFailed, NetworkFailed: with the traceback.
    """
    options = {"seed": SEED.check(seed), "greedy": GREEDY.check(greedy),
              "options": dict(environment_options or {})}
    rate = Setting("frames_per_second", float, None, "", unit="frames/s", low=0.1, high=10_000, optional=True)
    controls: dict[str, Any] = {"keys": keys, "frames_per_second": rate.check(frames_per_second),
                           "turns": Setting("turns", bool, None, "", optional=True).check(turns),
                           "classes": {"algorithm": algorithm, "network": network, "environment": environment}}
    if isinstance(source, str | Path) and str(source).endswith(JOURNAL):
        return resumed(Path(source), trust_code=trust_code, **controls)
    subject = _source(source, options["options"], trust_code)
    if isinstance(subject, str):
        if any(one is not None for one in controls["classes"].values()):
            raise InvalidInput(f"algorithm=, network= and environment= are of a checkpoint, and nobody plays in "
                               f"{subject} but you. Leave them out.")
        controls["classes"] = {"environment": _factory_of(source)}
    stem = f"played-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1_000_000 % 1000:03}"
    if isinstance(subject, Checkpoint):
        folder = store.rollout_path(subject, stem)
        fields = {"source": str(subject.path), "trust_code": subject.trust_code, "environment": ""}
        title = f"{subject.spec.name} with {subject.config.algorithm} at {subject.frames:,} frames"
    else:
        folder = rundir.home() / "rollouts" / f"{stem_of(subject)}-{stem}"
        fields, title = {"source": "", "trust_code": trust_code, "environment": subject}, subject
    request = {**options, **fields, "folder": str(folder.parent), "stem": folder.name, "journal": "", "title": title}
    with (_code_for(subject, controls["classes"]) as code,
          imports.meanwhile(f"{title}: a process is starting…", for_result=True)):
        return Game({**request, "code": code}, title=title, **controls)


@contextmanager
def _code_for(subject: Checkpoint | str, classes: Mapping[str, Any]) -> Iterator[str | None]:
    """The folder of the classes that were given for a checkpoint, or of the environment without an agent, while the
    block lasts. Raises InvalidInput."""
    if isinstance(subject, Checkpoint):
        with with_classes(subject, **classes) as complete:
            yield worker_process.of(complete)["code"]
        return
    if classes.get("environment") is None:
        yield None
        return
    with code_folder(classes) as folder:
        yield str(folder)


def resumed(
    journal: Path, *, trust_code: bool = False, classes: Mapping[str, Any] | None = None, **controls: Any
) -> Game:
    """The game that continues at the end of a journal. Raises InvalidInput, AccessDenied, EnvironmentFailed."""
    path, given = journal.expanduser().absolute(), dict(classes or {})
    opening = read_journal(path)[0]
    source, environment, options = opening.get("source"), opening.get("environment"), opening.get("options")
    if not (isinstance(source, str) and isinstance(environment, str) and isinstance(options, dict)):
        raise InvalidInput(f"{path} is not the journal of an episode. Delete it.")
    subject: Checkpoint | str = environment
    if source:
        subject = to_play(source, trust_code=trust_code)
    else:
        sealed.check_module(path.parent, environment, trust_code=trust_code)
        given["environment"] = given.get("environment") or _factory_of(environment)
        if given["environment"] is None:
            try:
                environments.check_name(environment)
            except UnknownName as error:
                raise InvalidInput(f"{error} If it was played in a class of yours, define that, and give it: "
                                   "environment=YourClass.") from None
    request = {"seed": SEED.check(opening.get("seed")), "greedy": opening.get("greedy") is not False,
               "options": options, "source": source, "environment": environment, "trust_code": trust_code,
               "folder": str(path.parent), "journal": str(path),
               "stem": str(opening.get("stem", "played"))[:_LONGEST_NAME].replace("/", "-")}
    title = opening["title"][:_LONGEST_NAME]
    with _code_for(subject, given) as code:
        return Game({**request, "title": title, "code": code}, title=title, classes=given, **controls)


def _factory_of(source: Any) -> Callable[..., Any] | None:
    """What makes an environment of the user's own, that is given itself or registered in this process."""
    return source if callable(source) else environments.registered_factory(str(source))


def _source(
    source: Checkpoint | Run | str | Path | Callable[..., Any], options: Mapping[str, Any], trust_code: bool
) -> Checkpoint | str:
    """The checkpoint, or the name of an environment. Raises InvalidInput."""
    if not isinstance(source, type) and hasattr(source, "reset") and hasattr(source, "step"):
        raise InvalidInput(f"{source!r:.100} is made already, and a game makes its own: "
                           f"wb.play({label_of(type(source))}).")
    if callable(source):
        label = label_of(source)
        environments.check_options(label, options, source)
        return label
    try:
        checkpoint = to_play(source, trust_code=trust_code)
    except RunNotFound as error:
        try:
            environments.check_name(str(source), options)
        except UnknownName as unknown:
            raise InvalidInput(f"{str(source)!r} is no run, no checkpoint and no environment: {error} {unknown}"
                               ) from None
        return str(source)
    if options:
        raise InvalidInput(f"environment_options={dict(options)!r:.100} are for an environment by its name: a policy "
                           "plays as it was trained.")
    return checkpoint


def _plain(action: Any) -> Any:
    """An action as JSON data, also if it is a NumPy array. Raises InvalidInput for what is no data."""
    action = action.tolist() if hasattr(action, "tolist") else action
    if isinstance(action, list | tuple):
        return [_plain(each) for each in action]
    if not isinstance(action, int | float | str | None):
        raise InvalidInput(f"action={action!r:.100} is no action: give a number, or an array of numbers.")
    return action
