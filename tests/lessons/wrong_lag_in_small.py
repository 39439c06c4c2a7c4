"""Answers to the exercises of lesson 15 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

from workbench.lessons.exercises.lag_in_small import RIGHT


def _but(name: str, **parts: Any) -> dict[str, dict[str, Any]]:
    return {**RIGHT, name: {**RIGHT[name], **parts}}


def _the_gradient_itself(probability: float, epsilon: float = 1e-6) -> float:
    return 1 / (probability + epsilon)


def _upside_down(probability: float, epsilon: float = 1e-6) -> float:
    return (probability + epsilon) / probability


def _nothing_changes(probability: float, epsilon: float = 1e-6) -> float:
    return 1.0


WRONG = {
    "corrections": [
        _but("V-trace", targets=False), _but("1-step", targets=True), _but("1-step", gradient=False),
        _but("ε-correction", epsilon=0.0), _but("no correction", gradient=True), _but("V-trace", targets=...),
        {"V-trace": RIGHT["V-trace"]}],
    "push": [_the_gradient_itself, _upside_down, _nothing_changes],
}
