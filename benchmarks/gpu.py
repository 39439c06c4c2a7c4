"""One GPU: the whole system against its environments, the service with free environments, and the update.

    python benchmarks/gpu.py [--rounds 3] [--seconds 10] [--device cuda] [--parts NAME ...] [--actors CORES] [--envs 32]
                             [--batch-size 32] [--warm-up-updates 150] [--write]

1. Pong with one actor per core, trained; against what the same cores step of it when nothing else runs (target 90 %).
2. The learner's inference service with Nature-CNN and environments that cost nothing (target 200,000 steps/s).
3. One update of the learner against the same update in a bare loop of PyTorch: the same network, loss and optimizer on
   one batch that lies on the device already (target: at most 1.3 times as long).

Each part is prepared once, in a process of its own, and all take turns for several rounds: the run is paused while the
others are measured, so that its speed and that of its environments alone are taken seconds apart. Medians count, of
ratios those of each round. A part that fails is named with its error, the numbers of the others stay, and the exit code
is 1. `--device cpu` tries the script where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import service
from arguments import Parser, written
from home import private_home
from parts import Part, PartEnded, tell
from throughput import PATIENCE_S, WARM_UP_UPDATES, noise, rate, rates, spec_of, stepping, trainer_of

from workbench.config import RunConfig

FREE = {"server": "inference", "client": "actor", "unrolls": True, "frame_stack": service.STACK, "network": "nature",
        "memory": True}
GROUP, FLIGHT = 64, 2  # environments per message, and messages in flight on each stream
CORES = len(os.sched_getaffinity(0))


def config_of(given: argparse.Namespace) -> RunConfig:
    return RunConfig.build("ALE/Pong-v5", actors=given.actors, envs_per_actor=given.envs, device=given.device,
                           batch_size=given.batch_size, unroll_length=20, total_frames=10**10)


def environments(given: argparse.Namespace) -> Iterator[float]:
    """Steps/s of all actors' environments, each actor's in a process of its own, and no learner."""
    with ExitStack() as stack:
        actors = [stack.enter_context(part("one_actor", given)) for _ in range(given.actors)]

        def together() -> float:
            for actor in actors:
                actor.order()
            return sum(actor.told() for actor in actors)

        together()  # the first to be ready steps before the last one is
        while True:
            yield together()


def one_actor(given: argparse.Namespace) -> Iterator[float]:
    work = stepping(config_of(given))
    while True:
        yield rate(work, given.seconds)


def system(given: argparse.Namespace) -> Iterator[float]:
    """Trained steps/s of a launched run: updates x batch_size x unroll_length."""
    import workbench as wb

    config = config_of(given)
    hyper = config.hyperparameters
    with private_home():
        run = wb.launch(config.environment, actors=config.actors, envs_per_actor=config.envs_per_actor,
                        device=config.device, batch_size=hyper.batch_size, unroll_length=hyper.unroll_length,
                        total_frames=config.total_frames, ready_timeout_s=PATIENCE_S)
        try:
            after = given.warm_up_updates
            while True:
                run.wait(updates=after, timeout_s=PATIENCE_S, progress=False)
                _, speed = rates(run, given.seconds)
                with run.paused():
                    yield speed
                after = run.status.updates + given.warm_up_updates // 4  # until it is at its speed again
        finally:
            run.stop()


def free(given: argparse.Namespace) -> Iterator[float]:
    """Steps/s that the service answers."""
    while True:
        found = service.measure({**FREE, "device": given.device}, size=GROUP, flight=FLIGHT, actors=max(1, CORES - 2),
                                seconds=given.seconds)
        yield found.messages_per_second * GROUP


def update(given: argparse.Namespace) -> Iterator[float]:
    """Milliseconds of an update as the learner makes it: collated, brought to the device, judged, published."""
    import torch

    from workbench import algorithms
    from workbench.algorithms.batch import BatchMemory
    from workbench.learner.inference.published_weights import PublishedPolicy

    hyper = config_of(given).hyperparameters
    device, trainer, layout = trainer_of(config_of(given))
    unrolls, policy = noise(layout, hyper.batch_size), PublishedPolicy(trainer.network, version=0, device=device)
    memory = BatchMemory(pinned=device.kind == "cuda")

    def work() -> int:
        batch = algorithms.collate(unrolls, memory=memory)
        trainer.update(batch, config=hyper, learning_rate=1e-4, on_bad=print)
        policy.publish(trainer.updates)
        return 1

    with torch.device("cpu"), device.own_stream(ahead=False):
        while True:
            yield 1000 / rate(work, given.seconds)


def bare(given: argparse.Namespace) -> Iterator[float]:
    """Milliseconds of the same update in a plain loop: nothing is copied, judged or published."""
    import torch

    from workbench import algorithms

    hyper = config_of(given).hyperparameters
    device, trainer, layout = trainer_of(config_of(given))
    batch = device.place_batch(algorithms.collate(noise(layout, hyper.batch_size)))
    network, optimizer = trainer.network, trainer.optimizer

    def work() -> int:
        with device.autocast():
            loss = trainer.algorithm.loss(network, batch=batch, config=hyper)
        optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), hyper.max_gradient_norm or 1e9)
        optimizer.step()
        if device.kind == "cuda":
            torch.cuda.synchronize()
        return 1

    while True:
        yield 1000 / rate(work, given.seconds)


PARTS = {"environments": environments, "system": system, "free": free, "update": update, "bare": bare}
HIDDEN = {**PARTS, "one_actor": one_actor}


def accelerator(given: argparse.Namespace) -> str:
    import torch

    gpu = torch.cuda.get_device_name() if given.device == "cuda" else "no GPU"
    return f"{gpu}, {CORES} cores, torch {torch.__version__}"


def report(rounds: dict[str, list[float]], given: argparse.Namespace) -> str:
    """The table, as Markdown; a part without numbers has none in it, and no verdict."""
    middle = {part: statistics.median(values) for part, values in rounds.items() if values}
    frames = spec_of(config_of(given)).frames_per_step
    command = (f"python benchmarks/gpu.py --rounds {given.rounds} --seconds {given.seconds:g} --device {given.device} "
               f"--actors {given.actors} --envs {given.envs} --batch-size {given.batch_size}")

    def row(title: str, part: str) -> str:
        if part not in middle:
            return f"| {title} | not measured | | |"
        return (f"| {title} | {middle[part]:,.0f} | {middle[part] * frames:,.0f} | {min(rounds[part]):,.0f} to "
                f"{max(rounds[part]):,.0f} |")

    return "\n".join([
        "# One GPU", "", f"`{command}`", "", f"{accelerator(given)}; {time.strftime('%F')}; medians of {given.rounds} "
        "rounds.", "", "| | steps/s | frames/s | range of steps/s |", "|---|---|---|---|",
        row(f"environments alone, {given.actors} processes", "environments"), row("whole system, trained", "system"),
        row(f"service, free environments, {GROUP} per message", "free"), "",
        *verdicts(rounds), ""])


def verdicts(rounds: dict[str, list[float]]) -> list[str]:
    """What the measured parts say beside their targets, a line each."""
    said, middle = [], {part: statistics.median(values) for part, values in rounds.items() if values}
    if shares := of_each_round(rounds, "system", "environments"):
        said.append(f"- **whole system / environments alone = {statistics.median(shares):.0%}** ({min(shares):.0%} to "
                    f"{max(shares):.0%}, target 90 %)")
    if "free" in middle:
        said.append(f"- **service {middle['free']:,.0f} steps/s** (target 200,000)")
    if ratios := of_each_round(rounds, "update", "bare"):
        said.append(f"- **update {middle['update']:.2f} ms = {statistics.median(ratios):.2f} x {middle['bare']:.2f} ms "
                    "in a bare loop** (target 1.3)")
    return said


def of_each_round(rounds: dict[str, list[float]], part: str, other: str) -> list[float]:
    """What one part is of another in each round that measured both."""
    return [one / base for one, base in zip(rounds[part], rounds[other], strict=False)]


def part(name: str, given: argparse.Namespace) -> Part:
    """Begin to prepare a part; environments alone need no device."""
    device = "cpu" if name == "one_actor" else given.device
    return Part(__file__, "--part", name, "--seconds", str(given.seconds), "--device", device, "--actors",
                str(given.actors), "--envs", str(given.envs), "--batch-size", str(given.batch_size),
                "--warm-up-updates", str(given.warm_up_updates), quiet=True)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(10.0, "seconds of each part")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="default: cuda")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS), help="default: all")
    parser.whole("--actors", CORES, "actors of the run", most=1024)
    parser.whole("--envs", 32, "games of each actor", least=2, most=4096, multiple=2)
    parser.whole("--batch-size", 32, "unrolls of an update", most=4096)
    parser.whole("--warm-up-updates", 10 * WARM_UP_UPDATES, "updates before the whole system is measured", most=10_000)
    parser.add_argument("--part", choices=tuple(HIDDEN), help=argparse.SUPPRESS)
    parser.writes("gpu.md", "the table")
    given = parser.parse_args(words)
    with parser.refusing():
        config_of(given)
    return given


def check_device(given: argparse.Namespace, script: str) -> None:
    """End the script in one line where it is to use a GPU and there is none: its command is right, this machine not."""
    import torch

    if given.device == "cuda" and not torch.cuda.is_available():
        Parser(script=script).error("--device cuda: torch sees no GPU here; --device cpu tries the script without one")


def answer(part: str, given: argparse.Namespace) -> None:
    """Measure a part for each line of the input, until that ends."""
    with closing(HIDDEN[part](given)) as numbers:
        for _ in sys.stdin:
            tell(next(numbers))


def main() -> int:
    given = arguments()
    check_device(given, __file__)
    if given.part:
        answer(given.part, given)
        return 0
    rounds: dict[str, list[float]] = {part: [] for part in PARTS}
    failed: set[str] = set()
    with ExitStack() as stack:
        parts = {name: stack.enter_context(part(name, given)) for name in given.parts}
        for number in range(given.rounds):
            for name in (name for name in parts if name not in failed):
                try:
                    rounds[name].append(parts[name].asked())
                    print(f"round {number + 1}: {name} {rounds[name][-1]:,.2f}", file=sys.stderr, flush=True)
                except PartEnded as error:
                    failed.add(name)
                    print(f"round {number + 1}: {name} failed: {error} (--part {name} shows all of it)",
                          file=sys.stderr, flush=True)
    text = report(rounds, given)
    written(text, given.write)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
