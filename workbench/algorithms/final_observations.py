"""The final observations of truncated episodes, put among a batch's steps, so that one pass of a network values both.

x_final is put before x_t, the first step of the next episode. So the network sees it with the frames and the memory of
its own episode, and no other step changes: at x_t an episode starts. Where a batch is of single transitions, x_final
takes the place of x_t, of which nothing but the value is asked: a third of the network's work is saved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.algorithms.batch import Batch


@dataclass(frozen=True)
class WithFinals:
    """A batch of L steps with K more, of final observations or, at the end, of nothing.

    Attributes:
        batch: observation, previous_action, reward and flags [L+K, B, ...]; its other fields are those of the L steps.
        steps: int64 [L, B], the places of the L steps among them; None if nothing was put between these.
        known: bool [L, B], whether the place before x_t, or with `steps` None its own, has the final observation of a
            transition into x_t; or None.
    """

    batch: Batch
    steps: Tensor | None = None
    known: Tensor | None = None

    def of_steps(self, values: Tensor, *, first: int = 0) -> Tensor:
        """Values [L-first, B, ...] of the steps from `first` on, of `values` [L-first+K, B, ...] from that place on."""
        return values if self.steps is None else _at(values, self.steps[first:] - first)

    def bootstraps(self, values: Tensor, *, first: int) -> Tensor:
        """`Batch.bootstrap_value` [L-first, B], or the value of the final observation where that is there.

        Args:
            values: [L-first+K, B], as in `of_steps`; no final observation is among the first `first` steps.
        """
        stored = self.batch.bootstrap_value[first:]
        if self.known is None:
            return stored
        known = self.known[first:]
        finals = values if self.steps is None else _at(values, self.steps[first:] - first - known.long())
        return torch.where(known, finals, stored)

    def before(self, step: int, states: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The recurrent state before `step`, [B, ...] each.

        Args:
            states: those before the places `step`, `step` + 1, …, as many as final observations can lie before it.
        """
        if len(states) == 1 or self.steps is None:
            return states[0]
        earlier = self.steps[step - 1] - (step - 1)
        rows = torch.arange(len(earlier), device=earlier.device)
        return tuple(torch.stack(parts)[earlier, rows] for parts in zip(*states, strict=True))


def with_finals(batch: Batch) -> WithFinals:
    """`batch` with its final observations among its steps, without waiting for the device; as it is if it has none."""
    if batch.final_step is None or batch.final_observation is None or not batch.final_step.shape[1]:
        return WithFinals(batch)
    finals, length = batch.final_step.T, len(batch.reward)  # [K, B]
    numbers = torch.arange(length + len(finals), device=finals.device)[:, None]
    there, step = finals > 0, numbers[:length, None]
    known = (there & (finals == step)).any(1)
    if length == 2:
        return _of_transitions(batch, known)
    steps = numbers[:length] + (there & (finals <= step)).sum(1)
    places = torch.cat([steps, torch.where(there, finals, length) + numbers[: len(finals)]])
    source = torch.empty_like(places).scatter_(0, places, numbers.expand_as(places))  # of the step in each place
    rows = torch.arange(source.shape[1], device=source.device)

    def among(of_steps: Tensor, of_finals: Tensor) -> Tensor:
        return torch.cat([of_steps, of_finals])[source, rows]

    longer = replace(
        batch,
        observation=among(batch.observation, batch.final_observation.transpose(0, 1)),
        previous_action=among(batch.previous_action, _at(batch.action, (finals - 1).clamp_min(0))),
        reward=among(batch.reward, _at(batch.reward, finals)),
        flags=among(batch.flags, torch.zeros_like(finals, dtype=batch.flags.dtype)),
    )
    return WithFinals(longer, steps, known)


def _of_transitions(batch: Batch, known: Tensor) -> WithFinals:
    """Batches of steps 0 and 1 whose second one is the final observation where that is `known`, bool [2, B]."""
    assert batch.final_observation is not None

    def second(values: Tensor, instead: Tensor) -> Tensor:
        is_final = known[1].reshape(-1, *[1] * (instead.ndim - 1))
        return torch.stack([values[0], torch.where(is_final, instead, values[1])])

    return WithFinals(replace(
        batch,
        observation=second(batch.observation, batch.final_observation[:, 0]),
        previous_action=second(batch.previous_action, batch.action[0]),
        flags=second(batch.flags, torch.zeros_like(batch.flags[0])),
    ), None, known)


def _at(values: Tensor, places: Tensor) -> Tensor:
    """[M, B, ...]: `values` [N, B, ...] at `places` [M, B]."""
    index = places.reshape(*places.shape, *[1] * (values.ndim - 2)).expand(*places.shape, *values.shape[2:])
    return values.gather(0, index)
