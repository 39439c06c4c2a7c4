"""What a user does with an installed workbench, without pytest and without the checkout: a run from its launch to its
end, and one environment of every family.

    python -I journey.py RESULT.json

Prints a line per step, writes what became of each to RESULT.json, and exits with 1 if one failed. A family whose
package is not installed is "not installed", which is no failure.
"""

from __future__ import annotations

import json
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np

import workbench as wb
from workbench.environments.contract import random_actions
from workbench.environments.registration import make
from workbench.errors import MissingPackage

FAMILIES = {
    "Atari": "ALE/Pong-v5",
    "football by envpool": "football/academy_empty_goal_close",
    "ViZDoom": "vizdoom/basic",
    "MuJoCo": "HalfCheetah-v5",
    "MiniGrid": "MiniGrid-Empty-5x5-v0",
    "PettingZoo": "pettingzoo/butterfly/knights_archers_zombies_v11",
    "Gymnasium": "FrozenLake-v1",
}
STEPS = 20
NOT_INSTALLED = "not installed"


def main() -> int:
    """Exit code 0 if nothing failed."""
    results: dict[str, str] = {}
    steps = Journey().steps() | {name: lambda name=name, id=id: stepped(id) for name, id in FAMILIES.items()}
    for name, step in steps.items():
        began = time.monotonic()
        results[name] = outcome(step)
        print(f"{name:<20} {results[name]} ({time.monotonic() - began:.1f} s)", flush=True)
    Path(sys.argv[1]).write_text(json.dumps({"python": platform.python_version(), "torch": torch_version(),
                                             "steps": results}))
    return 0 if all(one.startswith(("ok", NOT_INSTALLED)) for one in results.values()) else 1


def outcome(step: Callable[[], str]) -> str:
    """"ok: ..." with what `step` returned, "not installed: ..." or "FAILED: ..."."""
    try:
        return f"ok: {step()}"
    except MissingPackage as error:
        return f"{NOT_INSTALLED}: {error}"
    except Exception as error:  # any: the next step may work
        traceback.print_exc()
        return f"FAILED: {type(error).__name__}: {error}"


class Journey:
    """One run, from its launch to its end; each method is a step and returns what there is to tell."""

    def steps(self) -> dict[str, Callable[[], str]]:
        """In their order."""
        return {"launch": self.launch, "wait": self.wait, "tune": self.tune, "checkpoint": self.checkpoint,
                "evaluate": self.evaluate, "export": self.export, "export .onnx": self.export_onnx,
                "panel": self.panel, "stop": self.stop}

    def launch(self) -> str:
        self.run = wb.launch("CartPole-v1", actors=1, envs_per_actor=8, learner_threads=1, device="cpu", progress=False,
                             ready_timeout_s=600)
        return f"{self.run.name} is {self.run.status.state}"

    def wait(self) -> str:
        self.run.wait(updates=20, timeout_s=600, progress=False)
        return f"{self.run.status.updates:,} updates, {self.run.status.frames:,} frames"

    def tune(self) -> str:
        self.run.tune(learning_rate=3e-4)
        assert (self.run.events["kind"] == "tune").any()
        return "learning_rate=3e-4"

    def checkpoint(self) -> str:
        self.kept = self.run.checkpoint()
        assert self.kept in self.run.checkpoints
        return f"{self.kept.frames:,} frames"

    def evaluate(self) -> str:
        found = wb.evaluate(self.kept, episodes=3)
        assert len(found.returns) == 3
        return f"mean return {found.mean:.1f}"

    def export(self) -> str:
        folder = wb.export_policy(self.kept, target=Path("policy"))
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset(seed=0)
        action = wb.load_policy(folder, env=env).act(observation, 0.0)
        assert env.action_space.contains(action)
        return f"{', '.join(sorted(file.name for file in folder.iterdir()))}; acts"

    def export_onnx(self) -> str:
        return f"{wb.export_policy(self.kept, target=Path('policy.onnx')).stat().st_size:,} bytes"

    def panel(self) -> str:
        assert "image/png" in str(self.run.dashboard()._repr_mimebundle_())
        return "a widget, and its picture"

    def stop(self) -> str:
        self.run.stop()
        assert self.run.status.state == "stopped" and not self.run.status.error, self.run.status
        return self.run.status.state


def stepped(name: str) -> str:
    """What was stepped, for an environment of a family."""
    environments, rng = make(name, num_envs=4, seed=0), np.random.default_rng(0)
    try:
        environments.reset()
        for _ in range(STEPS):
            batch = environments.step(random_actions(environments.spec, environments.num_envs, rng))
        assert len(batch.reward) == environments.num_envs
        return f"{STEPS} steps of {environments.num_envs} rows of {name}"
    finally:
        environments.close()


def torch_version() -> str:
    """Of the torch that runs here, with its build."""
    import torch

    return torch.__version__


if __name__ == "__main__":
    sys.exit(main())
