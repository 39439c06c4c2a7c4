"""One GPU: the whole system against its environments, the service with free environments, and the update.

    python benchmarks/gpu.py [--rounds 3] [--seconds 10] [--device cuda] [--write]

1. Pong with one actor per core, trained; against what the same cores step of it when nothing else runs (target 90 %).
2. The learner's inference service with Nature-CNN and environments that cost nothing (target 200,000 steps/s).
3. One update of the learner against the same update in a bare loop of PyTorch: the same network, loss and optimizer on
   one batch that lies on the device already (target: at most 1.3 times as long).

All take turns for several rounds, and medians count. `--device cpu` tries the script where there is no GPU.
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
from pathlib import Path

import service
from throughput import WARM_UP_UPDATES, environments_alone, random_unrolls, rate, spec_of

from workbench.config import RunConfig
from workbench.supervisor.places import variables

RESULT = Path(__file__).parent / "results" / "gpu.md"
FREE = {"server": "inference", "client": "actor", "unrolls": True, "frame_stack": service.STACK, "network": "nature"}
GROUP, FLIGHT = 64, 2  # environments per message, and messages in flight on each stream
CORES = len(os.sched_getaffinity(0))


def config_of(given: argparse.Namespace) -> RunConfig:
    return RunConfig.build("ALE/Pong-v5", actors=CORES, envs_per_actor=32, device=given.device, batch_size=32,
                           unroll_length=20, total_frames=10**10)


def environments(given: argparse.Namespace) -> float:
    """Steps/s of as many actors' environments as there are cores, each in its own process, and no learner."""
    command = [sys.executable, __file__, "--part", "one_actor", "--seconds", str(given.seconds), "--device", "cpu"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables(1)})
                 for _ in range(CORES)]
    return sum(float(process.communicate()[0]) for process in processes)


def one_actor(given: argparse.Namespace) -> float:
    return environments_alone(config_of(given), given.seconds)


def system(given: argparse.Namespace) -> float:
    """Trained steps/s of a launched run: updates x batch_size x unroll_length."""
    import workbench as wb

    config = config_of(given)
    hyper = config.hyperparameters
    with tempfile.TemporaryDirectory(prefix="wb") as home:
        os.environ["WORKBENCH_HOME"] = home
        run = wb.launch(config.environment, actors=config.actors, envs_per_actor=config.envs_per_actor,
                        device=config.device, batch_size=hyper.batch_size, unroll_length=hyper.unroll_length,
                        total_frames=config.total_frames)
        try:
            run.wait(updates=10 * WARM_UP_UPDATES, timeout_s=300, progress=False)
            first = run.status
            time.sleep(given.seconds)
            last = run.status
        finally:
            run.stop()
    steps = (last.updates - first.updates) * hyper.batch_size * hyper.unroll_length
    return steps / (last.time_s - first.time_s)


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
    from workbench.learner.policy import PublishedPolicy

    config, device, trainer, unrolls = _training(given)
    hyper, policy = config.hyperparameters, PublishedPolicy(trainer.network, version=0, device=device)

    def work() -> int:
        batch = algorithms.collate(unrolls, pin_memory=device.kind == "cuda")
        trainer.update(batch, config=hyper, learning_rate=1e-4, on_bad=print)
        policy.publish(trainer.updates)
        return 1

    with torch.device("cpu"), device.own_stream():
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
    from workbench.learner.device import choose
    from workbench.learner.training import Trainer

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
    middle = {part: statistics.median(values) for part, values in rounds.items()}
    frames = spec_of(config_of(given)).frames_per_step
    command = f"python benchmarks/gpu.py --rounds {given.rounds} --seconds {given.seconds:g} --device {given.device}"

    def row(title: str, part: str) -> str:
        return (f"| {title} | {middle[part]:,.0f} | {middle[part] * frames:,.0f} | {min(rounds[part]):,.0f} to "
                f"{max(rounds[part]):,.0f} |")

    kept, slower = middle["system"] / middle["environments"], middle["update"] / middle["bare"]
    return "\n".join([
        "# One GPU", "", f"`{command}`", "", f"{accelerator(given)}; {time.strftime('%F')}; medians of {given.rounds} "
        "rounds.", "", "| | steps/s | frames/s | range of steps/s |", "|---|---|---|---|",
        row(f"environments alone, {CORES} processes", "environments"), row("whole system, trained", "system"),
        row(f"service, free environments, {GROUP} per message", "free"), "",
        f"**whole system / environments alone = {kept:.0%}** (target 90 %); **service {middle['free']:,.0f} steps/s** "
        f"(target 200,000); **update {middle['update']:.2f} ms = {slower:.2f} x {middle['bare']:.2f} ms in a bare "
        "loop** (target 1.3).", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--part", choices=tuple(HIDDEN), help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()
    if given.part:
        print(json.dumps(HIDDEN[given.part](given)))
        return
    rounds: dict[str, list[float]] = {part: [] for part in PARTS}
    for number in range(given.rounds):
        for part in PARTS:
            command = [sys.executable, __file__, "--part", part, "--seconds", str(given.seconds), "--device",
                       given.device]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rounds[part].append(float(done.stdout.splitlines()[-1]))
            print(f"round {number + 1}: {part} {rounds[part][-1]:,.2f}", file=sys.stderr, flush=True)
    text = report(rounds, given)
    print(text)
    if given.write:
        RESULT.write_text(text)


if __name__ == "__main__":
    main()
