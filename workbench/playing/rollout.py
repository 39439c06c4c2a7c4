"""`Rollout`: one episode played by a checkpoint's policy, with the policy's output at every step.

Time indices are those of `trajectory`: x_0 is the first observation, a_t is taken at x_t, and `rewards[t]` belongs to
the transition from x_t to x_{t+1}. With T actions there are T+1 observations and frames; the last follows the last
action. The first observation of the next episode is not part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from workbench import imports
from workbench.environment_spec import ActionSpec, Part
from workbench.environments import observations
from workbench.errors import InvalidInput, StorageFailed, checked_arguments
from workbench.playing import branching, film, store
from workbench.playing.store import BranchPoint, StoredFrames
from workbench.rundir import RunDirectory
from workbench.tables import counted, plain
from workbench.trajectory import Array

_RECORDED = (
    "environment", "algorithm", "checkpoint_frames", "seed", "greedy", "terminated", "truncated", "fps", "note",
)  # fmt: skip
_OPTIONAL = (
    "policy", "q_values", "means", "scores", "state_norm", "saliency", "by_person", "edited_at", "edited",
)  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Rollout:
    """One episode, or the beginning of one: neither `terminated` nor `truncated` if it was cut at `max_steps`.

    Attributes:
        frames: images of x_t, T+1 times uint8 [H, W, 3], or None (see `note`). `frames[t]` is decoded on access;
            np.asarray(frames) decodes all.
        observation_rows: [T+1, ...], as on the wire: bytes if they have several parts or bits. See `observations`.
        actions: int64 [T], or [T, K] if an action has K parts or switches; float32 [T, K] in [-1, 1] if it has K
            numbers, which the environment scales to its own bounds. Of a mixed action float32 [T, K], its parts one
            after another, in which choices are whole numbers.
        rewards: float32 [T], not clipped.
        values: float32 [T], V(x_t), or the highest Q-value: discounted sums of rewards as trained on (scaled, and
            clipped to ±`max_abs_reward`, where set; `note` says so).
        policy: float32 [T, A], probabilities, or None for a value-based algorithm or actions that are numbers. For
            several parts those of all parts in a row; for switches the probability of on; for the numbers of a mixed
            action the mean of each in [-1, 1].
        q_values: float32 [T, A], in the units of `values`, or None for an algorithm with a policy.
        means: float32 [T, K], the mean of each number in [-1, 1] if actions are numbers; else None.
        scores: float32 [T], the environment's own score if `rewards` are shaped; else None.
        state_norm: float32 [T], L2 norm of the recurrent state after x_t; None without memory.
        saliency: uint8 [T, h, w] (or [T, features]): how much each part of x_t counts for a_t; None if not requested.
        action_names: names of the actions, or of their parts.
        action_spec: the kind of the actions.
        parts: the layout of the bytes in `observation_rows`; () if these are the observations.
        fps: steps per second at which people watch this environment.
        note: why there are no frames, or none in colour; and whether training would clip some `rewards`.
        path: the folder of the rollout, or None.
        max_abs_reward: rewards were clipped to ± this in training; 0: no clipping.
        by_person: bool [T], which actions a person chose, in an episode of `wb.play`; None: the policy chose all.
            Without an agent `algorithm` is "", and values and policy are NaN.
        branched: where and how it parted from its `parent`, if it is a branch; else None.
        edited_at: int [E], the steps at which the policy saw another observation than the environment's, ascending;
            None: nowhere.
        edited: [E, ...], what it saw there, as `observation_rows`.
    """

    environment: str
    algorithm: str
    checkpoint: Path
    checkpoint_frames: int
    seed: int
    greedy: bool
    frames: StoredFrames | Array | None
    observation_rows: Array
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
    action_spec: ActionSpec
    note: str = ""
    path: Path | None = None
    max_abs_reward: float = 0.0
    means: Array | None = None
    scores: Array | None = None
    parts: tuple[Part, ...] = ()
    by_person: Array | None = None
    branched: BranchPoint | None = None
    edited_at: Array | None = None
    edited: Array | None = None

    @cached_property
    def observations(self) -> Array | dict[str, Array]:
        """[T+1, ...], as the environment returned them (single frames, also if the network sees a stack).

        A dict by name if they have several parts. Bits are 0 or 255.
        """
        return observations.decode(self.observation_rows, self.parts)

    @property
    def episode_return(self) -> float:
        """Sum of the rewards."""
        return float(np.cumsum(self.rewards, dtype=np.float64)[-1])  # sequentially, as `evaluate` adds them

    @property
    def episode_score(self) -> float | None:
        """Sum of the scores, or None without scores."""
        return None if self.scores is None else float(np.cumsum(self.scores, dtype=np.float64)[-1])

    @property
    def said(self) -> Array:
        """The policy's output for the actions, [T, A]: `policy`, `q_values` or `means`."""
        return next(array for array in (self.policy, self.q_values, self.means) if array is not None)

    @property
    def explains_what_frames_do_not_show(self) -> bool:
        """Whether the saliency belongs to a vector, or to another view than the frames, as in MiniGrid."""
        return self.saliency is not None and (self.saliency.ndim == 2 or bool(self.parts))

    @property
    def steps(self) -> int:
        """Number of steps, T."""
        return len(self.actions)

    @property
    def end(self) -> str:
        """How the episode ended, in words."""
        if self.terminated or self.truncated:
            return "terminated" if self.terminated else "truncated"
        return "cut off at max_steps" if self.by_person is None else "not played to its end"

    @property
    def parent(self) -> Rollout | None:
        """The episode that this one is a branch of, or None. Raises InvalidInput if it was deleted."""
        if self.branched is None or self.path is None:
            return None
        return load(store.folder_of_parent(self.path, self.branched))

    @property
    def branches(self) -> list[Rollout]:
        """The branches of this episode on disk, oldest first; damaged ones are left out."""
        own = "" if self.path is None else self.path.name
        return [branch for branch in self.family if branch.branched and branch.branched.parent == own]

    @property
    def family(self) -> list[Rollout]:
        """All branches of the recorded episode that this one began with, and theirs, oldest first."""
        return [] if self.path is None else _loaded(
            store.folder_of_branches(self.path).glob(f"[0-9]*/{store.RECORD}"))

    @checked_arguments(frame="Give the step at which another future begins: rollout.branch(120, action=3).")
    def branch(
        self,
        frame: int,
        *,
        action: Any = None,
        observation: Any = None,
        hold: int = 1,
        max_steps: int | None = None,
        timeout_s: float | None = None,
        trust_code: bool = False,
        algorithm: type | None = None,
        network: Callable[..., Any] | None = None,
        environment: Callable[..., Any] | None = None,
    ) -> Rollout:
        """Another future of this episode, from step `frame` on: what if another action, or another observation?

            rollout.branch(120, action="UP")
            rollout.branch(120, observation={"x[2]": 0.2})  # of CartPole also {"pole angle": 0.2}
            rollout.branch(120, observation={"occlude": (30, 40, 20, 10)}, hold=15)

        The recorded actions are played again from the episode's seed, in a process of its own. Each observation, reward
        and opinion of the policy must be the recorded one, or else the branch is refused; so environment and recurrent
        state are exactly those of that step. From there the policy plays on, greedily or sampling as before. Without
        `action` and `observation` the future is the recorded one.

        Args:
            frame: the step, from 0 to `steps` - 1.
            action: that is taken there instead of the policy's, by number or name, or as `actions` have it; a mixed one
                also as {"move": "UP", "throttle": 0.3}; a list of several: at the steps from there on.
            observation: what the policy sees there; the environment stays as it is. Of a vector, numbers by name or
                position, or all of them; of a picture, {"occlude": (left, top, width, height)} and {"shade": 0} (grey
                without it, or 0 where planes are of switches; the whole picture without a box), in pixels of what the
                policy sees.
            hold: for how many steps the observation is edited.
            max_steps: where to cut a longer episode; None: where this one was cut, or as `wb.rollout` does.
            trust_code, algorithm, network, environment: see `wb.rollout`.

        The branch is stored beside this rollout (`branches`); at most 24 are kept with an episode, the newest.

        Raises:
            InvalidInput: no such step or action, a rollout that is not on disk, or an episode without an agent.
            EnvironmentFailed: the environment or the policy does not repeat the episode exactly.
            And as `wb.rollout`.
        """
        options = {"action": action, "observation": observation, "hold": hold, "max_steps": max_steps}
        return load(branching.play_branch(self, frame, **options, timeout_s=timeout_s, trust_code=trust_code,
                                          algorithm=algorithm, network=network, environment=environment))

    def __repr__(self) -> str:
        score = "" if self.episode_score is None else f", score {self.episode_score:.4g}"
        at = f" at {self.checkpoint_frames:,} frames" if self.algorithm else ""
        who = "" if self.by_person is None else f", {np.count_nonzero(self.by_person):,} of them by a person"
        branch = "" if self.branched is None else f", branch at step {self.branched.frame}: {self.branched.change}"
        return plain(
            f"Rollout({self.environment}{at}, seed {self.seed}{branch}: "
            f"return {self.episode_return:.4g}{score}, {counted(self.steps, 'steps')}{who}, {self.end})"
        )

    def pictures(self) -> tuple[str, list[bytes]]:
        """The MIME type of the frames ("image/png" or "image/jpeg"), and the frames as encoded files."""
        if self.frames is None:
            raise InvalidInput(f"this rollout has no frames: {self.note}.")
        if isinstance(self.frames, StoredFrames):
            return self.frames.mime, [self.frames.encoded(index) for index in range(len(self.frames))]
        return "image/png", [store.as_png(frame) for frame in self.frames]

    def save(self, path: str | Path, *, fps: float | None = None, overlay: bool = False) -> Path:
        """Write the episode as a film, .mp4 (H.264) or .gif, and return its path.

        Args:
            path: the file; or a folder that is there, for a film of the first free name that Gymnasium's RecordVideo
                gives: rl-video-episode-0.mp4, rl-video-episode-1.mp4, ....
            fps: steps per second, 0.1 to 240; None: the environment's.
            overlay: draw any saliency over the frames, and step, action, value and return below.

        Raises:
            InvalidInput: another suffix, no frames, or `fps` out of bounds.
            MissingPackage: mp4 needs PyAV, gif needs Pillow.
            StorageFailed: the file cannot be written.
        """
        if not isinstance(path, str | Path):
            raise InvalidInput(f"path={path!r:.100} is no path. Give one: rollout.save('episode.mp4').")
        if self.frames is None:
            raise InvalidInput(f"this rollout has no frames to save: {self.note}.")
        frames = film.with_overlay(self) if overlay else iter(self.frames)
        target = film.named(Path(path).expanduser().absolute())
        return film.save(frames, target, fps=film.watchable(self.fps) if fps is None else fps)

    def _ipython_display_(self) -> None:
        imports.show(self, lambda: imports.widget("episodes.player").RolloutPlayer([self]))


def load(folder: Path) -> Rollout:
    """The rollout in a folder. Raises InvalidInput if there is none, StorageFailed if it is damaged."""
    path = folder.expanduser().absolute()
    record, arrays, frames = store.read(path)
    try:
        spec = store.spec_of(record, arrays, None if frames is None else len(frames), path / store.RECORD)
        fields: dict[str, Any] = {name: record[name] for name in _RECORDED}
        fields |= {name: arrays[name] for name in ("actions", "rewards", "values")}
        fields |= {name: arrays.get(name) for name in _OPTIONAL}
        if fields["by_person"] is not None:
            fields["by_person"] = fields["by_person"].astype(bool)
        fields["branched"] = store.of_record(record, len(arrays["actions"]), path / store.RECORD)
        bound = float(record.get("max_abs_reward", 0))
        fields["note"] = "; ".join(filter(None, [fields["note"], _as_trained(record, fields["rewards"])]))
        return Rollout(**fields, action_spec=spec.actions, parts=spec.parts, frames=frames,
                       observation_rows=arrays["observations"], checkpoint=Path(record["checkpoint"]), path=path,
                       action_names=tuple(record["action_names"]), max_abs_reward=bound)
    except KeyError as error:
        raise StorageFailed(f"the rollout in {path} is damaged: it lacks {error}. Move the folder away.") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StorageFailed(f"the rollout in {path} is damaged: {error!s:.200}. Move the folder away.") from None


def _as_trained(record: dict[str, Any], rewards: Array) -> str:
    """A note on how the rewards behind `values` differ from `rewards`; "" if they are the same."""
    bound, scale = float(record.get("max_abs_reward", 0)), float(record.get("reward_scale", 1))
    changes = ["divided by the deviation of their returns so far"] if record.get("normalize_rewards") else []
    changes += [] if scale == 1 else [f"times {scale:g}"]
    if 0 < bound < scale * float(np.abs(rewards).max(initial=0)):
        changes.append(f"clipped to ±{bound:g}")
    return f"values are of rewards {' and '.join(changes)}, as in training" if changes else ""


def every(run: RunDirectory) -> list[Rollout]:
    """The rollouts of a run without their branches, oldest first; damaged ones are left out."""
    return _loaded(run.rollouts.glob(f"[0-9]*/{store.RECORD}"))


def _loaded(records: Iterable[Path]) -> list[Rollout]:
    rollouts = []
    for path in records:
        with suppress(InvalidInput, OSError):  # StorageFailed, or replaced meanwhile
            rollouts.append((path.stat().st_mtime, load(path.parent)))
    return [rollout for _, rollout in sorted(rollouts, key=itemgetter(0))]
