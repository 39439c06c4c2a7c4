"""Writes docs/metrics.md: every metric of a run, from the code. `python docs/metrics.py`"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

from workbench.algorithms.interface import Algorithm
from workbench.config import ALGORITHMS
from workbench.config.algorithms import only_class
from workbench.metrics.meanings import GROUPS, HISTOGRAMS, METRICS, Metric, metrics_of

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Metrics

Made from the code by `python docs/metrics.py`; tests keep it fresh, and run every algorithm to see that each metric
is here.

```python
run.metric_names                      # those that this run has
run.metrics("episode_return")         # a pandas frame
wb.compare([run, other], metric="policy_lag_mean", axis="hours")
```

`run.metrics(name)` has the columns `frames`, `steps`, `updates`, `time_s` and `value`; the first four say when. Charts
have an axis of frames, updates or hours.

- **frames**: emulator frames, action repeats counted. On Atari, ViZDoom and DeepMind Lab a step is four
  frames by default; elsewhere it is usually one.
- **steps**: decisions of the agent.
- **updates**: steps of the optimizer.
- **time_s**: seconds of training, without pauses, continued over a resume.

*One row* says what a row of the series is. A row for each second exists only if that second had something to report.
What a killed learner did after its last checkpoint is left out, since it was trained anew. The same numbers are in
the run's `metrics.sqlite` ([run directory](run-directory.md)) and as TensorBoard event files beside it, over frames.
"""
OWN = """
## Your own

An algorithm that you write names its metrics in `wb.Loss`, and can say what they mean beside its fields:

```python
class Config(wb.LearningConfig):
    beta: float = wb.setting(0.1, "weight of the bonus", low=0.0, high=1.0, live=True)
    metrics = {"bonus": ("mean bonus of a step", "reward")}
```

The panel draws all of them under *Your algorithm*.
"""


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")


def table(metrics: Iterable[Metric]) -> list[str]:
    """A table of metrics."""
    return ["", "| metric | unit | one row | meaning |", "|---|---|---|---|", *(
        f"| `{one.name}` | {cell(one.unit)} | {cell(one.row)} | {cell(one.help)} |" for one in metrics)]


def page() -> str:
    """The text of docs/metrics.md."""
    lines: list[str] = []
    for group in GROUPS:
        lines += ["", f"## {group[0].upper()}{group[1:]}", *table(
            one for one in METRICS.values() if one.group == group)]
    lines += ["", "## Of an algorithm's loss"]
    for name, config in ALGORITHMS.items():
        lines += ["", f"### {name}", *table(metrics_of(config).values())]
    lines += ["", "## Histograms", "", "The panel draws the newest histogram of each; `metrics.sqlite` keeps that one "
              "alone, in its table `distributions`.", *table(HISTOGRAMS.values())]
    for name in ALGORITHMS:
        agent = only_class(importlib.import_module(f"workbench.algorithms.{name}.agent"), Algorithm)
        lines += [f"| `{one}` | | the newest updates | {SAMPLES[one]} ({name}) |" for one in agent.histogram_edges]
    return HEAD + "\n".join(lines) + "\n" + OWN


SAMPLES = {
    "importance_ratio": "probability of an action under the trained policy by that under the policy which chose it",
    "td_error": "size \\|δ\\| of the TD error of each step",
    "weight": "weight of each step: exp(A/β), at most largest_weight",
}

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} has {len(METRICS)} metrics of every run.")
