"""What the lessons are made of: exercises that check themselves, things to touch, sizes that fit the machine.

    from workbench.lessons import check, fit, solution, solved, touch

A lesson is a notebook of `notebooks/`; its exercises are in a module of `exercises/`, so that the answers lie one click
away and not in sight.
"""

from workbench.lessons.exercise import check, solution, solved
from workbench.lessons.recorded_tables import recorded
from workbench.lessons.sealed_runs import broken_run, remedy
from workbench.lessons.seed_numbers import late, spread
from workbench.lessons.slow_runs import slow_run
from workbench.lessons.speed_probe import fit
from workbench.lessons.touching import picture, slider, touch

__all__ = [
    "broken_run", "check", "fit", "late", "picture", "recorded", "remedy", "slow_run", "slider", "solution",
    "solved", "spread", "touch",
]  # fmt: skip
