"""Cores, learners, network and money that a run of a given speed needs, from measured constants; nothing is started.

`constants.csv` has every number with its source; `capacity` is the arithmetic, `plan` finds the answer, which is a
`planned.Plan`.
"""

from workbench.planning.plan import plan
from workbench.planning.planned import Plan

__all__ = ["Plan", "plan"]
