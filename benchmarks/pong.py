"""Pong from nothing to a mean return of 18 over 100 episodes; writes the curve and the facts of the run.

    python benchmarks/pong.py [--algorithm vtrace|r2d2] [--name ...] [--seed 1]    start it, or go on with that run
    python benchmarks/pong.py [--algorithm ...] [--name ...] --report              write the results of what is there
                              [--target 18] [--episodes 20] [--results DIRECTORY]

The run goes on if this script ends. Results: results/pong.csv (every 10th episode), .png and .md; pong-r2d2.* for R2D2.
"""

from __future__ import annotations

import argparse

from arguments import RESULTS, Parser, folder
from learning import WINDOW, changes_by_hand, episodes_of, found_or_launched, outcome, settings_list
from throughput import hardware

import workbench as wb

TARGET = 18.0
COMMON = {
    "environment_options": {"repeat_action_probability": 0.0},
    "actors": 2,
    "envs_per_actor": 8,
    "total_frames": 40_000_000,
    "checkpoint_interval_s": 300.0,
}
SETTINGS = {
    "vtrace": {
        "unroll_length": 20,
        "batch_size": 4,
        "learning_rate": 4e-4,
        "entropy_cost": 0.01,
        "max_gradient_norm": 0.5,
    },
    # The published settings want a GPU: 64 unrolls of 120 steps an update. One of these has a sixteenth of the steps.
    "r2d2": {
        "unroll_length": 20,
        "burn_in": 10,
        "batch_size": 16,
        "learning_rate": 3e-4,
        "adam_epsilon": 1.5e-4,
        "warmup_updates": 200,
        "discount": 0.99,
        "target_update_period": 200,
        "replay_ratio": 4.0,
        "replay_size": 20_000,
        "replay_min_size": 500,
        "lstm_size": 256,
        "dueling_size": 256,
    },
}
_LINES = {"vtrace": "", "r2d2": "\nOrange: mean of 100 training episodes, which explore. Blue: mean of 20 of "
                              "environments that evaluate (ε = 0.001)."}
TITLES = {"vtrace": "V-trace", "r2d2": "R2D2"}
FILES = {"vtrace": "pong", "r2d2": "pong-r2d2"}


def write_results(run: wb.Run, given: argparse.Namespace) -> None:
    """The curve as CSV and PNG, and the facts as Markdown."""
    import altair as alt

    episodes = episodes_of(run)
    file, title = given.results / FILES[run.config.algorithm], TITLES[run.config.algorithm]
    thin = episodes.iloc[::10].round(3)
    thin.to_csv(file.with_suffix(".csv"), index=False)
    base = alt.Chart(thin).encode(x=alt.X("frames:Q", title="frames"))
    dots = base.mark_circle(opacity=0.25, size=12).encode(y=alt.Y("episode_return:Q", title="episode return"))
    layers = [dots, base.mark_line(color="#d95f02").encode(y="mean_100:Q")]
    if "evaluation_return" in run.metric_names:
        evaluated = run.metrics("evaluation_return")[["frames", "value"]]
        evaluated["mean_20"] = evaluated["value"].rolling(20).mean()
        evaluated.iloc[::5].round(3).to_csv(file.with_name(f"{file.name}-evaluation.csv"), index=False)
        layers.append(alt.Chart(evaluated).mark_line(color="#1f66b0").encode(x="frames:Q", y="mean_20:Q"))
    alt.layer(*layers).properties(width=640, height=320, title=f"{title} on ALE/Pong-v5, no sticky actions").save(
        file.with_suffix(".png"), scale_factor=1.5)
    file.with_suffix(".md").write_text(facts(run, episodes, given))


def facts(run: wb.Run, episodes, given: argparse.Namespace) -> str:
    """What was run, on what, and what came of it."""
    last = episodes.iloc[-1]
    best = episodes["mean_100"].max()  # nan before there are as many
    most = f"Best mean over 100 episodes: {best:.2f}. " if len(episodes) >= WINDOW else ""
    played = wb.evaluate(run, episodes=given.episodes)
    algorithm = run.config.algorithm
    settings = settings_list({**COMMON, **SETTINGS[algorithm], "seed": run.config.seed})
    return (f"# Pong by {TITLES[algorithm]}\n\n{outcome(episodes, given.target)}\n"
            f"{most}Recorded until {last.frames:,.0f} frames, "
            f"{last.time_s / 60:.1f} minutes of training, {len(episodes):,} episodes.\n"
            f"Greedy evaluation of the last checkpoint: mean return {played.mean:.2f} over {given.episodes} episodes, "
            f"95 % confidence interval {played.uncertainty}.\n\n"
            f"{hardware()}.\n\n`python benchmarks/pong.py --algorithm {algorithm}`\n\n{settings}\n\n"
            f"{changes_by_hand(run)}![curve]({FILES[algorithm]}.png)\n{_LINES[algorithm]}\n")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--algorithm", choices=list(SETTINGS), default="vtrace", help="default: vtrace")
    parser.add_argument("--name", help="of the run (default: pong-benchmark-ALGORITHM)")
    parser.whole("--seed", 1, "seed", least=0, most=2**31)
    parser.number("--target", TARGET, "mean return over 100 episodes to wait for", least=-21, most=21)
    parser.whole("--episodes", 20, "episodes of the evaluation at the end", least=2)
    parser.add_argument("--report", action="store_true", help="write results only")
    parser.add_argument("--results", type=folder, default=RESULTS, metavar="DIRECTORY",
                        help="where they are written (default: benchmarks/results)")
    given = parser.parse_args(words)
    given.name = given.name or f"pong-benchmark-{given.algorithm}"
    return given


def main() -> None:
    given = arguments()
    with Parser(script=__file__).refusing():
        run = wb.attach(given.name) if given.report else found_or_launched(
            given.name, "ALE/Pong-v5", algorithm=given.algorithm, seed=given.seed, **COMMON,
            **SETTINGS[given.algorithm])
    if not given.report:
        run.wait(episode_return=given.target, timeout_s=None)
    write_results(run, given)
    print((given.results / FILES[given.algorithm]).with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
