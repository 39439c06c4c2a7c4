"""One algorithm on the five games of the Atari-5 subset, with one preset: human-normalised scores and their IQM.

    python benchmarks/atari5.py [--algorithm vtrace] [--frames 20000000] [--seeds 1] [--games Qbert Phoenix]
        [--preset atari-few-cores] [--episodes 20] [--write]

The games are those whose scores say most about all 57 (Aitchison et al. 2023, arXiv 2210.02019). The runs go one after
the other, in the home of whoever calls: if this script ends before them, the same command goes on. In the end each
policy plays whole games from up to 30 no-ops, once with its actions sampled, as in training, and once greedily. Scores
are normalised by Wang et al. 2016 (arXiv 1511.06581). Results: atari5-ALGORITHM.md, .csv and .png.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arguments import Parser, written
from learning import WINDOW, chosen, episodes_of, found_or_launched, last_checkpoint, settings_list
from throughput import hardware

import workbench as wb
from workbench.environments.atari.scores import human_normalized, scores_of

if TYPE_CHECKING:
    import pandas as pd

    from workbench.playing.evaluating.aggregate import Estimate

GAMES = ("BattleZone", "DoubleDunk", "NameThisGame", "Phoenix", "Qbert")
PROTOCOL, SEED = "noop-starts", 1000  # of an evaluation
CHECKPOINTS_S = 300.0  # between two
POINTS = 100  # of a curve
FEWEST = 10  # episodes behind a point


@dataclass(frozen=True)
class Played:
    """A run that has ended, and what its last policy reaches."""

    game: str
    run: wb.Run
    sampled: wb.Evaluation
    greedy: wb.Evaluation


def played(given: argparse.Namespace, game: str, seed: int) -> Played:
    """Train to the last frame, then evaluate; what was trained before counts. Raises InvalidInput, RunFailed."""
    run = trained(given, game, seed)
    last = last_checkpoint(run)
    sampled, greedy = (wb.evaluate(last, episodes=given.episodes, seed=SEED, greedy=way, protocol=PROTOCOL)
                       for way in (False, True))
    return Played(game, run, sampled, greedy)


def trained(given: argparse.Namespace, game: str, seed: int) -> wb.Run:
    """The run, which has finished. Raises InvalidInput where one of its name has other fields, RunFailed."""
    name = f"atari5-{given.algorithm}-{game.lower()}-{given.frames}-{seed}"
    run = found_or_launched(name, f"ALE/{game}-v5", preset=given.preset, finished=True, algorithm=given.algorithm,
                            seed=seed, total_frames=given.frames, checkpoint_interval_s=CHECKPOINTS_S)
    if (state := run.wait(timeout_s=None, progress=False).state) != "finished":
        sys.exit(f"{name} was {state} before its last frame; the same command goes on with it")
    return run


def row(one: Played) -> str:
    """A run as a row of the table."""
    episodes, status, published = episodes_of(one.run), one.run.status, scores_of(one.game)
    cells = [one.game, f"{one.run.config.seed}", f"{status.frames:,}", f"{status.time_s / 60:.1f}",
             f"{status.frames / status.time_s:,.0f}", f"{status.steps / status.time_s:,.0f}",
             f"{episodes['episode_return'].tail(WINDOW).mean():,.1f} of {min(WINDOW, len(episodes))}",
             *(f"{way.mean:,.1f} {way.uncertainty}" for way in (one.sampled, one.greedy)),
             f"{published.random:,g}, {published.human:,g}",
             *(f"{100 * way.human_normalized:.1f} %" for way in (one.sampled, one.greedy))]
    return f"| {' | '.join(cells)} |"


def table(found: list[Played]) -> list[str]:
    """A row for each run, and the statistics of all of them."""
    columns = ["game", "seed", "frames", "minutes", "frames/s", "steps/s", "return, last training episodes",
               "sampled", "greedy", "random play, human", "human-normalised, sampled", "greedy"]
    ways = {"sampled": wb.aggregate(one.sampled for one in found), "greedy": wb.aggregate(one.greedy for one in found)}
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *map(row, found), "",
            "| human-normalised | IQM | median | mean |", "|---|---|---|---|",
            *(f"| {way} | {' | '.join(share(one) for one in (of.iqm, of.median, of.mean))} |"
              for way, of in ways.items()), "",
            "One seed of each game: these have no interval." if ways["sampled"].runs == 1 else
            "In brackets: 95 % bootstrap intervals over the seeds, stratified by game."]


def share(estimate: Estimate) -> str:
    """A statistic in per cent, with its interval if it has one."""
    interval = "" if math.isinf(estimate.low) else f" [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    return f"{100 * estimate.value:.1f} %{interval}"


def curves(found: list[Played]) -> pd.DataFrame:
    """Means of 10 to 100 training episodes: game, seed, frames, minutes, mean_return, human_normalised."""
    import pandas as pd

    parts = []
    for one in found:
        episodes = episodes_of(one.run)
        episodes["mean_return"] = episodes["episode_return"].rolling(WINDOW, min_periods=FEWEST).mean()
        episodes = episodes[FEWEST - 1 :]
        thin = episodes.iloc[:: max(1, len(episodes) // POINTS)]
        normalised = [human_normalized(one.game, value) for value in thin["mean_return"]]
        parts.append(pd.DataFrame({
            "game": one.game, "seed": one.run.config.seed, "frames": thin["frames"],
            "minutes": (thin["time_s"] / 60).round(2), "mean_return": thin["mean_return"].round(2),
            "human_normalised": [round(value, 4) for value in normalised]}))
    return pd.concat(parts)


def draw(table: pd.DataFrame, algorithm: str, file: Path) -> None:
    """The curves of all games in one picture."""
    import altair as alt

    alt.Chart(table).mark_line().encode(
        x=alt.X("frames:Q", title="frames"),
        y=alt.Y("human_normalised:Q", title=f"human-normalised return, mean of {WINDOW} episodes").axis(format="%"),
        color=alt.Color("game:N", title=None), detail="seed:N",
    ).properties(width=640, height=320, title=f"{algorithm} on Atari-5").save(file, scale_factor=1.5)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--algorithm", default="vtrace", help="one that plays Atari (default: vtrace)")
    parser.whole("--frames", 20_000_000, "frames of each run", least=1000, most=10**9)
    parser.whole("--seeds", 1, "runs of each game", most=100)
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES), metavar="GAME",
                        help=f"some of {', '.join(GAMES)} (default: all)")
    parser.add_argument("--preset", default="atari-few-cores", help="of the runs (default: atari-few-cores)")
    parser.whole("--episodes", 20, "episodes of each evaluation", least=2)
    parser.writes("atari5.md", "table, curves and picture")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    found = []
    for seed, game in itertools.product(range(1, given.seeds + 1), given.games):
        with Parser(script=__file__).refusing():
            found.append(played(given, game, seed))
        print(row(found[-1]), flush=True)
    command = "python " + shlex.join(["benchmarks/atari5.py", *sys.argv[1:]])
    preset = settings_list({name: value for name, value in chosen(found[0].run.config).items()
                            if name not in ("environment", "seed")})
    text = "\n".join([
        f"# Atari-5 by {given.algorithm}", "", f"`{command}` on {hardware()}. No hand on any run. {given.episodes} "
        f"episodes of each policy, from up to 30 no-ops, at most 108,000 frames; the mean with its 95 % confidence "
        "interval. Settings that are not the algorithm's defaults, for all games:", "", preset, "", *table(found), ""])
    if given.write:
        file = given.write.with_stem(f"{given.write.stem}-{given.algorithm}")
        points = curves(found)
        points.to_csv(file.with_suffix(".csv"), index=False)
        draw(points, given.algorithm, file.with_suffix(".png"))
        text += f"\n![curves]({file.stem}.png)\n"
    written(text, given.write, variant=given.algorithm)


if __name__ == "__main__":
    main()
