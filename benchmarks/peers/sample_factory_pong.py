"""Sample Factory's APPO on Pong: GAE, one epoch of one batch; its Atari example, set to the comparison's sizes.

Counter: `Runner.env_steps`, the frames of the batches that its learner has trained on, divided by the frame skip.
Setting: workers, envs_per_worker (where 32 can't be divided), splits, asynchronous, serial, threads (in serial mode
only: elsewhere Sample Factory sets one), and wrappers: "example" (those of its Atari example) or "gymnasium"
(AtariPreprocessing, which does the same with less work).
No command line: measure_one.py has it.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from typing import Any

import ale_py  # noqa: F401  (registers its games)
import gymnasium
import torch
from measuring import ENVIRONMENTS, GAME, STICKY, UNROLL, UPDATE, Meter
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.envs.env_utils import register_env
from sample_factory.envs.env_wrappers import ClipRewardEnv, NumpyObsWrapper
from sample_factory.train import make_runner
from sf_examples.atari import atari_utils
from sf_examples.atari.train_atari import parse_atari_args

RAW = "PongRaw-v5"  # one frame a step, sticky actions; the wrappers skip


def make_example(name: str, config: Any, env_config: Any, render_mode: str | None = None) -> gymnasium.Env:
    _register_raw()
    atari_utils.ATARI_ENVS.append(atari_utils.AtariSpec(name, RAW))
    return atari_utils.make_atari_env(name, config, env_config, render_mode)


def make_gymnasium(name: str, config: Any, env_config: Any, render_mode: str | None = None) -> gymnasium.Env:
    _register_raw()
    env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make(RAW), frame_skip=config.env_frameskip)
    return NumpyObsWrapper(gymnasium.wrappers.FrameStack(ClipRewardEnv(env), config.env_framestack))


def _register_raw() -> None:
    if RAW not in gymnasium.registry:
        gymnasium.register(RAW, "ale_py.env:AtariEnv", kwargs={
            "game": GAME, "frameskip": 1, "repeat_action_probability": STICKY, "max_num_frames_per_episode": 108_000})


def words(setting: dict[str, Any], folder: str) -> list[str]:
    """The command line of Sample Factory."""
    workers = setting["workers"]
    fields = {
        "env": f"pong_{setting['wrappers']}", "experiment": "speed", "train_dir": folder, "device": "cpu",
        "rollout": UNROLL, "recurrence": 1, "batch_size": UPDATE, "num_epochs": 1, "num_batches_per_epoch": 1,
        "num_workers": workers, "num_envs_per_worker": setting.get("envs_per_worker", ENVIRONMENTS // workers),
        "worker_num_splits": setting["splits"], "async_rl": setting["asynchronous"], "serial_mode": setting["serial"],
        "normalize_input": False, "normalize_returns": False, "train_for_env_steps": 10**10, "save_every_sec": 10**6,
    }
    return ["--algo=APPO", *(f"--{name}={value}" for name, value in fields.items())]


class Watch(AlgoObserver):
    """Looks at the learner's counter after each update, and ends the run when enough was seen."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        if self.meter.see(runner.env_steps.get(0, 0) // runner.cfg.env_frameskip):
            runner.cfg.train_for_env_steps = 0  # train_for_seconds has no effect in 2.1.1


def measure(meter: Meter, setting: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(setting["threads"])
    register_env("pong_example", make_example)
    register_env("pong_gymnasium", make_gymnasium)
    with tempfile.TemporaryDirectory() as folder:
        config, runner = make_runner(parse_atari_args(words(setting, folder)))
        runner.register_observer(Watch(meter))
        status = runner.init()
        if status == 0:
            status = runner.run()
    if status != 0:
        raise SystemExit(f"Sample Factory ended with status {status}")
    return {"counter": "frames of batches its learner has trained on (Runner.env_steps) / frame skip",
            "version": version("sample-factory")}
