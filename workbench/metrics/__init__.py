"""A run's history in one SQLite file: metrics, episodes, events, distributions, last known status.

Several processes write (learner, supervisor) and any number read, at once and after the run has died. The journal is
a WAL: a reader never blocks a writer, and a process killed in the middle of a commit loses that commit and no more.
After a resume, frames and updates go on from the checkpoint; rows beyond it stay, in the order in which they came.
"""

from workbench.metrics.history import History
from workbench.metrics.reader import MetricsReader
from workbench.metrics.schema import Progress, check_tables, check_whole
from workbench.metrics.writer import MetricsWriter

__all__ = ["History", "MetricsReader", "MetricsWriter", "Progress", "check_tables", "check_whole"]
