"""V-trace on Pong, from nothing to a mean return of 18 over 100 episodes; writes the curve and the facts of the run.

    python benchmarks/pong.py [--name pong-benchmark] [--seed 1]     start it, or go on with the run of that name
    python benchmarks/pong.py --name pong-benchmark --report         write the results of what is there

The run goes on if this script ends. Results: results/pong.csv (every 10th episode), results/pong.png, results/pong.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from throughput import hardware

import workbench as wb

RESULTS = Path(__file__).parent / "results"
TARGET = 18.0
SETTINGS = {
    "environment_options": {"repeat_action_probability": 0.0},
    "actors": 2,
    "envs_per_actor": 8,
    "unroll_length": 20,
    "batch_size": 4,
    "learning_rate": 4e-4,
    "entropy_cost": 0.01,
    "max_gradient_norm": 0.5,
    "total_frames": 40_000_000,
    "checkpoint_interval_s": 300.0,
}


def found_or_launched(name: str, seed: int) -> wb.Run:
    """The run of that name: attached, resumed, or new."""
    try:
        run = wb.attach(name)
    except wb.errors.RunNotFound:
        return wb.launch("ALE/Pong-v5", algorithm="vtrace", name=name, seed=seed, **SETTINGS)
    return run if run.status.alive else wb.resume(name)


def write_results(run: wb.Run) -> None:
    """The curve as CSV and PNG, and the facts as Markdown."""
    import altair as alt

    episodes = run.metrics("episode_return")
    episodes["mean_100"] = episodes["value"].rolling(100).mean()
    RESULTS.mkdir(exist_ok=True)
    thin = episodes.iloc[::10].rename(columns={"value": "episode_return"}).round(3)
    thin.to_csv(RESULTS / "pong.csv", index=False)
    base = alt.Chart(thin).encode(x=alt.X("frames:Q", title="frames"))
    dots = base.mark_circle(opacity=0.25, size=12).encode(y=alt.Y("episode_return:Q", title="episode return"))
    line = base.mark_line(color="#d95f02").encode(y="mean_100:Q")
    (dots + line).properties(width=640, height=320, title="V-trace on ALE/Pong-v5, no sticky actions").save(
        RESULTS / "pong.png", scale_factor=1.5)
    (RESULTS / "pong.md").write_text(facts(run, episodes))


def facts(run: wb.Run, episodes) -> str:
    """What was run, on what, and what came of it."""
    reached = episodes[episodes["mean_100"] >= TARGET]
    last = episodes.iloc[-1]
    if len(reached):
        first = reached.iloc[0]
        outcome = (f"A mean return of {TARGET:g} over 100 episodes was reached after {first.frames:,.0f} frames "
                   f"({first.steps:,.0f} steps, {first.updates:,.0f} updates) and {first.time_s / 60:.1f} minutes.")
    else:
        outcome = (f"A mean return of {TARGET:g} was not reached: {last.mean_100:.2f} over the last 100 episodes after "
                   f"{last.frames:,.0f} frames and {last.time_s / 60:.1f} minutes.")
    best = episodes["mean_100"].max()
    played = wb.evaluate(run, episodes=20)
    low, high = played.confidence_interval
    settings = "\n".join(f"- {name} = {value}" for name, value in {**SETTINGS, "seed": run.config.seed}.items())
    events = run.events
    tuned = [f"- {one.frames:,.0f} frames: {one.message}" for one in events[events["kind"] == "tune"].itertuples()]
    by_hand = "Changed by hand while it learnt:\n\n" + "\n".join(tuned) + "\n\n" if tuned else ""
    return (f"# Pong by V-trace\n\n{outcome}\nBest mean over 100 episodes: {best:.2f}. Recorded until "
            f"{last.frames:,.0f} frames, {last.time_s / 60:.1f} minutes of training, {len(episodes):,} episodes.\n"
            f"Greedy evaluation of the last checkpoint: mean return {played.mean:.2f} over 20 episodes, 95 % "
            f"confidence interval {low:.2f} to {high:.2f}.\n\n"
            f"{hardware()}.\n\n`python benchmarks/pong.py`\n\n{settings}\n\n{by_hand}![curve](pong.png)\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="pong-benchmark")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="write results only")
    arguments = parser.parse_args()
    run = wb.attach(arguments.name) if arguments.report else found_or_launched(arguments.name, arguments.seed)
    if not arguments.report:
        run.wait(episode_return=TARGET, timeout_s=None)
    write_results(run)
    print((RESULTS / "pong.md").read_text())


if __name__ == "__main__":
    main()
