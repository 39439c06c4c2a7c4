"""R2D2's loss against a slow transcription that runs one row and one step at a time, and what it says of each part."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.algorithms.no_waiting import NoWaiting
from tests.algorithms.slow_r2d2 import SIZE, SPEC, Counting, Recurrent, State, slow_loss, slow_run
from tests.algorithms.unrolls import random_unroll, with_final_observations
from workbench.algorithms import Batch, Loss, QValueOutput, Roles, collate
from workbench.algorithms.r2d2.agent import R2D2
from workbench.algorithms.r2d2.config import R2D2Config
from workbench.trajectory import Flags, Unroll


def random_batch(seed: int, config: R2D2Config, *, rows: int = 6, memory: bool = True, finals: int = 0) -> Batch:
    """Random unrolls with states, and weights that differ; with a table of so many final observations."""
    rng = np.random.default_rng(seed)
    fields = R2D2(config, spec=SPEC).behaviour_fields()
    unrolls = [
        random_unroll(
            SPEC, length=config.burn_in + config.unroll_length, rng=rng, ends=0.5 if finals else 0.2, behaviour=fields,
            state=(rng.normal(size=SIZE).astype(np.float32),) if memory else (),
        )
        for _ in range(rows)
    ]
    if finals:
        unrolls = [with_final_observations(one, places=finals, after=config.burn_in, rng=rng) for one in unrolls]
    batch = collate(unrolls)
    return dataclasses.replace(batch, weight=torch.from_numpy(rng.uniform(0.1, 1, rows).astype(np.float32)))


def prepared(config: R2D2Config, target: nn.Module) -> R2D2:
    algorithm = R2D2(config, spec=SPEC)
    algorithm.prepare(target)
    return algorithm


def loss_of(online: nn.Module, target: nn.Module, batch: Batch, config: R2D2Config) -> Loss:
    return prepared(config, target).loss(online, batch=batch, config=config)


def config_of(**fields: object) -> R2D2Config:
    return R2D2Config(**{"burn_in": 4, "unroll_length": 6, "discount": 0.9, **fields})  # type: ignore[arg-type]


CONFIGS = {
    "R2D2's numbers, shorter": config_of(discount=0.997),
    "no burn-in": config_of(burn_in=0),
    "one step of each": config_of(burn_in=1, unroll_length=1, n_steps=1),
    "a burn-in longer than the unroll": config_of(burn_in=9, unroll_length=3, n_steps=2),
    "targets longer than the unroll": config_of(n_steps=20),
    "rewards scaled": config_of(reward_scale=0.3),
    "values not rescaled, rewards clipped": config_of(value_rescaling=False, max_abs_reward=0.5, n_steps=3),
    "another rescaling and share": config_of(value_rescaling_epsilon=0.1, priority_max_share=0.3),
    "states from zeros": config_of(recurrent_state="zero"),
    "states refreshed": config_of(recurrent_state="refreshed"),
    "states refreshed within the burn-in": config_of(recurrent_state="refreshed", burn_in=7, unroll_length=2),
}


@pytest.mark.parametrize("finals", [0, 2], ids=["stored values", "final observations"])
@pytest.mark.parametrize("memory", [True, False], ids=["memory", "no memory"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_loss_gradient_priorities_and_metrics_equal_a_slow_transcription(
    config: R2D2Config, memory: bool, finals: int
) -> None:
    online, target = Recurrent(0, memory=memory), Recurrent(1, memory=memory)
    for seed in range(3):
        batch = random_batch(seed, config, memory=memory, finals=finals)
        loss, slow = loss_of(online, target, batch, config), slow_loss(online, target, batch, config)
        torch.testing.assert_close(loss.total.double(), slow.total, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(loss.priorities, torch.tensor(slow.priorities), rtol=1e-4, atol=1e-5)
        errors = torch.tensor(slow.errors).T
        torch.testing.assert_close(loss.samples["td_error"], errors, rtol=1e-4, atol=1e-5)
        assert loss.scalars["loss"].item() == loss.total.item()
        assert loss.scalars["td_error"].item() == pytest.approx(errors.mean().item(), rel=1e-4)
        assert loss.scalars["q_value"].item() == pytest.approx(slow.mean_value, rel=1e-4, abs=1e-4)
        parameters = [value for name, value in online.named_parameters() if memory or name != "keep"]
        gradients = torch.autograd.grad(loss.total, parameters)
        for fast, expected in zip(gradients, torch.autograd.grad(slow.total, parameters), strict=True):
            torch.testing.assert_close(fast, expected.float(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["states refreshed", "states refreshed within the burn-in"])
def test_final_observations_leave_refreshed_states_as_they_are(name: str) -> None:
    config, online = CONFIGS[name], Recurrent(0)
    batch = random_batch(0, config, finals=2)
    assert name != "states refreshed" or {0, 1, 2} == set((batch.final_step > 0).sum(1).tolist()), "all numbers occur"
    plain = dataclasses.replace(batch, final_step=None, final_observation=None)
    with_finals, without = (loss_of(online, Recurrent(1), one, config).next_states for one in (batch, plain))
    torch.testing.assert_close(with_finals, without, rtol=1e-5, atol=1e-5)


def test_the_random_cases_hold_every_kind_of_end_and_networks_that_disagree() -> None:
    config = CONFIGS["R2D2's numbers, shorter"]
    batches = [random_batch(seed, config) for seed in range(3)]
    trained = torch.cat([batch.flags[config.burn_in + 1 :] for batch in batches])
    ends = trained & int(Flags.TERMINATED | Flags.TRUNCATED | Flags.LIFE_LOST)
    assert {1, 2, 3, 4} <= set(ends.flatten().tolist())
    assert any((batch.flags[1 : config.burn_in] & int(Flags.START)).any() for batch in batches)
    best = [[q.argmax().item() for _, q in slow_run(network, batches[0], 0, config)]
            for network in (Recurrent(0), Recurrent(1))]
    assert best[0] != best[1]


def test_only_the_online_network_gets_a_gradient_and_what_is_measured_has_none() -> None:
    config = config_of(recurrent_state="refreshed")
    online, algorithm = Recurrent(0), prepared(config, Recurrent(1))
    loss = algorithm.loss(online, batch=random_batch(0, config), config=config)
    loss.total.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in online.parameters())
    assert algorithm.parameters() == [] and not any(tensor.requires_grad for tensor in algorithm.state().values())
    measured = [*loss.scalars.values(), *loss.samples.values(), loss.priorities, *loss.next_states]
    assert not any(tensor.requires_grad for tensor in measured)
    assert all(value.ndim == 0 for value in loss.scalars.values())
    assert set(loss.samples) == set(algorithm.histogram_edges)
    edges = algorithm.histogram_edges["td_error"]
    assert list(edges) == sorted(edges) and edges[0] == pytest.approx(1e-4) and edges[-1] == pytest.approx(1e2)


def counting_batch(config: R2D2Config, *, starts: dict[int, int], counts: list[float]) -> Batch:
    """Rows without rewards or ends, with episodes that start as told (row: step), stored with these counts."""
    batch = random_batch(0, config, rows=len(counts))
    flags = torch.zeros_like(batch.flags)
    for row, step in starts.items():
        flags[step, row] = int(Flags.START)
    return dataclasses.replace(
        batch, reward=torch.zeros_like(batch.reward), flags=flags, weight=torch.ones(len(counts)),
        initial_state=(torch.tensor(counts).unsqueeze(1),),
    )


def test_burn_in_starts_from_the_stored_state_of_its_first_step_and_has_no_gradient() -> None:
    config = config_of(burn_in=3, unroll_length=2, value_rescaling=False, discount=1.0, n_steps=1)
    batch = counting_batch(config, starts={1: 1, 2: 4}, counts=[100.0, 200.0, 300.0])
    online = Counting()
    target = copy.deepcopy(online)
    nn.init.constant_(target.gain, 10.0)
    algorithm = prepared(config, target)
    loss = algorithm.loss(online, batch=batch, config=config)
    assert torch.stack(online.counted).T.tolist() == [
        [101, 102, 103, 104, 105, 106], [201, 1, 2, 3, 4, 5], [301, 302, 303, 304, 1, 2],
    ]
    assert online.with_gradient == [False] * 3 + [True] * 3
    network = algorithm.target
    assert isinstance(network, Counting) and not any(network.with_gradient) and not network.training
    assert not network.gain.requires_grad
    said = torch.stack(network.counted)
    assert said.T.tolist() == [
        [110, 120, 130, 140, 150, 160], [210, 10, 20, 30, 40, 50], [310, 320, 330, 340, 10, 20],
    ]
    errors = said[4:] - torch.stack(online.counted[3:5])  # the target's value of the next step less the online one's
    torch.testing.assert_close(loss.samples["td_error"], errors.detach().abs())
    loss.total.backward()
    steps_with_gradient = torch.tensor([[1, 1, 1], [2, 2, 1]])  # since the burn-in's end or the episode's start
    assert online.gain.grad is not None
    assert online.gain.grad.item() == pytest.approx((-errors * steps_with_gradient).sum(0).mean().item())


@pytest.mark.parametrize("burn_in", [0, 1, 3, 5, 9])
def test_refreshed_states_are_those_before_the_first_step_of_the_unroll_that_follows(burn_in: int) -> None:
    steps = 5
    config = config_of(burn_in=burn_in, unroll_length=steps, recurrent_state="refreshed")
    batch = counting_batch(config, starts={1: 2, 2: steps}, counts=[100.0, 100.0, 100.0])
    loss = loss_of(Counting(), Counting(), batch, config)
    assert loss.next_states is not None
    assert loss.next_states[0][:, 0].tolist() == [100 + steps, steps - 2, 100 + steps]  # zeroed by the step itself

    batch, online = random_batch(3, config), Recurrent(0)
    refreshed = loss_of(online, Recurrent(1), batch, config)
    assert refreshed.next_states is not None and refreshed.next_states[0].dtype == torch.float32
    for b in range(6):
        states = [state for state, _ in slow_run(online, batch, b, config)]
        torch.testing.assert_close(refreshed.next_states[0][b].double(), states[steps].detach(), rtol=1e-5, atol=1e-5)
    stored = loss_of(online, Recurrent(1), batch, dataclasses.replace(config, recurrent_state="stored"))
    assert stored.next_states is None
    torch.testing.assert_close(stored.total, refreshed.total)


class HalfState(Recurrent):
    """Says its state in bfloat16, as a network may under autocast."""

    def forward(self, *inputs: Tensor) -> tuple[QValueOutput, State]:  # type: ignore[override]
        output, state = super().forward(*inputs)
        return output, tuple(part.bfloat16() for part in state)


def test_refreshed_states_have_the_type_of_the_stored_ones() -> None:
    config = config_of(recurrent_state="refreshed")
    loss = loss_of(HalfState(0), HalfState(1), random_batch(0, config), config)
    assert loss.next_states is not None and loss.next_states[0].dtype == torch.float32


def test_a_network_without_memory_runs_no_burn_in() -> None:
    config, network = config_of(recurrent_state="refreshed"), Recurrent(0, memory=False)
    steps: list[int] = []
    network.register_forward_pre_hook(lambda _, inputs: steps.append(len(inputs[0])))
    loss = loss_of(network, Recurrent(1, memory=False), random_batch(0, config, memory=False), config)
    assert steps == [config.unroll_length + 1] and loss.next_states is None


def life(network: Recurrent, config: R2D2Config, *, steps: int) -> tuple[Unroll, list[Tensor]]:
    """A life as one long unroll, acted by `network` a step at a time, and the states before each of its steps."""
    whole = random_unroll(SPEC, length=steps - 1, rng=np.random.default_rng(8), behaviour={})
    algorithm = R2D2(config, spec=SPEC)
    frames, state, states = list(whole.stack_prefix), network.initial_state(1), []
    said: dict[str, list[float]] = {"q_value": [], "q_max": []}
    for t in range(steps):
        start = bool(whole.flags[t] & Flags.START)
        frames = [*(np.zeros_like(frame) if start else frame for frame in frames), whole.observation[t]][-2:]
        states.append(state[0][0])
        inputs = [np.concatenate(frames), np.int64(whole.previous_action[t]), whole.reward[t], np.bool_(start)]
        with torch.no_grad():
            output, state = network(*(torch.from_numpy(np.asarray(value)[None, None]) for value in inputs), state)
        actions, behaviour = algorithm.act(
            output, roles=Roles(torch.zeros(1), torch.zeros(1, dtype=torch.bool)), greedy=False,
            generator=torch.Generator().manual_seed(t), config=config,
        )
        whole.action[t] = actions.item()
        for name, value in behaviour.items():
            said[name].append(value.item())
    whole.behaviour = {name: np.array(values, np.float32) for name, values in said.items()}
    return whole, states


def cut(whole: Unroll, states: list[Tensor], *, first: int, length: int) -> Unroll:
    """The unroll of `length` steps that begins at step `first` of a life without frames from before it."""
    def part(array: np.ndarray) -> np.ndarray:
        return array[first : first + length].copy()

    prefix = whole.observation[first - 1 : first] if first else whole.stack_prefix
    return dataclasses.replace(
        whole,
        **{name: part(getattr(whole, name)) for name in ("observation", "reward", "flags", "previous_action", "action",
                                                         "policy_version", "bootstrap_value")},
        stack_prefix=np.zeros_like(prefix) if whole.flags[first] & Flags.START else prefix,
        behaviour={name: part(value) for name, value in whole.behaviour.items()},
        initial_state=(states[first].numpy(),),
    )


@pytest.mark.parametrize("config", [config_of(exploration_base=0.7), config_of(value_rescaling=False, burn_in=0),
                                    config_of(burn_in=9, unroll_length=3, max_abs_reward=1.0, n_steps=2)])
def test_the_first_priority_is_the_losss_own_while_the_networks_are_the_behaviour(config: R2D2Config) -> None:
    network = Recurrent(0)
    whole, states = life(network, config, steps=100)
    assert (whole.behaviour["q_value"] < whole.behaviour["q_max"]).any(), "nothing was explored"
    steps, length = config.unroll_length, config.burn_in + config.unroll_length + 1
    unrolls = [cut(whole, states, first=first, length=length) for first in range(0, 100 - length, steps)]
    algorithm = prepared(config, network)
    loss = algorithm.loss(network, batch=collate(unrolls), config=config)
    first_priorities = [algorithm.initial_priority(unroll, config=config) for unroll in unrolls]
    assert all(type(priority) is float for priority in first_priorities)
    assert len(set(first_priorities)) == len(unrolls) > 10
    assert first_priorities == pytest.approx(loss.priorities.tolist(), rel=1e-4, abs=1e-5)

    refreshed = dataclasses.replace(config, recurrent_state="refreshed")
    loss = algorithm.loss(network, batch=collate(unrolls), config=refreshed)
    following = torch.stack([torch.from_numpy(unroll.initial_state[0]) for unroll in unrolls[1:]])
    torch.testing.assert_close(loss.next_states[0][:-1], following, rtol=1e-5, atol=1e-5)


def test_a_lost_life_ends_the_return_but_not_the_episode() -> None:
    config = config_of(burn_in=0, unroll_length=3, value_rescaling=False, n_steps=3, discount=1.0)
    batch = counting_batch(config, starts={}, counts=[100.0])
    flags = batch.flags.clone()
    flags[2, 0] = int(Flags.LIFE_LOST)  # on the transition out of x_1
    batch = dataclasses.replace(batch, flags=flags, reward=torch.tensor([[1000.0], [1.0], [2.0], [3.0]]))
    network = Counting()
    loss = loss_of(network, network, batch, config)
    assert torch.stack(network.counted)[:, 0].tolist() == [101, 102, 103, 104]
    expected = [1 + 2 - 101, 2 - 102, 3 + 104 - 103]
    assert loss.samples["td_error"][:, 0].tolist() == [abs(error) for error in expected]


def test_a_loss_counts_by_its_importance_weight_and_its_priority_does_not() -> None:
    config = config_of()
    batch, online, target = random_batch(0, config), Recurrent(0), Recurrent(1)
    losses = [loss_of(online, target, dataclasses.replace(batch, weight=weight), config)
              for weight in (*torch.eye(6), batch.weight)]
    alone = torch.stack([loss.total for loss in losses[:6]])
    torch.testing.assert_close(losses[6].total, (batch.weight * alone).sum())
    assert torch.equal(losses[0].priorities, losses[6].priorities)


def weights_of(network: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters()]


def test_the_target_network_is_copied_exactly_at_its_period_and_is_saved() -> None:
    config = config_of(target_update_period=3)
    network = Recurrent(0)
    network.register_buffer("seen", torch.zeros(2))
    algorithm = prepared(config, network)

    def target() -> list[Tensor]:
        return list(algorithm.state().values())

    kept = [network.seen.clone(), *weights_of(network)]
    for updates in range(1, 8):
        with torch.no_grad():
            for tensor in [network.seen, *network.parameters()]:
                tensor.add_(1.0)
        algorithm.updated(network, updates=updates, config=config)
        if updates in (3, 6):
            kept = [network.seen.clone(), *weights_of(network)]
        assert sorted(map(str, target())) == sorted(map(str, kept)), updates
    assert set(algorithm.state()) == {f"target.{name}" for name in network.state_dict()}
    live = dataclasses.replace(config, target_update_period=4)
    algorithm.updated(network, updates=8, config=live)
    torch.testing.assert_close(algorithm.state()["target.keep"], network.keep.detach(), rtol=0, atol=0)


def test_the_target_networks_lstm_is_made_one_piece_of_memory(monkeypatch) -> None:
    network, flat = nn.ModuleDict({"core": nn.LSTM(3, 4)}), []
    monkeypatch.setattr(nn.LSTM, "flatten_parameters", lambda self: flat.append(self))
    assert prepared(config_of(), network).target["core"] in flat


def test_a_saved_target_network_is_put_back_and_another_networks_is_refused() -> None:
    config, network = config_of(), Recurrent(0)
    batch, algorithm = random_batch(0, config), prepared(config, Recurrent(1))
    resumed = prepared(config, network)
    before = algorithm.loss(network, batch=batch, config=config).total
    assert not torch.equal(resumed.loss(network, batch=batch, config=config).total, before)
    resumed.load_state(algorithm.state())
    assert torch.equal(resumed.loss(network, batch=batch, config=config).total, before)
    with pytest.raises(RuntimeError, match="gain"):
        prepared(config, Counting()).load_state(algorithm.state())


def test_what_is_saved_does_not_change_afterwards() -> None:
    config, network = config_of(target_update_period=1), Recurrent(0)
    algorithm = prepared(config, network)
    saved = algorithm.state()
    before = saved["target.values"].clone()
    algorithm.updated(Recurrent(1), updates=1, config=config)
    assert torch.equal(saved["target.values"], before)


def test_it_moves_to_a_device_with_and_without_a_target_network() -> None:
    algorithm = R2D2(config_of(), spec=SPEC)
    assert algorithm.to("cpu") is algorithm
    algorithm.prepare(Recurrent(0))
    assert algorithm.to("meta").state()["target.keep"].device.type == "meta"


def output_of(q_values: Tensor, rows: int) -> QValueOutput:
    return QValueOutput(q_values.expand(1, rows, -1))


def test_each_row_explores_as_often_as_its_role_says() -> None:
    config = R2D2Config(evaluation_epsilon=0.05)
    actions, copies = 5, 20_000
    algorithm = R2D2(config, spec=dataclasses.replace(SPEC, num_actions=actions))
    ranks = torch.tensor([0.0, 1 / 7, 0.5, 1.0, 0.0])
    evaluation = torch.tensor([False, False, False, False, True])
    roles = Roles(ranks.repeat_interleave(copies), evaluation.repeat_interleave(copies))
    output = output_of(torch.tensor([0.0, 3.0, 7.0, -1.0, 2.0]), 5 * copies)
    chosen, behaviour = algorithm.act(
        output, roles=roles, greedy=False, generator=torch.Generator().manual_seed(0), config=config
    )
    assert chosen.dtype == torch.int64 and chosen.shape == (5 * copies,)
    frequencies = torch.stack([part.bincount(minlength=actions) for part in chosen.split(copies)]) / copies
    for frequency, epsilon in zip(frequencies, [0.4, 0.4**2, 0.4**4.5, 0.4**8, 0.05], strict=True):
        for action in range(actions):
            expected = epsilon / actions + (1 - epsilon) * (action == 2)
            spread = math.sqrt(expected * (1 - expected) / copies)
            assert abs(frequency[action].item() - expected) < 5 * spread, (epsilon, action)
    for name, (shape, dtype) in algorithm.behaviour_fields().items():
        assert behaviour[name].shape == (5 * copies, *shape) and str(behaviour[name].dtype) == f"torch.{dtype}"
    assert torch.equal(behaviour["q_value"], output.q_values[0, 0][chosen])
    assert torch.equal(behaviour["q_max"], torch.full((5 * copies,), 7.0))
    again, _ = algorithm.act(
        output, roles=roles, greedy=False, generator=torch.Generator().manual_seed(0), config=config
    )
    assert torch.equal(again, chosen)


def test_greedy_actions_and_final_values_leave_nothing_to_chance() -> None:
    config = R2D2Config(exploration_base=1.0, evaluation_epsilon=1.0)
    algorithm = R2D2(config, spec=SPEC)
    output = output_of(torch.tensor([1.0, -2.0, 4.0], dtype=torch.bfloat16), 1000)
    roles = Roles.evaluating(1000)
    greedy, _ = algorithm.act(output, roles=roles, greedy=True, generator=None, config=config)
    assert (greedy == 2).all()
    random, _ = algorithm.act(output, roles=roles, greedy=False, generator=None, config=config)
    assert not (random == 2).all()
    assert torch.equal(algorithm.bootstrap(output), torch.full((1000,), 4.0))


@pytest.mark.parametrize("recurrent_state", ["stored", "zero", "refreshed"])
def test_loss_never_waits_for_the_device(recurrent_state: str) -> None:
    config = config_of(recurrent_state=recurrent_state, max_abs_reward=1.0, target_update_period=1)
    online, batch = Recurrent(0), random_batch(0, config)
    algorithm = prepared(config, Recurrent(1))
    with NoWaiting():
        algorithm.loss(online, batch=batch, config=config).total.backward()
        algorithm.updated(online, updates=1, config=config)


@pytest.mark.parametrize("recurrent_state", ["stored", "refreshed"])
def test_under_autocast_all_weights_learn_and_targets_stay_float32(recurrent_state: str) -> None:
    config = config_of(recurrent_state=recurrent_state)
    online, batch = Recurrent(0), random_batch(0, config)
    algorithm = prepared(config, Recurrent(1))
    exact = algorithm.loss(online, batch=batch, config=config)
    expected = torch.autograd.grad(exact.total, list(online.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        loss = algorithm.loss(online, batch=batch, config=config)
    loss.total.backward()
    measured = [loss.total, *loss.scalars.values(), *loss.samples.values(), loss.priorities, *(loss.next_states or ())]
    assert {tensor.dtype for tensor in measured} == {torch.float32}
    torch.testing.assert_close(loss.priorities, exact.priorities, rtol=0.1, atol=0.1)
    for parameter, gradient in zip(online.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=0.2, atol=0.2 * gradient.abs().max().item())
