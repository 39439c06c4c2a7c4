"""Exercises of lesson 13: what limits a run, and how much faster it can get."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

from workbench.lessons.answers import choice, compared, expect_written
from workbench.lessons.exercise import Exercise, Wrong
from workbench.lessons.slow_runs import SLOW

SIGNATURES = {
    "waiting environments": "If environments that wait were the limit, the actors would step them most of their time "
                            "(time_environments of 70% or more), and hardly use a core.",
    "computing environments": "If environments that compute were the limit, the actors would step them most of their "
                              "time (time_environments of 70% or more), and use all of a core that they can get.",
    "small batches": "If small batches were the limit, the inference thread would work nearly all the time, for one "
                     "environment at a time.",
    "waiting batches": "If batches waited, most of a group's time would be time_batch_wait, and the inference thread "
                       "would be idle meanwhile.",
    "training": "If training were the limit, its thread would work 80% of the time or more, and hardly wait for "
                "unrolls.",
    "too few in flight": "If too little were in flight, no part would be busy: each would wait for another.",
}
EVIDENCE = {
    1: "The actor steps environments nearly all its time, and inference and training wait for it. It hardly computes: "
       "each step waits for two milliseconds. More actors wait at the same time, on however few cores.",
    2: "The inference thread works nearly all the time, and max_batch=1 lets it do one environment at a time. Groups "
       "spend most of their time in the line before it, so time_batch_wait is high as well: it is the queue of a busy "
       "thread here, and no timeout helps.",
    3: "Groups wait most of their time for their batch, and the inference thread idles. max_batch is all 32 "
       "environments, so everyone waits for the one that loads a level.",
    4: "The training thread works nearly all the time and waits for nothing. The queue before it is full, which holds "
       "inference and with it the actors back.",
    5: "As in run 1 the actor steps environments nearly all its time. But it computes all that while: it keeps a core "
       "busy, or what other programs leave of one. More actors help as long as there are idle cores.",
}


def _diagnosis(number: int) -> Exercise:
    right = SLOW[number].bottleneck
    return choice(right, {name: f"{text} Is that what the shares of this run say?"
                          for name, text in SIGNATURES.items() if name != right}, why=EVIDENCE[number])


run_1, run_2, run_3, run_4, run_5 = map(_diagnosis, SLOW)


def speedup(share, factor):
    """How much faster the whole gets where a share of its time becomes `factor` times as fast."""
    return 1 / ((1 - share) + share / factor)


amdahl = compared(
    speedup,
    (1.0, 4.0, "where all of the time gets four times as fast"),
    (0.0, 100.0, "where none of it does"),
    (0.5, 2.0, "where half of it gets twice as fast"),
    (0.9, 1e9, "where nine tenths cost nothing any more"),
    why="What stays slow, 1 − p, bounds the speedup by 1/(1 − p), whatever s is.",
)


SECOND_ACTOR = speedup(0.41, 2)  # training waits 41 % with one actor: benchmarks/results/scaling.md


def _check_second_actor(answer: Any) -> None:
    said = float(expect_written(answer))
    if abs(said - SECOND_ACTOR) > 0.05:
        raise Wrong(f"{said:g} is not it: 41% of the time becomes twice as fast, and 59% stays. Put both into Amdahl's "
                    "law; the answer is a factor a little above 1.")


second_actor = Exercise(_check_second_actor, round(SECOND_ACTOR, 2),
                        why="1/(0.59 + 0.41/2) = 1.26. Measured were 2,378 steps/s after 1,920, a factor of 1.24.")
