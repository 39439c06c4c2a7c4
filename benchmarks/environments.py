"""Environments of every family: how close a run's actor comes to the bare environment, and that a run learns in them.

    python benchmarks/environments.py speed [NAME ...] [--environments 16,64,256] [--rounds 5] [--seconds 5] [--write]
    python benchmarks/environments.py learn NAME [FIELD=VALUE ...] [--preset ...] [--minutes 60] [--target ...]
                                                                [--seed 1] [--episodes 20] [--report]

`speed` measures an actor with each number of environments, half of them in each of its two groups, and says from which
size of a group on it keeps 90 % of the bare environments' steps/s.

`learn` takes a name of `TASKS`, or any environment with a --target. The run has the environment's preset, but for the
fields that are given; it ends when the mean of 100 episodes (--window) reaches the target, or after --minutes of
training. Those are episodes of environments that evaluate, if any do. If this script ends before, the run goes on, and
the same command goes on with it. In the end the last checkpoint plays greedily. Results have the run's name, which
--name chooses: results/learning-NAME.csv, .png, .md.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arguments import RESULTS, Parser, whole, written
from environment_speed import GROUPS, MOST_GAMES, NAMES, Rate, family, in_own_process
from learning import (
    WINDOW,
    changes_by_hand,
    chosen,
    episodes_of,
    found_or_launched,
    last_checkpoint,
    measure_of,
    outcome,
    settings_list,
)
from throughput import hardware

import workbench as wb

if TYPE_CHECKING:
    from workbench.config import RunConfig

LOOK_S = 10.0
SAY_S = 60.0
POINTS = 500  # of the CSV, at most twice as many
KEPT = 0.9  # of the bare environments' steps/s, which an actor is to keep
COMPARED = ("bare", "adapter", "actor")
Measured = tuple[str, int, str]  # environment, number of games, way


@dataclass(frozen=True)
class Task:
    """An environment, and the mean (of its own score, or the return) over `window` episodes that counts as learnt."""

    environment: str
    target: float
    window: int = WINDOW


TASKS = {
    "pong": Task("ALE/Pong-v5", 18.0),  # chance: -20.7; the most: 21
    "academy_empty_goal_close": Task("football/academy_empty_goal_close", 0.9),  # goals per episode, at most 1
    "vizdoom-basic": Task("vizdoom/basic", 80.0),  # +101 for the kill, -1 a tic, -5 a shot; chance: about -100
    "vizdoom-health-gathering": Task("vizdoom/health-gathering", 800.0),  # tics alive, at most 2100; chance: 300 to 400
    "halfcheetah": Task("HalfCheetah-v5", 1500.0),  # standing still: 0; chance: -280
    # 1 - 0.9 steps/limit where right, else 0. Without memory 0.5, so that some 100 of many episodes are at 0.7 by luck.
    "minigrid-memory": Task("MiniGrid-MemoryS7-v0", 0.8, window=1000),
    "cartpole": Task("CartPole-v1", 475.0),
}


def learn(given: argparse.Namespace) -> None:
    """Start or go on with a learning run, follow it to its target, end it, and write its results."""
    task, name = task_of(given), given.name or f"learning-{given.task.rpartition('/')[2].lower()}"
    with Parser(script=__file__).refusing():
        run = wb.attach(name) if given.report else found_or_launched(
            name, task.environment, preset=given.preset, seed=given.seed, **fields_of(given.fields))
    if not given.report:
        follow(run, task, minutes=given.minutes)
        if run.status.alive:
            run.stop()
    left_out = {"--report", "--results", str(given.results)}  # neither is of the run
    words = [word for word in sys.argv[1:] if word not in left_out]
    command = "python " + shlex.join(["benchmarks/environments.py", *words])
    played = wb.evaluate(last_checkpoint(run), episodes=given.episodes) if given.episodes else None
    write_results(run, task, given.results / name, command=command, played=played)


def task_of(given: argparse.Namespace) -> Task:
    """The task that is named, or an environment's with the target that is given, which is None where none is."""
    task = TASKS.get(given.task) or Task(given.task, given.target)
    asked = {"target": given.target, "window": given.window}
    return replace(task, **{name: value for name, value in asked.items() if value is not None})


def fields_of(words: list[str]) -> dict[str, Any]:
    """Fields of a run, of words such as learning_rate=3e-4, in Python's types. Raises InvalidInput for others."""
    from workbench.config import RunConfig

    for word in words:
        if "=" not in word:
            raise wb.errors.InvalidInput(f"{word!r} is no FIELD=VALUE, such as learning_rate=3e-4.")
    given = dict(word.split("=", 1) for word in words)
    known = RunConfig.build("", algorithm=given.get("algorithm", "vtrace")).all_settings()
    return {name: known[name].typed(text) if name in known else text for name, text in given.items()}


def follow(run: wb.Run, task: Task, *, minutes: float) -> None:
    """Return when the mean reaches the task's target, or after `minutes` of training; say at once and then each minute
    where it stands.

    Raises RunFailed.
    """
    say_at = 0.0
    while (status := run.status).time_s < 60 * minutes:
        measure = measure_of(run)
        recent = episodes_of(run)[measure].tail(task.window) if measure in run.metric_names else ()
        if time.monotonic() >= say_at:
            say_at = time.monotonic() + SAY_S
            mean = f"{measure} {recent.mean():.3f} of {len(recent)}; " if len(recent) else ""
            print(f"{status.time_s / 60:.0f} min: {mean}{status.line()}", flush=True)
        if len(recent) == task.window and recent.mean() >= task.target:
            return
        with suppress(wb.errors.WaitTimeout):
            run.wait(timeout_s=LOOK_S, progress=False)
            return


def write_results(run: wb.Run, task: Task, file: Path, *, command: str, played: wb.Evaluation | None) -> None:
    """The curve as CSV and PNG, and the facts as Markdown."""
    episodes, measure = episodes_of(run, task.window), measure_of(run)
    if episodes.empty:
        sys.exit(f"{run.name} has not ended an episode yet: nothing to write; more --minutes bring some")
    thin = episodes.iloc[:: max(1, len(episodes) // POINTS)].copy()
    thin.insert(0, "minutes", thin["time_s"] / 60)
    thin = thin.drop(columns="time_s").round(3)
    thin.to_csv(file.with_suffix(".csv"), index=False)
    draw(thin, measure, task, run.config).save(file.with_suffix(".png"), scale_factor=1.5)
    file.with_suffix(".md").write_text(facts(run, task, file.name, command=command, played=played))
    print(file.with_suffix(".md").read_text())


def draw(thin: Any, measure: str, task: Task, config: RunConfig) -> Any:
    """Episodes, their running mean, and the target against frames."""
    import altair as alt

    words = measure.replace("_", " ")
    base = alt.Chart(thin).encode(x=alt.X("frames:Q", title="frames"))
    dots = base.mark_circle(opacity=0.25, size=12).encode(y=alt.Y(f"{measure}:Q", title=words))
    mean = base.mark_line(color="#d95f02").encode(y=f"mean_{task.window}:Q")
    goal = alt.Chart(alt.Data(values=[{"target": task.target}])).mark_rule(strokeDash=[4, 4]).encode(y="target:Q")
    return alt.layer(dots, mean, goal).properties(
        width=640, height=320, title=f"{config.algorithm} on {config.environment}: mean of {task.window} and target")


def facts(run: wb.Run, task: Task, file: str, *, command: str, played: wb.Evaluation | None) -> str:
    """What was run, on what, and what came of it, with the run as a row of a table."""
    episodes, config, measure = episodes_of(run, task.window), run.config, measure_of(run)
    last, tail = episodes.iloc[-1], episodes.tail(task.window)
    kind, _, what = measure.partition("_")
    score = f"{tail[measure].mean():.3g}" if what == "score" else ""
    row = (f"| {config.environment} | {config.algorithm} | {config.seed} | {last.time_s / 60:.1f} | {last.frames:,.0f} "
           f"| {last.frames / last.time_s:,.0f} | {len(episodes):,} | {tail[f'{kind}_return'].mean():.4g} | {score} |")
    said = outcome(episodes, task.target, measure, window=task.window)
    greedy = "" if played is None else (
        f" The last checkpoint, greedy: mean return {played.mean:.2f} over {len(played.returns)} episodes, 95 % "
        f"confidence interval {played.uncertainty}.")
    return (f"# {config.environment} by {config.algorithm}\n\n{said}{greedy}\n\n"
            "| environment | algorithm | seed | minutes | frames | frames/s | episodes | return | score |\n"
            f"|---|---|---|---|---|---|---|---|---|\n{row}\n\nReturn and score: means of the last {len(tail)} episodes"
            f"{' of environments that evaluate' if kind == 'evaluation' else ''}. Settings that are not the "
            f"algorithm's defaults:\n\n{settings_list(chosen(config))}\n\n"
            f"{hardware(config.device)}.\n\n`{command}`\n\n{changes_by_hand(run)}![curve]({file}.png)\n")


def speed(given: argparse.Namespace) -> None:
    """Measure every environment in every size and way, in turn for several rounds, and say what came of it."""
    names = given.names or [name for name in NAMES if installed(name)]
    rates: dict[Measured, list[Rate]] = {
        (name, games, way): [] for name in names for games in given.environments if possible(name, games)
        for way in COMPARED}
    for number in range(given.rounds):
        for (name, games, way), found in rates.items():
            try:
                measured_way = "remote" if given.grpc and way == "actor" else way
                found.append(in_own_process(measured_way, name, games, given.seconds))
            except subprocess.CalledProcessError as error:
                sys.exit(f"{name}, {games} games, {way}: ended with exit code {error.returncode}; see above")
            print(f"round {number + 1}: {name} {games} {way} {found[-1].per_second:,.0f} steps/s, "
                  f"{found[-1].per_cpu_second:,.0f} per CPU-second", file=sys.stderr, flush=True)
    command = f"python {shlex.join(['benchmarks/environments.py', *sys.argv[1:]])}"
    middle = {key: Rate(*map(statistics.median, zip(*found, strict=True))) for key, found in rates.items()}
    text = speed_report(middle, names, given.environments, command, given.rounds, by_grpc=given.grpc)
    written(text, given.write, variant="grpc" if given.grpc else "")


def possible(name: str, games: int) -> bool:
    """Whether so many games are to be had in one process; says so where they are not."""
    most = MOST_GAMES.get(family(name), games)
    if games > most:
        print(f"left out: {games} games of {name}, which has at most {most}", file=sys.stderr)
    return games <= most


def installed(name: str) -> bool:
    """Whether the environment's package is there; says so where it is not."""
    try:
        wb.environments.check_name(name)
    except wb.errors.MissingPackage as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


def speed_report(rates: dict[Measured, Rate], names: list[str], sizes: list[int], command: str, rounds: int,
                 *, by_grpc: bool = False) -> str:
    """The results, as Markdown: from which size on an actor keeps enough, and a table for each size."""
    return "\n".join([
        "# Environments: the actor against the bare environment", "",
        f"`{command}`", "",
        f"{hardware('cpu')}; one core each way, random actions; medians of {rounds} rounds.", "",
        "bare: as the environment's own package steps it. adapter: our vector environment alone. actor: our actor's",
        f"process, whose steps go {'by gRPC' if by_grpc else 'through shared memory'} to a learner's streams on "
        "another core, which answer at once.",
        f"It has {GROUPS} groups of games and sends a message for each. CPU: by processor time instead of the",
        "clock, which other programs on the machine change less.", "",
        "## Actor / bare by the size of a group, and by CPU", "",
        *kept_table(rates, names, sizes), "",
        *(line for games in sizes for line in (f"## {games} games, {games // GROUPS} in a group", "",
                                               *speed_table(rates, names, games), ""))])


def kept_table(rates: dict[Measured, Rate], names: list[str], sizes: list[int]) -> list[str]:
    """What an actor keeps of each environment's speed by the size of a group, and from which on that is enough."""
    rows = []
    for name in names:
        kept = {games: share(rates, name, games) for games in sizes if (name, games, "actor") in rates}
        enough = [str(games // GROUPS) for games in sorted(kept) if kept[games].per_second >= KEPT]
        cells = [f"{kept[games].per_second:.0%}, {kept[games].per_cpu_second:.0%}" if games in kept else "not measured"
                 for games in sizes]
        rows.append(f"| {name} | {' | '.join(cells)} | {(*enough, 'none of these')[0]} |")
    return [f"| environment | {' | '.join(str(games // GROUPS) for games in sizes)} | {KEPT:.0%} from |",
            f"|---|{'---|' * len(sizes)}---|", *rows]


def share(rates: dict[Measured, Rate], name: str, games: int) -> Rate:
    """What the actor keeps of the bare environments' steps, by the clock and by processor time."""
    actor, bare = rates[name, games, "actor"], rates[name, games, "bare"]
    return Rate(actor.per_second / bare.per_second, actor.per_cpu_second / bare.per_cpu_second)


def speed_table(rates: dict[Measured, Rate], names: list[str], games: int) -> list[str]:
    """Steps/s of every environment with so many games in all ways, and by processor time."""
    rows = []
    for name in names:
        if (name, games, "actor") not in rates:
            continue
        bare, adapter, actor = (rates[name, games, way] for way in COMPARED)
        kept = share(rates, name, games)
        rows.append(f"| {name} | {bare.per_second:,.0f} | {adapter.per_second:,.0f} | {actor.per_second:,.0f} | "
                    f"{actor.per_second * adapter.frames_per_step:,.0f} | {kept.per_second:.0%} | "
                    f"{bare.per_cpu_second:,.0f} | {adapter.per_cpu_second:,.0f} | {actor.per_cpu_second:,.0f} | "
                    f"{kept.per_cpu_second:.0%} |")
    return ["| environment | bare, steps/s | adapter | actor | actor, frames/s | actor / bare | bare, steps/CPU-s | "
            "adapter | actor | actor / bare |", "|---|---|---|---|---|---|---|---|---|---|", *rows]


def numbers_of_games(text: str) -> list[int]:
    """The numbers in "16,64,256". Raises ArgumentTypeError for one that is no multiple of the groups."""
    return [whole(GROUPS, 4096, multiple=GROUPS)(one) for one in text.split(",")]


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help="speed or learn; each has its own --help")
    fast = commands.add_parser("speed", help="an actor against the bare environments")
    fast.environment("names", [], f"environments; default: {', '.join(NAMES)}", nargs="*", metavar="NAME")
    fast.add_argument("--environments", type=numbers_of_games, default=[16, 64, 256], metavar="16,64,256",
                      help=f"of an actor, in {GROUPS} groups: multiples of {GROUPS}")
    fast.rounds(5)
    fast.seconds(5.0)
    fast.add_argument("--grpc", action="store_true", help="the actor's steps go by gRPC, as from another machine; "
                      "--write writes environments-grpc.md, by which plans count")
    fast.writes("environments.md")
    fast.set_defaults(command=speed)
    one = commands.add_parser("learn", help="a learning run to its target")
    one.add_argument("task", metavar="NAME", help=f"one of {', '.join(TASKS)}, or an environment with --target")
    one.add_argument("fields", nargs="*", metavar="FIELD=VALUE", help="fields of the run that are not the preset's")
    one.add_argument("--preset", help="of the environment's presets; default: its own, if it has one")
    one.number("--minutes", 60.0, "minutes of training, after which the run ends anyway", least=0.01, most=100_000)
    one.number("--target", None, "mean score, or return, of so many episodes", least=-1e9, most=1e9)
    one.whole("--window", None, f"episodes behind a mean; the task's, or {WINDOW}", most=100_000)
    one.add_argument("--name", help="of the run; default: learning-NAME")
    one.whole("--seed", 1, "seed", least=0, most=2**31)
    one.whole("--episodes", 20, "episodes that the last checkpoint plays greedily", least=0)
    one.add_argument("--report", action="store_true", help="write results of what is there only")
    one.add_argument("--results", type=Path, default=RESULTS, metavar="DIRECTORY",
                     help="where they are written; made if it is not there (default: benchmarks/results)")
    one.set_defaults(command=learn)
    given = parser.parse_args(words)
    if given.command is learn:
        _check_learning(given, parser)
    return given


def _check_learning(given: argparse.Namespace, parser: Parser) -> None:
    from workbench.config import RunConfig
    from workbench.environments.presets import preset_of
    from workbench.errors import nearest

    task = task_of(given)
    if task.target is None:
        parser.error(f"{given.task} is no task that has a target.{nearest(given.task, TASKS)} Tasks: "
                     f"{', '.join(TASKS)}; for another environment give one: --target 475")
    parser.check_environments(task.environment)
    with parser.refusing():
        config = RunConfig.build(task.environment, **fields_of(given.fields))
        preset_of(task.environment, given.preset, algorithm=config.algorithm)
    try:
        given.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"cannot make {given.results}: {error.strerror}")


def main() -> None:
    given = arguments()
    given.command(given)


if __name__ == "__main__":
    main()
