"""`evaluate` and `rollout`: play episodes of a checkpoint's policy in a separate process on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.environments import atari_game
from workbench.environments.atari.human_starts import ALL_ACTIONS, read_starts
from workbench.environments.atari.protocols import Protocol, protocol_of
from workbench.errors import CheckpointCorrupt, InvalidInput, checked_arguments
from workbench.playing import store, worker_process
from workbench.playing.branching import MAX_STEPS
from workbench.playing.evaluating import evaluation_log
from workbench.playing.evaluating.evaluation import LONGEST_EPISODE, Evaluation
from workbench.playing.given_classes import with_classes
from workbench.playing.rollout import Rollout, load
from workbench.rundir import around
from workbench.running.choosing import GIVE_CHECKPOINT, GIVE_GREEDY, to_play

if TYPE_CHECKING:
    from workbench.running.handle import Run

Played = TypeVar("Played")
SALIENCIES = ("gradient", "occlusion")
_EPISODES = 10  # by default


@checked_arguments(checkpoint=GIVE_CHECKPOINT, deterministic=GIVE_GREEDY)
def evaluate(
    checkpoint: Checkpoint | Run | str | Path,
    *,
    episodes: int | None = None,
    seed: int = 0,
    greedy: bool = True,
    protocol: str | None = None,
    starts: str | Path | None = None,
    max_steps: int = LONGEST_EPISODE,
    timeout_s: float | None = None,
    trust_code: bool = False,
    algorithm: type | None = None,
    network: Callable[..., Any] | None = None,
    environment: Callable[..., Any] | None = None,
) -> Evaluation:
    """Returns and lengths of `episodes` whole episodes; deterministic for a seed. Kept with the checkpoint's run.

    Args:
        checkpoint: a Checkpoint, its folder, "RUN@000000012345", or a run (its last good one, or a new one, or its
            best after a collapse; which one is said).
        episodes: None: one for each start of human starts, else 10.
        seed: of the environments and the sampling. Each environment is reset by a number drawn from it, so no episode
            is that of your own env.reset(seed=seed); samples also depend on how many episodes are played at once.
        greedy: take the likeliest action; False: sample from the policy.
        protocol: one of Atari's standard ways to evaluate: "sticky-actions", "sticky-actions-30min", "noop-starts",
            "human-starts"; see `environments.atari.protocols`. None: the run's own environment.
        starts: for human starts, a file of recorded actions; see `environments.atari.human_starts`.
        max_steps: of an episode; one that goes on longer fails the evaluation, since it may never end.
        trust_code: let code that was typed in a cell for its run execute as you, wherever the run comes from.
        algorithm, network: the class of a user's own by which it was trained, where no code is beside it: it was
            exported, or its run has lost the file. None: it ships, or lies with the checkpoint's run.
        environment: the same of the class or function that made its environment, wrapped as in training.

    Raises:
        InvalidInput, CheckpointCorrupt: no good checkpoint there, or the protocol or a class does not fit it.
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        EnvironmentFailed, NetworkFailed: with the traceback.
        WorkbenchError: the process ended without a result, or not within `timeout_s`.
    """
    rules = None if protocol is None else protocol_of(protocol)
    fields = {
        "episodes": Setting("episodes", int, _EPISODES, "", low=1, high=1_000_000, optional=True).check(episodes),
        "seed": worker_process.SEED.check(seed),
        "greedy": worker_process.GREEDY.check(greedy),
        "max_steps": Setting("max_steps", int, LONGEST_EPISODE, "", unit="steps", low=1, high=10**9).check(max_steps),
    }
    play = partial(_evaluated, rules=rules, fields=fields, starts=starts, timeout_s=timeout_s)
    return _while_it_is_there(
        checkpoint, trust_code, play, algorithm=algorithm, network=network, environment=environment)


def _while_it_is_there(
    checkpoint: Checkpoint | Run | str | Path, trust_code: bool, play: Callable[[Checkpoint], Played], **classes: Any
) -> Played:
    """What `play` returns for the checkpoint to be played; again where the run pruned that one before it was read."""
    while True:
        source = to_play(checkpoint, trust_code=trust_code)  # raises where there is none any more
        try:
            with with_classes(source, **classes) as complete:
                return play(complete)
        except (InvalidInput, CheckpointCorrupt):
            if source.path.exists():
                raise


def _evaluated(
    source: Checkpoint, *, rules: Protocol | None, fields: Mapping[str, Any], starts: str | Path | None,
    timeout_s: float | None,
) -> Evaluation:
    default_episodes = _checked_starts(source, rules, starts)
    number = fields["episodes"] or default_episodes
    differs = "" if rules is None else rules.differences(full_action_space=source.spec.num_actions == ALL_ACTIONS)
    request = {
        **worker_process.of(source),
        **fields,
        "episodes": number,
        "protocol": None if rules is None else rules.name,
        "starts": None if starts is None else str(Path(starts).expanduser().absolute()),
    }
    result = worker_process.answer_of(
        "_evaluate", request, timeout_s=timeout_s, what="evaluation",
        remedy=f"{'Ask for fewer episodes, or' if number > 1 else 'Give'} more time; max_steps=... says which of them "
               "are too long.",
    )
    evaluation = Evaluation(
        environment=result.get("environment", source.spec.name),
        checkpoint=source.path,
        checkpoint_frames=source.frames,
        seed=fields["seed"],
        greedy=fields["greedy"],
        returns=tuple(float(value) for value in result["returns"]),
        lengths=tuple(int(value) for value in result["lengths"]),
        protocol=None if rules is None else rules.name,
        differs=differs,
        scores=tuple(float(value) for value in result["scores"]),
        games=tuple(int(value) for value in result["games"]),
    )
    evaluation_log.keep_in_its_run(source, evaluation)
    return evaluation


def _checked_starts(checkpoint: Checkpoint, rules: Protocol | None, starts: str | Path | None) -> int:
    """The default number of episodes. Raises InvalidInput for a protocol that does not fit the checkpoint."""
    takes_file = rules is not None and rules.starts_file
    if starts is not None and not takes_file:
        raise InvalidInput(f"starts={str(starts)!r} is for protocol='human-starts' only.")
    if rules is None:
        return _EPISODES
    name = checkpoint.config.environment  # as `to_play` has checked it: looking for a game may import its package
    typed = around(checkpoint.path).code / "environment.pkl"  # code of a user, whatever its name
    game = None if typed.exists() else atari_game(name)
    if game is None:
        raise InvalidInput(f"protocol={rules.name!r} is a way to evaluate on Atari, and this policy plays {name}. "
                           "Leave it out: episodes are then as the run's environment makes them.")
    if not takes_file:
        return _EPISODES
    if starts is None:
        raise InvalidInput("protocol='human-starts' begins episodes in a person's game, and the published "
                           "start points were never released. Give a file of your own recordings: starts='pong.json', "
                           'JSON as {"game": "pong", "frames_per_action": 1, "starts": [[0, 1, ...], ...]}; see '
                           "docs/environments.md.")
    return len(read_starts(Path(starts), game=game).starts)


@checked_arguments(checkpoint=GIVE_CHECKPOINT, deterministic=GIVE_GREEDY)
def rollout(
    checkpoint: Checkpoint | Run | str | Path,
    *,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    greedy: bool = True,
    saliency: str | None = None,
    render: bool = True,
    timeout_s: float | None = None,
    trust_code: bool = False,
    algorithm: type | None = None,
    network: Callable[..., Any] | None = None,
    environment: Callable[..., Any] | None = None,
) -> Rollout:
    """Play one episode in a separate process on the CPU, or load a stored rollout from its folder.

    The same checkpoint and seed give the same episode, and its return is that of `wb.evaluate(checkpoint, episodes=1,
    seed=seed)`. It is stored under the run's rollouts/ (`run.rollouts`) and replaces an earlier one of the same
    arguments.

    Args:
        checkpoint: a Checkpoint, its folder, or a run (its last good one, or a new one, or its best
            after a collapse; which one is said); or a rollout's folder.
        seed: as of `wb.evaluate`: no episode is that of your own env.reset(seed=seed).
        max_steps: where to cut a longer episode.
        greedy: take the likeliest action; False: sample from the policy.
        saliency: what the chosen action depends on, by "gradient" (doubles the time) or "occlusion" (blurs 144
            patches of images in turn: 0.1 to 0.3 s a step for Atari); None: no saliency.
        render: whether to store frames: in colour and full size for Atari; drawn by the environment if it can
            (`render_mode="rgb_array"`); else its observation if that is an image. `Rollout.note` names a missing
            package such as pygame.
        trust_code: let code that was typed in a cell for its run execute as you, wherever the run comes from.
        algorithm, network, environment: as in `wb.evaluate`.

    Raises:
        InvalidInput, CheckpointCorrupt: no good checkpoint there, or a class does not fit it.
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        EnvironmentFailed, NetworkFailed: with the traceback.
        StorageFailed: the disk is full.
        WorkbenchError: the process ended without a result, or not within `timeout_s`. Nothing is stored then.
    """
    if isinstance(checkpoint, str | Path) and store.is_rollout(Path(os.path.expanduser(checkpoint))):
        return load(Path(checkpoint))
    options = {
        "seed": worker_process.SEED.check(seed),
        "greedy": worker_process.GREEDY.check(greedy),
        "max_steps": Setting("max_steps", int, MAX_STEPS, "", unit="steps", low=1, high=10_000_000).check(max_steps),
        "saliency": Setting("saliency", str, None, "", choices=SALIENCIES, optional=True).check(saliency),
        "render": Setting("render", bool, True, "").check(render),
    }

    def play(source: Checkpoint) -> Rollout:
        target = store.rollout_path(source, _name(**options))
        with store.replacing(target) as folder:
            request = {**worker_process.of(source), "folder": str(folder), **options}
            worker_process.answer_of("_rollout", request, timeout_s=timeout_s, what="rollout",
                                     remedy="Play fewer steps: max_steps=1000.")
        return load(target)

    return _while_it_is_there(
        checkpoint, trust_code, play, algorithm=algorithm, network=network, environment=environment)


def _name(*, seed: int, greedy: bool, max_steps: int, saliency: str | None, render: bool) -> str:
    parts = [f"seed{seed}", "" if greedy else "sampled", saliency or "", "" if render else "blind",
             "" if max_steps == MAX_STEPS else f"{max_steps}steps"]
    return "-".join(part for part in parts if part)
