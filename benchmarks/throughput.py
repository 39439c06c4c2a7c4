"""How close the whole system comes to what its parts allow together, in one run on one machine.

    python benchmarks/throughput.py [--rounds 3] [--seconds 15] [--environment ALE/Pong-v5] [--precision auto]
                                    [--actors 2] [--envs 16] [--warm-up-updates 15] [--learner-threads 2] [--write]

Each part is measured on one core, in a process of its own: (a) stepping the environments of one actor with random
actions, (b) the network's inference at the run's batch size, (c) training updates on unrolls of the run's shape. (d) is
the whole system: processes, transport, batching, unrolls, metrics. On C cores that share all work the parts allow
C / (1/a + 1/b + 1/c) steps/s.

That is the yardstick twice: by the parts alone, and by the parts side by side, as they are in a run, where they share
caches and memory and slow each other without exchanging a word. Side by side, half the cores step environments while
the other half computes: once inference, once training; (a) is then its mean over the times that the two take. Parts and
system take turns for several rounds; medians count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from arguments import Parser, written
from home import private_home
from parts import Part, tell

if TYPE_CHECKING:
    import numpy as np

    from workbench.config import RunConfig
    from workbench.environment_spec import EnvironmentSpec
    from workbench.learner.devices.device import Device
    from workbench.learner.training.trainer import Trainer
    from workbench.replay.unroll_fields import UnrollLayout
    from workbench.trajectory import Unroll

WARM_UP_UPDATES = 15
PATIENCE_S = 1800.0  # for a warm-up, or the next update, on a slow machine


def rate(work: Callable[[], int], seconds: float, start: Callable[[], object] = int) -> float:
    """Steps per second of `work`, which returns how many it did, after `start`; a tenth of the time warms up."""
    start()
    for limit in (seconds / 10, seconds):
        done, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < limit:
            done += work()
    return done / elapsed


def ratio_cells(mine: list[float], base: list[float], *, median: str = ".2f", ends: str = ".2f") -> str:
    """Two cells of a table: the median of the ratios of each round's pair, and their range."""
    ratios = [one / other for one, other in zip(mine, base, strict=True)]
    return f"{statistics.median(ratios):{median}} | {min(ratios):{ends}} to {max(ratios):{ends}}"


def environments_alone(config: RunConfig, seconds: float, start: Callable[[], object] = int) -> float:
    """Steps/s of one actor's groups in turn with random actions, on one core."""
    return rate(stepping(config), seconds, start)


def stepping(config: RunConfig) -> Callable[[], int]:
    """Steps each of one actor's groups once with random actions, and says how many steps that were."""
    import numpy as np

    from workbench import environments

    count = config.envs_per_actor // config.groups_per_actor
    groups = [environments.make_configured(config, num_envs=count, seed=number)
              for number in range(config.groups_per_actor)]
    for number, group in enumerate(groups):
        group.reset(seed=number)
    random = np.random.default_rng(0)

    def work() -> int:
        for group in groups:
            group.step(random.integers(0, group.spec.num_actions, count))
        return count * len(groups)

    return work


def spec_of(config: RunConfig):
    from workbench import environments

    one = environments.make_configured(config, num_envs=1, seed=0)
    one.close()
    return one.spec


def trainer_of(config: RunConfig, spec: EnvironmentSpec | None = None) -> tuple[Device, Trainer, UnrollLayout]:
    """Device, trainer and what unrolls hold, as a run's learner has them; on one thread."""
    import torch

    from workbench import algorithms, networks
    from workbench.learner.devices.choose import choose
    from workbench.learner.training.trainer import Trainer
    from workbench.replay.unroll_fields import UnrollLayout

    torch.set_num_threads(1)
    spec = spec or spec_of(config)
    device, algorithm = choose(config, spec), algorithms.build(config, spec=spec)
    network = networks.build(config.network, spec=spec, heads=algorithm.heads, seed=0).to(device.torch)
    trainer = Trainer(network, algorithm.to(device.torch), device, config.hyperparameters)
    return device, trainer, UnrollLayout.of(algorithm, network, config.hyperparameters.unroll_length)


def noise(layout: UnrollLayout, number: int) -> list[Unroll]:
    """So many unrolls of noise, each of another environment; no episode ends."""
    import numpy as np

    from workbench.trajectory import Unroll

    random, actions = np.random.default_rng(0), layout.spec.num_actions
    below = {"observation": 256, "stack_prefix": 256, "action": actions, "previous_action": actions}

    def drawn(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        values = random.normal(size=shape) if dtype == "float32" else random.integers(0, below.get(name, 1), shape)
        return values.astype(dtype)

    return [Unroll.of({name: drawn(name, *of) for name, of in layout.fields.items()}, env_id=env_id, run_id=1)
            for env_id in range(number)]


def inference_alone(config: RunConfig, seconds: float, start: Callable[[], object] = int) -> float:
    """Steps/s of the network at the run's inference batch, on one thread."""
    import torch

    from workbench.learner.inference.published_weights import PublishedPolicy

    device, trainer, layout = trainer_of(config)
    spec, network, batch = layout.spec, trainer.network, config.actors * config.envs_per_actor // 2
    policy = PublishedPolicy(network, version=0, device=device)
    observation = torch.randint(0, 255, (1, batch, *spec.stacked_shape)).to(getattr(torch, spec.observation_dtype))
    inputs = (observation, torch.zeros(1, batch, dtype=torch.int64), torch.zeros(1, batch),
              torch.zeros(1, batch, dtype=torch.bool), network.initial_state(batch))

    def work() -> int:
        with torch.inference_mode(), policy.reading() as (copied, _), device.autocast():
            copied(*inputs)
        return batch

    return rate(work, seconds, start)


def training_alone(config: RunConfig, seconds: float, start: Callable[[], object] = int) -> float:
    """Steps/s of whole updates (collate, loss, backward, optimizer), on one thread."""
    from workbench import algorithms

    _, trainer, layout = trainer_of(config)
    hyper, unrolls = config.hyperparameters, noise(layout, config.hyperparameters.batch_size)

    def work() -> int:
        trainer.update(algorithms.collate(unrolls), config=hyper, learning_rate=hyper.learning_rate, on_bad=print)
        return hyper.batch_size * hyper.unroll_length

    return rate(work, seconds, start)


def whole_system(config: RunConfig, seconds: float, *, warm_up_updates: int, threads: int) -> float:
    """Trained steps/s of a launched run after its warm-up: updates x batch_size x unroll_length."""
    import workbench as wb

    with private_home():
        run = wb.launch(config.environment, preset="none", precision=config.precision, ready_timeout_s=PATIENCE_S,
                        total_frames=config.total_frames, actors=config.actors,  # as its parts
                        envs_per_actor=config.envs_per_actor,
                        learner_threads=threads or wb.machine().learner_threads)
        try:
            cycles = config.actors * config.envs_per_actor // config.hyperparameters.batch_size  # all have unrolls then
            run.wait(updates=max(1, 2 * cycles) * warm_up_updates, timeout_s=PATIENCE_S, progress=False)
            return rates(run, seconds)[1]
        finally:
            run.stop()


def rates(run: Any, seconds: float) -> tuple[float, float]:
    """Steps/s and trained steps/s of a run that trains, over so many seconds at least, and one update."""
    hyper, first = run.config.hyperparameters, run.status
    time.sleep(seconds)
    run.wait(updates=first.updates + 1, timeout_s=PATIENCE_S, progress=False)
    last = run.status
    elapsed = last.time_s - first.time_s  # of the learner's own clock: it is seen up to half a second late
    trained = (last.updates - first.updates) * hyper.batch_size * hyper.unroll_length
    return (last.steps - first.steps) / elapsed, trained / elapsed


PARTS = {"environments": environments_alone, "inference": inference_alone, "training": training_alone,
         "system": whole_system}
TITLES = {
    "environments": "(a) environments alone, one core", "inference": "(b) inference alone, one core",
    "training": "(c) training alone, one core", "allowed": "(a), (b) and (c) allow together, alone",
    "beside environments": "(a) beside inference and training, one core",
    "beside inference": "(b) beside environments, one core", "beside training": "(c) beside environments, one core",
    "beside allowed": "(a), (b) and (c) allow together, side by side", "system": "(d) whole system, all cores",
}


def measure(parts: list[str], given: argparse.Namespace) -> list[float]:
    """Steps/s of parts that work at the same time, each in a process of its own."""
    words = ["--environment", given.environment, "--seconds", str(given.seconds), "--precision", given.precision,
             "--actors", str(given.actors), "--envs", str(given.envs),
             "--warm-up-updates", str(given.warm_up_updates), "--learner-threads", str(given.learner_threads)]
    with ExitStack() as stack:
        processes = [stack.enter_context(Part(__file__, "--part", part, *words)) for part in parts]
        for process in processes:  # they are built at different speeds, and start together
            process.told()
        for process in processes:
            process.order()
        return [process.told() for process in processes]


def side_by_side(given: argparse.Namespace) -> dict[str, float]:
    """Steps/s and core of each part beside others: half the cores step environments, the other half computes."""
    pairs = max(1, len(os.sched_getaffinity(0)) // 2)
    rates, environments = {}, {}
    for part in ("inference", "training"):
        measured = measure(["environments"] * pairs + [part] * pairs, given)
        environments[part], rates[part] = statistics.mean(measured[:pairs]), statistics.mean(measured[pairs:])
    took = {part: 1 / value for part, value in rates.items()}  # seconds of a step, by which its neighbours count
    return {"environments": sum(took.values()) / sum(took[part] / environments[part] for part in took), **rates}


def hardware(device: str = "auto") -> str:
    """CPU and cores of this machine, and the accelerator that a run with that `device` uses here, in words."""
    import workbench as wb

    here = wb.machine()
    used = here.device if device == "auto" else device
    return f"{here.processor}, {here.cores} cores, {'no GPU used' if used == 'cpu' else here.accelerator or used}"


def allowed(rates: dict[str, float]) -> float:
    """Steps/s of the whole machine if nothing but the parts had to be done."""
    return len(os.sched_getaffinity(0)) / sum(1 / rates[part] for part in ("environments", "inference", "training"))


def report(config: RunConfig, rounds: dict[str, list[float]], given: argparse.Namespace) -> str:
    """The table, as Markdown; `rounds` has the steps/s of each round for each column of `TITLES`."""
    frames = spec_of(config).frames_per_step
    median = {part: statistics.median(values) for part, values in rounds.items()}
    rows = [f"| {title} | {median[part]:,.0f} | {median[part] * frames:,.0f} | "
            f"{min(rounds[part]):,.0f} to {max(rounds[part]):,.0f} |" for part, title in TITLES.items()]
    hyper = config.hyperparameters
    shares = {name: statistics.median(d / most for d, most in zip(rounds["system"], rounds[name], strict=True))
              for name in ("allowed", "beside allowed")}
    return "\n".join([
        f"`python benchmarks/throughput.py --rounds {given.rounds} --seconds {given.seconds:g} "
        f"--environment {config.environment} --precision {given.precision} --envs {given.envs}"
        f"{f' --actors {given.actors}' if given.actors else ''}"
        f"{f' --learner-threads {given.learner_threads}' if given.learner_threads else ''}`", "",
        f"{hardware()}; {config.actors} actors x {config.envs_per_actor} environments in {config.groups_per_actor} "
        f"groups, unroll {hyper.unroll_length}, batch {hyper.batch_size}; median of {given.rounds} rounds.", "",
        "| | steps/s | frames/s | range of steps/s |", "|---|---|---|---|", *rows, "",
        f"**(d) is {shares['beside allowed']:.0%} of what the parts allow side by side, and {shares['allowed']:.0%} of "
        "what they allow alone** (medians of each round's ratio).", "",
    ])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments; `config` is the run that they stand for."""
    from workbench.config import RunConfig

    parser = Parser(__doc__, script=__file__)
    parser.environment("--environment", "ALE/Pong-v5")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"), help="default: auto")
    parser.rounds(3)
    parser.seconds(15.0)
    parser.whole("--actors", 0, "actors; 0: as many as a run has", least=0, most=256)
    parser.whole("--envs", 16, "environments of each actor", least=2, most=4096, multiple=2)
    parser.whole("--warm-up-updates", WARM_UP_UPDATES, "updates of the whole system before it is measured, for each "
                 "unroll that its environments give at once", most=10_000)
    parser.whole("--learner-threads", 0, "threads of training in the whole system; 0: as many as a run begins with",
                 least=0, most=256)
    parser.add_argument("--part", choices=tuple(PARTS), help=argparse.SUPPRESS)
    parser.writes("throughput.md", "the table")
    given = parser.parse_args(words)
    with parser.refusing():
        given.config = RunConfig.build(given.environment, precision=given.precision, total_frames=10**9,
                                       envs_per_actor=given.envs, **({"actors": given.actors} if given.actors else {}))
    return given


def one_round(given: argparse.Namespace) -> dict[str, float]:
    """Steps/s of everything in `TITLES`."""
    alone = {part: measure([part], given)[0] for part in ("environments", "inference", "training")}
    beside = side_by_side(given)
    return {**alone, "allowed": allowed(alone), **{f"beside {part}": value for part, value in beside.items()},
            "beside allowed": allowed(beside), "system": measure(["system"], given)[0]}


def one_part(given: argparse.Namespace) -> float:
    """Steps/s of the part that this process is for, once it is told to start."""
    def start() -> None:
        tell("ready")
        sys.stdin.readline()

    if given.part == "system":
        start()
        return whole_system(given.config, given.seconds, warm_up_updates=given.warm_up_updates,
                            threads=given.learner_threads)
    return PARTS[given.part](given.config, given.seconds, start)


def main() -> None:
    given = arguments()
    if given.part:
        tell(one_part(given))
        return
    rounds: dict[str, list[float]] = {part: [] for part in TITLES}
    for number in range(given.rounds):
        for part, value in one_round(given).items():
            rounds[part].append(value)
            print(f"round {number + 1}: {TITLES[part]} {value:,.0f} steps/s", file=sys.stderr, flush=True)
    table = report(given.config, rounds, given)
    written(f"# Throughput: the whole system against its parts\n\n{table}", given.write,
            variant="" if given.envs == 16 else str(given.envs))


if __name__ == "__main__":
    main()
