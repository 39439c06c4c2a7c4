"""Answers to the exercises of lesson 3 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.exercises.vtrace import vtrace


def _without_clipping(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **_: Any) -> Any:
    return vtrace(values, last_value, rewards, discounts, rhos, rho_bar=np.inf, c_bar=np.inf)


def _forgets_the_clip_of_the_trace(
    values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, c_bar: float = 1.0
) -> Any:
    return vtrace(values, last_value, rewards, discounts, rhos, rho_bar=rho_bar, c_bar=rho_bar)


def _ignores_ends(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **clips: Any) -> Any:
    return vtrace(values, last_value, rewards, np.full(len(values), 0.9), rhos, **clips)


def _one_step(values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, **_: Any) -> Any:
    return rewards + discounts * np.append(values[1:], last_value)


WRONG = {"targets": [_without_clipping, _forgets_the_clip_of_the_trace, _ignores_ends, _one_step]}
