"""Cores, learners, network and money that a run of a given speed needs, from measured constants; nothing is started.

`constants.csv` has every number with its source; `capacity` is the arithmetic, `plan` the answer.
"""

from workbench.planning.plan import Plan, plan

__all__ = ["Plan", "plan"]
