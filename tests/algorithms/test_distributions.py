"""Distributions of actions against PyTorch's own, closed forms, fine integration and counted samples; and what V-trace
makes of them, against its formula in plain numbers and by bandits that only the right sign and ratio learn."""

import math

import numpy as np
import pytest
import torch
import torch.distributions as D
from torch import nn

from workbench.algorithms import PolicyValueOutput, distributions
from workbench.algorithms.batch import Batch
from workbench.algorithms.distributions import SMALLEST_WIDTH, TanhNormal, distribution_of
from workbench.algorithms.vtrace.agent import VTrace
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.errors import InvalidInput
from workbench.trajectory import Flags

SPECS = {
    "categorical": ActionSpec("categorical", (5,)),
    "multi_discrete": ActionSpec("multi_discrete", (2, 5, 3)),
    "bernoulli": ActionSpec("bernoulli", (2, 2, 2)),
    "tanh_normal": ActionSpec("tanh_normal", (0, 0)),
    "mixed": ActionSpec.mixed({
        "move": ActionSpec("categorical", (3,)), "go": ActionSpec("tanh_normal", (0, 0)),
        "press": ActionSpec("bernoulli", (2, 2)), "aim": ActionSpec("multi_discrete", (2, 4))}),
}
KINDS = pytest.mark.parametrize("kind", list(SPECS))
LEAD = (4, 3)


def parameters_of(kind: str, seed: int, scale: float = 1.5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*LEAD, SPECS[kind].parameters, generator=generator, dtype=torch.float64)


def normal_of(parameters: torch.Tensor) -> D.Normal:
    mean, width = parameters.tensor_split(2, -1)
    return D.Normal(mean, torch.log1p(width.exp()) + SMALLEST_WIDTH)


def reference(kind: str, parameters: torch.Tensor) -> list[D.Distribution]:
    """PyTorch's distributions of the parts of an action; of tanh(u) where we keep u."""
    if kind == "categorical":
        return [D.Categorical(logits=parameters)]
    if kind == "multi_discrete":
        borders = np.cumsum((0, *SPECS[kind].sizes))
        return [D.Categorical(logits=parameters[..., a:b]) for a, b in zip(borders[:-1], borders[1:], strict=True)]
    if kind == "bernoulli":
        return [D.Bernoulli(logits=parameters[..., k]) for k in range(parameters.shape[-1])]
    if kind == "mixed":
        return [D.Categorical(logits=parameters[..., :3]), *reference("tanh_normal", parameters[..., 3:7]),
                *reference("bernoulli", parameters[..., 7:9]), D.Categorical(logits=parameters[..., 9:11]),
                D.Categorical(logits=parameters[..., 11:])]
    normal = normal_of(parameters)
    return [D.TransformedDistribution(D.Normal(normal.loc[..., k], normal.scale[..., k]), [D.TanhTransform()])
            for k in range(2)]


def parts_of(kind: str, actions: torch.Tensor) -> list[torch.Tensor]:
    return [actions.double()] if kind == "categorical" else list(actions.double().unbind(-1))


@KINDS
def test_log_ratios_of_two_policies_are_those_of_pytorchs_distributions(kind):
    first, second = parameters_of(kind, 0), parameters_of(kind, 1)
    distribution = distribution_of(SPECS[kind])
    actions = distribution.sample(first.float(), generator=torch.Generator().manual_seed(2))
    if actions.is_floating_point():
        actions = actions.double().clamp(-4, 4)  # tanh and back must not round to 1
    ours = distribution.log_prob(second, actions=actions) - distribution.log_prob(first, actions=actions)
    sent = distribution.to_environment(actions)
    theirs = sum(there.log_prob(part) - here.log_prob(part) for here, there, part in zip(
        reference(kind, first), reference(kind, second), parts_of(kind, sent), strict=True))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert ours.shape == LEAD


@pytest.mark.parametrize("kind", ["categorical", "multi_discrete", "bernoulli"])
def test_log_probabilities_and_entropies_of_choices_are_pytorchs(kind):
    parameters = parameters_of(kind, 3)
    distribution = distribution_of(SPECS[kind])
    actions = distribution.sample(parameters, generator=torch.Generator().manual_seed(4))
    parts = zip(reference(kind, parameters), parts_of(kind, actions), strict=True)
    torch.testing.assert_close(distribution.log_prob(parameters, actions=actions),
                               sum(one.log_prob(part) for one, part in parts))
    torch.testing.assert_close(distribution.entropy(parameters),
                               sum(one.entropy() for one in reference(kind, parameters)))


def test_the_density_of_u_is_the_normals():
    parameters = parameters_of("tanh_normal", 5)
    u = TanhNormal().sample(parameters, generator=torch.Generator().manual_seed(6))
    torch.testing.assert_close(TanhNormal().log_prob(parameters, actions=u), normal_of(parameters).log_prob(u).sum(-1))


@KINDS
def test_the_divergence_is_pytorchs_has_no_gradient_of_the_behaviour_and_is_0_of_itself(kind):
    behaviour, target = parameters_of(kind, 7).requires_grad_(), parameters_of(kind, 8).requires_grad_()
    distribution = distribution_of(SPECS[kind])
    ours = distribution.kl(behaviour, target)
    theirs = sum(D.kl_divergence(mine, other) for mine, other in zip(
        reference(kind, behaviour), reference(kind, target), strict=True))
    torch.testing.assert_close(ours, theirs)
    ours.sum().backward()
    assert behaviour.grad is None and target.grad.abs().sum() > 0
    assert distribution.kl(behaviour, behaviour).abs().max() < 1e-12


def test_the_numbers_of_a_mixed_action_are_the_sums_of_its_parts_by_pytorchs_distributions():
    """Where we keep u, PyTorch's distribution of it is the normal; the entropy is that of tanh(u), by integration."""
    behaviour, target = parameters_of("mixed", 31), parameters_of("mixed", 32)
    mixed = distribution_of(SPECS["mixed"])
    actions = mixed.sample(behaviour.float(), generator=torch.Generator().manual_seed(33)).double()
    before, after = (reference("mixed", parameters) for parameters in (behaviour, target))
    for parts in (before, after):
        parts[1:3] = [part.base_dist for part in parts[1:3]]
    expected = sum(part.log_prob(action) for part, action in zip(after, actions.unbind(-1), strict=True))
    torch.testing.assert_close(mixed.log_prob(target, actions=actions), expected, rtol=0, atol=1e-5)
    divergence = sum(D.kl_divergence(mu, pi) for mu, pi in zip(before, after, strict=True))
    torch.testing.assert_close(mixed.kl(behaviour, target), divergence, rtol=0, atol=1e-5)
    entropy = sum(part.entropy() for part in (*after[:1], *after[3:]))
    for row in np.ndindex(LEAD):
        numbers = sum(integrated_entropy(float(part.loc[row]), float(part.scale[row])) for part in after[1:3])
        assert float(mixed.entropy(target)[row]) == pytest.approx(float(entropy[row]) + numbers, abs=1e-5)


def integrated_entropy(mean: float, width: float) -> float:
    """-∫ q log q of q = tanh(N(mean, width²)), as ∫ over u in steps of width/10,000."""
    u = np.linspace(mean - 12 * width, mean + 12 * width, 240_001)
    log_density = -0.5 * ((u - mean) / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))
    log_slope = -2 * (np.logaddexp(u, -u) - math.log(2))  # 1 - tanh² = 1/cosh²
    return float(np.trapezoid(np.exp(log_density) * (log_slope - log_density), u))


def raw_width(width: float) -> float:
    """The parameter whose width that is."""
    return math.log(math.expm1(width - SMALLEST_WIDTH))


@pytest.mark.parametrize("mean", [0.0, -0.7, 2.0, 6.0])
@pytest.mark.parametrize("width", [0.01, 0.1, 0.7, 1.5, 3.0, 5.0, 10.0])
def test_the_entropy_of_a_squashed_normal_is_the_integral(mean, width):
    parameters = torch.tensor([mean, raw_width(width)])
    assert float(TanhNormal().entropy(parameters)) == pytest.approx(integrated_entropy(mean, width), abs=1e-5)


def test_the_entropys_constants_are_made_once_for_a_device_and_may_be_learnt_through():
    """They are first asked for where nothing is learnt, as in a process that infers before it trains."""
    distributions._normals_of_a_logistic.cache_clear()
    with torch.inference_mode():
        TanhNormal().entropy(parameters_of("tanh_normal", 0))
    parameters = parameters_of("tanh_normal", 0).requires_grad_()
    TanhNormal().entropy(parameters).sum().backward()
    assert parameters.grad is not None and parameters.grad.isfinite().all()
    assert distributions._normals_of_a_logistic.cache_info().misses == 1


def test_the_entropy_of_squashed_normals_is_that_of_samples():
    parameters = torch.tensor([0.3, -1.2, raw_width(0.5), raw_width(1.1)], dtype=torch.float64)
    torch.manual_seed(0)
    samples = sum(-one.log_prob(one.sample((400_000,))) for one in reference("tanh_normal", parameters))
    error = float(samples.std()) / math.sqrt(len(samples))
    assert error < 0.005
    assert float(TanhNormal().entropy(parameters)) == pytest.approx(float(samples.mean()), abs=4 * error)


def test_no_squashed_normal_has_more_entropy_than_the_even_distribution_on_its_interval():
    grid = torch.cartesian_prod(torch.linspace(-3, 3, 25), torch.linspace(-8, 8, 81))
    entropies = TanhNormal().entropy(grid)
    assert entropies.max() < math.log(2)
    assert entropies.max() > 0.95 * math.log(2), "a middle width is nearly even"


@KINDS
def test_gradients_are_those_of_finite_differences(kind):
    distribution = distribution_of(SPECS[kind])
    parameters, behaviour = parameters_of(kind, 9)[:1].requires_grad_(), parameters_of(kind, 10)[:1]
    actions = distribution.sample(behaviour, generator=torch.Generator().manual_seed(11))
    for function in (lambda p: distribution.log_prob(p, actions=actions), distribution.entropy,
                     lambda p: distribution.kl(behaviour, p)):
        assert torch.autograd.gradcheck(function, (parameters,))


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("kind", ["categorical", "multi_discrete", "bernoulli"])
def test_samples_of_choices_come_as_often_as_their_probabilities_say_and_parts_are_independent(kind):
    spec, number = SPECS[kind], 40_000
    distribution, parameters = distribution_of(spec), parameters_of(kind, 12, scale=0.8)[0, 0].float()
    actions = distribution.sample(parameters.expand(number, -1), generator=torch.Generator().manual_seed(13))
    assert actions.dtype == torch.int64 and actions.shape == (number, *spec.shape)
    joint = np.ravel_multi_index(actions.reshape(number, -1).numpy().T, spec.sizes)
    every = torch.cartesian_prod(*(torch.arange(size) for size in spec.sizes)).reshape(-1, *spec.shape)
    probabilities = distribution.log_prob(parameters.double().expand(len(every), -1), actions=every).exp().numpy()
    assert probabilities.sum() == pytest.approx(1)
    counts = np.bincount(joint, minlength=len(every))
    freedom = len(every) - 1
    assert chi_square(counts, probabilities) < freedom + 4 * math.sqrt(2 * freedom)


def test_samples_of_squashed_normals_lie_as_their_normals_do_and_are_independent():
    number, parameters = 40_000, torch.tensor([0.4, -2.0, raw_width(0.6), raw_width(2.0)])
    u = TanhNormal().sample(parameters.expand(number, -1), generator=torch.Generator().manual_seed(14))
    assert u.dtype == torch.float32 and u.shape == (number, 2)
    for k in range(2):
        ranks = normal_of(parameters).cdf(u)[:, k].sort().values
        assert (ranks - (torch.arange(number) + 0.5) / number).abs().max() < 1.95 / math.sqrt(number)  # Kolmogorov
    assert abs(np.corrcoef(u.T)[0, 1]) < 4 / math.sqrt(number)


def test_samples_of_a_mixed_action_come_as_often_as_said_in_every_part_and_parts_are_independent():
    """Each column as choices, of a number whether it lies above its mean: combinations come as their product says."""
    number, parameters = 60_000, parameters_of("mixed", 34, scale=0.6)[0, 0].float()
    mixed = distribution_of(SPECS["mixed"])
    actions = mixed.sample(parameters.expand(number, -1), generator=torch.Generator().manual_seed(35))
    assert actions.dtype == torch.float32 and actions.shape == (number, 7)
    chances = [part.probs if isinstance(part, D.Categorical) else torch.stack([1 - part.probs, part.probs])
               for part in reference("mixed", parameters) if not isinstance(part, D.TransformedDistribution)]
    half = torch.tensor([0.5, 0.5])
    chances[1:1] = [half, half]
    columns = actions.clone()
    columns[:, 1:3] = (actions[:, 1:3] > parameters[3:5]).float()
    sizes = [len(part) for part in chances]
    joint = np.ravel_multi_index(columns.long().numpy().T, sizes)
    probabilities = chances[0]
    for part in chances[1:]:
        probabilities = (probabilities[..., None] * part).flatten()
    counts = np.bincount(joint, minlength=len(probabilities))
    freedom = len(probabilities) - 1
    assert chi_square(counts, probabilities.numpy()) < freedom + 4 * math.sqrt(2 * freedom)
    for k, part in enumerate(reference("mixed", parameters)[1:3]):
        ranks = part.base_dist.cdf(actions[:, 1 + k]).sort().values
        assert (ranks - (torch.arange(number) + 0.5) / number).abs().max() < 1.95 / math.sqrt(number)  # Kolmogorov


def test_a_mixed_action_is_what_its_parts_are_one_after_another():
    mixed, parameters = distribution_of(SPECS["mixed"]), parameters_of("mixed", 36).float()
    parts = [part.actions for part in SPECS["mixed"].parts]
    own = parameters.split([part.parameters for part in parts], -1)
    modes = [distribution_of(part).mode(mine) for part, mine in zip(parts, own, strict=True)]
    mode = mixed.mode(parameters)
    assert torch.equal(mode, torch.cat([modes[0][..., None].float(), *(one.float() for one in modes[1:])], -1))
    assert torch.equal(mixed.encode(mode), torch.cat(
        [distribution_of(part).encode(one) for part, one in zip(parts, modes, strict=True)], -1))
    sent = mixed.to_environment(mode)
    assert torch.equal(sent[..., [0, 3, 4, 5, 6]], mode[..., [0, 3, 4, 5, 6]])
    assert torch.equal(sent[..., 1:3], mode[..., 1:3].tanh())
    assert torch.equal(mixed.scores(parameters), torch.cat(
        [distribution_of(part).scores(mine) for part, mine in zip(parts, own, strict=True)], -1))
    with pytest.raises(InvalidInput, match="no samples with gradients"):
        mixed.sample_with_gradient(parameters, generator=None)


@KINDS
def test_what_the_environment_got_comes_back_as_unrolls_keep_it(kind):
    distribution = distribution_of(SPECS[kind])
    actions = distribution.sample(parameters_of(kind, 37, scale=0.5).float(),
                                  generator=torch.Generator().manual_seed(38))
    back = distribution.from_environment(distribution.to_environment(actions))
    assert back.dtype == actions.dtype
    torch.testing.assert_close(back, actions, rtol=1e-4, atol=1e-4)


def test_the_preference_for_a_mixed_action_explains_every_part_also_at_the_mode_of_its_numbers():
    """The log-probability of choices and switches, and the sum of the numbers' middles."""
    parameters = parameters_of("mixed", 39).requires_grad_()
    action = distribution_of(SPECS["mixed"]).mode(parameters)[0, 0].detach()
    preferred = distribution_of(SPECS["mixed"]).preference(parameters, action=action)
    parts = reference("mixed", parameters)
    expected = sum(part.log_prob(one) for part, one in zip(parts, action, strict=True)
                   if not isinstance(part, D.TransformedDistribution)) + parameters[..., 3:5].tanh().sum(-1)
    torch.testing.assert_close(preferred, expected)
    preferred[0, 0].backward()
    assert (parameters.grad[0, 0, [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14]] != 0).all()


@KINDS
def test_samples_follow_their_generator_alone(kind):
    distribution, parameters = distribution_of(SPECS[kind]), torch.zeros(50, SPECS[kind].parameters, requires_grad=True)

    def drawn(seed: int) -> torch.Tensor:
        return distribution.sample(parameters, generator=torch.Generator().manual_seed(seed))

    before = torch.get_rng_state()
    assert not drawn(0).requires_grad
    assert torch.equal(drawn(0), drawn(0)) and not torch.equal(drawn(0), drawn(1))
    assert torch.equal(torch.get_rng_state(), before)


@KINDS
def test_the_mode_is_the_likeliest_action_and_what_is_kept_and_sent_is_as_the_spec_says(kind):
    spec, distribution, parameters = SPECS[kind], distribution_of(SPECS[kind]), parameters_of(kind, 15).float()
    mode = distribution.mode(parameters)
    sampled = distribution.sample(parameters.expand(500, *parameters.shape), generator=None)
    many = parameters.expand(500, *parameters.shape)
    best = distribution.log_prob(parameters, actions=mode)
    assert (best >= distribution.log_prob(many, actions=sampled) - 1e-5).all()
    for actions in (mode, sampled):
        assert actions.dtype == getattr(torch, spec.dtype) and actions.shape[actions.ndim - len(spec.shape) :] == (
            spec.shape)
        sent, told = distribution.to_environment(actions), distribution.encode(actions)
        assert sent.shape == actions.shape and told.dtype == torch.float32
        assert told.shape == (*actions.shape[: actions.ndim - len(spec.shape)], spec.encoded_size)
        if kind == "tanh_normal":
            assert torch.equal(sent, actions.tanh()) and torch.equal(told, sent) and sent.abs().max() <= 1
        elif kind != "mixed":
            assert torch.equal(sent, actions)


def test_choices_are_told_as_one_hots_and_switches_as_they_are():
    def told(kind: str, action: list[int] | int) -> list[float]:
        return distribution_of(SPECS[kind]).encode(torch.tensor(action)).tolist()

    assert told("categorical", 3) == [0, 0, 0, 1, 0]
    assert told("multi_discrete", [1, 4, 0]) == [0, 1, 0, 0, 0, 0, 1, 1, 0, 0]
    assert told("bernoulli", [1, 0, 1]) == [1, 0, 1]


@KINDS
@pytest.mark.parametrize("scale", [80.0, 1e4])
def test_extreme_parameters_give_finite_numbers_and_gradients(kind, scale):
    distribution = distribution_of(SPECS[kind])
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * min(SPECS[kind].parameters, 4))
    extreme = torch.zeros(len(signs), SPECS[kind].parameters)
    extreme[:, : signs.shape[1]] = scale * signs
    parameters, other = extreme.clone().requires_grad_(), extreme.flip(0)
    actions = distribution.sample(other, generator=torch.Generator().manual_seed(0))
    assert distribution.to_environment(actions).isfinite().all()
    for value in (distribution.log_prob(parameters, actions=actions), distribution.entropy(parameters),
                  distribution.kl(other, parameters)):
        assert value.isfinite().all(), value
        (gradient,) = torch.autograd.grad(value.sum(), parameters)
        assert gradient.isfinite().all(), gradient


# --- V-trace with every kind ------------------------------------------------------------------------------------------


class Table(nn.Module):
    """Says the same of everything it sees."""

    def __init__(self, parameters: torch.Tensor, value: float = 0.0) -> None:
        super().__init__()
        self.policy, self.worth = nn.Parameter(parameters.clone()), nn.Parameter(torch.tensor(value))

    def initial_state(self, batch):
        return ()

    def forward(self, observation, previous_action, reward, start, state):
        return PolicyValueOutput(self.policy.expand(*start.shape, -1), self.worth.expand(start.shape)), ()


def environment(kind: str) -> EnvironmentSpec:
    actions = SPECS[kind]
    return EnvironmentSpec("bandit", (1,), "float32", actions.encoded_size, actions=actions)


def batch_of(actions: torch.Tensor, rewards: torch.Tensor, behaviour: torch.Tensor, *, flags: int) -> Batch:
    """Steps 0 … T-1 with those actions [T, B, *action], each followed by its reward [T, B] and `flags`."""
    steps, number = rewards.shape
    pad = torch.zeros(1, number)
    return Batch(
        observation=torch.zeros(steps + 1, number, 1), stack_prefix=torch.zeros(number, 0, 1),
        reward=torch.cat([pad, rewards]), flags=torch.full((steps + 1, number), flags, dtype=torch.uint8),
        previous_action=torch.zeros_like(torch.cat([actions, actions[:1]])), action=torch.cat([actions, actions[:1]]),
        policy_version=torch.zeros(steps + 1, number, dtype=torch.int64),
        bootstrap_value=torch.zeros(steps + 1, number),
        behaviour={"policy_logits": behaviour.expand(steps + 1, number, -1)}, initial_state=(),
        weight=torch.ones(number),
    )


@KINDS
def test_on_policy_all_ratios_are_exactly_1_and_the_gradient_makes_rewarded_actions_likelier(kind):
    spec, parameters = environment(kind), parameters_of(kind, 16)[0, 0].float()
    algorithm, network = VTrace(VTraceConfig(entropy_cost=0.0), spec=spec), Table(parameters)
    output, _ = network(None, None, None, torch.zeros(1, 64, dtype=torch.bool), ())
    generator = torch.Generator().manual_seed(17)
    actions, kept = algorithm.act(output, roles=None, greedy=False, generator=generator, config=None)
    behaviour = kept["policy_logits"].detach()
    fields = algorithm.behaviour_fields()
    assert fields["policy_logits"] == (tuple(behaviour.shape[1:]), "float32")
    rewards = torch.tensor([[1.0, -1.0] * 32])
    batch = batch_of(actions[None], rewards, behaviour, flags=int(Flags.TERMINATED | Flags.START))
    loss = algorithm.loss(network, batch=batch, config=VTraceConfig(entropy_cost=0.0, baseline_cost=0.0))
    assert torch.equal(loss.samples["importance_ratio"], torch.ones(1, 64))
    loss.total.backward()
    before, after = (one.expand(64, -1) for one in (parameters, parameters - 1e-3 * network.policy.grad))
    distribution = algorithm.distribution
    gained = distribution.log_prob(after, actions=actions) - distribution.log_prob(before, actions=actions)
    assert (gained * rewards[0]).sum() > 0


def log_prob_in_plain_numbers(kind: str, parameters: list[float], action: list[float]) -> float:
    """log π(a), for the example below."""
    def chosen(logits: list[float], at: int) -> float:
        return logits[at] - math.log(sum(math.exp(one) for one in logits))

    if kind == "categorical":
        return chosen(parameters, int(action[0]))
    if kind == "multi_discrete":
        cut = [parameters[:2], parameters[2:7], parameters[7:]]
        return sum(chosen(logits, int(at)) for logits, at in zip(cut, action, strict=True))
    if kind == "bernoulli":
        return sum(-math.log1p(math.exp(-one if on else one)) for one, on in zip(parameters, action, strict=True))
    if kind == "mixed":
        numbers, switches, choices = parameters[3:7], parameters[7:9], (parameters[9:11], parameters[11:])
        return (chosen(parameters[:3], int(action[0])) + log_prob_in_plain_numbers("tanh_normal", numbers, action[1:3])
                + log_prob_in_plain_numbers("bernoulli", switches, action[3:5])
                + sum(chosen(logits, int(at)) for logits, at in zip(choices, action[5:], strict=True)))
    total = 0.0
    for mean, raw, u in zip(parameters[:2], parameters[2:], action, strict=True):
        width = math.log1p(math.exp(raw)) + SMALLEST_WIDTH
        total += -0.5 * ((u - mean) / width) ** 2 - math.log(width) - 0.5 * math.log(2 * math.pi)
    return total


@KINDS
def test_the_losses_of_two_steps_are_those_of_the_formula_in_plain_numbers(kind):
    """IMPALA's equations for T = 2, B = 1, γ = 0.9: δ, v and A written out."""
    spec, target, behaviour = environment(kind), parameters_of(kind, 18)[0, 0], parameters_of(kind, 19)[0, 0]
    actions = distribution_of(spec.actions).sample(behaviour.float().expand(2, 1, -1),
                                                   generator=torch.Generator().manual_seed(20))
    config = VTraceConfig(discount=0.9, entropy_cost=0.0, kl_cost=0.0, max_abs_reward=0.0, rho_clip=1.5, c_clip=0.8,
                          pg_rho_clip=1.2, baseline_cost=0.5)
    network = Table(target.float(), value=0.7)
    batch = batch_of(actions, torch.tensor([[2.0], [-1.0]]), behaviour.float(), flags=0)
    loss = VTrace(config, spec=spec).loss(network, batch=batch, config=config)

    log_pi, rho = [], []
    for action in actions[:, 0].reshape(2, -1).tolist():
        log_pi.append(log_prob_in_plain_numbers(kind, target.tolist(), action))
        rho.append(math.exp(log_pi[-1] - log_prob_in_plain_numbers(kind, behaviour.tolist(), action)))
    values, rewards = [0.7, 0.7, 0.7], [2.0, -1.0]
    deltas = [min(1.5, rho[t]) * (rewards[t] + 0.9 * values[t + 1] - values[t]) for t in range(2)]
    v1 = values[1] + deltas[1]
    v0 = values[0] + deltas[0] + 0.9 * min(0.8, rho[0]) * (v1 - values[1])
    advantages = [min(1.2, rho[0]) * (2.0 + 0.9 * v1 - 0.7), min(1.2, rho[1]) * (-1.0 + 0.9 * 0.7 - 0.7)]
    expected = {
        "policy_loss": -sum(a * log for a, log in zip(advantages, log_pi, strict=True)) / 2,
        "baseline_loss": 0.5 * 0.5 * ((v0 - 0.7) ** 2 + (v1 - 0.7) ** 2) / 2,
    }
    assert loss.samples["importance_ratio"].flatten().tolist() == pytest.approx(rho, rel=1e-4)
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(value, rel=1e-4), name


def learnt(kind: str, behaviour: torch.Tensor, reward, *, actions: ActionSpec, updates: int, **fields) -> torch.Tensor:
    """The policy's parameters after `updates` on one-step episodes that a fixed behaviour plays."""
    spec = EnvironmentSpec("bandit", (1,), "float32", actions.encoded_size, actions=actions)
    config = VTraceConfig(max_abs_reward=0.0, rho_clip=1e6, c_clip=1e6, pg_rho_clip=1e6, **fields)
    algorithm, network = VTrace(config, spec=spec), Table(torch.zeros(actions.parameters))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    generator = torch.Generator().manual_seed(21)
    for _ in range(updates):
        played = algorithm.distribution.sample(behaviour.expand(1, 256, -1), generator=generator)
        rewards = reward(algorithm.distribution.to_environment(played))
        batch = batch_of(played, rewards, behaviour, flags=int(Flags.TERMINATED | Flags.START))
        optimizer.zero_grad()
        algorithm.loss(network, batch=batch, config=config).total.backward()
        optimizer.step()
    return network.policy.detach()


def test_a_bandit_of_one_number_is_learnt_from_a_behaviour_that_seldom_plays_well():
    """Reward -(a - 0.5)²; the behaviour plays around tanh(-0.5). Without the ratio or with its inverse it diverges."""
    actions = ActionSpec("tanh_normal", (0,))
    policy = learnt("tanh_normal", torch.tensor([-0.5, raw_width(1.0)]), lambda a: -(a[..., 0] - 0.5).square(),
                    actions=actions, updates=400, entropy_cost=0.02)
    mean, width = TanhNormal().mean_and_width(policy)
    assert float(mean.tanh()) == pytest.approx(0.5, abs=0.1)
    assert 0.05 < float(width) < 0.4


def test_a_bandit_of_two_choices_is_learnt_as_the_policys_own_probabilities_ask():
    """The first choice pays or costs by the second. Even probabilities lead to (1, 1), the best; what the behaviour
    does (its second choice is 0 nine times in ten) would make the first choice 0 if no ratio corrected for it."""
    pays = torch.tensor([[1.0, -2.0], [-1.5, 1.8]])
    behaviour = torch.log(torch.tensor([0.5, 0.5, 0.9, 0.1]))
    policy = learnt("multi_discrete", behaviour, lambda a: pays[a[..., 0], a[..., 1]],
                    actions=ActionSpec("multi_discrete", (2, 2)), updates=400, entropy_cost=0.0)
    assert policy[:2].softmax(-1)[1] > 0.9 and policy[2:].softmax(-1)[1] > 0.9


def test_a_bandit_of_a_choice_and_a_number_is_learnt_where_the_best_number_depends_on_the_choice():
    """Reward 1 - (a - 0.5)² after the choice 1, and half of 1 - (a + 0.5)² after 0, which the behaviour prefers."""
    actions = ActionSpec.mixed({"choice": ActionSpec("categorical", (2,)), "number": ActionSpec("tanh_normal", (0,))})
    behaviour = torch.tensor([1.0, -1.0, -0.3, raw_width(1.0)])
    policy = learnt("mixed", behaviour, lambda a: torch.where(
        a[..., 0] == 1, 1 - (a[..., 1] - 0.5).square(), 0.5 - 0.5 * (a[..., 1] + 0.5).square()),
                    actions=actions, updates=400, entropy_cost=0.01)
    assert policy[:2].softmax(-1)[1] > 0.9
    assert float(policy[2].tanh()) == pytest.approx(0.5, abs=0.1)


def test_a_bandit_of_switches_is_learnt():
    """Reward 1 for each switch that is as it should be; the behaviour leans the other way."""
    right = torch.tensor([1, 0, 1])
    policy = learnt("bernoulli", torch.tensor([-1.0, 1.0, -1.0]), lambda a: (a == right).float().sum(-1),
                    actions=ActionSpec("bernoulli", (2, 2, 2)), updates=300, entropy_cost=0.0)
    assert ((policy > 0).long() == right).all() and policy.abs().min() > 1.5
