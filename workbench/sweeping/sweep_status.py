"""`SweepStatus`: the state of a sweep at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.tables import plain

GOING_ON = ("starting", "running", "stopping")
OPEN = "open"  # the state of a trial that was running when its sweep ended


@dataclass(frozen=True, repr=False)
class SweepStatus:
    """The state of a sweep at one moment.

    Attributes:
        state: starting, running, stopping, stopped, finished, failed, or dead: its process is gone, and `resume`
            continues it; or "damaged": its files cannot be read.
        trials: number of planned runs; those that have begun are running, finished, pruned or failed.
        waiting: those of the running ones that wait, such as for a machine (`Trial.waits`).
        best_value, best_run: of the best trial so far, or None and "".
        error: why it failed; else None.
        age_s: seconds since it was created.
        reason: why it stopped by itself, such as a spot machine that is taken back; else "".
        cost: of all its runs, at their `price_per_hour`.
        frames: that all its runs trained, those of a fork from its parent on; 0 without a price.
    """

    name: str
    state: str
    trials: int
    running: int
    finished: int
    pruned: int
    failed: int
    metric: str
    best_value: float | None
    best_run: str
    error: str | None
    age_s: float
    waiting: int = 0
    reason: str = ""
    cost: float = 0.0
    frames: int = 0

    @property
    def cost_per_billion_frames(self) -> float | None:
        """The cost of all runs for each billion of their frames; None without a price, or without frames."""
        return self.cost / self.frames * 1e9 if self.cost and self.frames > 0 else None

    @classmethod
    def damaged(cls, name: str, why: str) -> SweepStatus:
        """The status of a sweep whose files cannot be read."""
        return cls(name, "damaged", 0, 0, 0, 0, 0, "", None, "", why, 0.0)

    @property
    def problem(self) -> str:
        """Why its files cannot be read; "" where they can."""
        return self.error or "" if self.state == "damaged" else ""

    @property
    def over(self) -> int:
        """Number of trials with an outcome."""
        return self.finished + self.pruned + self.failed

    @property
    def possible(self) -> tuple[str, ...]:
        """What can be done with it now, of stop, resume and delete."""
        if self.state in GOING_ON:
            return ("stop",)
        runs_may_live, is_open = self.state == "dead", self.over < self.trials
        return tuple(name for name, can in (("stop", runs_may_live), ("resume", is_open), ("delete", True)) if can)

    def line(self) -> str:
        """State, progress and the best value in one line, without the name."""
        goes_on = self.state in GOING_ON
        counts = {"running" if goes_on else OPEN: self.running - self.waiting, "waiting for a machine": self.waiting,
                  "pruned": self.pruned, "failed": self.failed}
        parts = [self.state, f"{self.over} of {self.trials} trials"]
        parts += [f"{number} {kind}" for kind, number in counts.items() if number]
        if self.best_value is not None:
            parts.append(f"best {self.metric} {self.best_value:.4g} ({self.best_run})")
        if (each := self.cost_per_billion_frames) is not None:
            parts.append(f"cost {self.cost:.2f} ({each:,.2f} per billion frames)")
        why = self.error or (self.reason if self.state == "stopped" else "")
        return plain(", ".join(parts) + (f": {why.splitlines()[0]}" if why else ""))

    def __repr__(self) -> str:
        return f"SweepStatus({plain(self.name)}: {self.line()})"
