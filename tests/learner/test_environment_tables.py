"""A policy's tables: each part of the state, and each environment's row, in memory of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.environment_tables import EnvironmentTables
from workbench.networks import initial_state

SPEC = EnvironmentSpec("vector", (4,), "float32", 2)


class Giving(nn.Module):
    """Gives the state that `how` says, of which the parts, the rows or the network's own buffer are one memory."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("zeros", torch.zeros(4, 2))

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        one = torch.zeros(batch, 2)
        row = torch.zeros(1, 2).expand(batch, -1)
        return {"one twice": (one, one), "rows": (row, row.clone()), "its own": (self.zeros[:batch], one)}[self.how]


@pytest.mark.parametrize("how", ["one twice", "rows", "its own"])
@pytest.mark.parametrize("pads", [False, True])
def test_a_table_is_no_memory_that_a_network_gave(how: str, pads: bool) -> None:
    network = Giving(how)
    tables = EnvironmentTables(network, SPEC, device=Device("cpu", precision="fp32", pads=pads), num_envs=3)
    rows = torch.from_numpy(tables.rows(np.array([0, 2])))
    tables.store_states(rows, (torch.full((2, 2), 1.0), torch.full((2, 2), 2.0)))
    _, first, second = tables.before(torch.from_numpy(tables.rows(np.arange(3))), torch.zeros(3, dtype=torch.bool))
    assert first.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert second.tolist() == [[2, 2], [0, 0], [2, 2]]
    assert not network.zeros.any()


@pytest.mark.parametrize("how", ["one twice", "rows", "its own"])
def test_whoever_plays_has_a_state_that_is_nobody_elses(how: str) -> None:
    network = Giving(how)
    state = initial_state(network, 3)
    state[0][0] += 1
    assert state[0].sum() == 2 and not state[1].any() and not network.zeros.any()
