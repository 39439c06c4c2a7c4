from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workbench import networks
from workbench.errors import NetworkFailed, ShapeMismatch, UnknownName
from workbench.networks import NetworkOutput, PolicyValueNetwork
from workbench.networks.memory import ResettingLSTM
from workbench.trajectory import EnvironmentSpec

VECTOR = EnvironmentSpec("vector", (4,), "float32", 2)
ATARI = EnvironmentSpec("atari", (1, 84, 84), "uint8", 6, frame_stack=4, frames_per_step=4)
SMALL = EnvironmentSpec("small", (1, 36, 36), "uint8", 3)
TINY = EnvironmentSpec("tiny", (4, 10, 10), "float32", 6)
COLOUR = EnvironmentSpec("colour", (3, 64, 64), "uint8", 5)
WIDE = EnvironmentSpec("wide", (3, 72, 96), "uint8", 9)

FITTING = {
    "mlp": [VECTOR, TINY],
    "nature": [ATARI, SMALL, COLOUR],
    "small-cnn": [SMALL, TINY, COLOUR, WIDE],
    "impala-deep": [SMALL, TINY, WIDE],
}
CASES = [
    pytest.param(f"{name}{memory}", spec, id=f"{name}{memory}-{spec.name}")
    for name, specs in FITTING.items() for spec in specs for memory in ("", "-lstm")
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


@pytest.mark.parametrize(("name", "spec"), CASES)
def test_every_network_passes_the_check_and_every_parameter_learns(name: str, spec: EnvironmentSpec) -> None:
    network = networks.build(name, spec=spec, seed=0)
    networks.check(network, spec=spec)
    (output, _) = network(*inputs(spec, 2, 3), some_state(network, 3))
    (output.policy_logits.square().sum() + output.value.square().sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


@pytest.mark.parametrize(("name", "spec"), CASES)
def test_a_whole_unroll_gives_what_single_steps_give(name: str, spec: EnvironmentSpec) -> None:
    network = networks.build(name, spec=spec, seed=0)
    sequence, state = inputs(spec, 5, 3), some_state(network, 3)
    with torch.no_grad():
        whole, final = network(*sequence, state)
        for t in range(5):
            step, state = network(*(part[t : t + 1] for part in sequence), state)
            torch.testing.assert_close(step.policy_logits[0], whole.policy_logits[t], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(step.value[0], whole.value[t], atol=1e-5, rtol=1e-4)
    for stepwise, at_once in zip(state, final, strict=True):
        torch.testing.assert_close(stepwise, at_once, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["nature", "nature-lstm", "impala-deep"])
def test_bf16_outputs_are_float32_and_close_to_those_of_fp32(name: str) -> None:
    network = networks.build(name, spec=SMALL, seed=0)
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
    network = networks.build(name, spec=SMALL, seed=0)
    observation, *rest = inputs(SMALL, 1, 2)
    with torch.no_grad():
        of_bytes, _ = network(observation, *rest, ())
        of_floats, _ = network(observation.float() / 255, *rest, ())
    torch.testing.assert_close(of_bytes.value, of_floats.value, atol=1e-5, rtol=1e-4)


def stepwise_lstm(memory: ResettingLSTM, sequence: Tensor, start: Tensor, state: tuple[Tensor, ...]) -> Tensor:
    """The LSTM's equations, one step and one row at a time."""
    weights = dict(memory.lstm.named_parameters())
    outputs = torch.zeros(*start.shape, memory.size)
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
    return outputs


STARTS = {
    "none": [],
    "at the first step": [(0, 0), (0, 1), (0, 2)],
    "of one row at the first step": [(0, 1)],
    "in the middle and at the end": [(3, 0), (3, 2), (7, 1)],
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
    state = (torch.randn(3, 6), torch.randn(3, 6))
    outputs, (hidden, _) = memory(sequence, start, state)
    expected = stepwise_lstm(memory, sequence, start, state)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(hidden, expected[-1], atol=1e-5, rtol=0)
    weight = torch.randn(8, 3, 6)
    variables = [sequence, *memory.parameters()]
    for fast, slow in zip(
        torch.autograd.grad((outputs * weight).sum(), variables),
        torch.autograd.grad((expected * weight).sum(), variables),
        strict=True,
    ):
        torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


def test_lstm_does_not_read_where_episodes_start_on_an_accelerator() -> None:
    memory = ResettingLSTM(5, size=6).to("meta")  # a device without values: reading one raises
    start = torch.zeros(4, 3, dtype=torch.bool, device="meta")
    outputs, _ = memory(torch.empty(4, 3, 5, device="meta"), start, memory.initial_state(3))
    assert outputs.shape == (4, 3, 6)


def test_nothing_from_before_an_episode_reaches_a_recurrent_network() -> None:
    network = networks.build("mlp-lstm", spec=VECTOR, seed=0)
    observation, action, reward, start = inputs(VECTOR, 1, 2)
    start.fill_(True)
    with torch.no_grad():
        first, _ = network(observation, action, reward, start, some_state(network, 2))
        second, _ = network(observation, 1 - action, -reward, start, network.initial_state(2))
        start.fill_(False)
        third, _ = network(observation, 1 - action, reward, start, network.initial_state(2))
    assert torch.equal(first.value, second.value) and not torch.equal(first.value, third.value)


def test_a_recurrent_network_sees_rewards_clipped_to_one() -> None:
    network = networks.build("mlp-lstm", spec=VECTOR, seed=0)
    observation, action, _, start = inputs(VECTOR, 1, 2, starts=0.0)
    with torch.no_grad():
        values = [network(observation, action, torch.full((1, 2), reward), start, network.initial_state(2))[0].value
                  for reward in (0.5, 1.0, 7.0)]
    assert torch.equal(values[1], values[2]) and not torch.equal(values[0], values[1])


def test_the_first_policy_is_nearly_uniform() -> None:
    for name, spec in (("nature", ATARI), ("impala-deep", WIDE), ("small-cnn", SMALL), ("mlp-lstm", VECTOR)):
        output, _ = (network := networks.build(name, spec=spec, seed=0))(*inputs(spec, 1, 4), some_state(network, 4))
        policy = output.policy_logits.softmax(-1)
        assert (policy - 1 / spec.num_actions).abs().max() < 0.05, name


def test_a_seed_gives_the_same_network_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = (networks.build(None, spec=SMALL, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


@pytest.mark.parametrize(
    ("spec", "name"),
    [(VECTOR, "mlp"), (ATARI, "nature"), (SMALL, "small-cnn"), (TINY, "small-cnn"), (WIDE, "small-cnn")],
)
def test_the_default_network_is_chosen_by_the_observations(spec: EnvironmentSpec, name: str) -> None:
    assert networks.default_name(spec) == name
    chosen, named = networks.build(None, spec=spec, seed=0), networks.build(name, spec=spec, seed=0)
    assert {k: v.shape for k, v in chosen.state_dict().items()} == {k: v.shape for k, v in named.state_dict().items()}


def test_an_unknown_network_comes_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown network 'natur-lstm'.*Did you mean 'nature-lstm'"):
        networks.build("natur-lstm", spec=ATARI, seed=0)


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
        networks.build(name, spec=spec, seed=0)


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
        return NetworkOutput(self.logits, self.values), self.state


class Raising(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return inputs[0] @ torch.zeros(5, 2)


class Bare(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return torch.zeros(2, 3, 2)


class Unnamed(Faulty):
    def forward(self, *inputs: Any) -> Any:
        return (torch.zeros(2, 3, 2), torch.zeros(2, 3)), ()


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
    (Bare(), r"must return \(\(policy_logits, value\), state\), not a float32 tensor"),
    (Unnamed(), "NetworkOutput"),
    (nn.Linear(4, 2), r"Linear has no method initial_state\(batch\)"),
]


@pytest.mark.parametrize(("network", "message"), WRONG, ids=[message[:24] for _, message in WRONG])
def test_the_check_says_what_is_wrong_and_what_is_right(network: nn.Module, message: str) -> None:
    with pytest.raises(NetworkFailed, match=message):
        networks.check(network, spec=VECTOR)


def test_a_users_factory_makes_the_network() -> None:
    class Torso(nn.Module):
        features = 7

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 7)

        def forward(self, observation: Tensor) -> Tensor:
            return self.layer(observation)

    network = networks.build(
        None,
        spec=VECTOR,
        factory=lambda spec: PolicyValueNetwork(Torso(), num_actions=spec.num_actions, lstm_size=8),
        seed=0,
    )
    networks.check(network, spec=VECTOR)
    assert isinstance(network.torso, Torso)


def test_a_factory_that_fails_shows_its_traceback() -> None:
    def broken(spec: EnvironmentSpec) -> nn.Module:
        raise KeyError("layers")

    with pytest.raises(NetworkFailed, match=r"factory raised KeyError: 'layers'(.|\n)*in broken"):
        networks.build(None, spec=VECTOR, factory=broken, seed=0)
    with pytest.raises(NetworkFailed, match="must return a torch.nn.Module, not int"):
        networks.build(None, spec=VECTOR, factory=lambda spec: 3, seed=0)  # type: ignore[arg-type,return-value]
