"""R2D2 as the learner uses it: Q-learning with a memory, by the loss of a replayed batch of unrolls.

An unroll has L = burn-in + T + 1 steps: the burn-in only brings the recurrent state up to date, from the state that is
stored with the unroll; T steps are trained on; the last only bootstraps. If `value_rescaling` is on, the networks'
values, and the stored ones, are rescaled by h (see `targets`). Returns are not.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from workbench.algorithms.action_masks import is_never
from workbench.algorithms.batch import Batch
from workbench.algorithms.episode_ends import rewards_and_discounts
from workbench.algorithms.final_observations import with_finals
from workbench.algorithms.interface import Heads, Loss, Network, QValueOutput, State
from workbench.algorithms.q_learning import QLearning, q_values_of
from workbench.algorithms.r2d2 import targets
from workbench.algorithms.r2d2.config import R2D2Config
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import NO_DISCOUNT, Array, Flags, Unroll


class R2D2(QLearning):
    """Recurrent experience replay (Kapturowski et al. 2019), as in SEED RL."""

    Config = R2D2Config
    values_finals = True
    histogram_edges = {
        "td_error": tuple(10.0 ** (power / 10) for power in range(-40, 21))
    }

    def __init__(self, config: R2D2Config, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.overlap = config.burn_in
        self.heads = Heads(
            QValueOutput, recurrent=True, lstm_size=config.lstm_size, dueling_size=config.dueling_size
        )

    def as_returns(self, values: Tensor, *, config: R2D2Config) -> Tensor:
        """Values of the network, of any shape, as sums of rewards."""
        return targets.unrescale(values, epsilon=config.value_rescaling_epsilon) if config.value_rescaling else values

    def loss(self, network: Network, *, batch: Batch, config: R2D2Config) -> Loss:
        """The squared n-step double-Q errors of a batch: summed over T steps, then a weighted mean over the unrolls.

        The gradient reaches back to the first step after the burn-in. Priorities are those of the same errors.
        """
        seen, first, state = with_finals(batch), self.overlap, batch.initial_state
        stacked = seen.batch.stacked()
        inputs = (stacked, seen.batch.previous_action, seen.batch.reward, seen.batch.start)
        if config.recurrent_state == "zero":
            state = tuple(torch.zeros_like(part) for part in state)
        next_first = len(batch.reward) - 1 - first  # the first step of the next unroll
        finals_before = len(stacked) - len(batch.reward) if next_first > first else 0  # at most; none is in the burn-in
        refresh = config.recurrent_state == "refreshed" and len(state) > 0
        kept_at = range(next_first, next_first + finals_before + 1) if refresh else range(0)
        online, states = self._unrolled(network, inputs, state, kept_at=kept_at)
        q_tm1 = q_values_of(seen.of_steps(online, first=first)[:-1], actions=batch.action[first:-1])
        with torch.no_grad():
            target, _ = self._unrolled(self.target, inputs, state)
            values = targets.double_q_values(online, target=target)
            returns = self._targets(
                seen.of_steps(values, first=first),
                reward_t=self.rewards(batch, config)[first:],
                flags_t=batch.flags[first + 1 :],
                bootstrap_value_t=seen.bootstraps(values, first=first)[1:],
                config=config,
            )
        taken = ~is_never(q_tm1)  # but of a step from before the environment had masks
        td_errors = torch.where(taken, returns - q_tm1, 0.0)
        total = targets.sequence_loss(td_errors, weights=batch.weight)
        errors = td_errors.detach()
        scalars = {
            "loss": total.detach(),
            "td_error": errors.abs().mean(),
            "q_value": self.as_returns(torch.where(taken, q_tm1.detach(), 0.0), config=config).mean(),
        }
        priorities = targets.sequence_priorities(errors, max_share=config.priority_max_share)
        return Loss(total, scalars, {"td_error": errors.abs()}, priorities,
                    seen.before(next_first, states) if states else None)

    def _unrolled(
        self, network: Network, inputs: tuple[Tensor, ...], state: State, *, kept_at: range = range(0)
    ) -> tuple[Tensor, list[State]]:
        """Q-values [T+1, B, A] of the steps after the burn-in, and the states before the steps `kept_at`.

        The network runs in pieces: the burn-in ends at one border, and others are where states are kept, which may lie
        in the burn-in. A network without memory skips the burn-in.
        """
        length, dtypes = len(inputs[0]), [part.dtype for part in state]
        borders = {self.overlap, length, *kept_at, *([0] if state else [])}
        values, kept = [], []
        for begin, end in pairwise(sorted(borders)):
            trained = begin >= self.overlap
            with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
                observation, previous_action, reward, start = (part[begin:end] for part in inputs)
                output, state = network(observation, previous_action, reward, start, state)
            if trained:
                values.append(output.q_values.float())
            else:
                torch.clear_autocast_cache()  # else older torch casts no weight with gradient (pytorch #158232)
            if end in kept_at:
                kept.append(tuple(part.detach().to(dtype) for part, dtype in zip(state, dtypes, strict=True)))
        return torch.cat(values), kept

    def initial_priority(self, unroll: Unroll, *, config: R2D2Config) -> float:
        """Priority of a new unroll: the formula of `loss`, with the behaviour's Q-values for both networks' and the
        environment's own rewards, whatever `rewards` says."""

        def after_burn_in(array: Array) -> Tensor:
            return torch.from_numpy(array[self.overlap :]).unsqueeze(1)  # [T+1, 1]

        returns = self._targets(
            after_burn_in(unroll.behaviour["q_max"]),
            reward_t=after_burn_in(unroll.reward)[1:],
            flags_t=after_burn_in(unroll.flags)[1:],
            bootstrap_value_t=after_burn_in(unroll.bootstrap_value)[1:],
            config=config,
        )
        td_errors = returns - after_burn_in(unroll.behaviour["q_value"])[:-1]
        return float(targets.sequence_priorities(td_errors, max_share=config.priority_max_share))

    def _targets(
        self, values: Tensor, *, reward_t: Tensor, flags_t: Tensor, bootstrap_value_t: Tensor, config: R2D2Config
    ) -> Tensor:
        """Targets [T, B] of Q(x_{t-1}, a_{t-1}), rescaled like `values` [T+1, B]."""
        r_t, discount_t = rewards_and_discounts(
            reward_t,
            ended=(flags_t & int(NO_DISCOUNT)) != 0,
            truncated=(flags_t & int(Flags.TRUNCATED)) != 0,
            bootstrap_values=self.as_returns(bootstrap_value_t, config=config),
            discount=config.discount,
            max_abs_reward=config.max_abs_reward,
            reward_scale=config.reward_scale,
        )
        returns = targets.n_step_targets(
            self.as_returns(values, config=config), r_t=r_t, discount_t=discount_t, n_steps=config.n_steps
        )
        return targets.rescale(returns, epsilon=config.value_rescaling_epsilon) if config.value_rescaling else returns
