"""Answers to the exercises of lesson 3 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.exercises.vtrace import importance_ratios, vtrace


def _without_clipping(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **_: Any) -> Any:
    return vtrace(values, last_value, rewards, discounts, rhos, rho_bar=np.inf, c_bar=np.inf)


def _forgets_the_clip_of_the_trace(
    values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, **_: Any
) -> Any:
    return vtrace(values, last_value, rewards, discounts, rhos, rho_bar=rho_bar, c_bar=rho_bar)


def _ignores_ends(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **clips: Any) -> Any:
    return vtrace(values, last_value, rewards, np.full(np.shape(values), 0.9), rhos, **clips)


def _one_step(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **_: Any) -> Any:
    return rewards + discounts * np.concatenate([values[1:], [last_value]])


def _ignores_lambda(
    values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, c_bar: float = 1.0,
    **_: Any,
) -> Any:
    return vtrace(values, last_value, rewards, discounts, rhos, rho_bar, c_bar)


def _traces_of_the_step_after(
    values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, c_bar: float = 1.0,
    lambda_: float = 1.0,
) -> Any:
    cut = lambda_ * np.minimum(c_bar, np.concatenate([rhos[1:], rhos[-1:]]))
    return _with_traces(values, last_value, rewards, discounts, np.minimum(rho_bar, rhos), cut)


def _lambda_before_the_clip(
    values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, c_bar: float = 1.0,
    lambda_: float = 1.0,
) -> Any:
    cut = np.minimum(c_bar, lambda_ * rhos)
    return _with_traces(values, last_value, rewards, discounts, np.minimum(rho_bar, rhos), cut)


def _with_traces(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, cut: Any) -> Any:
    later = np.concatenate([values[1:], [last_value]])
    errors, carried, found = rhos * (rewards + discounts * later - values), 0.0, []
    for t in reversed(range(len(values))):
        carried = errors[t] + discounts[t] * cut[t] * carried
        found.insert(0, values[t] + carried)
    return np.array(found)


def _writes_into_the_values(values: Any, *given: Any, **clips: Any) -> Any:
    values[:] = vtrace(values, *given, **clips) if given else vtrace(values, **clips)
    return values


def _two_unrolls(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **clips: Any) -> Any:
    found = np.zeros_like(values)
    for b in range(2):
        one = slice(b, b + 1)
        found[:, one] = vtrace(
            values[:, one], last_value[one], rewards[:, one], discounts[:, one], rhos[:, one], **clips)
    return found


def _upside_down(actions: Any, target: float, behaviour: float) -> Any:
    return importance_ratios(actions, behaviour, target)


def _always_right(actions: Any, target: float, behaviour: float) -> Any:
    return np.full(np.shape(actions), target / behaviour)


def _differences(actions: Any, target: float, behaviour: float) -> Any:
    return np.where(actions, target - behaviour, behaviour - target)


def _not_normalized(behaviour: float, target: float, rho_bar: float) -> float:
    return min(rho_bar * behaviour, target)


def _clips_the_ratio(behaviour: float, target: float, rho_bar: float) -> float:
    return behaviour * min(rho_bar, target / behaviour)


def _the_target(behaviour: float, target: float, rho_bar: float) -> float:
    return target


WRONG = {
    "targets": [_without_clipping, _forgets_the_clip_of_the_trace, _ignores_ends, _one_step, _ignores_lambda,
                _traces_of_the_step_after, _lambda_before_the_clip, _writes_into_the_values, _two_unrolls],
    "ratios": [_upside_down, _always_right, _differences],
    "fixed_point": [_not_normalized, _clips_the_ratio, _the_target],
    "expected_lag": [128, 512, 4, 32],
}
