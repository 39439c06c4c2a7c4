"""How long training has waited for its next batch."""

from __future__ import annotations

import time

_PAUSE_S = 2.0  # between two looks for a batch: training was paused
_LONG_S = 3.0  # of waiting for a batch, after which a status says for what


class Wait:
    """The wait of training for its next batch, which other threads ask about."""

    def __init__(self) -> None:
        self._began: tuple[float, int, float] | None = None  # when, for how many, and when that was last said

    def goes_on(self, wanted: int) -> None:
        """Training waits for so many, since now or since before; a pause is no wait."""
        now, began = time.monotonic(), self._began
        self._began = began[0] if began and now - began[2] < _PAUSE_S else now, wanted, now

    def ends(self) -> None:
        """What was waited for has come."""
        self._began = None

    @property
    def long_for(self) -> int:
        """How many are waited for, once that takes long; 0 before."""
        began = self._began
        return began[1] if began is not None and time.monotonic() - began[0] >= _LONG_S else 0
