"""Plays one episode with a checkpoint's policy, and records observations, actions and the policy's output.

It has a process of its own on the CPU and prints a line of JSON, as evaluations do, with one environment, the same
player and the same seeds. So the same checkpoint and seed give the same episode and return as an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.environments.contract import Show, VectorEnvironment
from workbench.errors import EnvironmentFailed, MissingPackage, WorkbenchError
from workbench.metrics.status import LONGEST_GAME
from workbench.playing.store import RolloutWriter
from workbench.playing.store.stored_fields import OUTPUTS
from workbench.playing.worker.saliency import Saliency, saliency_of
from workbench.policies.player import Player, answer, load_player, make_environment
from workbench.trajectory import ENDS, Array, Flags, StepBatch

if TYPE_CHECKING:
    from workbench.playing.worker.branch import Branching

NOT_DRAWN = "this environment draws nothing, and its observations are not images"
_ARRAY_OF = {kind: name for name, kind in OUTPUTS.items()}


class Stage(NamedTuple):
    """An environment at its first step, its frame, and a note on why the frame is missing or replaced."""

    environment: VectorEnvironment
    step: StepBatch
    frame: Array | None
    note: str


def _play_rollout(
    checkpoint: str, trust_code: bool, folder: str, seed: int, greedy: bool, max_steps: int, saliency: str | None,
    render: bool, code: str | None = None,
) -> dict[str, Any]:
    source = checkpoints.at(Path(checkpoint), trust_code=trust_code, code=code)
    with ExitStack() as stack:
        stage = opened(lambda show: training_environment(source, seed=seed, show=show), seed=seed, render=render)
        environment = stack.enter_context(closing(stage.environment))
        writer = stack.enter_context(RolloutWriter(Path(folder)))
        spec = environment.spec
        player = load_player(source, num_envs=spec.agents, seed=seed)
        explain = saliency_of(player, spec, method=saliency) if saliency else None
        flags = play(player, stage, writer, greedy=greedy, max_steps=max_steps, explain=explain)
        writer.finish({**record_of(stage, source, seed=seed, greedy=greedy, flags=flags), "max_steps": max_steps})
    return {}


main = partial(answer, play=_play_rollout)


def record_of(
    stage: Stage, checkpoint: Checkpoint | None, *, seed: int, greedy: bool, flags: int
) -> dict[str, Any]:
    """The record of an episode for its rollout; `checkpoint`: of the policy that played, or None."""
    environment, spec = stage.environment, stage.environment.spec
    config = None if checkpoint is None else checkpoint.config
    hyperparameters = None if config is None else config.hyperparameters
    return {
        "environment": spec.name, "algorithm": config.algorithm if config else "",
        "checkpoint": str(checkpoint.path) if checkpoint else "", "seed": seed, "greedy": greedy,
        "checkpoint_frames": checkpoint.frames if checkpoint else 0,
        "terminated": bool(flags & Flags.TERMINATED), "truncated": bool(flags & Flags.TRUNCATED),
        "action_names": environment.action_names, "fps": environment.fps, "note": stage.note,
        "max_abs_reward": hyperparameters.max_abs_reward if hyperparameters else 0.0,
        "reward_scale": hyperparameters.reward_scale if hyperparameters else 1.0,
        "normalize_rewards": bool(getattr(hyperparameters, "normalize_rewards", False)),
        "actions": asdict(spec.actions), "parts": [asdict(part) for part in spec.parts],
    }


def training_environment(checkpoint: Checkpoint, *, seed: int, show: Show) -> VectorEnvironment:
    """One game of the environment in which a checkpoint was trained."""
    agents = checkpoint.spec.agents
    return make_environment(checkpoint, num_envs=agents, seed=seed, show=show)


def opened(make: Callable[[Show], VectorEnvironment], *, seed: int, render: bool) -> Stage:
    """An environment that draws if it can; otherwise its observation is shown, and the note has the reason."""
    if not render:
        stage = _begun(make("endings"), seed=seed)
        return stage._replace(frame=None, note="frames were not asked for")
    try:
        return _begun(make("frames"), seed=seed)
    except (MissingPackage, EnvironmentFailed) as error:
        stage = _begun(make("endings"), seed=seed)  # raises errors that drawing did not cause
        instead = "no frames" if stage.frame is None else "the observation is shown"
        return stage._replace(note=f"{str(error).splitlines()[0]} ({instead})")


def _begun(environment: VectorEnvironment, *, seed: int) -> Stage:
    try:
        step = environment.reset(seed=seed)
        frame = environment.render(0)
    except BaseException:
        environment.close()
        raise
    return Stage(environment, step, frame, NOT_DRAWN if frame is None else "")


def play(
    player: Player, stage: Stage, writer: RolloutWriter, *, greedy: bool, max_steps: int,
    explain: Saliency | None = None, course: Branching | None = None,
) -> int:
    """Play from the first step to the end of the episode or `max_steps`, and return the flags of the last step.

    All agents of a game are played; the first one is recorded as long as it takes part. `course` may change what the
    policy sees and what is done; None: neither.
    """
    environment, step, frame = stage.environment, stage.step, stage.frame
    observation = step.observation[0]
    for t in range(max_steps):
        seen = step if course is None else course.seen(t, step)
        action = player.act(seen, greedy=greedy)
        thoughts = thoughts_of(player)
        if course is not None:
            action = course.taken(t, action, thoughts)
        if explain is not None:
            thoughts["saliency"] = explain(player.chosen[0])
        _write(writer, frame, observation=observation, actions=action[0], **thoughts)
        step = present(environment, player, environment.step(action), greedy=greedy)
        ended = bool(step.flags[0] & ENDS)
        observation, frame = next_view(environment, step, ended=ended, before=frame)
        writer.append(rewards=step.reward[0], **({} if step.score is None else {"scores": step.score[0]}))
        if ended:
            break
    _write(writer, frame, observation=observation)
    return int(step.flags[0])


class Acting(Protocol):
    """Whoever chooses the actions of a game."""

    def act(self, step: StepBatch, *, greedy: bool) -> Array:
        """See `Player.act`."""


def present(environment: VectorEnvironment, player: Acting, step: StepBatch, *, greedy: bool) -> StepBatch:
    """The next step in which the first agent takes part: where it has left, its last reward comes with the game's end.
    """
    for _ in range(LONGEST_GAME):
        if not step.flags[0] & Flags.ABSENT:
            break
        step = environment.step(player.act(step, greedy=greedy))
    return step


def next_view(
    environment: VectorEnvironment, step: StepBatch, *, ended: bool, before: Array | None
) -> tuple[Array, Array | None]:
    """The observation after the action, and its frame: at an end the old episode's last, not the new one's first.

    Args:
        before: the frame before it, which stands in for an episode's last one where a vector, which already draws the
            next episode, has none; None: frames are not drawn.
    """
    ending = environment.ending(0) if ended else None
    if ended and ending is None:
        raise WorkbenchError(f"{environment.spec.name} does not keep how its episodes end: `ending` returned None.")
    observation, frame = ending or (step.observation[0], None if before is None else environment.render(0))
    if before is None:
        return observation, None
    if frame is not None and frame.shape == before.shape:
        return observation, frame
    if ended:
        return observation, before
    then = "none" if frame is None else f"one of shape {frame.shape} after those of shape {before.shape}"
    raise EnvironmentFailed(f"{environment.spec.name} drew its first frames, and then {then}.")


def thoughts_of(player: Player) -> dict[str, Any]:
    """The policy's output at the last step, by the name of its array in the rollout."""
    output = player.policy.algorithm.outlook(player.output, config=player.policy.config)
    rows = {"values": output.value[0, 0].numpy(), _ARRAY_OF[output.kind]: output.scores[0, 0].numpy()}
    if player.state:
        rows["state_norm"] = torch.cat([part[0].float().flatten() for part in player.state]).norm().numpy()
    return {name: np.asarray(value, np.float32) for name, value in rows.items()}


def _write(writer: RolloutWriter, frame: Array | None, *, observation: Array, **rows: Any) -> None:
    if frame is not None:
        writer.show(frame)
    writer.append(observations=observation, **rows)
