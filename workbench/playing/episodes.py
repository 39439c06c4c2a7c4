"""`evaluate` and `rollout`: episodes of a checkpoint's policy, played in a process of their own on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.environments import atari_game
from workbench.environments.atari.human_starts import ALL_ACTIONS, read_starts
from workbench.environments.atari.protocols import Protocol, protocol_of
from workbench.errors import InvalidInput
from workbench.playing import store, worker_process
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.playing.rollout import Rollout, load
from workbench.running.starting import to_play

if TYPE_CHECKING:
    from workbench.running.handle import Run

SALIENCIES = ("gradient", "occlusion")
MAX_STEPS = 27_000  # the longest game of Atari: 108,000 frames
_EPISODES = 10  # where nobody says


def evaluate(
    checkpoint: Checkpoint | Run | str | Path,
    *,
    episodes: int | None = None,
    seed: int = 0,
    greedy: bool = True,
    protocol: str | None = None,
    starts: str | Path | None = None,
    timeout_s: float | None = None,
    trust_code: bool = False,
) -> Evaluation:
    """Returns and lengths of `episodes` whole episodes; the same for the same seed.

    Args:
        checkpoint: a Checkpoint, its folder, or a run (its newest good one, or one of now).
        episodes: None: one for each start of human starts, else 10.
        greedy: take the likeliest action; False: sample from the policy.
        protocol: one of Atari's standard ways to evaluate: "sticky-actions", "sticky-actions-30min", "noop-starts",
            "human-starts"; see `environments.atari.protocols`. None: as the run's own environment is.
        starts: for human starts, a file of recorded actions; see `environments.atari.human_starts`.
        trust_code: let code that was typed in a cell for its run execute as you, wherever the run comes from.

    Raises:
        InvalidInput, CheckpointCorrupt: no good checkpoint there, or the protocol is not for it.
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        EnvironmentFailed, NetworkFailed: with the traceback.
        WorkbenchError: the process ended without a result, or not within `timeout_s`.
    """
    found = to_play(checkpoint, trust_code=trust_code)
    chosen = None if protocol is None else protocol_of(protocol)
    usual = _checked_starts(found, chosen, starts)
    number = usual if episodes is None else episodes
    differs = "" if chosen is None else chosen.differences(full_action_space=_all_actions(found))
    request = {
        **worker_process.of(found),
        "episodes": Setting("episodes", int, 10, "", low=1, high=1_000_000).check(number),
        "seed": Setting("seed", int, 0, "", low=0, high=2**31 - 1).check(seed),
        "greedy": Setting("greedy", bool, True, "").check(greedy),
        "protocol": protocol,
        "starts": None if starts is None else str(Path(starts).expanduser().absolute()),
    }
    told = worker_process.answer_of(
        "_evaluate", request, timeout_s=timeout_s, what="evaluation", remedy="Ask for fewer episodes."
    )
    return Evaluation(
        environment=told.get("environment", found.spec.name),
        checkpoint=found.path,
        checkpoint_frames=found.frames,
        seed=seed,
        greedy=greedy,
        returns=tuple(float(one) for one in told["returns"]),
        lengths=tuple(int(one) for one in told["lengths"]),
        protocol=protocol,
        differs=differs,
        scores=tuple(float(one) for one in told["scores"]),
    )


def _checked_starts(checkpoint: Checkpoint, chosen: Protocol | None, starts: str | Path | None) -> int:
    """How many episodes there are if nobody says. Raises InvalidInput for a protocol that does not fit."""
    takes_file = chosen is not None and chosen.starts_file
    if starts is not None and not takes_file:
        raise InvalidInput(f"starts={str(starts)!r} is for protocol='human-starts' only.")
    if chosen is None:
        return _EPISODES
    name = checkpoint.spec.name
    game = None if _of_own_code(checkpoint) else atari_game(name)
    if game is None:
        raise InvalidInput(f"protocol={chosen.name!r} is a way to evaluate on Atari, and this policy plays {name}. "
                           "Leave it out: episodes are then as the run's environment makes them.")
    if not takes_file:
        return _EPISODES
    if starts is None:
        raise InvalidInput("protocol='human-starts' begins episodes where a person's play stands, and the published "
                           "start points were never released. Give a file of your own recordings: starts='pong.json', "
                           'JSON as {"game": "pong", "frames_per_action": 1, "starts": [[0, 1, ...], ...]}; see '
                           "docs/environments.md.")
    return len(read_starts(Path(starts), game=game).starts)


def _of_own_code(checkpoint: Checkpoint) -> bool:
    """Whether the environment was typed for the run, whatever it is called."""
    return (checkpoint.path.parent.parent / "code" / "environment.pkl").exists()


def _all_actions(checkpoint: Checkpoint) -> bool:
    """Whether the policy has all 18 actions, by choice or because the game has no fewer."""
    return checkpoint.spec.num_actions == ALL_ACTIONS


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
) -> Rollout:
    """One episode, in a process of its own on the CPU; or one that is kept already, where given its folder.

    The same checkpoint and seed give the same episode, and its return is that of `wb.evaluate(checkpoint, episodes=1,
    seed=seed)`. It is kept under the run's rollouts/ (`run.rollouts`), in the place of an earlier one of the same
    arguments.

    Args:
        checkpoint: a Checkpoint, its folder, or a run (its newest good one, or one of now); or the folder of a rollout.
        max_steps: where to cut an episode that does not end.
        greedy: take the likeliest action; False: sample from the policy.
        saliency: what the action taken depends on: "gradient" (doubles the time) or "occlusion" (144 patches of
            images blurred in turn: 0.1 to 0.3 s a step for Atari); None: not asked.
        render: whether to keep frames: in colour and full size for Atari; drawn by the environment where it can
            (`render_mode="rgb_array"`); else its observation, where that is an image. What is missing for it, such as
            pygame, is said in `Rollout.note`.
        trust_code: let code that was typed in a cell for its run execute as you, wherever the run comes from.

    Raises:
        InvalidInput, CheckpointCorrupt: no good checkpoint there.
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        EnvironmentFailed, NetworkFailed: with the traceback.
        StorageFailed: the disk is full.
        WorkbenchError: the process ended without a result, or not within `timeout_s`. Nothing is kept then.
    """
    if isinstance(checkpoint, str | Path) and store.folder_of(Path(os.path.expanduser(checkpoint))):
        return load(Path(checkpoint))
    asked = {
        "seed": Setting("seed", int, 0, "", low=0, high=2**31 - 1).check(seed),
        "greedy": Setting("greedy", bool, True, "").check(greedy),
        "max_steps": Setting("max_steps", int, MAX_STEPS, "", unit="steps", low=1, high=10_000_000).check(max_steps),
        "saliency": Setting("saliency", str, None, "", choices=SALIENCIES, optional=True).check(saliency),
        "render": Setting("render", bool, True, "").check(render),
    }
    found = to_play(checkpoint, trust_code=trust_code)
    target = store.kept_in(found, _name(**asked))
    with store.replacing(target) as folder:
        request = {**worker_process.of(found), "folder": str(folder), **asked}
        worker_process.answer_of("_rollout", request, timeout_s=timeout_s, what="rollout",
                              remedy="Play fewer steps: max_steps=1000.")
    return load(target)


def _name(*, seed: int, greedy: bool, max_steps: int, saliency: str | None, render: bool) -> str:
    parts = [f"seed{seed}", "" if greedy else "sampled", saliency or "", "" if render else "blind",
             "" if max_steps == MAX_STEPS else f"{max_steps}steps"]
    return "-".join(part for part in parts if part)
