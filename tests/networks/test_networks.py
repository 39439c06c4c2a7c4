from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import workbench as wb
from workbench import networks
from workbench.algorithms.interface import Heads, PolicyCriticsOutput
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed, ShapeMismatch, UnknownName
from workbench.networks import DuelingNetwork, PolicyValueNetwork, PolicyValueOutput, QValueOutput, lstm, torsos
from workbench.networks.lstm import ResettingLSTM

VECTOR = EnvironmentSpec("vector", (4,), "float32", 2)
ATARI = EnvironmentSpec("atari", (1, 84, 84), "uint8", 6, frame_stack=4, frames_per_step=4)
SMALL = EnvironmentSpec("small", (1, 36, 36), "uint8", 3)
TINY = EnvironmentSpec("tiny", (4, 10, 10), "float32", 6)
COLOUR = EnvironmentSpec("colour", (3, 64, 64), "uint8", 5)
WIDE = EnvironmentSpec("wide", (3, 72, 96), "uint8", 9)

POLICY = Heads(PolicyValueOutput)
DUELING = Heads(QValueOutput, recurrent=True, lstm_size=32, dueling_size=24)

FITTING = {
    "mlp": [VECTOR, TINY],
    "nature": [ATARI, SMALL, COLOUR],
    "small-cnn": [SMALL, TINY, COLOUR, WIDE],
    "impala-deep": [SMALL, TINY, WIDE],
    "impala-shallow": [ATARI, COLOUR],
}
CASES = [
    pytest.param(f"{name}{memory}", spec, heads, id=f"{title}-{name}{memory}-{spec.name}")
    for name, specs in FITTING.items() for spec in specs for memory in ("", "-lstm")
    for title, heads in (("policy", POLICY), ("dueling", DUELING))
]


def inputs(spec: EnvironmentSpec, steps: int, batch: int, *, starts: float = 0.3, seed: int = 0) -> list[Tensor]:
    """Observation, previous action, reward and start."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, batch, *spec.stacked_shape)
    observation = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    if spec.observation_dtype == "float32":
        observation = torch.randn(shape, generator=generator)
    return [
        observation,
        torch.randint(0, spec.num_actions, (steps, batch), generator=generator),
        3 * torch.randn(steps, batch, generator=generator),
        torch.rand(steps, batch, generator=generator) < starts,
    ]


def some_state(network: Any, batch: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(part.shape, generator=generator) for part in network.initial_state(batch))


@pytest.mark.parametrize(("name", "spec", "heads"), CASES)
def test_every_network_passes_the_check_and_every_parameter_learns(
    name: str, spec: EnvironmentSpec, heads: Heads
) -> None:
    network = networks.build(name, spec=spec, heads=heads, seed=0)
    networks.check(network, spec=spec, output=heads.output)
    (output, _) = network(*inputs(spec, 2, 3), some_state(network, 3))
    sum(part.square().sum() for part in output).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


@pytest.mark.parametrize(("name", "spec", "heads"), CASES)
def test_a_whole_unroll_gives_what_single_steps_give(name: str, spec: EnvironmentSpec, heads: Heads) -> None:
    network = networks.build(name, spec=spec, heads=heads, seed=0)
    sequence, state = inputs(spec, 5, 3), some_state(network, 3)
    with torch.no_grad():
        whole, final = network(*sequence, state)
        for t in range(5):
            step, state = network(*(part[t : t + 1] for part in sequence), state)
            for one, other in zip(step, whole, strict=True):
                torch.testing.assert_close(one[0], other[t], atol=1e-5, rtol=1e-4)
    for stepwise, at_once in zip(state, final, strict=True):
        torch.testing.assert_close(stepwise, at_once, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("heads", [POLICY, DUELING], ids=["policy", "dueling"])
@pytest.mark.parametrize("name", ["nature", "nature-lstm", "impala-deep"])
def test_bf16_outputs_are_float32_and_close_to_those_of_fp32(name: str, heads: Heads) -> None:
    network = networks.build(name, spec=SMALL, heads=heads, seed=0)
    if heads is POLICY:
        torch.manual_seed(0)
        nn.init.orthogonal_(network.policy.weight)  # the first policy is so flat that all would be close
    sequence, state = inputs(SMALL, 4, 8), some_state(network, 8)
    with torch.no_grad():
        exact, _ = network(*sequence, state)
        with torch.autocast("cpu", torch.bfloat16):
            rough, final = network(*sequence, state)
    for one, other in zip(exact, rough, strict=True):
        assert other.dtype == torch.float32
        assert (one - other).norm() < 0.02 * one.norm()
        assert not torch.equal(one, other)
    assert all(part.dtype == torch.float32 for part in final)


@pytest.mark.parametrize("name", ["nature", "small-cnn", "impala-deep", "mlp"])
def test_bytes_are_read_as_fractions_of_255(name: str) -> None:
    network = networks.build(name, spec=SMALL, heads=POLICY, seed=0)
    observation, *rest = inputs(SMALL, 1, 2)
    with torch.no_grad():
        of_bytes, _ = network(observation, *rest, ())
        of_floats, _ = network(observation.float() / 255, *rest, ())
    torch.testing.assert_close(of_bytes.value, of_floats.value, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("layers", "shape"), [("nature", (4, 84, 84)), ("impala-shallow", (3, 64, 96))])
def test_the_first_layer_trains_the_same_by_blocks(
    layers: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    torso = torsos.nature(shape) if layers == "nature" else torsos.impala_shallow(shape)
    first = torso.layers[0]
    images = torch.randint(0, 256, (5, *shape), dtype=torch.uint8)
    exact = torsos.first_convolution(first, images)
    torch.testing.assert_close(
        F.conv2d(torsos._blocks(images).float(), torsos._blocks_of_weights(first.weight / 255), first.bias), exact)
    by_blocks = []
    for taken in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            assert torsos._trains_by_blocks(first, images) is taken
            assert not torsos._trains_by_blocks(first, images[..., :-1]), "no whole blocks"
            rough = torsos.first_convolution(first, images)
        assert (rough - exact).norm() < 0.01 * exact.norm()
        first.weight.grad = None
        rough.float().square().mean().backward()
        by_blocks.append(first.weight.grad)
        monkeypatch.setattr(torsos, "_trains_by_blocks", lambda *_: False)
    assert (by_blocks[0] - by_blocks[1]).norm() < 0.01 * by_blocks[1].norm()


def stepwise_lstm(
    memory: ResettingLSTM, sequence: Tensor, start: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """The LSTM's equations, one step and one row at a time: outputs, and the last cells."""
    weights = dict(memory.lstm.named_parameters())
    outputs, cells = torch.zeros(*start.shape, memory.size), torch.zeros(start.shape[1], memory.size)
    for b in range(start.shape[1]):
        hidden, cell = state[0][b], state[1][b]
        for t in range(len(start)):
            if start[t, b]:
                hidden, cell = torch.zeros_like(hidden), torch.zeros_like(cell)
            gates = weights["weight_ih_l0"] @ sequence[t, b] + weights["bias_ih_l0"]
            gates = gates + weights["weight_hh_l0"] @ hidden + weights["bias_hh_l0"]
            enter, forget, new, leave = gates.chunk(4)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
            outputs[t, b] = hidden
        cells[b] = cell
    return outputs, cells


STARTS = {
    "none": [],
    "at the first step": [(0, 0), (0, 1), (0, 2)],
    "of one row at the first step": [(0, 1)],
    "in the middle and at the end": [(3, 0), (3, 2), (7, 1)],
    "of one row many times, of another once, of the last never": [(0, 0), (2, 0), (3, 0), (6, 0), (4, 1)],
    "at the last step": [(7, 1)],
    "at every step": [(t, b) for t in range(8) for b in range(3)],
}


@pytest.mark.parametrize("where", STARTS.values(), ids=STARTS.keys())
def test_lstm_with_episode_starts_equals_a_loop_over_steps_and_rows(where: list[tuple[int, int]]) -> None:
    torch.manual_seed(0)
    memory = ResettingLSTM(5, size=6)
    start = torch.zeros(8, 3, dtype=torch.bool)
    for t, b in where:
        start[t, b] = True
    sequence = torch.randn(8, 3, 5, requires_grad=True)
    state = (torch.randn(3, 6, requires_grad=True), torch.randn(3, 6, requires_grad=True))
    outputs, (hidden, cell) = memory(sequence, start, state)
    expected, expected_cell = stepwise_lstm(memory, sequence, start, state)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(hidden, expected[-1], atol=1e-5, rtol=0)
    torch.testing.assert_close(cell, expected_cell, atol=1e-5, rtol=0)
    weights = torch.randn(8, 3, 6), torch.randn(3, 6), torch.randn(3, 6)
    variables = [sequence, *state, *memory.parameters()]

    def gradients(*results: Tensor) -> tuple[Tensor, ...]:
        total = sum((one * weight).sum() for one, weight in zip(results, weights, strict=True))
        return torch.autograd.grad(total, variables, materialize_grads=True)

    for fast, slow in zip(
        gradients(outputs, hidden, cell), gradients(expected, expected[-1], expected_cell), strict=True
    ):
        torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


def fused_cell(
    inputs: Tensor, hidden: Tensor, cell: Tensor, bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """What ATen's kernel for CUDA computes (RNN.cu): hidden, cell, and the gates after their functions."""
    assert bias is None and hidden_bias is None and inputs.dtype == hidden.dtype == cell.dtype
    enter, forget, candidate, leave = (inputs + hidden).chunk(4, 1)
    gates = [enter.sigmoid(), forget.sigmoid(), candidate.tanh(), leave.sigmoid()]
    new = gates[1] * cell + gates[0] * gates[2]
    return gates[3] * new.tanh(), new, torch.cat(gates, 1)


def fused_cell_backward(
    of_hidden: Tensor | None, of_cell: Tensor | None, before: Tensor, cell: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the gates' inputs and of the cell before; and of biases, which there are none."""
    assert not has_bias
    enter, forget, candidate, leave = gates.chunk(4, 1)
    upper = torch.zeros_like(cell) if of_hidden is None else of_hidden
    carried = upper * leave * (1 - cell.tanh() ** 2) + (0 if of_cell is None else of_cell)
    parts = [carried * candidate * enter * (1 - enter), carried * before * forget * (1 - forget),
             carried * enter * (1 - candidate**2), upper * cell.tanh() * leave * (1 - leave)]
    return torch.cat(parts, 1), carried * forget, torch.zeros(0)


@pytest.fixture(params=["plain", "fused"])
def step_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A step's operations: those of all devices; or CUDA's kernel, with its formulas in its place on the CPU."""
    if request.param == "plain":
        yield
        return
    with torch.library._scoped_library("aten", "IMPL") as kernels:
        kernels.impl("_thnn_fused_lstm_cell", fused_cell, "CPU")
        kernels.impl("_thnn_fused_lstm_cell_backward_impl", fused_cell_backward, "CPU")
        monkeypatch.setattr(lstm, "_step", lstm.fused_step)
        yield


@pytest.mark.usefixtures("step_of")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", STARTS.values(), ids=STARTS.keys())
def test_an_accelerators_loop_over_steps_equals_torchs_lstm(where: list[tuple[int, int]], dtype: torch.dtype) -> None:
    """With its gradients, for the same parameters, to a few units in the last place."""
    torch.manual_seed(0)
    memory = ResettingLSTM(5, size=6).to(dtype)
    start = torch.zeros(8, 3, dtype=torch.bool)
    for t, b in where:
        start[t, b] = True
    sequence = torch.randn(8, 3, 5, dtype=dtype, requires_grad=True)
    state = tuple(torch.randn(3, 6, dtype=dtype, requires_grad=True) for _ in range(2))
    variables, slopes = [sequence, *state, *memory.parameters()], torch.randn(10, 3, 6, dtype=dtype)

    def values_and_gradients(path: Any) -> list[Tensor]:
        outputs, last = path(sequence, start, state)
        values = torch.cat([outputs, torch.stack(last)])
        return [values, *torch.autograd.grad((values * slopes).sum(), variables, materialize_grads=True)]

    tolerance = 40 * torch.finfo(dtype).eps
    for ours, torchs in zip(values_and_gradients(memory._step_by_step), values_and_gradients(memory), strict=True):
        assert ours.dtype is dtype
        torch.testing.assert_close(ours, torchs, atol=tolerance, rtol=tolerance)


def test_an_accelerators_loop_multiplies_the_inputs_of_all_steps_at_once() -> None:
    memory, products = ResettingLSTM(5, size=6), []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "mm" in str(function):
                products.append([tuple(argument.shape) for argument in args])
            return function(*args, **(kwargs or {}))

    with Products():
        memory._step_by_step(torch.randn(8, 3, 5), torch.zeros(8, 3, dtype=torch.bool), memory.initial_state(3))
    assert products == [[(24,), (24, 5), (5, 24)], *[[(3, 24), (3, 6), (6, 24)]] * 8]


def test_not_a_bit_from_before_a_start_is_left_after_it() -> None:
    memory = ResettingLSTM(5, size=6)
    start = torch.zeros(9, 2, dtype=torch.bool)
    start[4, 0] = start[2, 1] = start[3, 1] = True
    sequence = torch.randn(9, 2, 5)
    other = sequence.where(torch.arange(9)[:, None, None] >= torch.tensor([4, 3])[:, None], 100 * torch.randn(9, 2, 5))
    with torch.no_grad():
        one, final = memory(sequence, start, (torch.randn(2, 6), 1e3 * torch.randn(2, 6)))
        two, again = memory(other, start, (torch.randn(2, 6), 1e3 * torch.randn(2, 6)))
    assert torch.equal(one[4:, 0], two[4:, 0]) and torch.equal(one[3:, 1], two[3:, 1])
    assert not torch.equal(one[3, 0], two[3, 0])
    assert all(torch.equal(a, b) for a, b in zip(final, again, strict=True))


@pytest.mark.parametrize("where", STARTS.values(), ids=STARTS.keys())
def test_on_the_cpu_an_unroll_is_one_call_of_the_lstm(
    where: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, calls = ResettingLSTM(5, size=6), []
    for holder, name in ((torch, "lstm"), (memory.lstm, "forward")):
        kept = getattr(holder, name)
        monkeypatch.setattr(holder, name, lambda *a, _kept=kept, **k: calls.append(1) or _kept(*a, **k))
    start = torch.zeros(8, 3, dtype=torch.bool)
    for t, b in where:
        start[t, b] = True
    memory(torch.randn(8, 3, 5), start, memory.initial_state(3))
    assert len(calls) == 1


def test_lstm_does_not_read_where_episodes_start_on_an_accelerator() -> None:
    memory = ResettingLSTM(5, size=6).to("meta")  # a device without values: reading one raises
    start = torch.zeros(4, 3, dtype=torch.bool, device="meta")
    outputs, _ = memory(torch.empty(4, 3, 5, device="meta"), start, memory.initial_state(3))
    assert outputs.shape == (4, 3, 6)


@pytest.mark.parametrize("heads", [POLICY, DUELING], ids=["policy", "dueling"])
def test_nothing_from_before_an_episode_reaches_a_recurrent_network(heads: Heads) -> None:
    network = networks.build("mlp-lstm", spec=VECTOR, heads=heads, seed=0)
    observation, action, reward, start = inputs(VECTOR, 1, 2)
    start.fill_(True)
    with torch.no_grad():
        first, _ = network(observation, action, reward, start, some_state(network, 2))
        second, _ = network(observation, 1 - action, -reward, start, network.initial_state(2))
        start.fill_(False)
        third, _ = network(observation, 1 - action, reward, start, network.initial_state(2))
    assert torch.equal(first[-1], second[-1]) and not torch.equal(first[-1], third[-1])


@pytest.mark.parametrize(("heads", "clipped"), [(POLICY, True), (DUELING, False)], ids=["policy", "dueling"])
def test_a_recurrent_policy_sees_rewards_clipped_to_one_and_action_values_are_of_rewards_as_they_are(
    heads: Heads, clipped: bool
) -> None:
    network = networks.build("mlp-lstm", spec=VECTOR, heads=heads, seed=0)
    observation, action, _, start = inputs(VECTOR, 1, 2, starts=0.0)
    with torch.no_grad():
        said = [network(observation, action, torch.full((1, 2), reward), start, network.initial_state(2))[0][-1]
                for reward in (0.5, 1.0, 7.0)]
    assert torch.equal(said[1], said[2]) is clipped and not torch.equal(said[0], said[1])


@pytest.mark.parametrize("lstm_size", [0, 8])
def test_action_values_are_the_value_plus_each_advantage_over_their_mean(lstm_size: int) -> None:
    torch.manual_seed(0)
    network = DuelingNetwork(Plain(4), num_actions=3, lstm_size=lstm_size, dueling_size=5)
    observation, action, reward, start = inputs(VECTOR, 4, 2)
    seen: list[Tensor] = []
    network.value.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        (q_values,), _ = network(observation, action, reward, start, network.initial_state(2))
        weights = dict(network.named_parameters())
        for t, b in itertools.product(range(4), range(2)):
            features = seen[0].view(4, 2, -1)[t, b]
            hidden = {head: (weights[f"{head}.0.weight"] @ features + weights[f"{head}.0.bias"]).relu()
                      for head in ("value", "advantage")}
            value = (weights["value.2.weight"] @ hidden["value"] + weights["value.2.bias"]).item()
            advantage = (weights["advantage.2.weight"] @ hidden["advantage"]).tolist()
            expected = [value + one - sum(advantage) / 3 for one in advantage]
            torch.testing.assert_close(q_values[t, b], torch.tensor(expected))
    assert "advantage.2.bias" not in weights  # the mean takes it away


def test_the_sizes_of_lstm_and_heads_are_those_asked_for() -> None:
    for heads in (POLICY, DUELING):
        state = networks.build("mlp-lstm", spec=VECTOR, heads=heads, seed=0).initial_state(3)
        assert [part.shape for part in state] == [(3, heads.lstm_size)] * 2
    weights = networks.build("mlp-lstm", spec=VECTOR, heads=DUELING, seed=0).state_dict()
    assert weights["memory.lstm.weight_ih_l0"].shape == (4 * 32, 64 + 2 + 1)
    assert weights["value.0.weight"].shape == weights["advantage.0.weight"].shape == (24, 32)
    assert networks.build("mlp", spec=VECTOR, heads=DUELING, seed=0).initial_state(3) == ()


def test_a_new_lstm_remembers() -> None:
    for heads in (DUELING, POLICY):
        network = networks.build("mlp-lstm", spec=VECTOR, heads=heads, seed=0)
        biases = (network.memory.lstm.bias_ih_l0 + network.memory.lstm.bias_hh_l0).view(4, -1)
        assert torch.equal(biases, torch.tensor([0.0, 1.0, 0.0, 0.0]).unsqueeze(1).expand_as(biases))


def test_the_first_policy_is_nearly_uniform() -> None:
    for name, spec in (("nature", ATARI), ("impala-deep", WIDE), ("small-cnn", SMALL), ("mlp-lstm", VECTOR)):
        network = networks.build(name, spec=spec, heads=POLICY, seed=0)
        output, _ = network(*inputs(spec, 1, 4), some_state(network, 4))
        policy = output.policy_logits.softmax(-1)
        assert (policy - 1 / spec.num_actions).abs().max() < 0.05, name


def test_a_seed_gives_the_same_network_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = (networks.build(None, spec=SMALL, heads=POLICY, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


@pytest.mark.parametrize(
    ("spec", "name"),
    [(VECTOR, "mlp"), (ATARI, "nature"), (SMALL, "small-cnn"), (TINY, "small-cnn"), (WIDE, "small-cnn")],
)
def test_the_default_network_is_chosen_by_the_observations(spec: EnvironmentSpec, name: str) -> None:
    for heads, whole_name in ((POLICY, name), (DUELING, f"{name}-lstm")):
        assert networks.default_name(spec, recurrent=heads.recurrent) == whole_name
        chosen, named = (networks.build(one, spec=spec, heads=heads, seed=0) for one in (None, whole_name))
        shapes = {key: weight.shape for key, weight in chosen.state_dict().items()}
        assert shapes == {key: weight.shape for key, weight in named.state_dict().items()}


def test_an_unknown_network_comes_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown network 'natur-lstm'.*Did you mean 'nature-lstm'"):
        networks.build("natur-lstm", spec=ATARI, heads=POLICY, seed=0)


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [("nature", VECTOR, r"needs images .* observations are \(4,\).*network='mlp'"),
     ("impala-deep-lstm", VECTOR, "needs images"),
     ("nature", TINY, r"at least 36x36 px.*\(4, 10, 10\).*network='small-cnn'")],
)
def test_a_network_that_cannot_read_the_observations_says_which_can(
    name: str, spec: EnvironmentSpec, message: str
) -> None:
    with pytest.raises(ShapeMismatch, match=message):
        networks.build(name, spec=spec, heads=POLICY, seed=0)


class Faulty(nn.Module):
    """A network that returns what it is given."""

    def __init__(self, logits: Any = None, value: Any = None, state: Any = (), before: Any = ()) -> None:
        super().__init__()
        self.logits = torch.zeros(2, 3, 2) if logits is None else logits
        self.values = torch.zeros(2, 3) if value is None else value
        self.state, self.before = state, before

    def initial_state(self, batch: int) -> Any:
        return self.before

    def forward(self, *inputs: Any) -> Any:
        return PolicyValueOutput(self.logits, self.values), self.state


class Raising(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return inputs[0] @ torch.zeros(5, 2)


class Bare(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return torch.zeros(2, 3, 2)


class Alone(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return PolicyValueOutput(self.logits, self.values)


class Unnamed(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return (torch.zeros(2, 3, 2), torch.zeros(2, 3)), ()


class ActionValues(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return QValueOutput(self.logits), ()


HIDDEN = (torch.zeros(3, 4),)
WRONG = [
    (Faulty(logits=torch.zeros(2, 3, 5)), r"policy_logits is a float32 tensor of shape \(2, 3, 5\).*\(2, 3, 2\)"),
    (Faulty(logits=torch.zeros(3, 2)), r"policy_logits .*\(3, 2\).*\(2, 3, 2\), \(T, B, actions\)"),
    (Faulty(logits=torch.full((2, 3, 2), float("nan"))), "policy_logits is not finite"),
    (Faulty(logits=torch.zeros(2, 3, 2).bfloat16()), "policy_logits is a bfloat16 tensor .*float32"),
    (Faulty(value=torch.zeros(2, 3, 1)), r"value is .*\(2, 3, 1\).*\(2, 3\), \(T, B\)"),
    (Faulty(value=0.0), "value is a float"),
    (Faulty(before=HIDDEN), "the two must agree"),
    (Faulty(before=HIDDEN, state=(torch.zeros(3, 5),)), r"\(3, 5\).*\(3, 4\)"),
    (Faulty(before=(torch.zeros(1, 3, 4),)), r"shape \(1, 3, 4\).*first axis must be the batch, 3"),
    (Faulty(before=None), "tuple of tensors .* not a NoneType"),
    (Faulty(state=None), "tuple of tensors .* not a NoneType"),
    (Raising(), r"raised on float32 observations \(2, 3, 4\).*RuntimeError(.|\n)*Traceback(.|\n)*inputs\[0\] @"),
    (Bare(), r"must return \(PolicyValueOutput\(policy_logits, value\), state\), not a float32 tensor"),
    (Alone(), r"its output alone.* must return \(PolicyValueOutput\(policy_logits, value\), state\), .*memory is \(\)"),
    (Unnamed(), r"workbench.algorithms.PolicyValueOutput first, not a tuple \(a float32 tensor"),
    (ActionValues(), r"algorithm needs .*\(PolicyValueOutput\(policy_logits, value\), state\).*not a QValueOutput"),
    (nn.Linear(4, 2), r"Linear has no method initial_state\(batch\)"),
]


@pytest.mark.parametrize(("network", "message"), WRONG, ids=[message[:24] for _, message in WRONG])
def test_the_check_says_what_is_wrong_and_what_is_right(network: nn.Module, message: str) -> None:
    with pytest.raises(NetworkFailed, match=message):
        networks.check(network, spec=VECTOR, output=PolicyValueOutput)


class Owned(NamedTuple):
    """An output of a user's own."""

    policy_logits: Tensor
    extra: Tensor


@pytest.mark.parametrize(("output", "named"), [
    (PolicyCriticsOutput, "a workbench.algorithms.PolicyCriticsOutput"), (Owned, "a Owned")])
def test_the_check_says_where_an_output_is_found(output: Any, named: str) -> None:
    with pytest.raises(NetworkFailed, match=f"with {named} first, not a PolicyValueOutput"):
        networks.check(Faulty(), spec=VECTOR, output=output)


class Remembering(nn.Module):
    """A network whose first step of an episode depends on what was before it, where it is told to."""

    def __init__(self, kept: str) -> None:
        super().__init__()
        self.kept, self.cell, self.head = kept, nn.GRUCell(6, 4), nn.Linear(4, 2)

    def initial_state(self, batch: int) -> Any:
        return (torch.zeros(batch, 4),)

    def forward(self, observation: Any, previous_action: Any, reward: Any, start: Any, state: Any) -> Any:
        (memory,), outputs = state, []
        for seen, action, gained, starts in zip(observation, previous_action, reward, start, strict=True):
            kept = {name: torch.ones_like(gained) if name == self.kept else ~starts * 1.0
                    for name in ("state", "reward", "previous_action")}
            told = [seen, (kept["previous_action"] * action)[:, None], (kept["reward"] * gained)[:, None]]
            memory = self.cell(torch.cat(told, 1), kept["state"][:, None] * memory)
            outputs.append(self.head(memory))
        logits = torch.stack(outputs)
        return PolicyValueOutput(logits, logits[..., 0]), (memory,)


def test_a_network_that_carries_something_into_the_next_episode_is_named_and_a_run_that_has_it_goes_on() -> None:
    networks.check(Remembering(""), spec=VECTOR, output=PolicyValueOutput, new=True)
    networks.check(Remembering("previous_action"), spec=VECTOR, output=PolicyValueOutput, new=True)  # it is 0 there
    for kept in ("state", "reward"):
        with pytest.raises(NetworkFailed, match=f"first steps of an episode depend on {kept}, .* put zeros"):
            networks.check(Remembering(kept), spec=VECTOR, output=PolicyValueOutput, new=True)
        networks.check(Remembering(kept), spec=VECTOR, output=PolicyValueOutput)


class ResetsOnlyAtTheBeginning(nn.Module):
    """An LSTM over the whole unroll, whose memory is reset where the unroll begins an episode, and not inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 4), nn.Linear(4, 2)

    def initial_state(self, batch: int) -> Any:
        return (torch.zeros(batch, 4), torch.zeros(batch, 4))

    def forward(self, observation: Any, previous_action: Any, reward: Any, start: Any, state: Any) -> Any:
        kept = tuple((~start[0])[None, :, None] * part[None] for part in state)
        told, after = self.lstm(observation, kept)
        logits = self.head(told)
        return PolicyValueOutput(logits, logits[..., 0]), tuple(part[0] for part in after)


def test_a_network_that_carries_its_memory_over_an_end_inside_an_unroll_is_named() -> None:
    with pytest.raises(NetworkFailed, match="first steps of an episode depend on state.* not only at its first"):
        networks.check(ResetsOnlyAtTheBeginning(), spec=VECTOR, output=PolicyValueOutput, new=True)


class Normalised(Remembering):
    """Statistics of the batch, which training takes, have the steps before an episode's start in them."""

    def __init__(self) -> None:
        super().__init__("")
        self.norm = nn.BatchNorm1d(2)

    def forward(self, *inputs: Any) -> Any:
        output, state = super().forward(*inputs)
        logits = self.norm(output.policy_logits.flatten(0, 1)).view_as(output.policy_logits)
        return PolicyValueOutput(logits, logits[..., 0]), state


def test_a_network_that_normalises_its_batch_is_tried_as_it_acts() -> None:
    networks.check(Normalised(), spec=VECTOR, output=PolicyValueOutput, new=True)


class Mixing(Remembering):
    """A network whose outputs are mixed as `how` says, or whose state is not the one after its last step."""

    def __init__(self, how: str) -> None:
        super().__init__("")
        self.how = how

    def forward(self, observation: Any, previous_action: Any, reward: Any, start: Any, state: Any) -> Any:
        if self.how == "resets all":
            start = start | start.any(1, keepdim=True)
        ((logits, value, *_), after) = super().forward(observation, previous_action, reward, start, state)
        mixed = {"rows": lambda: logits.mean(1, keepdim=True), "later steps": lambda: logits.flip(0),
                 "rewards of rows": lambda: (~start * reward).mean(1)[:, None, None],
                 "actions of rows": lambda: previous_action.float().mean(1)[:, None, None],
                 "later rewards": lambda: (~start * reward).flip(0)[..., None],
                 "the next actions": lambda: F.pad(previous_action[1:], (0, 0, 0, 1))[..., None]}
        logits = logits + mixed[self.how]() if self.how in mixed else logits
        after = {"old state": state, "state of another": (after[0].flip(0),)}.get(self.how, after)
        return PolicyValueOutput(logits.squeeze(1) if self.how == "squeezed" else logits, value), after


@pytest.mark.parametrize(("how", "message"), [
    ("", ""), ("rows", "depend on the others of its batch"), ("resets all", "depend on the others of its batch"),
    ("rewards of rows", "depend on the others of its batch"), ("actions of rows", "depend on the others of its batch"),
    ("later steps", "not those for one step after another"), ("old state", "not those for one step after another"),
    ("later rewards", "one step after another"), ("the next actions", "one step after another"),
    ("state of another", "not those for one step after another"),
    ("squeezed", r"^for one step or one environment, as actors ask, policy_logits .*\(2, 2\), .*\(2, 1, 2\), .*stays"),
])
def test_a_network_must_act_as_it_is_trained_step_by_step_and_row_by_row(how: str, message: str) -> None:
    if not message:
        networks.check(Mixing(how), spec=VECTOR, output=PolicyValueOutput, new=True)
        return
    with pytest.raises(NetworkFailed, match=message):
        networks.check(Mixing(how), spec=VECTOR, output=PolicyValueOutput, new=True)
    networks.check(Mixing(how), spec=VECTOR, output=PolicyValueOutput)  # a run that has it goes on


class Asked(Mixing):
    def forward(self, *inputs: Any, features: bool = False) -> Any:
        return super().forward(*inputs) if not features else {"features": inputs[0]}


def test_a_call_in_another_way_is_not_compared_with_the_form() -> None:
    network = Asked("")
    networks.check_each_call(network, networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True))
    inputs = (torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3),
              torch.zeros(2, 3, dtype=torch.bool), network.initial_state(3))
    network(*inputs)
    assert set(network(*inputs, features=True)) == {"features"}


class Detached(Mixing):
    def forward(self, *inputs: Any) -> Any:
        output, state = super().forward(*inputs)
        return PolicyValueOutput(output.policy_logits.detach(), output.value.detach()), state


def test_an_output_without_a_gradient_is_refused_where_it_is_trained() -> None:
    network = Mixing("")
    networks.check_each_call(network, networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True))
    network.__class__ = Detached
    inputs = (torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3),
              torch.zeros(2, 3, dtype=torch.bool), network.initial_state(3))
    with torch.inference_mode():
        network(*inputs)
    with pytest.raises(NetworkFailed, match="output has no gradient where it is trained: it is detached"):
        network(*inputs)
    network.requires_grad_(False)(*inputs)


class Noisy(Mixing):
    """A network with a generator of its own."""

    def __init__(self, generator: Any) -> None:
        super().__init__("")
        self.generator = generator

    def forward(self, *inputs: Any) -> Any:
        output, state = super().forward(*inputs)
        shape = output.policy_logits.shape
        noise = (torch.randn(shape, generator=self.generator) if isinstance(self.generator, torch.Generator)
                 else torch.from_numpy(self.generator.normal(size=shape)))
        return output._replace(policy_logits=output.policy_logits + noise.float()), state


@pytest.mark.parametrize("generator", [torch.Generator(), np.random.default_rng(0)])
def test_a_network_that_draws_from_a_generator_of_its_own_is_not_judged_by_its_noise(generator: Any) -> None:
    networks.check(Noisy(generator), spec=VECTOR, output=PolicyValueOutput, new=True)


class Squeezing(nn.Module):
    """A network with torch's own memory, which squeezes what it returns, and may draw numbers of its own."""

    def __init__(self, what: str, *, draws: bool = False) -> None:
        super().__init__()
        self.what, self.draws, self.lstm, self.head = what, draws, nn.LSTM(4, 5), nn.Linear(5, 3)

    def initial_state(self, batch: int) -> Any:
        return torch.zeros(batch, 5), torch.zeros(batch, 5)

    def forward(self, observation: Any, previous_action: Any, reward: Any, start: Any, state: Any) -> Any:
        hidden, outputs = tuple(part[None] for part in state), []
        for seen, starts in zip(observation, start, strict=True):
            hidden = tuple(part * ~starts[None, :, None] for part in hidden)
            said, hidden = self.lstm(seen[None], hidden)
            outputs.append(said)
        said = self.head(torch.cat(outputs)) + self.draws * torch.rand(())
        value = said[..., -1].squeeze() if self.what == "value" else said[..., -1]
        state = tuple(part.squeeze() if self.what == "state" else part[0] for part in hidden)
        return PolicyValueOutput(said[..., :-1], value), state


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize(("what", "message"), [
    ("", ""),
    ("state", r"part 0 of the state from the network's call has shape \(5,\), but its first axis .* batch, 1"),
    ("value", r"value is a float32 tensor of shape \(3,\), .* of shape \(1, 3\), \(T, B\)\. An axis of 1 stays"),
])
def test_a_network_is_tried_with_one_step_and_with_one_row(what: str, message: str, draws: bool) -> None:
    network = Squeezing(what, draws=draws)
    networks.check(network, spec=VECTOR, output=PolicyValueOutput)  # a run that has it goes on
    if not what:
        networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
        return
    with pytest.raises(NetworkFailed, match=f"^for one step or one environment, as actors ask, {message}") as raised:
        networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
    assert "Traceback" not in str(raised.value)


def test_each_call_is_checked_and_so_are_those_of_copies_but_no_calls_of_ones_own() -> None:
    network = Squeezing("", draws=True)
    networks.check_each_call(network, networks.check(network, spec=VECTOR, output=PolicyValueOutput))
    names, kept = ("observation", "previous_action", "reward", "start", "state"), list(network.state_dict())
    for rows, what, message in ((1, "state", r"shape \(5,\), .* batch, 1"), (2, "value", r"\(2,\), .*\(1, 2\)")):
        given = dict(zip(names, [*inputs(VECTOR, 1, rows), network.initial_state(rows)], strict=True))
        for each in (network, copy.deepcopy(network)):
            each.what = ""
            each(*given.values())
            each.what = what
            with pytest.raises(NetworkFailed, match=message):
                each(*given.values())
            with pytest.raises(NetworkFailed, match=message):
                each(**given)
    network.forward = lambda observation: observation
    assert network(0) == 0 and list(network.state_dict()) == kept


def test_each_call_of_a_copy_of_a_compiled_network_is_checked() -> None:
    compiled = torch.compile(Unscaled(), backend="eager")
    compiled.layers = nn.Sequential(nn.Flatten(2), nn.Linear(4, 2))
    networks.check_each_call(compiled, networks.check(compiled, spec=VECTOR, output=PolicyValueOutput))
    copied = copy.deepcopy(compiled)
    copied(*inputs(VECTOR, 1, 2), ())
    copied.layers.append(nn.Linear(2, 3))
    with pytest.raises(NetworkFailed, match=r"policy_logits is .* \(1, 2, 3\), .*\(1, 2, 2\)"):
        copied(*inputs(VECTOR, 1, 2), ())


class TellsItsMemory(Remembering):
    """Its output has its last state, too, whose first axis are layers and not steps."""

    class Output(NamedTuple):
        policy_logits: Tensor
        value: Tensor
        hidden: Tensor

    def __init__(self, layers: int) -> None:
        super().__init__("")
        self.layers = layers

    def forward(self, *inputs: Any) -> Any:
        output, state = super().forward(*inputs)
        return self.Output(output.policy_logits, output.value, state[0].expand(self.layers, -1, -1)), state


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_field_that_is_not_of_each_step_is_no_mistake(layers: int) -> None:
    networks.check(TellsItsMemory(layers), spec=VECTOR, output=PolicyValueOutput, new=True)


class MixesAndMasks(Mixing):
    """Its rows depend on each other, and one of its logits is masked."""

    def __init__(self, by: float) -> None:
        super().__init__("rows")
        self.by = by

    def forward(self, *inputs: Any) -> Any:
        (logits, value, *_), state = super().forward(*inputs)
        logits = torch.where(torch.tensor([True, False]), self.by, logits)
        return PolicyValueOutput(logits, torch.zeros_like(value)), state


@pytest.mark.parametrize("by", [-1e3, -1e4, -1e9])
def test_a_masked_choice_hides_no_mistake_of_another(by: float) -> None:
    with pytest.raises(NetworkFailed, match="the others of its batch"):
        networks.check(MixesAndMasks(by), spec=VECTOR, output=PolicyValueOutput, new=True)


class KeepsItself(Remembering):
    """Its memory is no state, but an attribute, which the copies that act and train do not share."""

    memory = torch.zeros(3, 4)

    def __init__(self) -> None:
        super().__init__("")

    def initial_state(self, batch: int) -> Any:
        return ()

    def forward(self, observation: Any, *others: Any) -> Any:
        memory = self.memory if self.memory.shape[0] == observation.shape[1] else torch.zeros(observation.shape[1], 4)
        output, (self.memory,) = super().forward(observation, *others[:-1], (memory.detach(),))
        return output, ()


def test_a_network_that_keeps_its_memory_itself_is_told_to_return_it() -> None:
    with pytest.raises(NetworkFailed, match="keeps its memory in itself, as in an attribute, .* Return it as state"):
        networks.check(KeepsItself(), spec=VECTOR, output=PolicyValueOutput, new=True)


class Changing(Remembering):
    """Changes one of its inputs in place."""

    def forward(self, *inputs: Any) -> Any:
        named = dict(zip(("observation", "previous_action", "reward", "start", "state"), inputs, strict=True))
        if self.kept in named:
            changed = named[self.kept][0] if self.kept == "state" else named[self.kept]
            changed.copy_(changed.clone())
        return super().forward(*inputs)


@pytest.mark.parametrize("changed", ["observation", "previous_action", "reward", "start", "state"])
def test_a_network_that_changes_its_inputs_is_told_to_make_new_tensors(changed: str) -> None:
    network = Changing("")
    networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
    network.kept = changed
    remedy = "h = h" if changed == "state" else f"{changed} = .*{changed}"
    with pytest.raises(NetworkFailed, match=rf"changes {changed} in place.* Make a new tensor, as by {remedy}"):
        networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
    networks.check(network, spec=VECTOR, output=PolicyValueOutput)  # a run that has it goes on


class Touched(Remembering):
    """Takes statistics and draws numbers at each call; and counts the copies of its weights."""

    def __init__(self) -> None:
        super().__init__("")
        self.norm = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
        self.large = Counted(torch.zeros(3))

    def forward(self, *inputs: Any) -> Any:
        output, state = super().forward(*inputs)
        logits = self.norm(output.policy_logits.flatten(0, 1)).view_as(output.policy_logits)
        return PolicyValueOutput(logits, logits[..., 0] + 0 * torch.rand(())), state


class Counted(nn.Parameter):
    """A weight that counts its copies."""

    copies = 0

    def __deepcopy__(self, memo: Any) -> Any:
        Counted.copies += 1
        return Counted(self.detach().clone())


def test_a_network_is_tried_by_one_copy_of_its_weights_and_neither_it_nor_random_numbers_change() -> None:
    network, Counted.copies = Touched(), 0
    before = {name: value.clone() for name, value in network.state_dict().items()}
    random = torch.random.get_rng_state()
    networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
    assert torch.equal(torch.random.get_rng_state(), random)
    assert network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert Counted.copies == 1


class Unscaled(nn.Module):
    """Sums bytes as they are, which round otherwise from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(2), nn.Linear(4 * 84 * 84, 64), nn.ReLU(), nn.Linear(64, 2))

    def initial_state(self, batch: int) -> Any:
        return ()

    def forward(self, observation: Any, *_: Any) -> Any:
        logits = self.layers(observation.float())
        return PolicyValueOutput(logits, logits[..., 0]), ()


@pytest.mark.parametrize("seed", range(5))
def test_a_network_that_does_not_scale_its_pixels_is_no_mistake(seed: int) -> None:
    torch.manual_seed(seed)
    spec = EnvironmentSpec("bytes", (1, 84, 84), "uint8", 2, frame_stack=4)
    networks.check(Unscaled(), spec=spec, output=PolicyValueOutput, new=True)


class LaterMade(Unscaled):
    """Its weights are made at its first call, by torch or by itself."""

    def __init__(self, *, lazy: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(2), nn.LazyLinear(2)) if lazy else None

    def forward(self, observation: Any, *others: Any) -> Any:
        if self.layers is None:
            self.layers = nn.Sequential(nn.Flatten(2), nn.Linear(observation.shape[-1], 2))
        logits = self.layers[1](observation)
        return PolicyValueOutput(logits, logits[..., 0]), ()


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_weights_that_the_first_call_makes_are_the_networks_own(new: bool, lazy: bool) -> None:
    network = LaterMade(lazy=lazy)
    networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=new)
    assert network.layers[1].weight.shape == (2, 4)


def test_what_a_network_has_compiled_is_not_compiled_for_each_of_its_trials() -> None:
    compiled = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    network = Unscaled()
    network.layers = torch.compile(nn.Sequential(nn.Flatten(2), nn.Linear(4, 2)), backend=backend)
    networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
    assert len(compiled) == 1


class Positions(Unscaled):
    """Knows five steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Linear(4, 2)
        self.table = nn.Parameter(torch.zeros(5, 1, 2))

    def forward(self, observation: Any, *_: Any) -> Any:
        logits = self.layers(observation) + self.table[torch.arange(len(observation))]
        return PolicyValueOutput(logits, logits[..., 0]), ()


def test_a_network_is_tried_on_as_many_steps_as_it_is_trained_on() -> None:
    for steps in (0, 5):
        networks.check(Positions(), spec=VECTOR, output=PolicyValueOutput, new=True, trained_steps=steps)
    with pytest.raises(NetworkFailed, match=r"raised on float32 observations \(6, 1, 4\).*, as many steps as it is"):
        networks.check(Positions(), spec=VECTOR, output=PolicyValueOutput, new=True, trained_steps=6)
    networks.check(Positions(), spec=VECTOR, output=PolicyValueOutput, trained_steps=6)
    wb.check_algorithm("vtrace", network=lambda spec: Positions(), unroll_length=4)
    with pytest.raises(NetworkFailed, match="as many steps as it is trained on"):
        wb.check_algorithm("vtrace", network=lambda spec: Positions(), unroll_length=20)


class Masked(nn.Module):
    """Remembers two observations, of which those of the episode before are masked: its state has them, no output."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2))

    def initial_state(self, batch: int) -> Any:
        return (torch.zeros(batch, 2, 4), torch.zeros(batch))

    def forward(self, observation: Any, previous_action: Any, reward: Any, start: Any, state: Any) -> Any:
        (ring, age), outputs = state, []
        for seen, starts in zip(observation, start, strict=True):
            age = torch.where(starts, 0, age) + 1
            ring = torch.stack([ring[:, 1], seen], 1)
            valid = torch.arange(2, 0, -1) <= age[:, None]
            outputs.append(self.head((ring * valid[..., None]).sum(1)))
        logits = torch.stack(outputs)
        return PolicyValueOutput(logits, logits[..., 0]), (ring, age)


class Drawing(Masked):
    """Draws numbers of its own."""

    def forward(self, *inputs: Any) -> Any:
        output, state = super().forward(*inputs)
        return output._replace(value=output.value + float(np.random.normal())), state


def test_networks_that_mask_or_draw_are_no_mistake_and_a_state_may_be_one_number_a_row() -> None:
    for network in (Masked(), Drawing()):
        networks.check(network, spec=VECTOR, output=PolicyValueOutput, new=True)
    wb.check_algorithm("vtrace", network=lambda spec: Masked())
    whole = Faulty(before=(torch.zeros(3, dtype=torch.int64),), state=(torch.zeros(3, dtype=torch.int64),))
    with pytest.raises(NetworkFailed, match="part 0 of the state is a int64 tensor .* an unroll keeps float32"):
        networks.check(whole, spec=VECTOR, output=PolicyValueOutput, new=True)


WRONG_VALUES = [
    (ActionValues(logits=torch.zeros(2, 3)), r"q_values is .*\(2, 3\).*\(2, 3, 2\), \(T, B, actions\)"),
    (ActionValues(logits=torch.full((2, 3, 2), float("inf"))), "q_values is not finite"),
    (Bare(), r"must return \(QValueOutput\(q_values\), state\), not a float32 tensor"),
    (Faulty(), r"algorithm needs .*\(QValueOutput\(q_values\), state\) with a workbench.algorithms.QValueOutput first, "
               r"not a PolicyValueOutput"),
]


@pytest.mark.parametrize(("network", "message"), WRONG_VALUES, ids=[message[:24] for _, message in WRONG_VALUES])
def test_the_check_of_action_values_says_what_is_wrong_and_what_is_right(network: nn.Module, message: str) -> None:
    networks.check(ActionValues(), spec=VECTOR, output=QValueOutput)
    with pytest.raises(NetworkFailed, match=message):
        networks.check(network, spec=VECTOR, output=QValueOutput)


class Plain(nn.Module):
    """A torso that is a layer."""

    features = 7

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, 7)

    def forward(self, observation: Tensor) -> Tensor:
        return self.layer(observation)


def test_a_users_factory_makes_the_network() -> None:
    def policy(spec: EnvironmentSpec) -> nn.Module:
        return PolicyValueNetwork(Plain(4), num_actions=spec.num_actions, lstm_size=8)

    def values(spec: EnvironmentSpec) -> nn.Module:
        return DuelingNetwork(Plain(4), num_actions=spec.num_actions, lstm_size=8, dueling_size=8)

    for factory, heads in ((policy, POLICY), (values, DUELING)):
        network = networks.build(None, spec=VECTOR, heads=heads, factory=factory, seed=0)
        networks.check(network, spec=VECTOR, output=heads.output)
        assert isinstance(network.torso, Plain)


def test_a_factory_that_fails_shows_its_traceback() -> None:
    def broken(spec: EnvironmentSpec) -> nn.Module:
        raise KeyError("layers")

    with pytest.raises(NetworkFailed, match=r"factory raised KeyError: 'layers'(.|\n)*in broken"):
        networks.build(None, spec=VECTOR, heads=POLICY, factory=broken, seed=0)
    with pytest.raises(NetworkFailed, match="must return a torch.nn.Module, not int"):
        networks.build(None, spec=VECTOR, heads=POLICY, factory=lambda spec: 3, seed=0)  # type: ignore[arg-type,return-value]


def test_heads_have_units_unless_told_and_none_is_refused_in_words() -> None:
    spec = EnvironmentSpec("vectors", (3,), "float32", 4)
    network = networks.build("mlp", spec=spec, heads=Heads(QValueOutput), seed=0)
    output, _ = network(torch.randn(1, 5, 3), torch.zeros(1, 5, dtype=torch.int64), torch.zeros(1, 5),
                        torch.zeros(1, 5, dtype=torch.bool), network.initial_state(5))
    assert len(set(output.q_values.flatten().tolist())) == 20
    for output, name in ((QValueOutput, "dueling_size"), (PolicyCriticsOutput, "critic_size")):
        with pytest.raises(NetworkFailed, match=rf"Heads\({name}=0\) must be a number of units, 1 or more"):
            networks.build("mlp", spec=spec, heads=Heads(output, **{name: 0}), seed=0)
