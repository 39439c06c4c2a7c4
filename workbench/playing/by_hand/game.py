"""`play`: a person plays an environment, with the agent's advice beside, and the episode is kept as a rollout."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import environments, imports, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.errors import InvalidInput, MissingPackage, RunNotFound, UnknownName, WorkbenchError
from workbench.playing import action_words, store
from workbench.playing.by_hand.game_process import GameProcess
from workbench.playing.by_hand.keyboard import KeyMap, keymap
from workbench.playing.rollout import Rollout, load
from workbench.playing.store import JOURNAL, read_journal
from workbench.rundir import sealed
from workbench.running.handle import Run
from workbench.running.starting import stem_of, to_play
from workbench.trajectory import EnvironmentSpec

Action = int | list[int] | list[float]

PERSON, AGENT = "person", "agent"
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
_FASTEST = 1000.0  # steps per second
_LONGEST_NAME = 200  # characters of what a journal says of itself


@dataclass(frozen=True)
class Advice:
    """What the agent thinks of x_t, before anybody acts.

    Attributes:
        kind: of the scores: "probability", "q_value" or "mean", see `algorithms.action_scores`.
        scores: of each action, or of each part of one.
        action: that it would choose.
        value: what it expects from here on, a discounted sum of rewards as trained on.
    """

    kind: str
    scores: tuple[float, ...]
    action: Action
    value: float


@dataclass(frozen=True)
class Moment:
    """A game as it stands: x_t, and how it came to that.

    Attributes:
        episode: number of the episode, from 0; seed: that it began with.
        step, frames: agent decisions, and emulator frames, since it began.
        reward: of the last step; episode_return: the sum of all; score, episode_score: of the environment's own score
            in the same way, where the reward is shaped; else None.
        action, by: the last action and who chose it ("person" or "agent"); None and "" before the first.
        by_person: steps that the person chose.
        over: "terminated", "truncated", "failed" (the environment did), or "" while the episode goes on.
        playing: who has the controls; running: whether time passes by itself; turns: only when the agent plays.
        rate: steps per second at which it does.
        kept: folder of the rollout, once the episode is kept.
        picture: what is seen, a PNG or JPEG file (`mime`); b"" where `observation` (its first numbers) is all.
    """

    episode: int
    seed: int
    step: int
    frames: int
    reward: float
    episode_return: float
    score: float | None
    episode_score: float | None
    action: Action | None
    by: str
    by_person: int
    over: str
    advice: Advice | None
    playing: str
    running: bool
    turns: bool
    rate: float
    kept: Path | None
    picture: bytes = b""
    mime: str = ""
    observation: tuple[float, ...] = ()

    @classmethod
    def of(cls, message: Mapping[str, Any], picture: bytes) -> Moment:
        """What `playing.worker.game` told."""
        state = dict(message["state"])
        advice = state.pop("advice")
        said = None if advice is None else Advice(
            advice["kind"], tuple(advice["scores"]), advice["action"], advice["value"])
        kept, seen = state.pop("kept"), state.pop("observation")
        return cls(**state, advice=said, kept=Path(kept) if kept else None, picture=picture, mime=message["mime"],
                   observation=tuple(seen or ()))


class Game:
    """A game that goes on in a process of its own. `wb.play` makes one; a cell shows it, to be played by keys.

    In a program nothing moves by itself before `run()`: `step(action)` is a step by the person, and after `hand_over()`
    `step()` is one by the agent. Dropping the handle ends the process; the episode that was begun is kept.

    Attributes:
        keys: what the keys mean.
        spec: of the environment.
        title: what is played, in words.
    """

    def __init__(self, request: Mapping[str, Any], *, keys: Mapping[str, Any] | None, turns: bool | None,
                 frames_per_second: float | None, title: str) -> None:
        self._process = GameProcess(request)
        self._end = weakref.finalize(self, self._process.close)
        try:
            header = self._process.header
            self.spec = EnvironmentSpec.from_json(header["spec"])
            self.action_names: tuple[str, ...] = tuple(header["action_names"])
            self.has_agent, self.note, self.title = bool(header["agent"]), str(header["note"]), title
            self.entries = tuple(header["entries"] or ())  # names of the observation's numbers, where they are all
            self.keys: KeyMap = keymap(self.spec, self.action_names, keys)
            self.usual_rate = header["fps"] if frames_per_second is None else (
                frames_per_second / self.spec.frames_per_step)
            self._kept: list[Path] = []
            self._view: Any = None
            self._process.ask("set", rate=min(self.usual_rate, _FASTEST), rest=self.keys.rest,
                              turns=not self.keys.idle if turns is None else turns)
        except BaseException:
            self.close()
            raise

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def moment(self) -> Moment:
        """The game as it stands."""
        return Moment.of(*self._process.latest)

    @property
    def advice(self) -> Advice | None:
        """What the agent thinks now; None without an agent, or when the episode is over."""
        return self.moment.advice

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self._process.alive

    @property
    def journal(self) -> Path | None:
        """The file by which `wb.play` goes on with an episode whose process was killed; None: nothing is lost."""
        name = str(self._process.latest[0].get("journal", ""))
        return Path(name) if name and Path(name).exists() else None

    def in_words(self, action: Action | None) -> str:
        """What an action is called."""
        import numpy as np

        return "" if action is None else action_words.in_words(self.spec.actions, self.action_names, np.asarray(action))

    # --- playing --------------------------------------------------------------------------------------------------

    def step(self, action: Action | None = None) -> Moment:
        """One step: `action` by the person; None: what the agent would do. Raises InvalidInput, EnvironmentFailed."""
        return self._done("step", action=_plain(action))

    def press(self, *keys: str) -> Moment:
        """One step by these keys, held together. Raises InvalidInput for keys that mean no action."""
        action = self.keys.action_of(keys)
        if action is None:
            known = "; ".join(f"{own}: {meaning}" for own, meaning in self.keys.table)
            raise InvalidInput(f"the keys {', '.join(map(repr, keys))} mean no action of {self.spec.name}: {known}.")
        self.take_over()
        return self.step(action)

    def hold(self, *keys: str) -> None:
        """Hold these keys, and no others, from now on: what the person does while time runs."""
        self._process.tell("set", held=self.keys.action_of(keys))

    def hand_over(self) -> Moment:
        """Let the agent choose. Raises InvalidInput without one."""
        return self._done("set", playing=AGENT)

    def take_over(self) -> Moment:
        """Choose again oneself."""
        return self.moment if self.moment.playing == PERSON else self._done("set", playing=PERSON)

    def run(self) -> Moment:
        """Let time pass: `rate` steps per second. In turns only the agent plays by it."""
        return self._done("set", running=True)

    def pause(self) -> Moment:
        """Let time stand."""
        return self._done("set", running=False)

    def pace(self, *, speed: float = 1.0, turns: bool | None = None) -> Moment:
        """How fast time runs (1: as people usually watch this environment), and whether it waits for keys."""
        speed = Setting("speed", float, 1.0, "", low=0.01, high=100).check(speed)
        changes = {} if turns is None else {"turns": Setting("turns", bool, False, "").check(turns)}
        return self._done("set", rate=min(_FASTEST, self.usual_rate * speed), **changes)

    def restart(self, seed: int | None = None) -> Moment:
        """Begin another episode, by the next seed; one that is not over is dropped unless it was kept."""
        return self._done("restart", seed=None if seed is None else _seed(seed))

    def keep(self) -> Rollout:
        """Keep the episode as it is so far, and go on with it; a later `keep`, or its end, takes the place of that.

        Raises InvalidInput before the first step, StorageFailed.
        """
        kept = self._done("keep").kept
        assert kept is not None
        return load(kept)

    def stop(self) -> Rollout | None:
        """End the game: the episode, kept as it is so far; None where nothing was played.

        Where the process was killed, the episode is played again by its journal. Raises WorkbenchError where that
        cannot be done.
        """
        if not self._process.alive and (journal := self.journal) is not None:
            with resumed(journal) as again:
                return again.stop()
        if self._process.alive and self.moment.step:
            state = self._process.ask("end")
            self.close()
            return load(Path(state["kept"]))
        self.close()
        kept = self.moment.kept
        return load(kept) if kept is not None else None

    def close(self) -> None:
        """End the process. An episode that was begun is kept."""
        self._end()

    def listen(self, listener: Any) -> None:
        """Call `listener(message, picture)` for all that the process tells, in a thread of ours."""
        self._process.listener = listener

    def _done(self, what: str, **fields: Any) -> Moment:
        try:
            self._process.ask(what, **fields)
        except WorkbenchError as error:
            journal = None if self._process.alive else self.journal
            if journal is None:
                raise
            raise WorkbenchError(f"{error}\nThe episode is not lost: wb.play({str(journal)!r}) goes on with it, and "
                                 "game.stop() keeps it.") from None
        return self.moment

    def __enter__(self) -> Game:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        now = self.moment
        how = now.over or (f"the {now.playing} plays" if self.alive else "ended")
        return (f"Game({self.title}: step {now.step:,}, {now.frames:,} frames, return {now.episode_return:.4g}, "
                f"{how})")

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            if self._view is None or self._view.comm is None:
                self._view = imports.widget("episodes.game").GameView(self)
        except MissingPackage as error:
            print(f"{self!r}\n({error})")
        else:
            display(self._view)  # type: ignore[no-untyped-call, unused-ignore]


def play(
    source: Checkpoint | Run | str | Path,
    *,
    seed: int = 0,
    keys: Mapping[str, Any] | None = None,
    frames_per_second: float | None = None,
    turns: bool | None = None,
    greedy: bool = True,
    environment_options: Mapping[str, Any] | None = None,
    trust_code: bool = False,
) -> Game:
    """A game to play by the keyboard in a cell, with the agent's advice beside; or by `step` in a program.

    Environment and policy are in a process of their own on the CPU, and as in training: wrappers, options, frame
    stack. Each episode is kept as a rollout when it ends, or by `keep()`, with who chose each action
    (`Rollout.by_person`): `run.rollouts`, or `wb.rollout(game.moment.kept)`.

    Args:
        source: a run (its newest good checkpoint), a checkpoint, its folder, what `wb.export_policy` wrote, an
            environment's name to play without an agent, or the journal of an episode whose process was killed.
        seed: of the first episode; the next ones get the next seeds.
        keys: which key does which action, {"ArrowLeft": 0, "ArrowRight+Space": 3}; None: by what the actions are
            called, with arrows, WASD and space; else by digits.
        frames_per_second: at which time runs; None: as people usually watch the environment.
        turns: whether time waits for the person's keys; None: where there is no action that does nothing.
        greedy: whether the agent takes the likeliest action, or samples.
        environment_options: of an environment by name.
        trust_code: let code that was typed in a cell for the run execute as you, wherever the run comes from.

    Raises:
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        InvalidInput, CheckpointCorrupt: no such source, or wrong keys.
        MissingPackage, EnvironmentFailed, NetworkFailed: with the traceback.
    """
    chosen = {"seed": _seed(seed), "greedy": Setting("greedy", bool, True, "").check(greedy),
              "options": dict(environment_options or {})}
    rate = Setting("frames_per_second", float, None, "", unit="frames/s", low=0.1, high=10_000, optional=True)
    how: dict[str, Any] = {"keys": keys, "frames_per_second": rate.check(frames_per_second),
                           "turns": Setting("turns", bool, None, "", optional=True).check(turns)}
    if isinstance(source, str | Path) and str(source).endswith(JOURNAL):
        return resumed(Path(source), trust_code=trust_code, **how)
    found = _source(source, chosen["options"], trust_code)
    stem = f"played-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1_000_000 % 1000:03}"
    if isinstance(found, Checkpoint):
        kept = store.kept_in(found, stem)
        place = {"source": str(found.path), "trust_code": found.trust_code, "environment": ""}
        title = f"{found.spec.name} with {found.config.algorithm} at {found.frames:,} frames"
    else:
        kept = rundir.home() / "rollouts" / f"{stem_of(found)}-{stem}"
        place, title = {"source": "", "trust_code": False, "environment": found}, found
    request = {**chosen, **place, "folder": str(kept.parent), "stem": kept.name, "journal": "", "title": title}
    return Game(request, title=title, **how)


def resumed(journal: Path, *, trust_code: bool = False, **how: Any) -> Game:
    """The game that goes on where a journal ends. Raises InvalidInput, AccessDenied, EnvironmentFailed."""
    path = journal.expanduser().absolute()
    begun = read_journal(path)[0]
    source, environment, options = begun.get("source"), begun.get("environment"), begun.get("options")
    if not (isinstance(source, str) and isinstance(environment, str) and isinstance(options, dict)):
        raise InvalidInput(f"{path} is not the journal of an episode. Delete it.")
    if source:
        to_play(source, trust_code=trust_code)
    else:
        sealed.check_module(path.parent, environment, trust_code=trust_code)
    request = {"seed": _seed(begun.get("seed")), "greedy": begun.get("greedy") is not False, "options": options,
               "source": source, "environment": environment, "trust_code": trust_code, "folder": str(path.parent),
               "stem": str(begun.get("stem", "played"))[:_LONGEST_NAME].replace("/", "-"), "journal": str(path)}
    title = begun["title"][:_LONGEST_NAME]
    return Game({**request, "title": title}, title=title, **{
        "keys": None, "turns": None, "frames_per_second": None, **how})


def _source(given: Checkpoint | Run | str | Path, options: Mapping[str, Any], trust_code: bool) -> Checkpoint | str:
    """The checkpoint, or the name of an environment. Raises InvalidInput."""
    try:
        found = to_play(given, trust_code=trust_code)
    except RunNotFound as error:
        try:
            environments.check_name(str(given), options)
        except UnknownName as unknown:
            raise InvalidInput(f"{str(given)!r} is no run, no checkpoint and no environment: {error} {unknown}"
                               ) from None
        if environments.registered_factory(str(given)) is not None:
            raise InvalidInput(f"{given} is registered in this process alone. Play a run of it.") from None
        return str(given)
    if options:
        raise InvalidInput(f"environment_options={dict(options)!r:.100} are for an environment by its name: a policy "
                           "plays as it was trained.")
    return found


def _seed(seed: Any) -> int:
    return int(Setting("seed", int, 0, "", low=0, high=2**31 - 1).check(seed))


def _plain(action: Any) -> Any:
    """An action as JSON data: also of NumPy."""
    return action.tolist() if hasattr(action, "tolist") else action
