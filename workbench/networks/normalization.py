"""From the bytes of an observation on the wire to a network's input: parts, unpacked bits, running normalisation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workbench.algorithms.action_masks import masked
from workbench.algorithms.interface import Around, State
from workbench.algorithms.running_statistics import Peers, RunningStatistics
from workbench.environment_spec import EnvironmentSpec, Part

Observation = Tensor | dict[str, Tensor]


class Observed(Around):
    """A network with a decoder before it: it takes observations as on the wire and decodes them into `spec.seen`.

    Where the environment has action masks, its output knows them (`algorithms.action_masks`).

    Args:
        network: implements `algorithms.interface.Network`.
        spec: its `parts` are cut out of the bytes; without parts the observation stays as it is.
        normalise: brings float32 observations to mean 0 and variance 1 by the statistics of the training data
            (`observe`), which are buffers, so that checkpoints and the acting copies have them.
    """

    def __init__(self, network: nn.Module, spec: EnvironmentSpec, *, normalise: bool) -> None:
        super().__init__()
        self.network = network
        self._spec, self._mask = spec, spec.action_mask
        vectors = [part for part in spec.seen if normalise and part.dtype == "float32"]
        self.statistics = nn.ModuleDict({_key(part.name): RunningStatistics(part.shape) for part in vectors})

    def initial_state(self, batch: int) -> State:
        state: State = self.network.initial_state(batch)  # type: ignore[operator]
        return state

    def forward(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[Any, State]:
        """The network's output for the decoded observations [T, B, *stacked], and its state after them."""
        return self.seeing(self._parts(observation), previous_action, reward, start, state)

    def seeing(self, parts: Mapping[str, Tensor], *others: Any) -> tuple[Any, State]:
        """As `forward`, for decoded parts of an observation by name ("" if it is one array), [T, B, *seen]."""
        normalised = {name: self._normalised(name, value) for name, value in parts.items()}
        output, state = self.network(_plain(normalised), *others)
        if self._mask is not None:
            newest = parts[self._mask.name][..., -self._mask.shape[0] :]  # of the frames of a stack
            output = masked(output, newest, sizes=self._spec.actions.sizes)
        return output, state

    @torch.no_grad()
    def observe(self, observation: Tensor, peers: Peers | None = None) -> None:
        """Adds observations [T, B, *stacked], and those of the other learners if any, to the statistics."""
        if len(self.statistics):
            names = [part.name for part in self._spec.seen if _key(part.name) in self.statistics]
            for name, value in self._parts(observation, names).items():
                self.statistics[_key(name)].add(value.flatten(0, 1), peers)  # type: ignore[operator]

    def decoded(self, observation: Tensor) -> Observation:
        """Observations [T, B, *stacked] as the network's input, but not normalised."""
        return _plain(self._parts(observation))

    def _parts(self, observation: Tensor, names: Collection[str] | None = None) -> dict[str, Tensor]:
        """The decoded parts called `names`; None: all."""
        if not self._spec.parts:
            return {"": observation}
        frames = observation.reshape(*observation.shape[:-1], self._spec.frame_stack, -1)  # [T, B, S, bytes]
        parts, at = {}, 0
        for part, stacked in zip(self._spec.parts, self._spec.seen, strict=True):
            wire = frames[..., at : at + part.wire_bytes]
            at += part.wire_bytes
            if names is None or part.name in names:
                parts[part.name] = self._values(wire, part).reshape(*frames.shape[:2], *stacked.shape)
        return parts

    @staticmethod
    def _values(wire: Tensor, part: Part) -> Tensor:
        """Values of `part` [..., values] from its bytes [..., bytes]."""
        if part.dtype == "uint8":
            return wire
        if part.dtype == "float32":  # a copy: a view of four bytes as one number must begin at a multiple of four
            return wire.clone(memory_format=torch.contiguous_format).view(torch.float32)
        values = int(torch.Size(part.shape).numel())
        bits = _eight_by_eight(wire.device).index_select(0, wire.flatten().int()).view(torch.uint8)
        return bits.view(*wire.shape[:-1], -1)[..., :values]

    def _normalised(self, name: str, value: Tensor) -> Tensor:
        return self.statistics[_key(name)](value) if _key(name) in self.statistics else value


def output_of(network: nn.Module, parts: Mapping[str, Tensor], *others: Any) -> tuple[Any, State]:
    """A network's output and state for decoded parts of an observation by name: see `Observed.seeing`."""
    if isinstance(network, Observed):
        return network.seeing(parts, *others)
    returned: tuple[Any, State] = network(_plain(parts), *others)
    return returned


def needs_observed(spec: EnvironmentSpec, *, normalise: bool) -> bool:
    """Whether a network needs `Observed` before it, to decode or normalise the observations of `spec`."""
    return bool(spec.parts) or (normalise and any(part.dtype == "float32" for part in spec.seen))


@lru_cache
@torch.inference_mode(False)
def _eight_by_eight(device: torch.device) -> Tensor:
    """int64 [256]: each byte's eight bits as eight bytes, 0 or 255, in np.packbits' order; cached for each device."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * np.uint8(255)
    return torch.from_numpy(bits.view(np.int64)[:, 0]).to(device)


def _plain(parts: Mapping[str, Tensor]) -> Observation:
    return parts[""] if list(parts) == [""] else dict(parts)


def _key(name: str) -> str:
    """A module's name may not be empty nor have dots; different names stay different."""
    return "part_" + name.replace("_", "__").replace(".", "_dot_")
