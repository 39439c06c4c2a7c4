"""Records the runs that lesson 12 compares: two learning rates on two games, ten seeds each.

    python benchmarks/seeds.py [--seeds 10] [--share 1.0] [--write]

The rows go to notebooks/data: the learning curve of each run, its evaluation, and 100 episodes of one of them.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from arguments import Parser
from home import private_home

DATA = Path(__file__).parents[1] / "notebooks" / "data"
GAMES = {"CartPole-v1": 24_000, "testing/catch-v0": 10_000}  # frames of each run: before either is learnt for certain
ARMS = {"A": 1.5e-3, "B": 3e-3}  # learning rates
FIELDS: dict[str, Any] = {"actors": 1, "envs_per_actor": 16, "batch_size": 8, "warmup_updates": 0, "learner_threads": 1}
EVERY, EPISODES, MANY = 1_000, 20, 100


def main() -> int:
    """Exit code 0."""
    parser = Parser(__doc__, script=__file__)
    parser.whole("--seeds", 10, "seeds of each learning rate on each game")
    parser.number("--share", 1.0, "share of the frames of each run", least=0.01, most=10)
    parser.add_argument("--write", action="store_true", help="write the rows to notebooks/data")
    options = parser.parse_args()
    curves: list[Sequence[Any]] = []
    episodes: list[Sequence[Any]] = []
    with private_home():
        for seed, game, arm in itertools.product(range(options.seeds), GAMES, ARMS):
            curve, returns = recorded(game, ARMS[arm], seed, frames=int(options.share * GAMES[game]))
            curves += [(game, arm, seed, *point) for point in curve]
            episodes += [(game, arm, seed, number, value) for number, value in enumerate(returns)]
            print(f"{game} {arm} seed {seed}: mean return {sum(returns) / len(returns):.2f}", flush=True)
    if options.write:
        DATA.mkdir(exist_ok=True)
        written(DATA / "seeds-curves.csv", ("game", "arm", "seed", "frames", "return"), curves)
        written(DATA / "seeds-episodes.csv", ("game", "arm", "seed", "episode", "return"), episodes)
    return 0


def recorded(game: str, rate: float, seed: int, *, frames: int) -> tuple[list[tuple[int, float]], list[float]]:
    """The curve of one run, and the returns of its last policy, which samples its actions as in training."""
    import workbench as wb

    run = wb.launch(
        game, launcher="inline", seed=seed, learning_rate=rate, total_frames=frames, progress=False, **FIELDS)
    run.wait(progress=False)
    run.stop()  # until its last rows are on disk
    returns = played(run.checkpoints[-1], MANY if (game, seed) == ("CartPole-v1", 0) else EPISODES, seed=10_000 + seed)
    curve = list(binned(run))
    run.delete()
    return curve, returns


def binned(run: Any) -> Iterator[tuple[int, float]]:
    """Mean return of the episodes that ended in each 1,000 frames."""
    table = run.metrics("episode_return").dropna()
    for number, rows in table.groupby(table.frames // EVERY):
        yield (int(number) + 1) * EVERY, round(float(rows.value.mean()), 2)


def played(checkpoint: Any, episodes: int, *, seed: int) -> list[float]:
    """Returns of whole episodes, played in this process."""
    from workbench.playing.worker.evaluate import play_episodes
    from workbench.policies.player import load_player, make_environment

    environment = make_environment(checkpoint, num_envs=4, seed=seed)
    player = load_player(checkpoint, num_envs=4, seed=seed)
    try:
        return play_episodes(player, environment, episodes=episodes, seed=seed, greedy=False).returns
    finally:
        environment.close()


def written(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    raise SystemExit(main())
