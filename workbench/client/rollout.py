"""`rollout`: one episode played by a checkpoint's policy, with what the policy thought at every step.

Time indices are those of `trajectory`: x_0 is the first observation, a_t is taken at x_t, and `rewards[t]` belongs to
the transition from x_t to x_{t+1}. With T actions there are T+1 observations and frames; the last follows the last
action. The new episode that environments begin at once is no part of it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from workbench import rollouts
from workbench.checkpoints import Checkpoint
from workbench.client import film, own_process, showing
from workbench.client.run import Run
from workbench.client.start import chosen_checkpoint
from workbench.config import Setting
from workbench.errors import InvalidInput, MissingPackage, StorageFailed
from workbench.rollouts import StoredFrames
from workbench.rundir import RunDirectory
from workbench.trajectory import Array

SALIENCIES = ("gradient", "occlusion")
_TOLD = (
    "environment", "algorithm", "checkpoint_frames", "seed", "greedy", "terminated", "truncated", "fps", "note",
)  # fmt: skip
MAX_STEPS = 27_000  # the longest game of Atari: 108,000 frames


@dataclass(frozen=True, repr=False, eq=False)
class Rollout:
    """One episode, or the beginning of one: neither `terminated` nor `truncated` if it was cut at `max_steps`.

    Attributes:
        frames: what x_t looks like: T+1 times uint8 [H, W, 3], or None (see `note`). `frames[t]` is decoded when it is
            asked for; np.asarray(frames) is all of them.
        observations: [T+1, ...], as the environment gave them (single frames, where the network sees a stack).
        actions: int64 [T].
        rewards: float32 [T], not clipped.
        values: float32 [T], V(x_t), or the highest Q-value: discounted sums of rewards as trained on (clipped to
            ±`max_abs_reward` where set).
        policy: float32 [T, A], probabilities, or None for an algorithm of values.
        q_values: float32 [T, A], sums as in `values`, or None for one with a policy.
        state_norm: float32 [T], L2 norm of the recurrent state after x_t; None without memory.
        saliency: uint8 [T, h, w] (or [T, features]): how much each part of x_t counts for a_t; None if not asked for.
        action_names: A names.
        fps: steps per second at which people watch this environment.
        note: why there are no frames, or none in colour; and whether `rewards` has some that training would clip.
        path: the folder that it is kept in, or None.
        max_abs_reward: rewards were clipped to ± this in training; 0: they were not.
    """

    environment: str
    algorithm: str
    checkpoint: Path
    checkpoint_frames: int
    seed: int
    greedy: bool
    frames: StoredFrames | Array | None
    observations: Array
    actions: Array
    rewards: Array
    values: Array
    policy: Array | None
    q_values: Array | None
    state_norm: Array | None
    saliency: Array | None
    terminated: bool
    truncated: bool
    action_names: tuple[str, ...]
    fps: float
    note: str = ""
    path: Path | None = None
    max_abs_reward: float = 0.0

    @property
    def episode_return(self) -> float:
        """Sum of the rewards."""
        return float(np.cumsum(self.rewards, dtype=np.float64)[-1])  # one after the other, as `evaluate` adds them

    @property
    def steps(self) -> int:
        """Number of steps, T."""
        return len(self.actions)

    def __repr__(self) -> str:
        end = "terminated" if self.terminated else "truncated" if self.truncated else "cut off at max_steps"
        return (
            f"Rollout({self.environment} at {self.checkpoint_frames:,} frames, seed {self.seed}: "
            f"return {self.episode_return:.4g}, {self.steps:,} steps, {end})"
        )

    def pictures(self) -> tuple[str, list[bytes]]:
        """The frames as encoded files, and their type: "image/png" or "image/jpeg", whichever is smaller here."""
        if self.frames is None:
            raise InvalidInput(f"this rollout has no frames: {self.note}.")
        if isinstance(self.frames, StoredFrames):
            return self.frames.mime, [self.frames.encoded(index) for index in range(len(self.frames))]
        return "image/png", [rollouts.as_png(frame) for frame in self.frames]

    def jpegs(self) -> list[bytes]:
        """The frames as JPEG of quality 90, 4:4:4. `pictures` is quicker where they are kept as PNG."""
        kind, found = self.pictures()
        if kind == "image/jpeg":
            return found
        assert self.frames is not None
        return [rollouts.as_jpeg(frame) for frame in self.frames]

    def save(self, path: str | Path, *, fps: float | None = None, overlay: bool = False) -> Path:
        """Write the episode as a film, .mp4 (H.264) or .gif, and return its path.

        Args:
            fps: steps per second, 0.1 to 240; None: those of the environment.
            overlay: draw the saliency over the frames (if there is one), and step, action, value and return below.

        Raises:
            InvalidInput: another ending, no frames, or `fps` out of bounds.
            MissingPackage: mp4 needs PyAV, gif needs Pillow.
            StorageFailed: it cannot be written there.
        """
        if self.frames is None:
            raise InvalidInput(f"this rollout has no frames to save: {self.note}.")
        shown = film.with_overlay(self) if overlay else iter(self.frames)
        return film.save(shown, Path(path).expanduser(), fps=film.watchable(self.fps) if fps is None else fps)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            player: Any = showing.widget("player").RolloutPlayer([self])
        except MissingPackage as error:
            print(f"{self!r}\n({error})")
        else:
            display(player)  # type: ignore[no-untyped-call, unused-ignore]


def rollout(
    checkpoint: Checkpoint | Run | str | Path,
    *,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    greedy: bool = True,
    saliency: str | None = None,
    render: bool = True,
    timeout_s: float | None = None,
) -> Rollout:
    """One episode, in a process of its own on the CPU; or one that is kept already, where given its folder.

    The same checkpoint and seed give the same episode, and its return is that of `wb.evaluate(checkpoint, episodes=1,
    seed=seed)`. It is kept under the run's rollouts/ (`run.rollouts`), in the place of an earlier one of the same
    arguments.

    Args:
        checkpoint: a Checkpoint, its folder, or a run (its newest good one); or the folder of a rollout.
        max_steps: where to cut an episode that does not end.
        greedy: take the likeliest action; False: sample from the policy.
        saliency: what the action taken depends on: "gradient" (doubles the time) or "occlusion" (144 patches of
            images blurred in turn: 0.1 to 0.3 s a step for Atari); None: not asked.
        render: whether to keep frames: in colour and full size for Atari; drawn by the environment where it can
            (`render_mode="rgb_array"`); else its observation, where that is an image. What is missing for it, such as
            pygame, is said in `Rollout.note`.

    Raises:
        InvalidInput, CheckpointCorrupt: no good checkpoint there.
        EnvironmentFailed, NetworkFailed: with the traceback.
        StorageFailed: the disk is full.
        WorkbenchError: the process ended without a result, or not within `timeout_s`. Nothing is kept then.
    """
    if isinstance(checkpoint, str | Path) and rollouts.folder_of(Path(checkpoint).expanduser()):
        return load(Path(checkpoint))
    asked = {
        "seed": Setting("seed", int, 0, "", low=0, high=2**31 - 1).check(seed),
        "greedy": Setting("greedy", bool, True, "").check(greedy),
        "max_steps": Setting("max_steps", int, MAX_STEPS, "", unit="steps", low=1, high=10_000_000).check(max_steps),
        "saliency": Setting("saliency", str, None, "", choices=SALIENCIES, optional=True).check(saliency),
        "render": Setting("render", bool, True, "").check(render),
    }
    found = chosen_checkpoint(checkpoint)
    target = rollouts.kept_in(found, _name(**asked))
    with rollouts.replacing(target) as folder:
        request = {"checkpoint": str(found.path), "folder": str(folder), **asked}
        own_process.answer_of("_rollout", request, timeout_s=timeout_s, what="rollout",
                              remedy="Play fewer steps: max_steps=1000.")
    return load(target)


def _name(*, seed: int, greedy: bool, max_steps: int, saliency: str | None, render: bool) -> str:
    parts = [f"seed{seed}", "" if greedy else "sampled", saliency or "", "" if render else "blind",
             "" if max_steps == MAX_STEPS else f"{max_steps}steps"]
    return "-".join(part for part in parts if part)


def load(folder: Path) -> Rollout:
    """The rollout in a folder. Raises InvalidInput where there is none, StorageFailed for a damaged one."""
    path = folder.expanduser().absolute()
    record, arrays, frames = rollouts.read(path)
    try:
        fields: dict[str, Any] = {name: record[name] for name in _TOLD}
        fields |= {name: arrays[name] for name in ("observations", "actions", "rewards", "values")}
        fields |= {name: arrays.get(name) for name in ("policy", "q_values", "state_norm", "saliency")}
        bound = float(record.get("max_abs_reward", 0))
        if 0 < bound < np.abs(fields["rewards"]).max(initial=0):
            clipped = f"values are of rewards clipped to ±{bound:g}, as in training"
            fields["note"] = "; ".join(filter(None, [fields["note"], clipped]))
        return Rollout(**fields, frames=frames, checkpoint=Path(record["checkpoint"]),
                       action_names=tuple(record["action_names"]), path=path, max_abs_reward=bound)
    except KeyError as error:
        raise StorageFailed(f"the rollout in {path} is damaged: it lacks {error}. Delete the folder.") from None


def every(run: RunDirectory) -> list[Rollout]:
    """The rollouts of a run, oldest first; damaged ones are left out."""
    found = []
    for path in run.rollouts.glob(f"[0-9]*/{rollouts.RECORD}"):
        with suppress(InvalidInput, OSError):  # StorageFailed, or replaced in this moment
            found.append((path.stat().st_mtime, load(path.parent)))
    return [one for _, one in sorted(found, key=itemgetter(0))]
