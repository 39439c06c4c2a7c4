"""A network that a user wrote and that raises while its run learns: the run ends, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from tests.conftest import SMALL
from workbench.algorithms import PolicyValueOutput
from workbench.algorithms.own_code import own_network
from workbench.errors import NetworkFailed, RunFailed


class Later(nn.Module):
    """Raises at the hundredth step of acting, or at the third update."""

    def __init__(self, spec, where):
        super().__init__()
        self.dense, self.where = nn.Linear(4, spec.num_actions + 1), where
        self.left = {"acting": 100, "training": 3}[where]

    def initial_state(self, batch):
        return ()

    def forward(self, observation, previous_action, reward, start, state):
        if self.where == ("training" if torch.is_grad_enabled() else "acting"):
            self.left -= 1
            if not self.left:
                raise LookupError("no such position")
        said = self.dense(observation.float())
        return PolicyValueOutput(said[..., :-1], said[..., -1]), state


@pytest.mark.parametrize(("where", "says"), [
    ("training", r"in update \d: no such position"), ("acting", "as it acted: no such position")])
def test_it_is_named_at_once_and_no_life_begins_that_would_meet_it_again(home: Path, where: str, says: str) -> None:
    with pytest.raises((NetworkFailed, RunFailed), match=f"the network raised LookupError {says}") as raised:
        wb.launch("CartPole-v1", network=lambda spec: Later(spec, where), launcher="inline", name="later",
                  **SMALL).wait(updates=1000, timeout_s=240, progress=False)
    assert "self.left -= 1" not in str(raised.value) and 'raise LookupError("no such position")' in str(raised.value)
    assert "restart" not in set(wb.attach("later").events["kind"])


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_memory_that_runs_out_is_met_by_another_life(error: Exception) -> None:
    class Hungry(nn.Module):
        def forward(self, _):
            raise error

    with pytest.raises(type(error)), own_network(nn.Sequential(Hungry()), ""):
        nn.Sequential(Hungry())(torch.zeros(1))


def test_an_error_of_what_ships_is_not_blamed_on_it() -> None:
    class Right(nn.Module):
        def forward(self, values):
            return values

    with pytest.raises(RuntimeError, match="shape"), own_network(Right(), ""):
        Right()(torch.zeros(2)).view(3)
