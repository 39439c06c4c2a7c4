"""Work that is recorded once for each shape of its inputs, and launched as a whole from then on.

What was recorded holds while nothing that it read has changed: its inputs are copied into the places that it reads, and
the settings that it looked at are noted with the values that they had. So a slider that recorded work never looks at
drops nothing.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import torch

_WARM_UPS = 3  # libraries choose their kernels and take their memory in the first runs, which are plain ones


class Noted:
    """Settings that keep which of their fields were read, with their values.

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
        """Whether all that was read has the same value in `settings`."""
        return all(getattr(settings, name) == value for name, value in self._read.items())


class Replay(Protocol):
    """Recorded work."""

    @property
    def inputs(self) -> Sequence[torch.Tensor]:
        """The tensors that it reads."""

    @property
    def outputs(self) -> Any:
        """What the work returned; its tensors are written by every launch."""

    def launch(self) -> None:
        """Compute `outputs` from `inputs`."""


class _Kept(NamedTuple):
    replay: Replay
    read: Noted


class Recorder(ABC):
    """What one thread has recorded.

    Args:
        tell: is told in a sentence if something cannot be recorded; from then on work is done plainly.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._refused = False
        self._depends_on: tuple[object, ...] = ()
        self._runs: dict[Hashable, int] = {}
        self._kept: dict[Hashable, _Kept] = {}

    def run(
        self,
        work: Callable[..., Any],
        inputs: Sequence[torch.Tensor],
        *,
        settings: Any,
        key: Hashable = None,
        depends_on: tuple[object, ...] = (),
    ) -> Any:
        """What `work(settings, *inputs)` returns; its tensors hold until the next run of this key.

        Args:
            work: must not look at values of tensors, nor depend on anything that changes but what it is given.
            key: what the work depends on beside its inputs and their shapes, where it goes back and forth.
            depends_on: the same where what was before does not come back; compared with ==.
        """
        if self._refused:
            return work(settings, *inputs)
        if self._depends_on != depends_on:
            self._depends_on = depends_on
            self._runs.clear()
            self._kept.clear()
        key = (key, *(one.shape for one in inputs))
        self._runs[key] = runs = self._runs.get(key, 0) + 1
        if runs <= _WARM_UPS:
            return work(settings, *inputs)
        found = self._kept.get(key)
        if found is None or not found.read.holds(settings):
            read = Noted(settings)
            try:
                found = self._kept[key] = _Kept(self._record(lambda *given: work(read, *given), inputs), read)
            except RuntimeError as error:
                self._refused = True
                self._kept.clear()
                why = str(error).strip().partition("\n")[0] or type(error).__name__
                self._tell(f"goes on without CUDA graphs, and slower, since one could not be recorded: {why}")
                return work(settings, *inputs)
        for mine, given in zip(found.replay.inputs, inputs, strict=True):
            mine.copy_(given, non_blocking=True)
        found.replay.launch()
        return found.replay.outputs

    @abstractmethod
    def _record(self, work: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Replay:
        """`work(*inputs)`, recorded and not yet computed. Raises RuntimeError, and leaves all usable, if it cannot."""


def to_log(sentence: str) -> None:
    """Tell nobody but the process's log."""
    print(sentence, file=sys.stderr, flush=True)
