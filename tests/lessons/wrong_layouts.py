"""Answers to the exercises of lesson 16 that are wrong in ways that students are."""

from __future__ import annotations


def _of_one_environment(network_bytes: int, environments: int, unroll: int) -> float:
    return network_bytes / unroll


def _at_each_step(network_bytes: int, environments: int, unroll: int) -> float:
    return network_bytes / environments


def _for_each_environment(network_bytes: int, environments: int, unroll: int) -> float:
    return network_bytes * environments / unroll


WRONG = {
    "parameter_traffic": [3_000, 150_000, 2, 3],
    "parameter_bytes": [_of_one_environment, _at_each_step, _for_each_environment],
    "full_first": ["actors' cores", "card in", "accelerator"],
    "one_gpu": ["central", "about the same", "SEED"],
}
