"""`export_policy` and `load_policy`: write a policy to portable files, and load it into a loop of your own."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.environments.adapters.wrapping import unwrapped
from workbench.errors import InvalidInput, checked_arguments
from workbench.playing import worker_process
from workbench.playing.episodes import rollout
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.playing.given_classes import not_in_files, with_classes
from workbench.rundir import write_atomically
from workbench.running.card.model_card import FILE, FILM, model_card
from workbench.running.choosing import GIVE_CHECKPOINT, GIVE_GREEDY, chosen_checkpoint
from workbench.running.handle import Run
from workbench.running.progress import notify

if TYPE_CHECKING:
    from workbench.policies.gymnasium_policy import Policy

_ONNX_S = 600.0
_FORMATS = (".zip", ".onnx")
_OTHER_FORMATS = (".pt", ".pth", ".pkl", ".safetensors", ".tar", ".gz", ".h5", ".ckpt", ".json")


@checked_arguments(checkpoint=GIVE_CHECKPOINT, target="Give a path: target='policy'.")
def export_policy(
    checkpoint: Checkpoint | Run | str | Path,
    *,
    target: str | Path,
    evaluation: Evaluation | None = None,
    film: bool = False,
    trust_code: bool = False,
) -> Path:
    """Write the policy of a checkpoint and return the path; of a run its last, or its best after a collapse.

    A folder holds the weights (model.safetensors) and their description (meta.json: configuration, spaces, checksums):
    `wb.load_policy`, `wb.evaluate` and `wb.launch(checkpoint=...)` take it. A file that ends in .zip is that folder,
    packed to be sent. A file that ends in .onnx holds one step of the network for other programs: its inputs, its
    outputs, how an action is made of them and the bounds of numbers are in its metadata and on its card, with code.

    A model card as Hugging Face reads it lies beside the weights as README.md, and beside pong.onnx as pong.md. All
    files are as readable for others as your umask says.

    A network or algorithm of your own is in an .onnx file, but not in a folder, which holds no code: that is said, and
    whoever uses the folder gives the class to the call: `wb.evaluate("pong-policy", algorithm=Reinforce)`, and so do
    `wb.load_policy`, `wb.rollout`, `wb.play` and `wb.launch(..., checkpoint="pong-policy")`. `trust_code` lets such
    code of a run execute as you, wherever the run comes from.

    Args:
        evaluation: of `wb.evaluate` with this checkpoint, for the card; None: the longest that was kept with the run.
        film: whether to play an episode, and put its film beside the card, as replay.mp4.

    Raises:
        AccessDenied: it needs code that no launch of yours on this machine wrote.
        InvalidInput: there is no good checkpoint, the target exists, it is another checkpoint's evaluation, or the
            episode has no frames.
        MissingPackage, NetworkFailed: .onnx needs its packages, or the network cannot be exported.
        CheckpointCorrupt, StorageFailed: nothing was written.
    """
    source, path = chosen_checkpoint(checkpoint, trust_code=trust_code), Path(target).expanduser().absolute()
    suffix = path.suffix.lower()
    is_typo = suffix not in _FORMATS and difflib.get_close_matches(suffix, _FORMATS)
    if suffix in _OTHER_FORMATS or path.name in _FORMATS or is_typo:
        raise InvalidInput(f"{path.name!r} ends as a file of another format. Name a new folder (it will hold "
                           "safetensors), or a file that ends in .zip or .onnx.")
    if evaluation is not None and evaluation.checkpoint.resolve() != source.path.resolve():
        raise InvalidInput(f"this evaluation is of {evaluation.checkpoint}, and {source.path} is exported. Give "
                           f"evaluation=wb.evaluate({str(source.path)!r}).")
    is_onnx = suffix == ".onnx"
    written = [path, *([path.with_suffix(".md")] if is_onnx else []),
               *([path.with_name(FILM)] if is_onnx and film else [])]
    for one in written:
        if os.path.lexists(one):
            raise InvalidInput(f"{one} is there already. Choose another name.")
    if not is_onnx and (own := not_in_files(source)):
        arguments = ", ".join(f"{kind}={name}" for kind, name in own.items())
        notify(f"{path.name} will hold weights without code, and not the {' and '.join(own)} of your own: whoever uses "
               f"it needs the class, too, and gives it to the call, as in wb.evaluate({str(target)!r}, {arguments}).")
    card = partial(model_card, source, evaluation=evaluation, name=path.name, film=film)
    pictures = {FILM: _film(source, trust_code=trust_code)} if film else {}
    if not is_onnx:
        return checkpoints.export(source, path, weights_only=True, beside={FILE: card().encode(), **pictures})
    facts = worker_process.answer_of("_onnx", {**worker_process.of(source), "target": str(path)}, timeout_s=_ONNX_S,
                                     what="ONNX export", remedy="Export a folder instead.")
    for one, data in zip(written[1:], [card(onnx=facts).encode(), *pictures.values()], strict=True):
        write_atomically(one, data, mode=path.stat().st_mode & 0o666)  # as the user's umask has made the first
    return path


def _film(source: Checkpoint, *, trust_code: bool) -> bytes:
    """One episode as an mp4. Raises what `wb.rollout` and `Rollout.save` raise."""
    played = rollout(source, trust_code=trust_code)
    with tempfile.TemporaryDirectory() as folder:
        return played.save(Path(folder) / FILM).read_bytes()


@checked_arguments(checkpoint=GIVE_CHECKPOINT, deterministic=GIVE_GREEDY,
                   env="Give the environment to act in: env=gymnasium.make('CartPole-v1').")
def load_policy(
    checkpoint: Checkpoint | Run | str | Path, *, env: Any, greedy: bool = True, seed: int = 0,
    trust_code: bool = False, algorithm: type | None = None, network: Callable[..., Any] | None = None,
) -> Policy:
    """A policy that acts in a loop of your own, on the CPU of this process (it loads torch).

        policy = wb.load_policy("cartpole-vtrace-1", env=env)
        while not (terminated or truncated):
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation, reward))

    Args:
        checkpoint: a checkpoint, its folder, one of `export_policy`, or a run (its last
            good one, or a new one, or its best after a collapse; which one is said).
        env: the Gymnasium environment to act in, wrapped as in training; only its spaces are read.
        greedy: take the likeliest action; False: sample from the policy.
        seed: seed of the sampling.
        trust_code: let a network that was typed in a cell for its run execute here, wherever the run comes from.
        algorithm, network: as in `wb.evaluate`.

    Raises AccessDenied for such code that no launch of yours on this machine wrote, InvalidInput, CheckpointCorrupt,
    NetworkFailed; ShapeMismatch for an environment with other spaces, or with other bounds of actions that are numbers.
    """
    from workbench.policies.gymnasium_policy import Policy

    source = chosen_checkpoint(checkpoint, trust_code=trust_code)
    if not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        raise InvalidInput(f"env={env!r:.100} is no Gymnasium environment. Give one: gymnasium.make('CartPole-v1').")
    if missing := unwrapped(source.config.wrappers, env):
        notify(f"The policy was trained with {missing} around its environment, and env has no wrapper of that name.")
    with with_classes(source, algorithm=algorithm, network=network) as complete:
        return Policy(complete, env, greedy=worker_process.GREEDY.check(greedy), seed=worker_process.SEED.check(seed))
