"""What a run of a wanted speed needs: cores, learners, network and money, from measured constants; nothing is started.

`constants.csv` has every number with where it comes from; `capacity` is the arithmetic, `plan` the answer.
"""

from workbench.planning.plan import Plan, plan

__all__ = ["Plan", "plan"]
