"""A network that counts, a central-inference service without training, and the check of every unroll that it makes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import nn

from tests.conftest import eventually
from workbench import algorithms, rundir
from workbench.actor.main import connect_and_play
from workbench.algorithms import PolicyValueOutput, QValueOutput, collate, stack_frames
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.contract import VectorEnvironment
from workbench.learner.devices.device import Device
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.inference.batcher import Batcher
from workbench.learner.inference.frame_table import FrameTable
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.opponent import Opponent
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.metrics.meters import Meters
from workbench.metrics.writer import Episode
from workbench.policies.player import LoadedPolicy
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.queue import UnrollQueue
from workbench.replay.unroll_fields import UnrollLayout
from workbench.rundir import RunDirectory
from workbench.testing import CountingEnv
from workbench.trajectory import Flags, Unroll
from workbench.wire.endpoints import serve_run
from workbench.wire.messages import Hello


class CountingNetwork(nn.Module):
    """Its state is the number of observations of the episode that it has seen, this one included. Its value is ten
    times that, plus the number of frames in the stack that are not empty; so are its logits."""

    def __init__(self, spec: EnvironmentSpec, output: type = PolicyValueOutput) -> None:
        super().__init__()
        self.spec, self.output = spec, output
        self.unused = nn.Parameter(torch.zeros(1))

    def initial_state(self, batch: int) -> tuple[torch.Tensor, ...]:
        return (torch.zeros(batch, 1),)

    def forward(self, observation, previous_action, reward, start, state):
        frames = observation.unflatten(2, (self.spec.frame_stack, -1)).flatten(3)
        (count,) = state
        values = []
        for t in range(len(start)):
            count = count.masked_fill(start[t, :, None], 0.0) + 1
            values.append(count[:, 0])
        value = 10.0 * torch.stack(values) + frames.ne(0).any(-1).sum(-1)
        logits = value.unsqueeze(-1).expand(*start.shape, self.spec.num_actions)  # all actions equally likely
        output = QValueOutput(logits) if self.output is QValueOutput else PolicyValueOutput(logits, value)
        return output, (count,)


def expected_value(step: int, frame_stack: int) -> float:
    """What CountingNetwork says at that step of an episode."""
    return 10.0 * (step + 1) + min(step + 1, frame_stack)


TRANSPORT = "auto"  # of steps; the fixture `padding` changes it


def device() -> Device:
    """The CPU; the fixture `padding` puts others here, which count no less exactly."""
    return Device("cpu", precision="fp32")


@dataclass
class Rig:
    """The learner's half that acts: real streams, batcher, tables and unrolls; nothing trains."""

    run: RunDirectory
    config: RunConfig
    spec: EnvironmentSpec
    overlap: int | None = None  # None: the algorithm's own
    opponent: LoadedPolicy | None = None
    stagger: bool = False
    unrolls: list[Unroll] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        config, spec = self.config, self.spec
        self.batcher = Batcher(max_batch=config.max_batch, timeout_s=config.batch_timeout_ms / 1000)
        self.streams = ActorStreams(
            envs_per_actor=config.envs_per_actor, batcher=self.batcher, meters=Meters(), admit=self._admit
        )
        self.queue = UnrollQueue(100_000)
        self.algorithm = algorithm = algorithms.build(config, spec=spec)
        self.network = CountingNetwork(spec, algorithm.heads.output)
        self.policy = PublishedPolicy(self.network, version=0, device=device())
        layout = UnrollLayout.of(algorithm, self.network, config.hyperparameters.unroll_length)
        if self.overlap is not None:
            layout = replace(layout, overlap=self.overlap)
        frames = FrameTable(layout, device=device(), slots=1) if device().keeps_frames else None
        self.inference = Inference(
            spec, config=lambda: self.config, algorithm=algorithm, policy=self.policy,
            assembler=UnrollAssembler(layout, num_envs=1, stagger=self.stagger, frames=frames), queue=self.queue,
            frames=frames, device=device(), num_envs=1, generator=device().generator(0),
            meters=Meters(), on_episode=self.episodes.append, opponent=self._opposing(),
        )
        self.lives = 0

    def _opposing(self) -> Opponent | None:
        if self.opponent is None:
            return None
        return Opponent(self.opponent, device=device(), num_envs=1, seed=0)

    def _admit(self, hello: Hello, is_there: Callable[[], bool]) -> int:
        assert hello.spec == self.spec, (hello.spec, self.spec)
        assert is_there()
        self.lives += 1
        return self.lives

    def _serve_inference(self) -> None:
        try:
            self.inference.serve(self.batcher, largest=self.config.max_batch)
        except BaseException as error:
            self.failures.append(error)

    @contextlib.contextmanager
    def running(self) -> Iterator[Rig]:
        thread = threading.Thread(target=self._serve_inference, daemon=True)
        server = serve_run(self.run, "learner", calls={}, streams={"play": self.streams.play}, threads=64)
        if self.config.transport == "auto":
            self.streams.offer_memory(self.run.memory_socket(), self.run.token())
        thread.start()
        eventually(lambda: self.batcher._wakes_at is not None or self.failures, what="inference warmed up")
        try:
            yield self
        finally:
            self.batcher.close()
            self.queue.close()
            self.streams.end()
            server.stop(0)
            thread.join(240)
        assert not self.failures, self.failures

    def collect(self, number: int, *, timeout_s: float = 60.0) -> None:
        """Wait until `number` more unrolls are there."""
        deadline = time.monotonic() + timeout_s
        wanted = len(self.unrolls) + number
        while len(self.unrolls) < wanted:
            assert time.monotonic() < deadline, f"{len(self.unrolls)} of {wanted} unrolls after {timeout_s} s"
            assert not self.failures, self.failures
            self.unrolls += self.queue.take(1, timeout_s=0.2)

    def collect_of_each(self, env_ids: Sequence[int], number: int) -> None:
        """Wait until every one of these environments has given `number` unrolls."""
        while any(sum(one.env_id == env_id for one in self.unrolls) < number for env_id in env_ids):
            self.collect(len(env_ids))


@contextlib.contextmanager
def rig(
    spec: EnvironmentSpec, *, overlap: int | None = None, opposing: LoadedPolicy | None = None, stagger: bool = False,
    **fields,
) -> Iterator[Rig]:
    """A running rig in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        before = os.environ.get("WORKBENCH_HOME")
        os.environ["WORKBENCH_HOME"] = folder
        try:
            config = RunConfig.build("testing/counting-v0", **{"transport": TRANSPORT, **fields})
            run = rundir.create("counting", {"config": config.to_json(), "created": 0.0})
        finally:
            os.environ.pop("WORKBENCH_HOME")
            if before is not None:
                os.environ["WORKBENCH_HOME"] = before
        with Rig(run, config, spec, overlap, opposing, stagger).running() as running:
            yield running


@contextlib.contextmanager
def actor_of(run: RunDirectory, groups: list[VectorEnvironment], index: int = 0) -> Iterator[None]:
    """One life of an actor of these environments, in a thread of this process; it ends with the learner."""

    def live() -> None:
        with asyncio.Runner() as runner:
            connect_and_play(groups, run.learner_address(), run.token(), index, runner=runner)

    threading.Thread(target=live, daemon=True).start()
    yield


@contextlib.contextmanager
def actor(run: RunDirectory, index: int) -> Iterator[subprocess.Popen[bytes]]:
    """A real actor process."""
    code = "import sys; from workbench.actor.main import main; sys.exit(main(*sys.argv[1:]))"
    with open(run.logs / f"actor-{index}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(run.path), str(index)], stdin=subprocess.PIPE, stdout=log, stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def frames_of(unroll: Unroll) -> np.ndarray:
    """The frames of an unroll, which may have left them on the device."""
    frames = unroll.observation
    return frames.cpu().numpy() if isinstance(frames, torch.Tensor) else frames


def check_unroll(unroll: Unroll, lengths: list[int]) -> None:
    """Every step of an unroll is the one after the step before, with its own reward, flags, action, and outputs."""
    counts = [CountingEnv.decode(frame) for frame in frames_of(unroll)]
    frame_stack = unroll.stack_prefix.shape[0] + 1
    assert len({count.life for count in counts}) == 1, "an unroll mixes two lives"
    for t, count in enumerate(counts):
        flags = Flags(int(unroll.flags[t]))
        assert bool(flags & Flags.START) == (count.step == 0)
        if count.step:
            assert not flags & (Flags.TERMINATED | Flags.TRUNCATED)
            assert unroll.reward[t] == np.float32(CountingEnv.expected_reward(count.episode, count.step))
            assert unroll.previous_action[t] == count.action
        else:
            assert unroll.previous_action[t] == 0
            if flags & (Flags.TERMINATED | Flags.TRUNCATED):
                ended = lengths[(count.episode - 1) % len(lengths)]
                assert unroll.reward[t] == np.float32(CountingEnv.expected_reward(count.episode - 1, ended))
            else:
                assert count.episode == 0 and unroll.reward[t] == 0
        value = expected_value(count.step, frame_stack)
        said = unroll.behaviour.get("value", unroll.behaviour.get("q_max"))
        assert said[t] == value, "the recurrent state or the stack is of another step"
        truncated = bool(flags & Flags.TRUNCATED)
        expected = expected_value(lengths[(count.episode - 1) % len(lengths)], frame_stack) if truncated else 0
        assert unroll.bootstrap_value[t] == expected, "not the value of the true final observation"
        if t:
            before = counts[t - 1]
            follows = (before.episode, before.step + 1) if count.step else (before.episode + 1, 0)
            assert (count.episode, count.step) == follows, f"step {t} does not follow: {before} {count}"
            if not count.step:
                assert before.step == lengths[before.episode % len(lengths)] - 1
            else:
                assert unroll.action[t - 1] == count.action
    if counts[0].step:
        assert unroll.initial_state[0][0] == counts[0].step, "the stored state is not the one before the first step"


def check_finals(unrolls: list[Unroll], lengths: list[int], *, overlap: int) -> None:
    """Each truncated step that is trained on has its true final observation with it, while there are places."""
    for unroll in unrolls:
        ends = unroll.flags & int(Flags.TRUNCATED | Flags.TERMINATED) == int(Flags.TRUNCATED)
        truncated = [step for step in np.flatnonzero(ends).tolist() if step > overlap][: len(unroll.final_step)]
        assert [step for step in unroll.final_step.tolist() if step] == truncated
        for step, frame in zip(truncated, unroll.final_observation, strict=False):
            last, first = CountingEnv.decode(frame), CountingEnv.decode(frames_of(unroll)[step])
            assert (last.life, last.episode) == (first.life, first.episode - 1)
            assert last.step == lengths[last.episode % len(lengths)] and last.action == unroll.action[step - 1]


def check_replayed(rig: Rig) -> None:
    """Training sees what inference saw: the network, run over whole unrolls, says again what was recorded."""
    batch = collate(rig.unrolls).map(lambda tensor: tensor.cpu())
    stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
    output, _ = rig.network(stacked, batch.previous_action, batch.reward, batch.start, batch.initial_state)
    if isinstance(output, QValueOutput):
        assert torch.equal(output.q_values.amax(-1), batch.behaviour["q_max"])
        return
    assert torch.equal(output.value, batch.behaviour["value"])
    assert torch.equal(output.policy_logits, batch.behaviour["policy_logits"])


def check_consecutive(unrolls: list[Unroll], *, shared: int, left_out: bool = False) -> None:
    """Unrolls of one life follow each other with `shared` common steps: none lost, none twice.

    left_out: at the begin of a life there may be some.
    """
    by_life: dict[tuple[int, int], list[Unroll]] = {}
    for unroll in unrolls:
        by_life.setdefault((unroll.env_id, unroll.run_id), []).append(unroll)
    for life in by_life.values():
        for before, after in zip(life[:-1], life[1:], strict=True):
            np.testing.assert_array_equal(frames_of(before)[-shared:], frames_of(after)[:shared])
            for name in ("reward", "flags", "previous_action", "action", "policy_version"):
                np.testing.assert_array_equal(getattr(before, name)[-shared:], getattr(after, name)[:shared])
        first = CountingEnv.decode(frames_of(life[0])[0])
        assert left_out or (first.episode, first.step) == (0, 0), "the first steps of a life are lost"
