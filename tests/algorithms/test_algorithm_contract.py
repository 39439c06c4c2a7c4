"""Every algorithm keeps the rules of the interface, on every kind of spaces that it takes; a broken rule is named."""

from __future__ import annotations

import dataclasses
import importlib
import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import gymnasium
import pytest
import torch

import workbench as wb
from workbench import algorithms, networks
from workbench.algorithms import PolicyValueOutput, QLearning, inner
from workbench.algorithms.distributions import Distribution, TanhNormal
from workbench.algorithms.ppo.agent import PPO
from workbench.config import ALGORITHMS, RunConfig, settings
from workbench.config.algorithms import only_class
from workbench.config.hyperparameters import BaselineFields, RegularizationFields
from workbench.config.own_algorithm import named_algorithm
from workbench.environment_spec import ACTION_WORDS, ActionSpec, EnvironmentSpec
from workbench.errors import AlgorithmFailed, InvalidInput, UnknownName
from workbench.playing.worker import onnx_export
from workbench.policies import check_algorithm
from workbench.running.starts.checking import checked_config

SPECS = {
    "vectors": EnvironmentSpec("vectors", (3,), "float32", 4),
    "stacked images": EnvironmentSpec("images", (1, 84, 84), "uint8", 3, frame_stack=4),
    "several choices": EnvironmentSpec("several", (3,), "float32", 5, actions=ActionSpec("multi_discrete", (2, 3))),
    "switches": EnvironmentSpec("switches", (3,), "float32", 2, actions=ActionSpec("bernoulli", (2, 2))),
    "numbers": EnvironmentSpec("numbers", (3,), "float32", 2, actions=ActionSpec("tanh_normal", (0, 0))),
    "mixed": EnvironmentSpec("mixed", (3,), "float32", 7, actions=ActionSpec.mixed(
        {"move": ActionSpec("categorical", (3,)), "go": ActionSpec("tanh_normal", (0, 0)),
         "press": ActionSpec("bernoulli", (2, 2))})),
}


@pytest.mark.parametrize("memory", ["", "-lstm"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_keeps_the_rules(algorithm: str, spec: EnvironmentSpec, memory: str) -> None:
    config = check_algorithm.smaller(RunConfig.build("x", algorithm=algorithm))
    try:
        one = algorithms.build(config, spec=spec)
    except InvalidInput as error:
        assert ACTION_WORDS[spec.actions.kind] not in str(error).partition(", and those of")[0]
        return
    name = ("nature" if spec.shows_images else "mlp") + memory
    network = networks.build(name, spec=spec, heads=one.heads, seed=0)
    check_algorithm.check(one, network, spec=spec, config=config.hyperparameters)


@pytest.mark.parametrize("memory", ["", "-lstm"])
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if issubclass(ALGORITHMS[name], BaselineFields)])
def test_every_baseline_keeps_the_rules_with_all_that_normalises_and_adapts(algorithm: str, memory: str) -> None:
    adapts = issubclass(ALGORITHMS[algorithm], RegularizationFields)
    costs = {"target_entropy": 0.5, "kl_cost_target": 0.01} if adapts else {}
    config = check_algorithm.smaller(RunConfig.build(
        "x", algorithm=algorithm, normalize_values=True, normalize_rewards=True, **costs))
    for spec in SPECS.values():
        one = algorithms.build(config, spec=spec)
        name = ("nature" if spec.shows_images else "mlp") + memory
        network = networks.build(name, spec=spec, heads=one.heads, seed=0)
        check_algorithm.check(one, network, spec=spec, config=config.hyperparameters)


class Good(wb.Algorithm):
    """A policy gradient with a value."""

    class Config(wb.LearningConfig):
        beta: float = wb.setting(0.01, "weight of the bonus", low=0.0, high=1.0, live=True, group="exploration")

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        output = self.outputs(network, batch)
        returns, _ = self.rewards_and_discounts(batch, config)
        log_probs = self.distribution.log_prob(output.policy_logits[:-1], actions=batch.action[:-1])
        total = (config.beta * log_probs * returns).mean() + (output.value[:-1] - returns).square().mean()
        return wb.Loss(total, {"loss": total.detach()})


class NoLoss(wb.Algorithm):
    pass


class Raises(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        raise ZeroDivisionError("a typo")


class Misspelt(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.mean() * config.betta, {})


class OfAPaper(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.mean() * config.gamma, {})


class TotalIsANumber(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.square().mean().item(), {})  # type: ignore[arg-type]


class NoScalar(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.mean(0), {})


class Detached(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.mean().detach(), {})


class NotFinite(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.mean() / 0.0, {})


class GradientInScalars(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        total = self.outputs(network, batch).value.mean()
        return wb.Loss(total, {"loss": total})


class NameOfNoText(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return wb.Loss(loss.total, {"loss\ud800": loss.total.detach()})


class NoEdges(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(samples={"returns": batch.reward})


class NumbersForActions(Good):
    def act(self, output: Any, **more: Any) -> Any:
        actions, fields = super().act(output, **more)
        return actions.float(), fields


class OtherFields(Good):
    def act(self, output: Any, **more: Any) -> Any:
        actions, fields = super().act(output, **more)
        return actions, {"value": fields["value"]}


class Forgetful(Good):
    def parameters(self) -> list[torch.nn.Parameter]:
        return [torch.nn.Parameter(torch.zeros(1))]


class PartOfNobody(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.value.parameters(), 2.0), ([torch.nn.Parameter(torch.zeros(4))], 2.0)]


class InTwoParts(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.value.parameters(), 2.0), ([network.policy.bias, network.value.bias], 3.0)]


class EmptyPart(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [((parameter for parameter in network.parameters() if parameter.ndim > 5), 2.0)]


class FactorIsText(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.value.parameters(), "beta")]


class FactorIsNegative(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.value.parameters(), -config.beta)]


class NoPairs(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [*network.value.parameters()]


class ModuleForParameters(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.value, 2.0)]


class UnknownPart(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.critic.parameters(), 2.0)]


class AllFrozen(Good):
    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.parameters(), None)]


class NoPriorities(Good):
    Config = wb.ReplayConfig

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.square().mean(), {})


class PrioritiesWithGradient(Good):
    Config = wb.ReplayConfig

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        each = self.outputs(network, batch).value.square().mean(0)
        return wb.Loss(each.mean(), {}, priorities=each)


class SignedPriorities(Good):
    Config = wb.ReplayConfig
    factor = -1.0

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        each = self.outputs(network, batch).value.square().mean(0)
        return wb.Loss(each.mean(), {}, priorities=each.detach() * self.factor)


class PrioritiesNotFinite(SignedPriorities):
    factor = float("nan")


class EnoughIsTrue(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return super().loss(network, batch=batch, config=config)._replace(enough=True)  # type: ignore[arg-type]


class StatesOfNobody(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return super().loss(network, batch=batch, config=config)._replace(next_states=(torch.zeros(2, 7),))


class TargetsWithGradient(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(value_targets=self.outputs(network, batch).value)


class OfAnotherOutput(Good):
    heads = algorithms.Heads(tuple)  # type: ignore[arg-type]


class ScalarsAreNone(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss(self.outputs(network, batch).value.mean(), None)  # type: ignore[arg-type]


class HeadsOfNumbers(Good):
    heads = 3  # type: ignore[assignment]


class Leaves(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        raise SystemExit


class SetsNothingUp(Good):
    def __init__(self, config: Any, *, spec: Any) -> None:
        self.count = 0


class TakesItsGradient(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        total = self.outputs(network, batch).value.mean()
        total.backward()  # type: ignore[no-untyped-call]
        return wb.Loss(total, {})


class TrainsNoHead(Good):
    def __init__(self, config: Any, *, spec: Any) -> None:
        super().__init__(config, spec=spec)
        self.head = torch.nn.Linear(4, 2)

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(total=loss.total + self.head(batch.observation).square().mean())


class NamesTheRunsMetric(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(scalars={"episode_return": loss.total.detach()})


class OtherShapes(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        return wb.Loss((self.outputs(network, batch).value[:-1] - batch.reward).mean(), {})


class ChangesItsBatch(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        batch.reward.mul_(3.0)
        return super().loss(network, batch=batch, config=config)


class ChoosesNothingKnown(Good):
    actions = ("discrete",)


class KeepsANumber(Good):
    def state(self) -> Any:
        return {"seen": 3}


class TakesNoSpec(Good):
    def __init__(self) -> None:
        self.seen = 0


BROKEN = {
    TakesNoSpec: r"called as TakesNoSpec\(config, spec=spec\) \(.*\)\. Write def __init__\(self, config, \*, spec",
    ChoosesNothingKnown: r"actions = \('discrete',\) must be a tuple of some of these: categorical, multi_discrete",
    KeepsANumber: r"state\(\) gives tensors by name, and 'seen' is 3. Make one of it: torch.tensor",
    ChangesItsBatch: r"loss\(...\) changes batch.reward in place. Make a new tensor",
    SetsNothingUp: r"its __init__ leaves out super\(\).__init__\(config, spec=spec\), which comes first",
    TakesItsGradient: r"loss\(...\) takes the gradient itself. It returns the loss; the learner calls backward\(\)",
    TrainsNoHead: r"loss\(...\) has a gradient for weights of shape \(2, 4\), \(2,\) that nothing trains",
    NamesTheRunsMetric: r"Loss.scalars\['episode_return'\] has the name of a metric that every run has. Rename it",
    OtherShapes: r"whose batch has T \+ 1 = 6 steps of B = 3 unrolls, raised RuntimeError: The size of tensor a \(5\)",
    PartOfNobody: r"part 1 of rate_factors\(network, ...\) has a Parameter of shape \(4,\), which is a param",
    InTwoParts: r"names a Parameter of shape \(1,\) twice, in parts 0 and 1. A parameter learns at one rate",
    EmptyPart: r"part 0 of rate_factors\(network, ...\) has no parameters",
    FactorIsText: r"a factor is a number from 0 on, or None for a frozen part, not 'beta'",
    FactorIsNegative: r"a factor is a number from 0 on, or None for a frozen part, not -0.01",
    NoPairs: r"rate_factors\(network, ...\) returns pairs \(parameters, factor of the learning rate\), not Parameter",
    ModuleForParameters: r"part 0 has a Linear for parameters. Give a list of them",
    UnknownPart: r"rate_factors\(network, ...\) raised AttributeError: .*no attribute 'critic'",
    AllFrozen: r"rate_factors\(network, ...\) freezes all parameters",
    ScalarsAreNone: "Loss.scalars and Loss.samples are tensors by name, not None",
    HeadsOfNumbers: "heads are an algorithms.Heads, not 3",
    Leaves: r"loss\(network, batch=..., config=...\), whose batch has .* raised SystemExit",
    NoLoss: r"NoLoss has no method loss\(self, network, \*, batch, config\)",
    Raises: r"loss\(network, batch=..., config=...\), whose batch has .* raised ZeroDivisionError: a typo",
    Misspelt: r"raised AttributeError: 'Misspelt.Config' object has no attribute 'betta'\. Did you mean 'beta'\? Its "
              r"fields: learning_rate, .*, beta\.\n\nTraceback",
    OfAPaper: r"'OfAPaper.Config' object has no attribute 'gamma'\. Did you mean 'discount'\? Its fields: ",
    TotalIsANumber: r"Loss.total is a float32 scalar .*, not 0\.\d+\. It must be a tensor .*: leave \.item\(\) and",
    NoScalar: r"Loss.total is a float32 scalar to differentiate, not a float32 tensor of shape \(3,\)",
    Detached: "Loss.total has no gradient",
    NotFinite: "Loss.total is (inf|-inf|nan) for a batch of noise",
    GradientInScalars: r"Loss.scalars\['loss'\] must be a detached scalar.*\.detach\(\)",
    NameOfNoText: r"Loss.scalars\['loss\\ud800'\] must have a text as its name that UTF-8 can write",
    NoEdges: r"Loss.samples\['returns'\] needs edges: histogram_edges\['returns'\]",
    NumbersForActions: r"act\(...\) gives actions as an int64 tensor of shape \(3,\), not a float32 tensor",
    OtherFields: r"act\(...\) gives the fields \['value'\], but behaviour_fields\(\) names \['policy_logits', ",
    Forgetful: r"parameters\(\) has 1 that state\(\) does not keep",
    NoPriorities: r"with a replay, Loss.priorities are \[B\], \(3,\), not None",
    PrioritiesWithGradient: r"Loss.priorities are detached, one for each unroll, \(3,\), not a float32 tensor",
    SignedPriorities: r"Loss.priorities are numbers from 0 on, not \[-\d.*\] as for a batch of noise",
    PrioritiesNotFinite: r"Loss.priorities are numbers from 0 on, not \[nan, nan, nan\]",
    EnoughIsTrue: "Loss.enough is a detached scalar tensor, not True",
    StatesOfNobody: r"Loss.next_states are detached, in the shapes of batch.initial_state: \[\]",
    TargetsWithGradient: r"Loss.value_targets is a detached tensor \[T, B\], not a float32 tensor of shape",
    OfAnotherOutput: "no network that ships gives tuple",
}


def test_an_algorithm_typed_here_keeps_the_rules() -> None:
    assert repr(wb.check_algorithm(Good)) == (
        "Good breaks no rule on CartPole-v1. It trains on each unroll once. Fields of its own: beta (live). Metrics of "
        "its loss: loss.")
    wb.check_algorithm(Good, beta=0.5)
    found = wb.check_algorithm("ppo", epochs=2)
    assert found.trains_on == "epochs of minibatches" and "epochs" not in found.fields and found.fields["clip"]
    wb.check_algorithm(Good, lambda: gymnasium.make("Acrobot-v1"))
    with pytest.raises(InvalidInput, match="environment=3 must be the name of one, such as 'CartPole-v1', or a class"):
        wb.check_algorithm(Good, 3)  # type: ignore[arg-type]
    for chooses in ("r2d2", type("Mine", (QLearning,), {"Config": type("Config", (QLearning.Config,), {})})):
        with pytest.raises(InvalidInput, match="needs actions that are one choice, and those of Pendulum-v1 are"):
            wb.check_algorithm(chooses, "Pendulum-v1")


class Parts(gymnasium.Env):
    """Observations of several kinds, which travel as bytes, and mixed actions."""

    observation_space = gymnasium.spaces.Dict({
        "place": gymnasium.spaces.Box(-1, 1, (3,)), "kind": gymnasium.spaces.Discrete(4),
        "doors": gymnasium.spaces.MultiBinary(3)})
    action_space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3), gymnasium.spaces.Box(-1, 1, (2,))])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize("algorithm", [Good, "ppo", "vtrace", "awr", "vmpo"])
def test_observations_of_several_kinds_and_mixed_actions_keep_the_rules(algorithm: Any) -> None:
    wb.check_algorithm(algorithm, Parts)


class Predicts(Good):
    """Reads an output that only a network of one's own has."""

    class Output(NamedTuple):
        policy_logits: torch.Tensor
        value: torch.Tensor
        guess: torch.Tensor

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        output = network(batch.observation, batch.previous_action, batch.reward, batch.start, batch.initial_state)[0]
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(total=loss.total + output.guess.square().mean())


def with_a_guess(spec: Any) -> torch.nn.Module:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = torch.nn.Linear(4, 4)

        def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
            return ()

        def forward(self, observation: Any, action: Any, reward: Any, start: Any, state: Any) -> Any:
            logits, value, guess = self.out(observation).split((2, 1, 1), -1)
            return Predicts.Output(logits, value[..., 0], guess[..., 0]), state

    return Network()


def test_an_additional_head_is_checked_with_the_network_that_has_it() -> None:
    wb.check_algorithm(Predicts, network=with_a_guess)
    wb.check_algorithm(Good, network="mlp")
    with pytest.raises(AlgorithmFailed, match="has no attribute 'guess'"):
        wb.check_algorithm(Predicts)


class Brings(Predicts):
    """Has the network that it needs."""

    default_network = with_a_guess


def test_a_class_may_bring_its_network() -> None:
    wb.check_algorithm(Brings)
    with pytest.raises(AlgorithmFailed, match="has no attribute 'guess'"):
        wb.check_algorithm(Brings, network="mlp")
    code = checked_config("CartPole-v1", Brings, None, None, (), {})[1]
    assert set(code) == {"algorithm.pkl", "network.pkl"}


@pytest.mark.parametrize("algorithm", BROKEN, ids=lambda algorithm: algorithm.__name__)
def test_a_broken_rule_is_named(algorithm: type) -> None:
    kind = wb.WorkbenchError if algorithm is OfAnotherOutput else AlgorithmFailed
    with pytest.raises(kind, match=BROKEN[algorithm]):
        wb.check_algorithm(algorithm)


def test_what_is_no_algorithm_is_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'vtrace'"):
        wb.check_algorithm("vtrac")
    with pytest.raises(InvalidInput, match=r"must be a class that derives from wb\.Algorithm"):
        wb.check_algorithm(dict)


@pytest.mark.parametrize("base", [algorithms.QLearning, PPO])
def test_a_class_has_the_fields_that_the_class_it_derives_from_reads(base: type) -> None:
    derived = type("Mine", (base,), {"Config": type("Config", (wb.ReplayConfig,), {})})
    with pytest.raises(InvalidInput, match=rf"Write class Config\({base.__name__}\.Config\)"):
        wb.check_algorithm(derived)


class ReadsAHead(Good):
    """Its loss reads a part of the network, which is inside another where observations are normalised."""

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(total=loss.total + self.own(network).policy.weight.square().sum())

    def own(self, network: Any) -> Any:
        return network


class ReadsInside(ReadsAHead):
    """Reads it where it is."""

    def own(self, network: Any) -> Any:
        return inner(network)


class ValuesFinals(Good):
    """Looks at the final observations that its unrolls keep."""

    values_finals = True

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        assert batch.final_step.any() and batch.final_observation.abs().sum() > 0
        return super().loss(network, batch=batch, config=config)


def test_the_network_and_the_batch_are_those_of_a_run() -> None:
    wb.check_algorithm(ReadsAHead)
    with pytest.raises(AlgorithmFailed, match=r"'policy' belongs to the network inside .*\.inner\(network\)"):
        wb.check_algorithm(ReadsAHead, normalize_observations=True)
    for normalised in (False, True):
        wb.check_algorithm(ReadsInside, normalize_observations=normalised)
    wb.check_algorithm(ValuesFinals, unroll_length=20)


class OneStepWide(TanhNormal):
    """A distribution whose middle is not the first of its parameters."""

    def mode(self, parameters: torch.Tensor) -> torch.Tensor:
        return super().mode(parameters) + 0.5


class OtherwiseSpread(Good):
    """Chooses by a distribution of its own."""

    def __init__(self, config: Any, *, spec: Any) -> None:
        super().__init__(config, spec=spec)
        self.distribution = OneStepWide()


def test_what_is_seen_of_a_policy_is_by_its_own_distribution() -> None:
    wb.check_algorithm(OtherwiseSpread, environment="Pendulum-v1")
    spec = EnvironmentSpec("x", (3,), "float32", 1, actions=ActionSpec("tanh_normal", (0,)))
    name, description = named_algorithm(OtherwiseSpread, taken=settings(RunConfig))
    config = RunConfig.build("x", algorithm=name, own_algorithm=description).hyperparameters
    algorithm = OtherwiseSpread(config, spec=spec)
    output = PolicyValueOutput(torch.zeros(1, 2, 2), torch.zeros(1, 2))
    seen = algorithm.outlook(output, config=None)
    assert seen.kind == "mean" and torch.equal(seen.scores, torch.full((1, 2, 1), 0.5).tanh())
    preferred = algorithm.preference(output, action=torch.zeros(1), config=None)
    assert torch.equal(preferred, torch.full((1, 2), 0.5).tanh())
    note = onnx_export._note(SimpleNamespace(algorithm=algorithm))  # type: ignore[arg-type]
    assert "OtherwiseSpread chooses by a distribution of its own" in note


class Leaves(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        raise SystemExit(3)


def test_a_loss_that_ends_its_process_is_named() -> None:
    with pytest.raises(AlgorithmFailed, match="raised SystemExit: 3"):
        wb.check_algorithm(Leaves)


class SeenAsUsual(Good):
    """As from before there was a class to derive a distribution from."""

    class Plain:
        def __init__(self, usual: Any) -> None:
            self.sample, self.mode, self.log_prob = usual.sample, usual.mode, usual.log_prob

    def __init__(self, config: Any, *, spec: Any) -> None:
        super().__init__(config, spec=spec)
        self.distribution = self.Plain(self.distribution)  # type: ignore[assignment]


def test_a_distribution_without_scores_is_refused() -> None:
    with pytest.raises(AlgorithmFailed, match=r"has no scores\(...\) or preference\(...\).*Derive its class"):
        wb.check_algorithm(SeenAsUsual)


class Counts(Good):
    """Keeps a number that it does not restore."""

    def __init__(self, config: Any, *, spec: Any) -> None:
        super().__init__(config, spec=spec)
        self.seen = torch.ones(())

    def state(self) -> Any:
        return {"seen": self.seen.clone()}

    def updated(self, network: Any, *, updates: int, config: Any) -> None:
        self.seen += 1


class Restores(Counts):
    """Restores it."""

    def load_state(self, state: Any) -> None:
        self.seen.copy_(state["seen"])


class Baseline(Good):
    """Subtracts a mean of all rewards, which no checkpoint keeps."""

    mean = 0.0

    def before_update(self, batch: Any, *, config: Any) -> None:
        self.mean += 0.1 * (float(batch.reward[1:].mean()) - self.mean)

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss._replace(total=loss.total * (1 + self.mean))


class KeepsBaseline(Baseline):
    """Keeps it."""

    def state(self) -> Any:
        return {"mean": torch.tensor(self.mean)}

    def load_state(self, state: Any) -> None:
        self.mean = float(state["mean"])


class SearchBeside(Good):
    """Names what a sweep searches where none looks."""

    search = {"beta": (0.1, 1.0)}


def searching(**space: Any) -> type[wb.Algorithm]:
    class Searches(Good):
        class Config(Good.Config):
            search = space

    return Searches


def listing(field: Any) -> type[wb.Algorithm]:
    class Lists(Good):
        class Config(wb.LearningConfig):
            sizes: list = field

    return Lists


class Half(Distribution):
    def sample(self, parameters: Any, *, generator: Any) -> Any:
        return parameters.argmax(-1)


class ByHalf(Good):
    def __init__(self, config: Any, *, spec: Any) -> None:
        super().__init__(config, spec=spec)
        self.distribution = Half()


def test_a_method_that_a_distribution_lacks_is_named() -> None:
    with pytest.raises(AlgorithmFailed, match=r"act\(.*raised NotImplementedError: Half has no method mode\(...\)"):
        wb.check_algorithm(ByHalf)


class NoPolicy(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        output = self.outputs(network, batch)
        total = output.value.square().mean() + 0 * output.policy_logits.mean()
        return wb.Loss(total, {})


class NoValue(Good):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        with torch.no_grad():
            self.outputs(network, batch)
        return wb.Loss(self.outputs(network, batch).policy_logits.square().mean(), {})


@pytest.mark.parametrize(("algorithm", "field"), [(NoPolicy, "policy_logits"), (NoValue, "value")])
def test_a_head_that_nothing_trains_is_noted(algorithm: type[wb.Algorithm], field: str) -> None:
    checked = wb.check_algorithm(algorithm)
    assert re.search(rf"breaks no rule on CartPole-v1, but see the note below\. .*\nNote: loss\(...\) gives {field} no "
                     "gradient for a batch of noise. Unless .* in another way, nothing trains it", repr(checked))
    assert not wb.check_algorithm(Good).notes


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_heads_of_what_ships_are_trained(algorithm: str) -> None:
    shipped = only_class(importlib.import_module(f"workbench.algorithms.{algorithm}.agent"), wb.Algorithm)
    environment = "Pendulum-v1" if algorithm == "sac" else "CartPole-v1"
    varied = type("Varied", (shipped,), {})
    assert wb.check_algorithm(varied, environment).notes == ()
    if "normalize_values" in settings(varied.Config):  # whose first batch gives the value no gradient
        assert wb.check_algorithm(varied, environment, normalize_values=True).notes == ()


class AsksInItsWay(Good):
    """Its network gives a dict for another argument, and nothing for another one."""

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        inner(network).in_other_ways = True
        assert inner(network)(batch.observation, None) == {} and inner(network)(None) is None
        inner(network).in_other_ways = False
        return super().loss(network, batch=batch, config=config)


def test_a_loss_may_call_its_network_in_ways_of_its_own() -> None:
    class Network(torch.nn.Module):
        in_other_ways = False

        def __init__(self, spec: Any) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, 3)

        def initial_state(self, batch: int) -> tuple[()]:
            return ()

        def forward(self, observation: Any, *others: Any) -> Any:
            if self.in_other_ways:
                return {} if others else None
            said = self.body(observation)
            return PolicyValueOutput(said[..., :2], said[..., 2]), others[-1]

    wb.check_algorithm(AsksInItsWay, network=Network)


def test_what_is_kept_is_restored() -> None:
    wb.check_algorithm(Restores)
    with pytest.raises(AlgorithmFailed, match=r"load_state\(state\) does not restore seen, which state\(\) keeps"):
        wb.check_algorithm(Counts)
    assert wb.check_algorithm(KeepsBaseline).notes == ()
    (note,) = wb.check_algorithm(Baseline).notes
    assert re.match(r"A resume would change its loss, from .* is not in state\(\), such as a mean or a counter", note)


class AddsHead(Good):
    """Has a part of the network that it makes itself, and a number that follows from a parameter."""

    def prepare(self, network: Any) -> None:
        if not hasattr(network, "aux"):
            network.aux = torch.nn.Linear(2, 1)
        self.log_alpha = torch.nn.Parameter(torch.zeros(()))
        self.updated(network, updates=0, config=None)

    def to(self, device: Any) -> None:
        super().to(device)
        self.device = device

    def parameters(self) -> Any:
        return [self.log_alpha]

    def state(self) -> Any:
        return {"log_alpha": self.log_alpha}

    def load_state(self, state: Any) -> None:
        self.log_alpha.data.copy_(state["log_alpha"])
        self.updated(None, updates=0, config=None)

    def updated(self, network: Any, *, updates: int, config: Any) -> None:
        self.alpha = float(self.log_alpha.detach().exp())

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        loss, zero = super().loss(network, batch=batch, config=config), torch.zeros((), device=self.device)
        aux = network.aux(batch.reward[..., None].expand(*batch.reward.shape, 2)).mean()
        return loss._replace(total=loss.total * self.alpha + aux + self.log_alpha + zero)


def test_what_a_resume_makes_again_is_no_slip() -> None:
    assert wb.check_algorithm(AddsHead).notes == ()


@pytest.mark.parametrize(("algorithm", "says"), [
    (SearchBeside, "SearchBeside.search lies beside Config, where no sweep looks for it"),
    (searching(betta=(0.1, 1.0)), "unknown field in search 'betta'. Did you mean 'beta'"),
    (searching(beta=(0.1, 100.0, "log")), "beta=100.0"),
    (searching(beta=[0.1, "much"]), "beta='much'"),
    (listing(wb.setting([1], "sizes")), "sizes: list is no type of a hyperparameter. Use bool, int, float or str"),
    (listing(dataclasses.field(default_factory=list)), "sizes: list is no type of a hyperparameter"),
])  # fmt: skip
def test_a_config_that_no_sweep_or_slider_could_have_is_refused(algorithm: type[wb.Algorithm], says: str) -> None:
    with pytest.raises(wb.WorkbenchError, match=says):
        wb.check_algorithm(algorithm)


def test_a_number_in_the_scalars_is_asked_for_as_a_tensor() -> None:
    class Plain(Good):
        def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
            loss = super().loss(network, batch=batch, config=config)
            return loss._replace(scalars={"loss": float(loss.total)})

    with pytest.raises(AlgorithmFailed, match=r"detached scalar tensor, not .*value.detach.*torch.tensor"):
        wb.check_algorithm(Plain)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains_on_the_rewards_that_a_class_derived_from_it_gives(algorithm: str) -> None:
    config = check_algorithm.smaller(RunConfig.build("x", algorithm=algorithm, discount=0.5))
    spec, fields = SPECS["vectors"], config.hyperparameters
    shipped = type(algorithms.build(config, spec=spec))

    class Derived(shipped):  # type: ignore[misc,valid-type]
        bonus = 0.0

        def rewards(self, batch: Any, config: Any) -> Any:
            return super().rewards(batch, config) + self.bonus

        def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
            batches.append(batch)
            return super().loss(network, batch=batch, config=config)

    def total(bonus: float) -> float:
        one = Derived(fields, spec=spec)
        one.bonus = bonus
        network = networks.build("mlp", spec=spec, heads=one.heads, seed=0)
        one.prepare(network)
        return float(one.loss(network, batch=batches[0], config=fields).total)

    batches: list[Any] = []
    one = Derived(fields, spec=spec)
    check_algorithm.check(one, networks.build("mlp", spec=spec, heads=one.heads, seed=0), spec=spec, config=fields)
    assert total(0.0) == total(0.0) != total(5.0)
