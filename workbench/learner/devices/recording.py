"""Records work once for each shape of its inputs, and launches it as a whole from then on.

A recording is valid as long as nothing that it read has changed. Its inputs are copied to where it reads them, and the
settings that it read are noted with their values: so changing a setting that it never read keeps the recording.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import torch

_WARM_UPS = 3  # plain runs before a recording, in which libraries choose their kernels and allocate memory
RUNS_TO_RECORD = _WARM_UPS + 1


class NotedSettings:
    """Settings that note which of their fields were read, with the values.

    Args:
        settings: an object whose attributes are values.
    """

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        value = self._read[name] = getattr(self._settings, name)
        return value

    def holds(self, settings: Any) -> bool:
        """Whether all fields that were read have the same values in `settings`."""
        return all(getattr(settings, name) == value for name, value in self._read.items())


class Replay(Protocol):
    """Recorded work."""

    @property
    def inputs(self) -> Sequence[torch.Tensor]:
        """The tensors that it reads."""

    @property
    def outputs(self) -> Any:
        """The work's result, whose tensors every launch writes."""

    def launch(self) -> None:
        """Compute `outputs` from `inputs`."""


class WorkRecorder(ABC):
    """Records the work of one thread.

    Args:
        tell: called with a sentence if work cannot be recorded; from then on nothing is.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._refused = False
        self._depends_on: tuple[object, ...] = ()
        self._settings: Any = None  # of the last run
        self._plain: dict[Hashable, int] = {}  # runs without a recording
        self._read: dict[Hashable, NotedSettings] = {}  # by the last run of a key that was not a launch
        self._recordings: dict[Hashable, Replay] = {}

    def run(
        self, work: Callable[..., Any], inputs: Sequence[torch.Tensor], *, settings: Any, key: Hashable = None,
        depends_on: tuple[object, ...] = (),
    ) -> Any:
        """The result of `work(settings, *inputs)`; its tensors are valid until the next run with this key.

        Args:
            work: must not read values of tensors, nor depend on anything that changes except its arguments.
            key: what else the work depends on; recordings of other keys are kept.
            depends_on: what else the work depends on; recordings with other values (by ==) are dropped.
        """
        if self._refused:
            return work(settings, *inputs)
        if self._depends_on != depends_on:
            self._depends_on = depends_on
            self._plain.clear()
            self._recordings.clear()
        if self._settings is not settings:
            self._change(settings)
        key = (key, *(tensor.shape for tensor in inputs))
        replay = self._recordings.get(key)
        if replay is None:
            noted = self._read[key] = NotedSettings(settings)
            self._plain[key] = self._plain.get(key, 0) + 1
            if self._plain[key] <= _WARM_UPS:
                return work(noted, *inputs)
            try:
                replay = self._recordings[key] = self._record(lambda *tensors: work(noted, *tensors), inputs)
            except RuntimeError as error:
                self._refused = True
                self._recordings.clear()
                why = str(error).strip().partition("\n")[0] or type(error).__name__
                self._tell(f"goes on without CUDA graphs, and slower, since one could not be recorded: {why}")
                return work(settings, *inputs)
        torch._foreach_copy_(list(replay.inputs), list(inputs), non_blocking=True)
        replay.launch()
        return replay.outputs

    def _change(self, settings: Any) -> None:
        """Drop the recordings that read other settings. Each of them has a plain run first: what a new setting begins
        with must not be in every launch."""
        self._settings = settings
        for key in [key for key, read in self._read.items() if not read.holds(settings)]:
            self._recordings.pop(key, None)
            self._plain[key] = min(self._plain.get(key, 0), _WARM_UPS - 1)

    @abstractmethod
    def _record(self, work: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Replay:
        """Record `work(*inputs)` without computing it. Raises RuntimeError, and leaves the device usable."""


def to_log(sentence: str) -> None:
    """Print a sentence to the process's log."""
    print(sentence, file=sys.stderr, flush=True)
