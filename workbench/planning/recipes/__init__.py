"""Files that start the workbench on a cluster: `recipe(kind)` writes one, launchers/ has each with its defaults.

In all of them the first learner's machine is Ray's head: the supervisor and what it writes stay beside the first
learner, and the other machines need to be no more than reachable.
"""

from workbench.planning.recipes.cluster import Cluster
from workbench.planning.recipes.recipe import KINDS, recipe

__all__ = ["KINDS", "Cluster", "recipe"]
