"""One GPU: the whole system against its environments, the service with free environments, and the update.

    python benchmarks/gpu.py [--rounds 3] [--seconds 10] [--device cuda] [--parts NAME ...] [--actors CORES] [--envs 32]
                             [--batch-size 32] [--warm-up-updates 150] [--write]

1. Pong with one actor per core, trained; against what the same cores step of it when nothing else runs (target 90 %).
2. The learner's inference service with Nature-CNN and environments that cost nothing (target 200,000 steps/s).
3. One update of the learner against the same update in a bare loop of PyTorch: the same network, loss and optimizer on
   one batch that lies on the device already (target: at most 1.3 times as long).

All take turns for several rounds, and medians count. A part that fails is named with its error, the numbers of the
others stay, and the exit code is 1. `--device cpu` tries the script where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import service
from arguments import Parser, written
from home import private_home
from throughput import (
    PATIENCE_S,
    WARM_UP_UPDATES,
    environments_alone,
    random_unrolls,
    rate,
    spec_of,
    trained_steps_per_second,
)

from workbench.config import RunConfig
from workbench.supervisor.hosts.host import variables

FREE = {"server": "inference", "client": "actor", "unrolls": True, "frame_stack": service.STACK, "network": "nature",
        "memory": True}
GROUP, FLIGHT = 64, 2  # environments per message, and messages in flight on each stream
CORES = len(os.sched_getaffinity(0))


def config_of(given: argparse.Namespace) -> RunConfig:
    return RunConfig.build("ALE/Pong-v5", actors=given.actors, envs_per_actor=given.envs, device=given.device,
                           batch_size=given.batch_size, unroll_length=20, total_frames=10**10)


def environments(given: argparse.Namespace) -> float:
    """Steps/s of all actors' environments, each actor's in a process of its own, and no learner."""
    command = command_of("one_actor", given)
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables(1)})
                 for _ in range(given.actors)]
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(1)  # it has said why
    return sum(map(float, said))


def one_actor(given: argparse.Namespace) -> float:
    return environments_alone(config_of(given), given.seconds)


def system(given: argparse.Namespace) -> float:
    """Trained steps/s of a launched run: updates x batch_size x unroll_length."""
    import workbench as wb

    config = config_of(given)
    hyper = config.hyperparameters
    with private_home():
        run = wb.launch(config.environment, actors=config.actors, envs_per_actor=config.envs_per_actor,
                        device=config.device, batch_size=hyper.batch_size, unroll_length=hyper.unroll_length,
                        total_frames=config.total_frames, ready_timeout_s=PATIENCE_S)
        try:
            return trained_steps_per_second(run, given.seconds, after=given.warm_up_updates)
        finally:
            run.stop()


def free(given: argparse.Namespace) -> float:
    """Steps/s that the service answers."""
    clients = max(1, CORES - 2)
    found = service.measure({**FREE, "device": given.device}, size=GROUP, flight=FLIGHT, actors=clients,
                            seconds=given.seconds)
    return found.messages_per_second * GROUP


def update(given: argparse.Namespace) -> float:
    """Milliseconds of an update as the learner makes it: collated, brought to the device, judged, published."""
    import torch

    from workbench import algorithms
    from workbench.algorithms.batch import BatchMemory
    from workbench.learner.inference.published_weights import PublishedPolicy

    config, device, trainer, unrolls = _training(given)
    hyper, policy = config.hyperparameters, PublishedPolicy(trainer.network, version=0, device=device)
    memory = BatchMemory(pinned=device.kind == "cuda")

    def work() -> int:
        batch = algorithms.collate(unrolls, memory=memory)
        trainer.update(batch, config=hyper, learning_rate=1e-4, on_bad=print)
        policy.publish(trainer.updates)
        return 1

    with torch.device("cpu"), device.own_stream(ahead=False):
        return 1000 / rate(work, given.seconds)


def bare(given: argparse.Namespace) -> float:
    """Milliseconds of the same update in a plain loop: nothing is copied, judged or published."""
    import torch

    from workbench import algorithms

    config, device, trainer, unrolls = _training(given)
    batch, hyper = device.place_batch(algorithms.collate(unrolls)), config.hyperparameters
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

    return 1000 / rate(work, given.seconds)


def _training(given: argparse.Namespace):
    import torch

    from workbench import algorithms, networks
    from workbench.learner.devices.choose import choose
    from workbench.learner.training.trainer import Trainer

    torch.set_num_threads(1)
    config = config_of(given)
    spec = spec_of(config)
    device = choose(config, spec)
    algorithm = algorithms.build(config, spec=spec).to(device.torch)
    network = networks.build(config.network, spec=spec, heads=algorithm.heads, seed=0)
    unrolls = random_unrolls(config, spec, network)
    return config, device, Trainer(network.to(device.torch), algorithm, device, config.hyperparameters), unrolls


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
        *verdicts(middle), ""])


def verdicts(middle: dict[str, float]) -> list[str]:
    """What the measured parts say beside their targets, a line each."""
    said = []
    if {"system", "environments"} <= middle.keys():
        said.append(f"- **whole system / environments alone = {middle['system'] / middle['environments']:.0%}** "
                    "(target 90 %)")
    if "free" in middle:
        said.append(f"- **service {middle['free']:,.0f} steps/s** (target 200,000)")
    if {"update", "bare"} <= middle.keys():
        said.append(f"- **update {middle['update']:.2f} ms = {middle['update'] / middle['bare']:.2f} x "
                    f"{middle['bare']:.2f} ms in a bare loop** (target 1.3)")
    return said


def measured(part: str, given: argparse.Namespace) -> float:
    """The number of a part, in a process of its own. Raises PartFailed with its last words."""
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command_of(part, given), stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
        errors.seek(0)
        told = errors.read()
    if done.returncode:
        lines = [line.strip() for line in told.splitlines() if line.strip()]
        raise PartFailed((lines or [f"exit code {done.returncode}"])[-1])
    return float(done.stdout.splitlines()[-1])


class PartFailed(Exception):
    """A part gave no number; says why in one line."""


def command_of(part: str, given: argparse.Namespace) -> list[str]:
    """What measures one part; environments alone need no device."""
    device = "cpu" if part == "one_actor" else given.device
    return [sys.executable, __file__, "--part", part, "--seconds", str(given.seconds), "--device", device, "--actors",
            str(given.actors), "--envs", str(given.envs), "--batch-size", str(given.batch_size), "--warm-up-updates",
            str(given.warm_up_updates)]


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


def main() -> int:
    given = arguments()
    check_device(given, __file__)
    if given.part:
        print(json.dumps(HIDDEN[given.part](given)))
        return 0
    rounds: dict[str, list[float]] = {part: [] for part in PARTS}
    failed = False
    for number in range(given.rounds):
        for part in given.parts:
            try:
                rounds[part].append(measured(part, given))
                print(f"round {number + 1}: {part} {rounds[part][-1]:,.2f}", file=sys.stderr, flush=True)
            except PartFailed as error:
                failed = True
                print(f"round {number + 1}: {part} failed: {error} (--part {part} shows all of it)", file=sys.stderr,
                      flush=True)
    text = report(rounds, given)
    written(text, given.write)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
