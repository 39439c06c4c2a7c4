"""`evaluate`: play whole episodes with a checkpoint's policy, in a process of its own on the CPU."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.environments import atari_game
from workbench.environments.atari.human_starts import ALL_ACTIONS, read_starts
from workbench.environments.atari.protocols import PROTOCOLS, Protocol, protocol_of
from workbench.environments.atari.scores import human_normalized, scores_of
from workbench.errors import InvalidInput, UnknownName
from workbench.playing import statistics as evaluation_statistics
from workbench.playing import worker_process
from workbench.running.handle import Run
from workbench.running.launch import to_play
from workbench.trajectory import Array

_EPISODES = 10  # where nobody says
_FEWEST = 5  # episodes whose spread says how sure their mean is


def _median_episode(returns: Array) -> Array:
    """The median of returns [..., N, 1] over episodes."""
    return np.asarray(np.median(returns[..., 0], -1))


_NONE = (-math.inf, math.inf)
_OVER_EPISODES = {"iqm": evaluation_statistics.iqm, "mean": evaluation_statistics.mean, "median": _median_episode}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Returns of whole episodes played by one checkpoint's policy.

    Attributes:
        returns: sums of unclipped rewards, by episode.
        lengths: steps, by episode.
        scores: sums of the environment's own score by episode, where it has one beside the reward; else ().
        checkpoint_frames: how long the policy had been trained.
        protocol: by which of Atari's standard ways; None: as the run's environment is.
        differs: in what that was not the protocol's, in words; "" if in nothing.
    """

    environment: str
    checkpoint: Path
    checkpoint_frames: int
    seed: int
    greedy: bool
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    protocol: str | None = None
    differs: str = ""
    scores: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @property
    def mean_score(self) -> float | None:
        """Mean score; None where the environment has none beside the reward."""
        return statistics.fmean(self.scores) if self.scores else None

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean return (Student's t); (-inf, inf) where there is `no_interval`."""
        return _NONE if self.no_interval else evaluation_statistics.student_interval(np.array(self.returns))

    @property
    def no_interval(self) -> str:
        """Why these episodes tell no interval, in words; "" if they do. Equal returns have no spread to tell it by."""
        if len(self.returns) < _FEWEST:
            return f"fewer than {_FEWEST} episodes"
        return "all returns are equal" if len(set(self.returns)) == 1 else ""

    @property
    def uncertainty(self) -> str:
        """The confidence interval of the mean return as it is shown: "[1.2, 3.4]", or why there is none."""
        low, high = self.confidence_interval
        return f"(no interval: {self.no_interval})" if self.no_interval else f"[{low:.4g}, {high:.4g}]"

    @property
    def iqm(self) -> float:
        """Interquartile mean: of the episodes without the lowest and the highest quarter of returns."""
        return float(evaluation_statistics.iqm(np.array(self.returns)[:, None]))

    def interval(
        self, statistic: str = "iqm", *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
    ) -> tuple[float, float]:
        """Percentile bootstrap interval over episodes of a statistic of the return: "iqm", "mean" or "median".

        It is about other episodes of this policy. How other training runs would come out, `wb.aggregate` says of
        several. (-inf, inf) where there is `no_interval`. Raises UnknownName, OutOfBounds.
        """
        of = _OVER_EPISODES.get(statistic)
        if of is None:
            raise UnknownName.among("statistic", str(statistic), _OVER_EPISODES)
        found = evaluation_statistics.bootstrap_interval(
            np.array(self.returns)[:, None], of, confidence=confidence, resamples=resamples, seed=seed)
        return _NONE if self.no_interval else found

    @property
    def human_normalized(self) -> float | None:
        """The mean return where random play is 0 and a professional tester 1, see `environments.atari.scores`.

        None where nobody has published such scores: for all but 57 games of Atari.
        """
        if scores_of(self.environment) is None:
            return None
        starts = "no-ops" if self.protocol is None else PROTOCOLS[self.protocol].normalised_by
        return human_normalized(self.environment, self.mean, starts=starts)

    def __repr__(self) -> str:
        normalized = self.human_normalized
        human = "" if normalized is None else f", {100 * normalized:.3g} % human-normalized"
        score = "" if self.mean_score is None else f", mean score {self.mean_score:.4g}"
        how = "" if self.protocol is None else f", {self.protocol}{f' with {self.differs}' if self.differs else ''}"
        return (
            f"Evaluation({self.environment} at {self.checkpoint_frames:,} frames: mean return {self.mean:.4g} "
            f"{self.uncertainty}, {len(self.returns)} episodes{score}{human}{how})"
        )


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
