"""A copy of the network that follows it: by whole copies now and then, or a little at every update."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

_PREFIX = "target."  # of its names in a checkpoint


class TargetNetwork:
    """The copy, which is not trained. `prepare` comes before all else."""

    def __init__(self) -> None:
        self._copy: nn.Module | None = None

    def prepare(self, network: nn.Module) -> None:
        """Copies the network."""
        self._copy = copy.deepcopy(network).eval().requires_grad_(False)
        for part in self._copy.modules():
            if isinstance(part, nn.RNNBase):
                part.flatten_parameters()  # a deep copy scatters them, and a GPU would gather them at every call

    @property
    def network(self) -> nn.Module:
        """The copy."""
        assert self._copy is not None, "prepare(network) must come first"
        return self._copy

    @torch.no_grad()
    def copy_if(self, due: bool, network: nn.Module) -> None:
        """Copies the weights of `network` if `due`."""
        target, online = tensors_of(self.network), tensors_of(network)
        if online and online[0].device.type in ("xla", "tpu"):  # the same graph whether it is due or not
            now = torch.tensor(due).to(online[0].device)
            for old, new in zip(target, online, strict=True):
                old.copy_(torch.where(now, new, old))
        elif due:
            torch._foreach_copy_(target, online)

    @torch.no_grad()
    def approach(self, network: nn.Module, share: float) -> None:
        """Moves all weights by this share of the way to those of `network`; its statistics are copied."""
        torch._foreach_lerp_(list(self.network.parameters()), list(network.parameters()), share)
        if statistics := list(network.buffers()):
            torch._foreach_copy_(list(self.network.buffers()), statistics)

    def to(self, device: torch.device | str) -> None:
        """Moves the copy, if there is one yet, to `device`."""
        if self._copy is not None:
            self._copy.to(device)

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""
        return {_PREFIX + name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned. Raises RuntimeError if the networks differ."""
        self.network.load_state_dict({name.removeprefix(_PREFIX): value for name, value in state.items()
                                      if name.startswith(_PREFIX)})


def tensors_of(network: nn.Module) -> list[Tensor]:
    """All of a network's weights and statistics."""
    return [*network.parameters(), *network.buffers()]
