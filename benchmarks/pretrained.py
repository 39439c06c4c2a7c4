"""Trains a policy that ships with the package, and writes its folder, its card and the facts of its run.

    python benchmarks/pretrained.py NAME [--hours 1] [--episodes 100]    train it, or go on with its run
    python benchmarks/pretrained.py NAME --report                        write what its run has now; train no further
    python benchmarks/pretrained.py NAME --start FOLDER                  a new run that starts from weights in a folder

NAME is one of POLICIES. A checkpoint is evaluated whenever training is good enough for it; the run ends when one plays
as well as is wanted, or after --hours of training. The best one is what ships. If this script ends before, the run goes
on, and the same command goes on with it.

Results: workbench/pretrained/NAME/ (model.safetensors, meta.json, card.md; --folder: elsewhere), and
results/pretrained-NAME.md.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from arguments import RESULTS, Parser, folder
from learning import changes_by_hand, found_or_launched, last_checkpoint, settings_list
from throughput import hardware

import workbench as wb
from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import META, encoded_meta, file_of
from workbench.checkpoints.tensorfile import Content
from workbench.playing import pretrained
from workbench.playing.evaluating import evaluation_log

LOOK_S = 5.0
SEED = 1  # of the evaluations that choose
LEAST_EPISODES = 20  # behind a mean that counts
LARGE_BYTES = 4 * 2**20  # of weights: above it they ship in half precision


@dataclass(frozen=True)
class Policy:
    """What is trained, and when it is good enough.

    Attributes:
        fields: of the run.
        trained: the mean return of training episodes from which on checkpoints are evaluated.
        wanted: the mean return of an evaluation that ends the training.
        hours: of training, at most.
        between: frames from one evaluation to the next.
        tuned: frames, and what is changed there: (3_000_000, {"entropy_cost": 0.003}).
    """

    environment: str
    fields: Mapping[str, Any]
    trained: float
    wanted: float
    hours: float
    between: int
    tuned: tuple[tuple[int, Mapping[str, Any]], ...] = ()


# 18 over 100 training episodes after 13.3 M frames (results/pretrained-pong.md). The preset atari-few-cores came of it.
# "impala-shallow" is 1.3 times as fast on two cores, and stood at -7 from 11 to 12.7 M frames.
_ATARI = {
    "environment_options": {"repeat_action_probability": 0.0}, "actors": 2, "envs_per_actor": 8,
    "network": "nature", "unroll_length": 20, "batch_size": 4, "learning_rate": 4e-4, "entropy_cost": 0.01,
    "max_gradient_norm": 0.5, "warmup_updates": 0, "total_frames": 40_000_000, "checkpoint_interval_s": 300.0,
}  # fmt: skip
POLICIES = {
    "cartpole": Policy(
        "CartPole-v1",
        {"actors": 1, "envs_per_actor": 16, "unroll_length": 20, "batch_size": 16, "learning_rate": 1e-3,
         "learning_rate_schedule": "linear", "total_frames": 3_000_000},
        trained=475, wanted=499, hours=1, between=50_000),
    "recall": Policy(
        "testing/recall-v0",
        {"actors": 1, "envs_per_actor": 32, "batch_size": 16, "learning_rate": 2e-3, "network": "mlp-lstm",
         "environment_options": {"length": 6}, "total_frames": 3_000_000},
        trained=0.95, wanted=0.99, hours=1, between=50_000),
    "pong": Policy(
        "ALE/Pong-v5", _ATARI, trained=18, wanted=20, hours=12, between=1_000_000,
        tuned=((3_100_000, {"entropy_cost": 0.003}), (14_700_000, {"learning_rate": 2e-4}),
               (18_700_000, {"learning_rate": 1e-4, "entropy_cost": 0.001}))),
    "breakout": Policy(
        "ALE/Breakout-v5", {**_ATARI, "learning_rate_schedule": "linear"}, trained=100, wanted=300, hours=12,
        between=2_000_000),
    # results/learning-academy_empty_goal_close.md: 0.9 after 263,000 frames.
    "football": Policy(
        "football/academy_empty_goal_close",
        {"actors": 1, "envs_per_actor": 16, "unroll_length": 32, "batch_size": 16, "total_frames": 10_000_000,
         "learning_rate": 3e-4, "entropy_cost": 3e-3, "discount": 0.99, "lambda_": 0.95, "network": "nature",
         "max_abs_reward": 0.0, "learner_threads": 1},
        trained=0.9, wanted=0.97, hours=3, between=50_000),
}  # fmt: skip


def train(run: wb.Run, policy: Policy, *, hours: float, episodes: int) -> None:
    """Follow the run until a checkpoint of it plays as well as wanted, or time is up. Raises RunFailed."""
    next_frames = 0
    while True:
        status = run.status
        over = not status.alive or status.time_s >= 3600 * hours
        if not over:
            tune(run, policy, status.frames)
        if over or (_is_good(status, policy.trained) and status.frames >= next_frames):
            checkpoint = last_checkpoint(run)
            found = wb.evaluate(checkpoint, episodes=episodes, seed=SEED)
            evaluation_log.keep(run.directory, checkpoint, found)
            print(f"{status.time_s / 60:.0f} min: {found!r}; {status.line()}", flush=True)
            if over or found.mean >= policy.wanted:
                return
            next_frames = status.frames + policy.between
        with suppress(wb.errors.RunNotAlive):  # it ended by a rule of its own: the next look sees it
            run.wait(seconds=LOOK_S, progress=False)


def started_from(policy: Policy, folder: Path) -> Policy:
    """The policy's training from the weights that another run of it had: with the changes that were due until then."""
    found = checkpoints.at(folder)
    before: dict[str, Any] = {"checkpoint": found}
    for due, changes in policy.tuned:
        before |= changes if due <= found.frames else {}
    after = tuple((due - found.frames, changes) for due, changes in policy.tuned if due > found.frames)
    return replace(policy, fields={**policy.fields, **before}, tuned=after)


def _is_good(status: wb.RunStatus, trained: float) -> bool:
    behind = status.episodes_in_mean or 0
    return status.episode_return is not None and behind >= LEAST_EPISODES and status.episode_return >= trained


def tune(run: wb.Run, policy: Policy, frames: int) -> None:
    """Make the changes that are due and were not made before, by this script or one that ended."""
    done = int((run.events["kind"] == "tune").sum())
    for due, changes in policy.tuned[done:]:
        if frames < due:
            return
        run.tune(**changes)


def best_of(run: wb.Run) -> Checkpoint:
    """The checkpoint that was evaluated best, of those that are there; the newest if none was."""
    there = {one.path.name: one for one in run.checkpoints}
    kept = [one for one in evaluation_log.kept(run.directory) if one.evaluation.checkpoint.name in there]
    if not kept:
        return run.checkpoints[-1]
    best = max(kept, key=lambda one: (one.evaluation.mean, one.evaluation.checkpoint_frames))
    return there[best.evaluation.checkpoint.name]


def write(name: str, run: wb.Run, target: Path, *, episodes: int) -> wb.Evaluation:
    """Put the best checkpoint's policy with its card into `target`, in the place of an earlier one."""
    chosen = best_of(run)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as beside:
        made = packed(chosen, Path(beside) / name)
        played = wb.evaluate(made, episodes=episodes, seed=SEED + 1)  # other episodes than those that it was chosen by
        write_meta(made.path, chosen, made.files, {**made.meta, pretrained.JUDGED: judgement(played)})
        (made.path / pretrained.CARD).write_text(card_of(run, made, played), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        made.path.rename(target)
    return played


def packed(checkpoint: Checkpoint, place: Path) -> Checkpoint:
    """The weights alone in a new folder, in half precision where they are large, with what they belong to."""
    tensors = checkpoint.load("model")
    if sum(one.nbytes for one in tensors.values()) > LARGE_BYTES:
        tensors = {name: one.astype(np.float16) if one.dtype == np.float32 else one for name, one in tensors.items()}
    place.mkdir()
    content, file = Content.of("model", tensors), file_of("model")
    with open(place / file, "xb") as target:
        digest = content.write(target)
    files = {file: {"sha256": digest, "size_bytes": content.size_bytes}}
    write_meta(place, checkpoint, files, {name: one for name, one in checkpoint.meta.items() if name != "fork"})
    return checkpoints.at(place)


def write_meta(place: Path, source: Checkpoint, files: dict[str, Any], meta: dict[str, Any]) -> None:
    (place / META).write_bytes(encoded_meta(meta, files=files, requested=True, created=source.created))


def judgement(played: wb.Evaluation) -> dict[str, Any]:
    """How well it plays, for meta.json."""
    interval = None if played.no_interval else played.confidence_interval
    return {"mean": played.mean, "interval": interval, "episodes": len(played.returns),
            "seed": played.seed, "greedy": played.greedy}


def card_of(run: wb.Run, made: Checkpoint, played: wb.Evaluation) -> str:
    """The run's card, with what of it ships."""
    return (f"{run.card().markdown}\n## What ships\n\nThe weights at {made.frames:,} frames, {pretrained.size(made)}: "
            f"{in_words(played)}. Trained by `python benchmarks/pretrained.py {made.path.name}`.\n")


def in_words(played: wb.Evaluation) -> str:
    low, high = played.confidence_interval
    sure = "" if played.no_interval else f", 95% confidence interval {low:.4g} to {high:.4g}"
    return f"mean return {played.mean:.4g} over {len(played.returns)} episodes of greedy play{sure}"


def facts(name: str, run: wb.Run, policy: Policy, played: wb.Evaluation) -> str:
    """What was run, on what, and what came of it."""
    status = run.status
    return (f"# The policy {name}\n\n`wb.pretrained({name!r})`: {in_words(played)} (seed {played.seed}), at "
            f"{played.checkpoint_frames:,} frames.\n\nTrained for {status.frames:,} frames ({status.steps:,} steps, "
            f"{status.updates:,} updates) and {status.time_s / 60:.1f} minutes; mean return of training at the end: "
            f"{status.episode_return:.4g}.\n\n{hardware()}; other work shared the machine, which is why the minutes "
            f"say less than the frames.\n\n`python benchmarks/pretrained.py {name}`\n\n"
            f"{settings_list({**policy.fields, 'seed': run.config.seed})}\n\n{changes_by_hand(run)}".rstrip() + "\n")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("policy", choices=list(POLICIES), metavar="NAME", help=", ".join(POLICIES))
    parser.number("--hours", None, "hours of training, at most; without it the policy's own", least=0, most=1000)
    parser.whole("--episodes", 100, "episodes of each evaluation", most=10_000)
    parser.whole("--seed", 1, "seed of the run", least=0, most=2**31)
    parser.add_argument("--name", help="of the run (default: pretrained-NAME)")
    parser.add_argument("--folder", type=folder, metavar="DIRECTORY", help="in which the policy's own is made, and "
                        "results beside it (default: workbench/pretrained, and benchmarks/results)")
    parser.add_argument("--start", type=folder, metavar="FOLDER", help="of the weights to start from, such as "
                        "wb.export_policy wrote of a run that had too little time")
    parser.add_argument("--report", action="store_true", help="write what the run has now")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    policy, name = POLICIES[given.policy], given.name or f"pretrained-{given.policy}"
    if given.start is not None:
        policy = started_from(policy, given.start)
    with Parser(script=__file__).refusing():
        run = wb.attach(name) if given.report else found_or_launched(
            name, policy.environment, seed=given.seed, **policy.fields)
    if not given.report:
        train(run, policy, hours=policy.hours if given.hours is None else given.hours, episodes=given.episodes)
        run.stop()
    played = write(given.policy, run, (given.folder or pretrained.FOLDER) / given.policy, episodes=given.episodes)
    text = facts(given.policy, run, policy, played)
    ((given.folder or RESULTS) / f"pretrained-{given.policy}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
