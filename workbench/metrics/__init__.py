"""A run's history in one SQLite file: metrics, episodes, events, distributions, last known status.

Learner and supervisor write; any number of processes read meanwhile and after the run has ended. The journal is a WAL:
a reader never blocks a writer, and a process killed in the middle of a commit loses only that commit.
After a resume, frames and updates continue from the checkpoint; rows beyond it stay, in the order of their arrival.
"""

from workbench.metrics.history import History
from workbench.metrics.reader import MetricsReader
from workbench.metrics.schema import COUNTERS, Progress, check_tables, check_whole, holds_nothing
from workbench.metrics.writer import MetricsWriter

__all__ = ["COUNTERS", "History", "MetricsReader", "MetricsWriter", "Progress", "check_tables", "check_whole",
           "holds_nothing"]
