"""The process in which a person plays: an environment, the policy's advice, and a clock, on the CPU.

Commands are lines of JSON on standard input: {"do": "step", "id": 3, "action": 1}. The process answers each command
with an id and reports each step by a line of JSON, followed by the picture's bytes. When standard input closes, since
the parent has ended in any way, the process stores the current episode and ends, with what its environment started.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch

from workbench import checkpoints, environments
from workbench.checkpoints import Checkpoint
from workbench.environments import observations
from workbench.environments.adapters.code_by_value import load_factory
from workbench.environments.contract import Show, VectorEnvironment
from workbench.errors import EnvironmentFailed, InvalidInput, StorageFailed, WorkbenchError, record_of
from workbench.playing import store
from workbench.playing.store import JOURNAL, Journal, RolloutWriter, read_journal
from workbench.playing.worker.episode import Action, NoPlayer, WorkerEpisode
from workbench.playing.worker.played_episode import Stage, opened, training_environment
from workbench.policies.player import load_player
from workbench.wire.lifeline import leave, orphaned, take_standard_input

_LAST_WORDS_S = 8.0  # to store the episode after the parent's end: no orphan may live longer than 10 s
_FASTEST = 1000.0  # steps per second

Command = dict[str, Any]
Tell = Callable[[dict[str, Any], bytes], None]


class WorkerGame:
    """One episode after another in one environment.

    Args:
        request: from `playing.by_hand.game.play`. source: path of a checkpoint, or ""; trust_code, code: for it;
            environment, options: of a game without a checkpoint; seed; greedy; folder: where episodes are stored;
            stem: the beginning of their names; journal: of an episode to continue, or "".
    """

    def __init__(self, request: dict[str, Any], tell: Tell) -> None:
        self._tell, self._request = tell, request
        self._folder, self._greedy = Path(request["folder"]), request["greedy"]
        self._checkpoint: Checkpoint | None = None if not request["source"] else checkpoints.at(
            Path(request["source"]), trust_code=request["trust_code"], code=request.get("code"))
        self._open, self._recording = ExitStack(), ExitStack()
        self._kept: str | None = None
        self._rest: Action | None = None
        self._held: Action | None = None
        self._clock: dict[str, Any] = {"running": False, "turns": False, "rate": 0.0, "playing": "person"}
        self._due = 0.0
        opening, steps = read_journal(Path(request["journal"])) if request["journal"] else ({}, [])
        seed = opening.get("seed", request["seed"])
        self._stage = opened(self._make, seed=seed, render=True)
        self._open.enter_context(closing(self._stage.environment))
        spec = self._stage.environment.spec
        self._player = NoPlayer(self._stage) if self._checkpoint is None else load_player(
            self._checkpoint, num_envs=spec.agents, seed=seed)
        name = Path(request["journal"]).name.removesuffix(JOURNAL)  # "" without a journal
        self._episode = self._begin(self._stage, seed, number=0, name=name)
        self._episode.repeat(steps)

    def _make(self, show: Show) -> VectorEnvironment:
        seed = self._request["seed"]
        if self._checkpoint is not None:
            return training_environment(self._checkpoint, seed=seed, show=show)
        code = self._request.get("code")
        factory = None if code is None else load_factory(Path(code) / "environment.pkl")
        return environments.make(self._request["environment"], num_envs=1, seed=seed, factory=factory,
                                 options=self._request["options"], show=show)

    def _begin(self, stage: Stage, seed: int, *, number: int, name: str = "") -> WorkerEpisode:
        """A new episode, with its record in a scratch folder until the next one begins."""
        self._recording.close()
        self._target = self._folder / (name or f"{self._request['stem']}-{number}-seed{seed}")
        folder = self._recording.enter_context(store.scratch_beside(self._target))
        writer = self._recording.enter_context(RolloutWriter(folder))
        self._kept = None
        journal = Journal(self._target.with_name(f"{self._target.name}{JOURNAL}"), {**self._request, "seed": seed})
        return WorkerEpisode(stage, self._player, writer, journal, number=number, seed=seed, greedy=self._greedy)

    # --- commands -------------------------------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, and answer it with the new state or the error."""
        methods: dict[str, Callable[..., None]] = {
            "step": self._step, "set": self._set, "restart": self._restart, "keep": self._keep}
        try:
            methods[command["do"]](**{name: value for name, value in command.items() if name not in ("do", "id")})
        except WorkbenchError as error:
            self._clock["running"] = False
            self.say(command.get("id"), error)
        else:
            if command.get("id") is not None or command["do"] != "set":
                self.say(command.get("id"))

    def _step(self, action: Action | None) -> None:
        try:
            self._episode.take(action)
        except (EnvironmentFailed, StorageFailed):
            with suppress(WorkbenchError):  # the first error matters more
                self._keep()
            raise
        if self._episode.over:
            self._clock["running"] = False
            self._keep()

    def _keep(self) -> None:
        self._episode.keep(self._target, self._checkpoint)
        self._kept = str(self._target)
        if self._episode.over:
            self._episode.journal.remove()

    def _restart(self, seed: int | None = None) -> None:
        before = self._episode
        seed = (before.seed + 1) % 2**31 if seed is None else seed
        before.journal.remove()
        self._clock["running"] = False
        environment = self._stage.environment
        step = environment.reset(seed=seed)
        self._player.reseed(seed)
        stage = self._stage._replace(step=step, frame=None if self._stage.frame is None else environment.render(0))
        self._episode = self._begin(stage, seed, number=before.number + 1)

    def _set(self, **changes: Any) -> None:
        """`running`, `turns`, `rate` (steps/s), `playing` ("person" or "agent"), `held` and `rest` (actions)."""
        if changes.get("playing") == "agent" and self._checkpoint is None:
            raise InvalidInput("there is no agent to play: play a run, a checkpoint or an exported policy.")
        if changes.get("running") and self._episode.over:
            raise InvalidInput(f"the episode is over ({self._episode.over}): restart() begins another one.")
        for name in ("held", "rest"):
            if name in changes:
                setattr(self, f"_{name}", changes.pop(name))
        if changes.get("running") and not self._clock["running"]:
            self._due = time.monotonic()
        self._clock.update(changes)

    # --- the clock ------------------------------------------------------------------------------------------------

    @property
    def _ticks(self) -> bool:
        """Whether the clock makes steps."""
        clock = self._clock
        return bool(clock["running"]) and (clock["playing"] == "agent" or not clock["turns"])

    def wait_s(self) -> float | None:
        """Seconds until the clock's next step; None while it stands."""
        return max(0.0, self._due - time.monotonic()) if self._ticks else None

    def tick(self) -> None:
        """Make a step by the clock: the agent's, or that of the keys which the person holds."""
        period_s = 1 / min(_FASTEST, max(0.01, float(self._clock["rate"])))
        self._due = max(self._due + period_s, time.monotonic())  # the time of a slow step is not caught up
        action = None
        if self._clock["playing"] == "person":
            choices = (self._held, self._rest, self._episode.state()["action"], self._first)
            action = next(choice for choice in choices if choice is not None)
        self.do({"do": "step", "action": action})

    @property
    def _first(self) -> Action:
        """The first choice of each part, or the middle of numbers."""
        actions = self._stage.environment.spec.actions
        return [0] * len(actions.sizes) if actions.shape else 0

    # --- answers --------------------------------------------------------------------------------------------------

    def say(self, answers: int | None, error: WorkbenchError | None = None) -> None:
        """Send the current state; `answers`: id of the command that it answers, or None."""
        message = {"id": answers, "state": {**self._episode.state(), **self._clock, "kept": self._kept},
                   "journal": str(self._episode.journal.path), "seen": self._episode.seen}
        if error is not None:
            message["error"] = record_of(error)
        self._tell({**message, "mime": self._episode.mime}, self._episode.picture)

    def header(self) -> dict[str, Any]:
        """The facts that stay the same for all steps."""
        environment, spec = self._stage.environment, self._stage.environment.spec
        entries = None
        if not self._episode.picture:
            entries = list(observations.on_page(self._stage.step.observation[:1], parts=spec.parts).names)
        return {"spec": spec.to_json(), "action_names": list(environment.action_names), "fps": environment.fps,
                "note": self._stage.note, "agent": self._checkpoint is not None, "entries": entries}

    def end(self) -> None:
        """Store the current episode, and close everything."""
        try:
            if self._episode.steps and not (self._episode.over and self._kept):
                self._keep()
            self._episode.journal.remove()
        finally:
            self._recording.close()
            self._open.close()


def main(request: str) -> int:
    """Play until standard input closes or the command "end" comes, and return the exit code."""
    torch.set_num_threads(1)
    lines = os.fdopen(take_standard_input(), encoding="utf-8")
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keeps an environment's prints out of the answers
    telling = threading.Lock()

    def tell(message: dict[str, Any], picture: bytes) -> None:
        with telling, suppress(BrokenPipeError):
            _send(out, message, picture)

    try:
        game = WorkerGame(json.loads(request), tell)
    except WorkbenchError as error:
        tell({"id": 0, "error": record_of(error)}, b"")
        return 2
    commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=[lines, commands], name="commands", daemon=True).start()
    tell({"id": None, "header": game.header()}, b"")
    game.say(0)
    return _serve(game, commands, tell)


def _serve(game: WorkerGame, commands: queue.SimpleQueue[Command | None], tell: Tell) -> int:
    while True:
        try:
            command = commands.get(timeout=game.wait_s())
        except queue.Empty:
            game.tick()
            continue
        if command is None or command["do"] == "end":
            break
        game.do(command)
    try:
        game.end()
    except WorkbenchError as error:
        tell({"id": command and command.get("id"), "error": record_of(error)}, b"")
        return 2
    if command is not None and "id" in command:
        game.say(command["id"])
    return 0


def _send(out: BinaryIO, message: dict[str, Any], picture: bytes) -> None:
    out.write(json.dumps({**message, "size": len(picture)}).encode() + b"\n" + picture)
    out.flush()


def _listen(lines: Iterable[str], commands: queue.SimpleQueue[Command | None]) -> None:
    """Queue the commands in `lines`; after their end, end the process within some seconds at any rate."""
    command = None
    try:
        for line in lines:
            command = json.loads(line)
            commands.put(command)
    finally:  # also after a line that a killed kernel left unfinished
        if command is None or command["do"] != "end":
            orphaned.set()
        last = threading.Timer(_LAST_WORDS_S, leave, [0])
        last.daemon = True
        last.start()
        commands.put(None)
