"""The interfaces between the learner, an algorithm and a network.

The learner owns data, devices and the optimizer. An algorithm turns network outputs into actions and unrolls into a
loss; on which data it trains, and how often, says the class of its configuration (`config.hyperparameters`). A network
maps time-major tensors to the outputs that the algorithm needs; inference is the same call with T=1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from workbench.algorithms.batch import Batch
from workbench.algorithms.distributions import Distribution, distribution_of
from workbench.algorithms.episode_ends import rewards_and_discounts
from workbench.algorithms.running_statistics import Peers
from workbench.config import LearningConfig
from workbench.environment_spec import ACTION_KINDS, ACTION_WORDS, EnvironmentSpec
from workbench.errors import AlgorithmFailed, InvalidInput
from workbench.trajectory import NO_DISCOUNT, FieldSpec, Flags, Unroll

State = tuple[Tensor, ...]
DISCOUNTED_RETURN = "discounted_return"  # a behaviour field that inference fills in where an algorithm names it


class PolicyValueOutput(NamedTuple):
    """The output of a network of an actor and a critic.

    Attributes:
        policy_logits: float32 [T, B, A], the parameters of the policy's distribution: logits where actions are choices
            (see `distributions`), A = `spec.actions.parameters`.
        value: float32 [T, B], V(x_t).
    """

    policy_logits: Tensor
    value: Tensor


class QValueOutput(NamedTuple):
    """The output of a network of the values of actions.

    Attributes:
        q_values: float32 [T, B, A], Q(x_t, ·), rescaled if the algorithm rescales returns.
    """

    q_values: Tensor


class PolicyCriticsOutput(NamedTuple):
    """The output of a network of a policy and of critics that read actions, see `networks.actor_critics`.

    Attributes:
        policy_logits: float32 [T, B, A], as in `PolicyValueOutput`.
        value: float32 [T, B], the lower critic's value of what the policy does; without a gradient.
        features: float32 [T, B, F], what the critics see of x_t.
    """

    policy_logits: Tensor
    value: Tensor
    features: Tensor


NetworkOutput = PolicyValueOutput | QValueOutput | PolicyCriticsOutput


@dataclass(frozen=True)
class Heads:
    """The heads that an algorithm needs on top of a torso.

    Attributes:
        output: the class of the network's outputs.
        recurrent: whether the default network has an LSTM.
        lstm_size: units of an LSTM.
        dueling_size: units of the hidden layer in each dueling head of Q-values.
        critic_size: units of the hidden layers of critics that read actions.
        popart: whether the value's last layer is a `popart.PopArtValue`.
    """

    output: type[NetworkOutput] = PolicyValueOutput
    recurrent: bool = False
    lstm_size: int = 256
    dueling_size: int = 512
    critic_size: int = 256
    popart: bool = False


class Network(Protocol):
    """A network with or without memory: any nn.Module with these methods."""

    def initial_state(self, batch: int) -> State:
        """Zeros, each [batch, ...], on the network's device; () without memory."""

    def __call__(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[Any, State]:
        """The output at every step, of the class that `Heads.output` names, and the state after the last.

        Args:
            observation: uint8 or float32 [T, B, *stacked], or a dict of such tensors where observations have parts.
            previous_action: int64 or float32 [T, B, *action], ignored where `start`.
            reward: float32 [T, B] of the transition into x_t, ignored where `start`.
            start: bool [T, B]; where set, the state is zeroed before step t.
            state: before the first step, shaped as in `initial_state`.
        """


class Around(nn.Module):
    """A network around another, such as one that decodes its observations."""

    network: nn.Module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name != "network" and hasattr(self.network, name):
                raise AttributeError(f"{name!r} belongs to the network inside of what decodes or normalises its "
                                     "observations: workbench.algorithms.inner(network) is that network") from error
            raise


def inner(network: Any) -> Any:
    """The network itself, inside of what decodes and normalises observations.

    A loss calls what it is given, and by `inner` methods of one's own network. They get what they are given as it is:
    an observation normalised only where the network's own forward returned it.
    """
    return network.network if isinstance(network, Around) else network


class Roles(NamedTuple):
    """Whether the environment of each row explores, and how much.

    Attributes:
        rank: float32 [B], rank i/(N-1) of the environment among the N that explore: 0 … 1.
        evaluation: bool [B], whether it is not trained on: what an algorithm adds to explore, as ε, is then left out.
    """

    rank: Tensor
    evaluation: Tensor

    @classmethod
    def evaluating(cls, rows: int) -> Roles:
        """Roles of `rows` rows that all evaluate."""
        return cls(torch.ones(rows), torch.ones(rows, dtype=torch.bool))


class Loss(NamedTuple):
    """The loss of a batch and its metrics. Tensors are on the device, and detached except `total`.

    Attributes:
        total: the scalar to differentiate.
        scalars: 0-d tensors by metric name.
        samples: tensors of any shape by name, for histograms over `Algorithm.histogram_edges`.
        priorities: [B] for prioritized replay, or None.
        next_states: [B, ...] each, the recomputed recurrent state before the first step of the next unrolls, or None.
        enough: 0-d, above 0 where the policy has moved far enough: the rest of the round's epochs is left out. None:
            all are made.
        value_targets: [T, B], what the values were trained towards, for a value head that follows them (`popart`).
    """

    total: Tensor
    scalars: dict[str, Tensor]
    samples: dict[str, Tensor] = {}  # never changed
    priorities: Tensor | None = None
    next_states: State | None = None
    enough: Tensor | None = None
    value_targets: Tensor | None = None

    @classmethod
    def of(cls, terms: Mapping[str, Tensor], *, scalars: Mapping[str, Tensor], **more: Any) -> Loss:
        """The loss that is the sum of these terms (0-d, by name), with them, their sum and `scalars` as its scalars."""
        total = torch.stack(list(terms.values())).sum()
        told = {"loss": total, **terms, **scalars}
        return cls(total, {name: value.detach() for name, value in told.items()}, **more)


class Outlook(NamedTuple):
    """A network's output [T, B, ...] as people see it.

    Attributes:
        kind: what the scores are: "probability", "q_value" or "mean".
        scores: float32 [T, B, A]. Probabilities sum to 1 for each choice; a switch has the probability of 1. Q-values
            are discounted sums of rewards as in training (clipped to ±max_abs_reward where set). Where actions are
            numbers, the score is the middle of each one's distribution, in [-1, 1]; so it is for the numbers of a
            mixed action, whose kind is "probability".
        value: float32 [T, B], V(x_t), or the highest Q-value; a sum of the same rewards.
    """

    kind: str
    scores: Tensor
    value: Tensor


class Algorithm:
    """What the learner needs of an algorithm. A subclass defines `loss`; the rest is that of an actor and a critic.

    `config` is the algorithm's live configuration at each call.

    Attributes:
        Config: the class of its hyperparameters.
        default_network: a function or class that makes the network of a launch or sweep without `network=`; None: one
            that ships.
        actions: the kinds of actions that it chooses (`environment_spec.ACTION_KINDS`).
        histogram_edges: of `Loss.samples`, ascending; samples beyond them are clipped.
        overlap: steps that consecutive unrolls share beyond the one that every unroll shares, such as a burn-in.
        heads: what its network has on top of a torso.
        spec: of the environment.
        distribution: of the policy over its actions; a subclass may set another `Distribution` in its place.
        values_finals: whether its loss values the final observations of truncated episodes itself (`with_finals`),
            which unrolls then keep; otherwise it finds the values that inference gave them.
        peers: the learners that train together, which average a loss's scalars and statistics of the data
            (`Peers.average`, called by all of them in the same order); None: this one is alone.
        training_generator: of random numbers in training, which no other learner draws, on the device of training; the
            learner keeps it in checkpoints. On XLA, which has no generators, it is a CPU's, and a loss draws with
            generator=None: there the learner has seeded torch's own.
    """

    Config: type[LearningConfig] = LearningConfig
    default_network: Callable[[EnvironmentSpec], nn.Module] | None = None
    actions: tuple[str, ...] = ACTION_KINDS
    histogram_edges: Mapping[str, tuple[float, ...]] = {}
    overlap: int = 0
    heads: Heads = Heads(PolicyValueOutput)
    values_finals: bool = False
    peers: Peers | None = None

    def __init__(self, config: Any, *, spec: EnvironmentSpec) -> None:
        if spec.actions.kind not in self.actions:
            needed, given = " or ".join(ACTION_WORDS[kind] for kind in self.actions), ACTION_WORDS[spec.actions.kind]
            raise InvalidInput(f"{type(self).__name__} needs actions that are {needed}, and those of {spec.name} are "
                               f"{given}. Use another algorithm, such as 'vtrace', or another environment.")
        self.spec = spec
        self.distribution: Distribution = distribution_of(spec.actions)
        self.training_generator = torch.Generator().manual_seed(torch.initial_seed())

    # ---- acting -----------------------------------------------------------------------------------------------------

    def behaviour_fields(self) -> Mapping[str, FieldSpec]:
        """The fields of the behaviour's output that are stored with every step: the policy's parameters and V.

        `DISCOUNTED_RETURN` among them is no output: inference adds it, R_t = r_t + γ R_{t-1} of an environment's own
        rewards r since its episode (or life) began, float32 [B].
        """
        return {"policy_logits": ((self.spec.actions.parameters,), "float32"), "value": ((), "float32")}

    def act(
        self, output: Any, *, roles: Roles, greedy: bool, generator: torch.Generator | None, config: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions [B, *action] as unrolls keep them (`ActionSpec`: numbers before the tanh), for an output of T=1, and
        the behaviour fields [B, ...]; `greedy`: nothing is random.

        Here: a sample of the policy, or its mode; `roles` are ignored, since the policy itself explores.
        """
        logits, value = output.policy_logits[0].float(), output.value[0].float()
        policy = self.distribution
        actions = policy.mode(logits) if greedy else policy.sample(logits, generator=generator)
        return actions, {"policy_logits": logits, "value": value}

    def bootstrap(self, output: Any) -> Tensor:
        """Values [B] of final observations (an output of T=1), for truncated episodes."""
        value: Tensor = output.value[0].float()
        return value

    def outlook(self, output: Any, *, config: Any) -> Outlook:
        """The output as people see it."""
        scores = self._seen_as.scores(output.policy_logits.float())
        return Outlook("mean" if self.spec.actions.kind == "tanh_normal" else "probability", scores,
                       output.value.float())

    def preference(self, output: Any, *, action: Tensor, config: Any) -> Tensor:
        """How strongly the network prefers `action` [*action], [T, B], differentiable: see `Distribution`."""
        return self._seen_as.preference(output.policy_logits.float(), action=action)

    @property
    def _seen_as(self) -> Distribution:
        """Its distribution; the usual one in place of a user's from before there was a class to derive from."""
        own = self.distribution
        return own if hasattr(own, "scores") and hasattr(own, "preference") else distribution_of(self.spec.actions)

    # ---- training ---------------------------------------------------------------------------------------------------

    def loss(self, network: Network, *, batch: Batch, config: Any) -> Loss:
        """The loss of a batch. Never waits for the device."""
        raise AlgorithmFailed(f"{type(self).__name__} has no method loss(self, network, *, batch, config).")

    def outputs(self, network: Network, batch: Batch) -> Any:
        """The network's output [T+1, B, ...] at every step of a batch, from the unrolls' first states."""
        output, _ = network(batch.stacked(), batch.previous_action, batch.reward, batch.start, batch.initial_state)
        return output

    def rewards(self, batch: Batch, config: Any) -> Tensor:
        """r_t of steps 1 … T, [T, B], before `reward_scale` and clipping."""
        return batch.reward[1:]

    def rewards_and_discounts(self, batch: Batch, config: Any) -> tuple[Tensor, Tensor]:
        """r_t and γ_t of steps 1 … T, [T, B], with the ends of episodes in them (see `episode_ends`)."""
        return rewards_and_discounts(
            self.rewards(batch, config),
            ended=batch.has(NO_DISCOUNT)[1:],
            truncated=batch.has(Flags.TRUNCATED)[1:],
            bootstrap_values=batch.bootstrap_value[1:],
            discount=config.discount,
            max_abs_reward=config.max_abs_reward,
            reward_scale=config.reward_scale,
        )

    def prepare(self, network: nn.Module) -> None:
        """Called once the network's weights are in place, before `load_state`, `loss` and `updated`."""

    def before_update(self, batch: Batch, *, config: Any) -> None:
        """Called before the loss of each batch, for statistics of the data, which `peers` average."""

    def after_update(self, loss: Loss, *, config: Any) -> None:
        """Called after each update with its loss, before `updated`; see `before_update`."""

    def updated(self, network: nn.Module, *, updates: int, config: Any) -> None:
        """Called after each update of the network, with the number of updates so far."""

    def initial_priority(self, unroll: Unroll, *, config: Any) -> float | None:
        """Priority of an unroll that is new in a replay, from the behaviour's stored outputs; no forward pass.

        None: the largest of those in the replay (Schaul et al. 2016, arXiv 1511.05952, algorithm 1).
        """
        return None

    # ---- what it has learnt beside the network ----------------------------------------------------------------------

    def to(self, device: torch.device | str) -> Algorithm:
        """Returns itself, with its `parameters` on `device`; a subclass moves what else it has learnt."""
        for parameter in self.parameters():
            moved = parameter.detach().to(device)
            if moved.device == parameter.device:
                continue
            if torch._has_compatible_shallow_copy_type(parameter, moved):
                parameter.data = moved
            else:  # as on XLA; whoever has the parameter sees it move
                other = nn.Parameter(moved, requires_grad=parameter.requires_grad)
                torch.utils.swap_tensors(parameter, other)  # type: ignore[no-untyped-call]
        return self

    def parameters(self) -> list[nn.Parameter]:
        """Learned parameters beside the network's, for the optimizer."""
        return []

    def rate_factors(self, network: Any, *, config: Any) -> Iterable[tuple[Iterable[nn.Parameter], float | None]]:
        """The parts that learn faster or slower, or not at all: (parameters, factor of the learning rate) of each.

        Other parameters have the factor 1. None freezes a part for good: it gets no gradient. The parameters, of
        `network` (without what decodes observations) or of `parameters()`, are read once, when the learner starts; the
        factors, which may be live fields of `config`, before each update. So there are always the same parts, and
        warm-up, schedule and a new learning rate reach all. A factor of 0 holds a part still as long as it is 0.
        Gradients are clipped by their norm over all parts together.
        """
        return ()

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned."""
