"""The arrays of a learner's checkpoint, and restoring them: weights, optimizer, algorithm, random numbers, counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from workbench.algorithms.own_code import own_code
from workbench.checkpoints import Checkpoint
from workbench.config import WEIGHT_FIELDS, RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import CheckpointCorrupt, ShapeMismatch
from workbench.learner.training.trainer import Trainer
from workbench.metrics import Progress
from workbench.networks.arrays import to_arrays, to_tensors
from workbench.trajectory import Array


@dataclass(frozen=True)
class Counters(Progress):
    """The progress of a run, and its episodes."""

    episodes: int

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Counters:
        """The counters that a checkpoint was written with. Raises CheckpointCorrupt where it lacks that of episodes."""
        episodes = checkpoint.meta.get("episodes")
        if type(episodes) is not int:
            raise CheckpointCorrupt(f"{checkpoint.path} has episodes={episodes!r:.20}. Start from another checkpoint.")
        return cls(checkpoint.frames, checkpoint.steps, checkpoint.updates, checkpoint.time_s, episodes)


AT_THE_START = Counters(0, 0, 0, 0.0, 0)


def groups_of(trainer: Trainer, generator: torch.Generator) -> dict[str, dict[str, Array]]:
    """The arrays of a checkpoint, by group and name."""
    with trainer.device.tracing():  # copies are operations, and inference goes on in another thread
        groups = {
            "model": trainer.network.state_dict(),
            "optimizer": _flattened(trainer),
            "algorithm": trainer.algorithm.state(),
            "rng": {"torch": torch.get_rng_state(), "sampling": generator.get_state(),
                    "training": trainer.algorithm.training_generator.get_state()},
        }
        groups = {group: {name: tensor.detach() for name, tensor in tensors.items()}
                  for group, tensors in groups.items()}
    return {group: to_arrays(tensors) for group, tensors in groups.items()}


def restore(
    checkpoint: Checkpoint, trainer: Trainer, generator: torch.Generator, *, weights_only: bool = False,
    optimizer: bool = True, config: RunConfig | None = None, mended_network: bool = False,
) -> list[str]:
    """Restore a checkpoint's arrays; with `weights_only` the network's alone, and without `optimizer` all but its.
    Raises CheckpointCorrupt, ShapeMismatch where it is of another kind of run (`config`: this one's, to say in what;
    `mended_network`: whether its network took the place of another one, which it has again once this one is refused),
    and AlgorithmFailed where a user's class cannot load what an earlier one kept.

    Returns whose random numbers cannot go on, of "acting" (`generator`) and "training": the states of a CPU's and a
    GPU's generator differ in size.
    """
    if not weights_only:  # which may be put to another use, such as a longer reach of the same numbers
        check_environment(checkpoint, trainer.algorithm.spec)
    weights = to_tensors(checkpoint.load("model"))
    try:
        trainer.network.load_state_dict(weights)
        trainer.algorithm.prepare(trainer.network)
        if weights_only:
            return []
        learnt = to_tensors(checkpoint.load("algorithm"))
        held = ", ".join(learnt) or "nothing"
        with own_code(trainer.algorithm, "load_state(...)", f" for a checkpoint that has {held}"):
            trainer.algorithm.load_state(learnt)
        if optimizer and (state := _unflattened(to_tensors(checkpoint.load("optimizer")))):
            _begin_momentum(trainer.optimizer, state)
            _check_whole(trainer.optimizer, state)
            _load(trainer, state)
            _check_shapes(trainer.optimizer)
        rng = to_tensors(checkpoint.load("rng"))
        torch.set_rng_state(rng["torch"])
        anew = [] if _goes_on(generator, rng["sampling"]) else ["acting"]
        if "training" in rng:  # checkpoints from before had none, or that of SAC among its own tensors
            anew += [] if _goes_on(trainer.algorithm.training_generator, rng["training"]) else ["training"]
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        check_environment(checkpoint, trainer.algorithm.spec)
        misfit = _misfit(trainer.network.state_dict(), weights)
        differs = "" if config is None else _differences(checkpoint.config, config)
        why = "; ".join(word for word in (misfit, differs) if word) or error
        what, needed = ("network", "network and algorithm") if misfit else (
            "optimizer", "algorithm, network and optimizer")
        remedy = ("The run is as it was, with the network that it had. One of other weights begins a new run, without "
                  "any of these: wb.launch(..., network=YourNetwork)." if misfit and mended_network else
                  f"Start from another checkpoint, or with the {needed} that it was written with.")
        raise ShapeMismatch(f"{checkpoint.path} does not fit this run's {what}: {why}. {remedy}") from None
    return anew


def _misfit(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> str:
    """The first weight in which two networks differ, in words; "" if none does."""
    for name in (*ours, *theirs):
        here, there = (f"of shape {list(each[name].shape)}" if name in each else "absent" for each in (ours, theirs))
        if here != there:
            return f"{name} is {there} there and {here} here"
    return ""


def check_environment(checkpoint: Checkpoint, ours: EnvironmentSpec) -> None:
    """Raises ShapeMismatch for a checkpoint of another kind of environment."""
    theirs = checkpoint.spec if "environment" in checkpoint.meta else ours
    if differing := ours.differing(theirs, f"this run's {ours.name}"):
        raise ShapeMismatch(f"{checkpoint.path} was written in {differing}. Start from a checkpoint of such an "
                            "environment.") from None


def _differences(theirs: RunConfig, ours: RunConfig) -> str:
    """In which fields that decide about weights a checkpoint's run differs from this one, in words."""
    names = [name for name in ("network", *WEIGHT_FIELDS, "optimizer") if name in theirs and name in ours]
    values = [(name, theirs.value(name), ours.value(name)) for name in dict.fromkeys(names)
              if not name.startswith(("environment", "own_algorithm"))]
    return "; ".join(f"it was written with {name}={their!r:.100}, and this run has {our!r:.100}"
                     for name, their, our in values if their != our)


def _goes_on(generator: torch.Generator, state: torch.Tensor) -> bool:
    """Set a generator's state, if it is one of its kind."""
    if fits := state.shape == generator.get_state().shape:
        generator.set_state(state)
    return fits


def _begin_momentum(optimizer: torch.optim.Optimizer, state: dict[int, dict[str, torch.Tensor]]) -> None:
    """From 0, as a new run does, where RMSProp had no momentum before."""
    if "momentum_buffer" in _kept(optimizer) and not any("momentum_buffer" in entry for entry in state.values()):
        for entry in state.values():
            if "square_avg" in entry:
                entry["momentum_buffer"] = torch.zeros_like(entry["square_avg"])


def _check_whole(optimizer: torch.optim.Optimizer, state: dict[int, dict[str, torch.Tensor]]) -> None:
    """Raises ValueError where an entry of a parameter lacks a tensor that such an optimizer reads."""
    for number, entry in state.items():
        if missing := ", ".join(sorted(_kept(optimizer) - entry.keys())):
            raise ValueError(f"entry {number} of the optimizer lacks {missing}")


def _load(trainer: Trainer, state: dict[int, dict[str, torch.Tensor]]) -> None:
    """Load an optimizer's state, which a checkpoint numbers by `trainer.parameters` and torch by its groups. Raises
    ValueError for an entry of no parameter."""
    parameters, groups = trainer.parameters, trainer.optimizer.state_dict()["param_groups"]
    if unknown := state.keys() - set(range(len(parameters))):
        raise ValueError(f"entry {min(unknown)} of the optimizer belongs to no parameter")
    numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
    ours = [numbers[id(parameter)] for group in trainer.optimizer.param_groups for parameter in group["params"]]
    theirs = [number for group in groups for number in group["params"]]
    trainer.optimizer.load_state_dict({
        "state": {of_torch: state[own] for own, of_torch in zip(ours, theirs, strict=True) if own in state},
        "param_groups": groups})


def _check_shapes(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError where an optimizer has a tensor that does not fit its parameter."""
    for parameter, entry in optimizer.state.items():
        for name, value in entry.items():
            if value.ndim and value.shape != parameter.shape:
                raise ValueError(f"{name} of the optimizer has shape {list(value.shape)} and fits no parameter")


def _kept(optimizer: torch.optim.Optimizer) -> set[str]:
    """Names of the tensors that an optimizer keeps of each parameter after its first step."""
    if isinstance(optimizer, torch.optim.Adam):
        return {"step", "exp_avg", "exp_avg_sq"}
    return {"step", "square_avg", *(["momentum_buffer"] if optimizer.param_groups[0]["momentum"] else [])}


def _flattened(trainer: Trainer) -> dict[str, torch.Tensor]:
    """An optimizer's tensors by "<number>.<name>", where a parameter's number is its place in `trainer.parameters`: the
    network's first, whose names are in the checkpoint's "trained". Groups of the optimizer do not change it."""
    state = trainer.optimizer.state
    return {f"{number}.{name}": value for number, parameter in enumerate(trainer.parameters)
            for name, value in state.get(parameter, {}).items()}


def _unflattened(tensors: dict[str, torch.Tensor]) -> dict[int, dict[str, torch.Tensor]]:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    return state
