"""The tensors of a network, an algorithm or an optimizer as the arrays of a checkpoint, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from workbench.trajectory import Array

_SHARED = (torch.float16, torch.float32, torch.float64)  # floating types that NumPy has, too


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """Copies in C order. bfloat16 and float8 become float32, which holds them exactly."""
    return {name: np.array((tensor.float() if _is_short(tensor) else tensor).detach().cpu().numpy(), order="C")
            for name, tensor in tensors.items()}


def _is_short(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype not in _SHARED


def to_tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Copies on the CPU, of the arrays' types."""
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
