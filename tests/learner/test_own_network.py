"""A network that a user wrote and that raises while its run learns: the run ends, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from tests.conftest import SMALL
from workbench import rundir
from workbench.algorithms import PolicyValueOutput
from workbench.algorithms.own_code import own_network
from workbench.config import RunConfig
from workbench.errors import InvalidInput, NetworkFailed, NotLive, RunFailed, RunPaused, ShapeMismatch


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
    run = wb.launch("CartPole-v1", network=lambda spec: Later(spec, where), launcher="inline", name="later",
                    wait_ready=False, **SMALL)
    with pytest.raises(RunFailed, match=f"the network raised LookupError {says}") as raised:
        run.wait(updates=1000, timeout_s=240, progress=False)
    assert "self.left -= 1" not in str(raised.value) and 'raise LookupError("no such position")' in str(raised.value)
    assert "restart" not in set(run.events["kind"])


@pytest.mark.parametrize("error", [
    MemoryError(), torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    torch.AcceleratorError("an illegal memory access")])
def test_memory_that_runs_out_and_a_device_that_fails_are_left_to_another_life(error: Exception) -> None:
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


class Reshaped(Later):
    """Returns a part in another shape from then on."""

    def __init__(self, spec, where, part):
        super().__init__(spec, where)
        self.part = part

    def initial_state(self, batch):
        return (torch.zeros(batch, 3),)

    def forward(self, observation, previous_action, reward, start, state):
        self.left -= self.where == ("training" if torch.is_grad_enabled() else "acting")
        said = self.dense(observation.float())
        logits, value = said[..., :-1], said[..., -1]
        if self.left > 0:
            return PolicyValueOutput(logits, value), state
        changed = {"policy_logits": lambda: (PolicyValueOutput(said, value), state),
                   "value": lambda: (PolicyValueOutput(logits, said[..., -1:]), state),
                   "state": lambda: (PolicyValueOutput(logits, value), (state[0].sum(0),)),
                   "nothing": lambda: None}
        return changed[self.part]()


@pytest.mark.parametrize(("where", "part", "says"), [
    ("acting", "policy_logits", r"as it acted, policy_logits is a .*, 3\), but it must be .*, 2\), \(T, B, actions\)"),
    ("acting", "value", r"as it acted, value is a .*, 1\), but it must be a float32 tensor .*\(T, B\)\.(\n|$)"),
    ("acting", "state", r"as it acted, part 0 of the state from the network's call has shape \(3,\)"),
    ("training", "value", r"in update \d, value is a .*, 1\), but it must be a float32 tensor .*\(T, B\)"),
    ("training", "nothing", r"in update \d, the network must return .*, not a NoneType"),
])
def test_what_it_returns_in_another_shape_later_on_is_named_at_once(
    home: Path, where: str, part: str, says: str
) -> None:
    run = wb.launch("CartPole-v1", network=lambda spec: Reshaped(spec, where, part), launcher="inline", name="reshaped",
                    wait_ready=False, **SMALL)
    with pytest.raises(RunFailed, match=says):
        run.wait(updates=1000, timeout_s=240, progress=False)
    assert "restart" not in set(run.events["kind"]) and run.checkpoints[-1].meta["reason"] == "failed"


class NoNumber(Later):
    def forward(self, observation, previous_action, reward, start, state):
        said = self.dense(observation.float())
        value = said[..., -1] * (torch.nan if torch.is_grad_enabled() else 1)
        return PolicyValueOutput(said[..., :-1], value), state


def test_a_pause_by_losses_that_are_no_numbers_names_the_call_that_takes_a_mended_network(home: Path) -> None:
    run = wb.launch("CartPole-v1", network=lambda spec: NoNumber(spec, "training"), launcher="inline", name="nan",
                    **SMALL)
    try:
        with pytest.raises(RunPaused, match=r"not finite \(loss nan.*; or stop the run, mend the network, and resume .*"
                           r"Or mend its code: wb\.attach\('nan'\)\.stop\(\), then wb\.resume\('nan', network=Your"):
            run.wait(updates=1000, timeout_s=240, progress=False)
    finally:
        run.stop()


class Net(nn.Module):
    """Fails in the fifth update of a run."""

    fails = True

    def __init__(self, spec, units=8):
        super().__init__()
        self.body, self.head, self.times = nn.Linear(4, units), nn.Linear(units, spec.num_actions + 1), 0

    def initial_state(self, batch):
        return ()

    def forward(self, observation, previous_action, reward, start, state):
        self.times += torch.is_grad_enabled()
        if self.fails and self.times > 5:
            raise ArithmeticError("the fifth update")
        said = self.head(self.body(observation.float()).tanh())
        return PolicyValueOutput(said[..., :-1], said[..., -1]), state


class Mended(Net):
    fails = False


class RaisesAnew(Mended):
    def forward(self, observation, *others):
        if observation.shape[0] > 2:  # where only a network that is new is tried
            raise ArithmeticError("from the first update on")
        return super().forward(observation, *others)


@pytest.mark.full
def test_a_run_whose_network_failed_goes_on_with_the_mended_one(home: Path) -> None:
    failed = r"the network raised ArithmeticError in update \d: the fifth update"
    with pytest.raises((NetworkFailed, RunFailed), match=failed) as raised:
        wb.launch("CartPole-v1", network=Net, name="net", **SMALL).wait(updates=99, timeout_s=240, progress=False)
    if isinstance(raised.value, RunFailed):
        assert "wb.resume('net', network=YourNetwork)" in str(raised.value)
    kept = wb.attach("net").checkpoints[-1]
    assert kept.meta["reason"] == "failed" and kept.updates >= 3
    with pytest.raises(ShapeMismatch, match=r"network: body\.weight is of shape \[8, 4\] there.* The run is as it "
                                            r"was, .* new run, .*: wb\.launch\(\.\.\., network=YourNetwork\)\."):
        wb.resume("net", network=lambda spec: Mended(spec, units=9), progress=False)
    with pytest.raises(NetworkFailed, match="from the first update on"):
        wb.resume("net", network=RaisesAnew, progress=False)
    assert wb.attach("net").state == "failed", "what it was before"
    run = wb.resume("net", network=Mended, progress=False)
    run.wait(updates=kept.updates + 20, timeout_s=240, progress=False)
    assert "started again, with mended code" in set(run.events["message"])
    with pytest.raises(InvalidInput, match="network: net is alive.*Stop it first"):
        wb.resume("net", network=Mended)
    run.stop()
    assert len(wb.evaluate(run, episodes=2).returns) == 2


def test_a_network_that_ships_is_not_replaced_by_one_of_ones_own(home: Path) -> None:
    config = RunConfig.build("CartPole-v1", network="mlp").to_json()
    rundir.create("ships", {"created": 1.0, "config": config, "state": "stopped", "lives": 1})
    for given, says in ((Net, r"network=Net: this run learns with mlp, .*, network=YourNetwork, checkpoint='ships'\)"),
                        (nn.Linear(1, 1), r"network=Linear\(...\) is a network that exists already")):
        with pytest.raises(InvalidInput, match=says):
            wb.resume("ships", network=given)
    with pytest.raises(NotLive, match=r"wb\.launch\('CartPole-v1', network='mlp-lstm'\)"):
        wb.resume("ships", network="mlp-lstm")
