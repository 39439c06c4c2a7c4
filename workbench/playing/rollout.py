"""`Rollout`: one episode played by a checkpoint's policy, with what the policy thought at every step.

Time indices are those of `trajectory`: x_0 is the first observation, a_t is taken at x_t, and `rewards[t]` belongs to
the transition from x_t to x_{t+1}. With T actions there are T+1 observations and frames; the last follows the last
action. The new episode that environments begin at once is no part of it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from workbench import imports
from workbench.environments import observations
from workbench.errors import InvalidInput, MissingPackage, StorageFailed
from workbench.playing import film, store
from workbench.playing.store import StoredFrames
from workbench.rundir import RunDirectory
from workbench.trajectory import ActionSpec, Array, Part

_TOLD = (
    "environment", "algorithm", "checkpoint_frames", "seed", "greedy", "terminated", "truncated", "fps", "note",
)  # fmt: skip
_PERHAPS = ("policy", "q_values", "means", "scores", "state_norm", "saliency", "by_person")


@dataclass(frozen=True, repr=False, eq=False)
class Rollout:
    """One episode, or the beginning of one: neither `terminated` nor `truncated` if it was cut at `max_steps`.

    Attributes:
        frames: what x_t looks like: T+1 times uint8 [H, W, 3], or None (see `note`). `frames[t]` is decoded when it is
            asked for; np.asarray(frames) is all of them.
        observation_rows: [T+1, ...], as they travel: of several parts, or of bits, the bytes. See `observations`.
        actions: int64 [T], or [T, K] where an action has K parts or switches; float32 [T, K] in [-1, 1] where it is K
            numbers, which the environment stretches to its own bounds.
        rewards: float32 [T], not clipped.
        values: float32 [T], V(x_t), or the highest Q-value: discounted sums of rewards as trained on (scaled, and
            clipped to ±`max_abs_reward`, where set; `note` says so).
        policy: float32 [T, A], probabilities, or None for an algorithm of values, or where actions are numbers. Of a
            choice of several parts those of all parts, one after another; of switches that of on.
        q_values: float32 [T, A], sums as in `values`, or None for one with a policy.
        means: float32 [T, K], the middle of each number in [-1, 1] where actions are numbers; else None.
        scores: float32 [T], what the environment itself counts where `rewards` are shaped; else None.
        state_norm: float32 [T], L2 norm of the recurrent state after x_t; None without memory.
        saliency: uint8 [T, h, w] (or [T, features]): how much each part of x_t counts for a_t; None if not asked for.
        action_names: what the actions, or their parts, are called.
        action_spec: what an action is.
        parts: what the bytes of `observation_rows` are; () where these are the observations.
        fps: steps per second at which people watch this environment.
        note: why there are no frames, or none in colour; and whether `rewards` has some that training would clip.
        path: the folder that it is kept in, or None.
        max_abs_reward: rewards were clipped to ± this in training; 0: they were not.
        by_person: bool [T], which actions a person chose, in an episode of `wb.play`; None: the policy chose all. Of
            one without an agent `algorithm` is "", and values and policy are NaN.
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
    note: str = ""
    path: Path | None = None
    max_abs_reward: float = 0.0
    means: Array | None = None
    scores: Array | None = None
    action_spec: ActionSpec = None  # type: ignore[assignment]  # filled in below
    parts: tuple[Part, ...] = ()
    by_person: Array | None = None

    def __post_init__(self) -> None:
        if self.action_spec is None:
            object.__setattr__(self, "action_spec", ActionSpec("categorical", (len(self.action_names),)))

    @cached_property
    def observations(self) -> Array | dict[str, Array]:
        """[T+1, ...], as the environment gave them (single frames, where the network sees a stack); by name where they
        have several parts. Of bits 0 or 255."""
        return observations.decode(self.observation_rows, self.parts)

    @property
    def episode_return(self) -> float:
        """Sum of the rewards."""
        return float(np.cumsum(self.rewards, dtype=np.float64)[-1])  # one after the other, as `evaluate` adds them

    @property
    def episode_score(self) -> float | None:
        """Sum of the scores; None where there are none."""
        return None if self.scores is None else float(np.cumsum(self.scores, dtype=np.float64)[-1])

    @property
    def said(self) -> Array:
        """What the policy said of the actions, [T, A]: `policy`, `q_values` or `means`."""
        found = next(one for one in (self.policy, self.q_values, self.means) if one is not None)
        return found

    @property
    def explains_what_frames_do_not_show(self) -> bool:
        """Whether the saliency is of a vector, or of a view of its own beside the frames, such as MiniGrid's."""
        return self.saliency is not None and (self.saliency.ndim == 2 or bool(self.parts))

    @property
    def steps(self) -> int:
        """Number of steps, T."""
        return len(self.actions)

    @property
    def end(self) -> str:
        """How it ended, in words."""
        if self.terminated or self.truncated:
            return "terminated" if self.terminated else "truncated"
        return "cut off at max_steps" if self.by_person is None else "not played to its end"

    def __repr__(self) -> str:
        score = "" if self.episode_score is None else f", score {self.episode_score:.4g}"
        at = f" at {self.checkpoint_frames:,} frames" if self.algorithm else ""
        who = "" if self.by_person is None else f", {np.count_nonzero(self.by_person):,} of them by a person"
        return (
            f"Rollout({self.environment}{at}, seed {self.seed}: "
            f"return {self.episode_return:.4g}{score}, {self.steps:,} steps{who}, {self.end})"
        )

    def pictures(self) -> tuple[str, list[bytes]]:
        """The frames as encoded files, and their type: "image/png" or "image/jpeg", whichever is smaller here."""
        if self.frames is None:
            raise InvalidInput(f"this rollout has no frames: {self.note}.")
        if isinstance(self.frames, StoredFrames):
            return self.frames.mime, [self.frames.encoded(index) for index in range(len(self.frames))]
        return "image/png", [store.as_png(frame) for frame in self.frames]

    def jpegs(self) -> list[bytes]:
        """The frames as JPEG of quality 90, 4:4:4. `pictures` is quicker where they are kept as PNG."""
        kind, found = self.pictures()
        if kind == "image/jpeg":
            return found
        assert self.frames is not None
        return [store.as_jpeg(frame) for frame in self.frames]

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
        target = Path(path).expanduser().absolute()
        return film.save(shown, target, fps=film.watchable(self.fps) if fps is None else fps)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            player: Any = imports.widget("episodes.player").RolloutPlayer([self])
        except MissingPackage as error:
            print(f"{self!r}\n({error})")
        else:
            display(player)  # type: ignore[no-untyped-call, unused-ignore]


def load(folder: Path) -> Rollout:
    """The rollout in a folder. Raises InvalidInput where there is none, StorageFailed for a damaged one."""
    path = folder.expanduser().absolute()
    record, arrays, frames = store.read(path)
    try:
        spec = store.spec_of(record, arrays, None if frames is None else len(frames), path / store.RECORD)
        fields: dict[str, Any] = {name: record[name] for name in _TOLD}
        fields |= {name: arrays[name] for name in ("actions", "rewards", "values")}
        fields |= {name: arrays.get(name) for name in _PERHAPS}
        if fields["by_person"] is not None:
            fields["by_person"] = fields["by_person"].astype(bool)
        bound = float(record.get("max_abs_reward", 0))
        fields["note"] = "; ".join(filter(None, [fields["note"], _as_trained(record, fields["rewards"])]))
        return Rollout(**fields, action_spec=spec.actions, parts=spec.parts, frames=frames,
                       observation_rows=arrays["observations"], checkpoint=Path(record["checkpoint"]), path=path,
                       action_names=tuple(record["action_names"]), max_abs_reward=bound)
    except KeyError as error:
        raise StorageFailed(f"the rollout in {path} is damaged: it lacks {error}. Delete the folder.") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StorageFailed(f"the rollout in {path} is damaged: {error!s:.200}. Delete the folder.") from None


def _as_trained(record: dict[str, Any], rewards: Array) -> str:
    """What rewards the values are of, where training sees others than people do."""
    bound, scale = float(record.get("max_abs_reward", 0)), float(record.get("reward_scale", 1))
    said = [] if scale == 1 else [f"times {scale:g}"]
    if 0 < bound < scale * float(np.abs(rewards).max(initial=0)):
        said.append(f"clipped to ±{bound:g}")
    return f"values are of rewards {' and '.join(said)}, as in training" if said else ""


def every(run: RunDirectory) -> list[Rollout]:
    """The rollouts of a run, oldest first; damaged ones are left out."""
    found = []
    for path in run.rollouts.glob(f"[0-9]*/{store.RECORD}"):
        with suppress(InvalidInput, OSError):  # StorageFailed, or replaced in this moment
            found.append((path.stat().st_mtime, load(path.parent)))
    return [one for _, one in sorted(found, key=itemgetter(0))]
