"""`export_policy` and `load_policy`: write a policy to portable files, and load it into a loop of your own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.errors import InvalidInput, checked_arguments
from workbench.playing import worker_process
from workbench.running.handle import Run
from workbench.running.starting import chosen_checkpoint

if TYPE_CHECKING:
    from workbench.policies.gymnasium_policy import Policy

_ONNX_S = 600.0
_OTHER_FORMATS = (".pt", ".pth", ".pkl", ".safetensors", ".tar", ".gz", ".h5", ".ckpt", ".json")


@checked_arguments(checkpoint="Give a run, its name, or one of its checkpoints.",
                   target="Give a path: target='policy.zip'.")
def export_policy(
    checkpoint: Checkpoint | Run | str | Path, *, target: str | Path, trust_code: bool = False
) -> Path:
    """Write the policy of a checkpoint and return the path; of a run its last, or its best after a collapse.

    A folder, or a file that ends in .zip, holds the weights (model.safetensors) and their description (meta.json:
    configuration, spaces, checksums): `wb.load_policy`, `wb.evaluate` and `wb.launch(checkpoint=...)` take it. A file
    that ends in .onnx holds the network for other programs: see `workbench.playing.worker.onnx_export`.

    A network typed in a cell can be exported to .onnx, but not to a folder, which holds no code. `trust_code` lets
    such code of a run execute as you, wherever the run comes from.

    Raises:
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        InvalidInput: there is no good checkpoint, or the target exists.
        MissingPackage, NetworkFailed: .onnx needs its packages, or the network cannot be exported.
        CheckpointCorrupt, StorageFailed: nothing was written.
    """
    source, path = chosen_checkpoint(checkpoint, trust_code=trust_code), Path(target).expanduser().absolute()
    if path.suffix in _OTHER_FORMATS:
        raise InvalidInput(f"{path.name!r} ends as a file of another format. Name a new folder (it will hold "
                           "safetensors), or a file that ends in .zip or .onnx.")
    if path.suffix != ".onnx":
        return checkpoints.export(source, path, weights_only=True)
    if os.path.lexists(path):
        raise InvalidInput(f"{path} is there already. Choose another name.")
    worker_process.answer_of("_onnx", {**worker_process.of(source), "target": str(path)}, timeout_s=_ONNX_S,
                          what="ONNX export", remedy="Export a folder instead.")
    return path


@checked_arguments(checkpoint="Give a run, its name, or one of its checkpoints.",
                   env="Give the environment to act in: env=gymnasium.make('CartPole-v1').")
def load_policy(
    checkpoint: Checkpoint | Run | str | Path, *, env: Any, greedy: bool = True, seed: int = 0, trust_code: bool = False
) -> Policy:
    """A policy that acts in a loop of your own, on the CPU of this process (it loads torch).

        policy = wb.load_policy("cartpole-vtrace-1", env=env)
        while not (terminated or truncated):
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation, reward))

    Args:
        checkpoint: a checkpoint, its folder, a file of `export_policy`, or a run (its last
            good one, or a new one, or its best after a collapse; which one is said).
        env: the Gymnasium environment to act in, wrapped as in training; only its spaces are read.
        greedy: take the likeliest action; False: sample from the policy.
        seed: seed of the sampling.
        trust_code: let a network that was typed in a cell for its run execute here, wherever the run comes from.

    Raises AccessDenied for such code that no launch of yours on this machine wrote, InvalidInput, CheckpointCorrupt,
    NetworkFailed; ShapeMismatch for an environment with other spaces.
    """
    from workbench.policies.gymnasium_policy import Policy

    source = chosen_checkpoint(checkpoint, trust_code=trust_code)
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InvalidInput(f"env={env!r:.100} is no Gymnasium environment. Give one: gymnasium.make('CartPole-v1').")
    return Policy(source, env, greedy=Setting("greedy", bool, True, "").check(greedy),
                  seed=Setting("seed", int, 0, "", low=0, high=2**31 - 1).check(seed))
