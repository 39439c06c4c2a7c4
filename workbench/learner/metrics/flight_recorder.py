"""The flight recorder: follows a few observations from the step that made them to the end of the update they train.

Inference boards one observation at most every 50 ms. It then travels with its unroll, and whoever has the unroll says
when a stage ends. So what is not followed costs a look at the clock per batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.learner.inference.batcher import Request
from workbench.metrics.flights import STAGES
from workbench.trajectory import Array, Unroll

_INTERVAL_S = 0.05
_KEPT = 300  # flights that have landed


class OpenFlight:
    """One observation on its way. Times are those of time.perf_counter().

    Attributes:
        seconds: of each stage so far, by the names of `metrics.flights.STAGES`.
        heard: whether the environment's next step has come.
        told: whether `FlightRecorder.means` has counted it.
    """

    def __init__(self, request: Request, row: int, *, began: float, answered: float, landed: deque[OpenFlight]) -> None:
        self.row, self.run_id = row, request.run_id
        self.heard = self.told = False
        stepping_s = request.message.stepping_s
        self.born, self.landed_at = request.arrived - stepping_s, 0.0
        self.seconds = {"step": stepping_s, "wait": began - request.arrived, "inference": answered - began, "wire": 0.0}
        self._served_s = answered - request.arrived
        self._since, self._landed = answered, landed

    def hear(self, request: Request) -> None:
        """`request` has the environment's next step; its message says how long this one was away from its actor."""
        self.heard = True
        if request.run_id == self.run_id and not self.landed_at:
            self.seconds["wire"] = max(0.0, request.message.round_trip_s - self._served_s)

    def ends(self, stage: str, at: float | None = None) -> None:
        """That stage ends, now or `at` a time, and the next one begins; or the stage goes on until it ends again."""
        at = time.perf_counter() if at is None else at
        self.seconds[stage] = self.seconds.get(stage, 0.0) + at - self._since
        self._since = at

    def land(self) -> None:
        """The journey is over."""
        self.seconds["unroll"] = max(0.0, self.seconds["unroll"] - self.seconds["wire"])  # both begin with the actions
        self.landed_at = self._since
        self._landed.append(self)


class FlightRecorder:
    """The flights of one learner. The inference thread calls `record`, others the rest."""

    def __init__(self) -> None:
        self._landed: deque[OpenFlight] = deque(maxlen=_KEPT)
        self._aboard: dict[int, OpenFlight] = {}  # by row: their unroll is not complete
        self._unheard: list[OpenFlight] = []
        self._next_at = 0.0
        self._turn = 0

    def record(
        self, requests: Sequence[Request], rows: Array, unrolls: Sequence[Unroll], *, fills: Callable[[Array], Array],
        began: float, answered: float,
    ) -> None:
        """Board an observation of a batch if it is time, and let `unrolls` take those that they hold.

        Args:
            rows: int [N], those of the batch that train.
            unrolls: that the batch completed.
            fills: returns for rows, bool [N], whether their step is in an unroll.
            began, answered: when the batch began, and when its actions left.
        """
        for waiting in self._unheard:
            for request in requests:
                if request.env_ids[0] <= waiting.row <= request.env_ids[-1]:
                    waiting.hear(request)
        self._unheard = [waiting for waiting in self._unheard if not waiting.heard]
        if answered >= self._next_at and len(rows := rows[fills(rows)]):
            self._next_at = answered + _INTERVAL_S
            self._turn += 1
            self._board(requests, int(rows[self._turn % len(rows)]), began, answered)
        for unroll in unrolls:
            flight = self._aboard.pop(unroll.env_id, None)
            if flight is not None and flight.run_id == unroll.run_id:
                flight.ends("unroll")
                unroll.flight = flight

    def _board(self, requests: Sequence[Request], row: int, began: float, answered: float) -> None:
        request = next(one for one in requests if one.env_ids[0] <= row <= one.env_ids[-1])
        before = self._aboard.get(row)
        if before is None or before.run_id != request.run_id:
            flight = OpenFlight(request, row, began=began, answered=answered, landed=self._landed)
            self._aboard[row] = flight
            self._unheard.append(flight)

    def flights(self) -> list[dict[str, Any]]:
        """The last ones that have landed: row, born (by time.perf_counter()), and seconds by stage."""
        return [{"row": flight.row, "born": flight.born, "seconds": flight.seconds} for flight in list(self._landed)]

    def means(self) -> dict[str, float]:
        """Mean seconds of each stage, as metrics, of the flights that have landed since the last call; {}: none."""
        new = [flight for flight in list(self._landed) if not flight.told]
        for flight in new:
            flight.told = True
        if not new:
            return {}
        return {f"life_{stage}_s": float(np.mean([flight.seconds[stage] for flight in new]))
                for stage in STAGES if stage in new[0].seconds}
