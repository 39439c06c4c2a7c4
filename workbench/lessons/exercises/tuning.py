"""Exercises of lesson 5: which field keeps a broken run from learning, and what a run tuned by hand shows."""

from __future__ import annotations

from workbench.lessons.answers import choice
from workbench.lessons.exercise import Exercise
from workbench.lessons.sealed_runs import SEALED

SIGNATURES = {
    "learning_rate": "A learning rate that is too small freezes everything, the value loss too, and leaves "
                     "gradient_norm large.",
    "entropy_cost": "An entropy cost that is too large keeps the entropy at ln 2 while the value loss falls, and "
                    "makes entropy_loss larger than policy_loss.",
    "max_gradient_norm": "A clip that is too tight freezes everything. For Adam it is too tight only if the clipped "
                         "gradient is small beside its ε of 1e-5.",
    "discount": "A discount near 0 leaves nothing to predict: the value loss begins near the square of one reward and "
                "falls to almost nothing.",
    "reward_scale": "Rewards scaled to almost nothing make the value loss tiny from the first update on.",
    "pg_rho_clip": "A clip near 0 makes policy_loss 0 from the first update on, and leaves the value loss alone.",
    "baseline_cost": "A weight near 0 multiplies the value loss as recorded, and the value function stays as it was.",
}
WHERE_TO_LOOK = {
    1: "Here the value loss hardly moves, and the gradient is large. Two fields can do that; look at what Adam makes "
       "of a gradient clipped to 0.001.",
    2: "Here the value loss falls by half or more, and the entropy does not move. Compare entropy_loss with "
       "policy_loss.",
    3: "Here the value loss hardly moves, and the learning rate is above the usual one.",
    4: "Here the value loss starts near 1 and falls below 0.01. Ask what a value function would have to predict.",
    5: "Here the value loss is below 0.01 from the first row on.",
    6: "Here the value loss falls. Compare policy_loss with that of a run that learns.",
}


def _diagnosis(number: int) -> Exercise:
    fault = SEALED[number].fault
    hints = {field: f"{text} {WHERE_TO_LOOK[number]}" for field, text in SIGNATURES.items() if field != fault}
    return choice(fault, hints, why=SEALED[number].evidence)


broken_1, broken_2, broken_3, broken_4, broken_5, broken_6 = map(_diagnosis, SEALED)


evidence = choice(
    "c", {
        "a": "That run is one sample, and its curve belongs to a schedule that nobody wrote down beforehand: the "
             "fault, your guesses and the rescue are all in it.",
        "b": "Forks share everything up to their checkpoint, its luck included: they compare what came after, from one "
             "beginning.",
        "d": "The winner was chosen because its value was high, and some of that is luck. New seeds show how much.",
    },
    why="What you claim is a configuration, or a schedule, so run exactly that from the beginning, with seeds that had "
        "no part in the choice, and show their spread.",
)
