"""Writes a checkpoint's network as an ONNX file: one step of one environment, its memory in and out.

What the file takes, gives and says of itself: `playing.onnx_contract`.
"""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench import checkpoints, imports
from workbench.errors import MissingPackage, NetworkFailed
from workbench.networks import initial_state
from workbench.networks.lstm import ResettingLSTM
from workbench.networks.normalization import output_of
from workbench.playing import onnx_contract
from workbench.policies.player import LoadedPolicy, answer, load_policy
from workbench.rundir.files import saving

_NEEDED = ("onnx", "onnxscript")


def _export(checkpoint: str, trust_code: bool, target: str, code: str | None = None) -> dict[str, Any]:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPackage(f"ONNX needs {' and '.join(missing)}. Install it: {imports.pip_install('onnx')}")
    source = checkpoints.at(Path(checkpoint), trust_code=trust_code, code=code)
    return write(load_policy(source), Path(target))


main = partial(answer, play=_export)


def write(policy: LoadedPolicy, target: Path) -> dict[str, Any]:
    """Write the policy's network. Returns the dtype and shape of its `inputs` by name, its `outputs`, and `acting`.

    Raises NetworkFailed, StorageFailed.
    """
    import onnx

    for module in policy.network.modules():
        if isinstance(module, ResettingLSTM):
            module.forward = module._step_by_step  # type: ignore[method-assign]  # does not branch on a tensor's values
    inputs, outputs = _inputs(policy), _outputs(policy)
    try:
        program: Any = torch.onnx.export(
            _OneStep(policy).eval(), tuple(inputs.values()), dynamo=True, verbose=False, input_names=list(inputs),
            output_names=outputs)
    except Exception as error:
        raise NetworkFailed(f"{type(policy.network).__name__} cannot be written as ONNX: {error!s:.500}") from error
    model = program.model_proto
    acting = onnx_contract.acting(policy.spec, output=outputs[0], note=_note(policy))
    onnx.helper.set_model_props(model, {
        "environment": json.dumps(policy.spec.to_json()), "acting": json.dumps(acting)})
    with saving(target) as beside:
        onnx.save_model(model, beside)
    names = [node.name for node in model.graph.input]
    return {"inputs": {name: [str(inputs[name].dtype).removeprefix("torch."), list(inputs[name].shape)]
                       for name in names}, "outputs": outputs, "acting": acting}


def _note(policy: LoadedPolicy) -> str:
    """What the outputs alone do not say."""
    algorithm, distribution = type(policy.algorithm), type(policy.algorithm.distribution)
    for own, what in ((algorithm.act, "acts by a method"), (distribution, "chooses by a distribution")):
        if not own.__module__.startswith("workbench.algorithms."):
            return f"{algorithm.__name__} {what} of its own, which this file does not hold"
    return ""


class _OneStep(nn.Module):
    """The network with a flat list of arguments."""

    def __init__(self, policy: LoadedPolicy) -> None:
        super().__init__()
        self._network = policy.network
        self._parts = [part.name for part in policy.spec.seen]
        self._outputs = _outputs_of_heads(policy)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs and the next state, in a flat tuple."""
        count = len(self._parts)
        parts, (action, reward, start, *state) = inputs[:count], inputs[count:]
        output, after = output_of(
            self._network, dict(zip(self._parts, parts, strict=True)), action, reward, start, tuple(state))
        return (*(getattr(output, name) for name in self._outputs), *after)


def _inputs(policy: LoadedPolicy) -> dict[str, Tensor]:
    spec, state = policy.spec, initial_state(policy.network, 1)
    observation = {f"observation.{part.name}".rstrip("."): torch.zeros(
        (1, 1, *part.shape), dtype=getattr(torch, part.dtype)) for part in spec.seen}
    action = torch.zeros((1, 1, *spec.actions.shape), dtype=getattr(torch, spec.actions.dtype))
    return {**observation, "previous_action": action, "reward": torch.zeros(1, 1),
            "start": torch.ones((1, 1), dtype=torch.bool), **{f"state_{at}": part for at, part in enumerate(state)}}


def _outputs(policy: LoadedPolicy) -> list[str]:
    states = len(policy.network.initial_state(1))  # type: ignore[operator]
    return [*_outputs_of_heads(policy), *(f"next_state_{at}" for at in range(states))]


def _outputs_of_heads(policy: LoadedPolicy) -> list[str]:
    return [name for name in policy.algorithm.heads.output._fields if name not in onnx_contract.TRAINING_ONLY]
