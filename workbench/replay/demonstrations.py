"""Training on recorded episodes, as imitation does, while the actors show how good the policy is.

The episodes follow one another as in an actor's life, and unrolls are cut from them as from that: a START in an unroll
resets frames, previous action and recurrent state, so the network sees what it would have seen when it acted. In each
epoch the cuts lie elsewhere, and the unrolls come in another order. Which unrolls an update trains on depends on the
seed and the number of updates alone, so nothing needs to be saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss
from workbench.replay.demonstration_file import Recorded
from workbench.replay.experience import FromQueue
from workbench.replay.queue import UnrollQueue
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Flags, unroll_axis

_TRAINED, _HELD_OUT = 0, 1  # streams, each with an order of its own
_RECORDED = ("observation", "reward", "flags", "previous_action", "action")
_SPLIT = 0  # seed of which episodes are held out: the same ones in all runs, so that their losses can be compared


def acted_unrolls(update: int, size: int, ratio: float) -> int:
    """Unrolls of the actors that update number `update`, from 0 on, of `size` unrolls costs: size/ratio on average."""
    return math.ceil((update + 1) * size / ratio) - math.ceil(update * size / ratio)


def held_out_unrolls(size: int, share: float) -> int:
    """Held-out unrolls in a batch of `size` unrolls to train on, where any are held out."""
    return max(1, round(share * size))


def held_out(episodes: int, share: float) -> Array:
    """bool [episodes]: those that are not trained on: `share` of them, at least one of two; none where it is 0."""
    number = min(max(1, round(share * episodes)), episodes - 1) if share > 0 else 0
    held = np.zeros(episodes, bool)
    held[np.random.default_rng(_SPLIT).permutation(episodes)[:number]] = True
    return held


class DemonstrationStream:
    """Some of the episodes, one after another, and after the last one the first again.

    Attributes:
        steps: of all of them.
    """

    def __init__(self, recorded: Recorded, episodes: Array, *, layout: UnrollLayout, seed: list[int]) -> None:
        self._layout, self._seed = layout, seed
        lengths, starts = recorded.length[episodes], recorded.first[episodes]
        self.steps = int(lengths.sum())
        first = np.cumsum(lengths) - lengths  # of each episode, in this stream
        self._place = np.arange(self.steps) - np.repeat(first, lengths)  # of each step, in its episode
        self._rows = np.repeat(starts, lengths) + self._place  # of each step, in the file
        self._observation = recorded.observation
        action = recorded.action[self._rows]
        flags, previous = np.zeros(self.steps, np.uint8), np.roll(action, 1, axis=0)
        flags[first] = np.roll(recorded.end[episodes], 1) | np.uint8(Flags.START)
        previous[first] = 0
        self._arrays = {"reward": np.roll(recorded.reward[self._rows], 1), "flags": flags, "action": action,
                        "previous_action": previous}
        self._epoch, self._order, self._shift = -1, np.zeros(0, np.int64), 0

    @property
    def unrolls(self) -> int:
        """Unrolls of an epoch; they cover each step once, and fewer than an unroll's twice."""
        return -(-self.steps // self._layout.unroll_length)

    def starts(self, draws: Array) -> Array:
        """int64 [B]: the first trained step of each of these draws, counted over all epochs."""
        places = []
        for epoch, place in zip(*np.divmod(draws, self.unrolls), strict=True):
            if epoch != self._epoch:
                random = np.random.default_rng([*self._seed, int(epoch)])
                self._epoch, self._order = int(epoch), random.permutation(self.unrolls)
                self._shift = int(random.integers(self._layout.unroll_length))
            places.append(int(self._order[place]) * self._layout.unroll_length + self._shift)
        return np.array(places, np.int64) % self.steps

    def steps_of(self, starts: Array) -> Array:
        """int64 [L, B]: the steps of the unrolls whose trained part begins at `starts` [B]."""
        length, overlap = self._layout.length, self._layout.overlap
        steps: Array = (starts + np.arange(length)[:, None] - overlap) % self.steps
        return steps

    def gather(self, name: str, steps: Array, out: Array) -> None:
        """Write the field `name` of `steps` into `out`, of their shape and that of the field."""
        if name == "observation":
            np.take(self._observation, self._rows[steps], axis=0, out=out, mode="clip")
        else:
            np.take(self._arrays[name], steps, axis=0, out=out, mode="clip")

    def frames_before(self, firsts: Array, out: Array) -> None:
        """Write the frames before the steps `firsts` [B], oldest first, into `out` [B, S-1, *frame]; zeros from before
        an episode."""
        back = np.arange(out.shape[1], 0, -1)
        self.gather("observation", (firsts[:, None] - back) % self.steps, out)
        out[back > self._place[firsts][:, None]] = 0


class Demonstrations(FromQueue):
    """Batches of demonstrations, each paid for by unrolls of the actors. See `experience.Experience`.

    `demonstration_ratio` steps of demonstrations are trained on per step that was acted, to within one batch: training
    waits for the actors, and a full queue lets the actors wait for training.

    Args:
        recorded: of the environment of `layout`.
        seed: of the order of the unrolls.
        updates: returns the number of updates so far.
        validation_share: see `DemonstrationsConfig`.
    """

    between_rounds = True

    def __init__(
        self, queue: UnrollQueue, recorded: Recorded, layout: UnrollLayout, *, seed: int, updates: Callable[[], int],
        validation_share: float, pin_memory: bool,
    ) -> None:
        super().__init__(queue, pin_memory=pin_memory)
        self._layout, self._updates, self._share = layout, updates, validation_share
        held = held_out(len(recorded.length), validation_share)
        self._trained = DemonstrationStream(recorded, np.flatnonzero(~held), layout=layout, seed=[seed, _TRAINED])
        self._held = None if not held.any() else DemonstrationStream(
            recorded, np.flatnonzero(held), layout=layout, seed=[seed, _HELD_OUT])
        self._batch_size = 0  # of the last update
        self._skipped = 0  # batches since the last update that were not finite, and count as none

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """See `experience.Experience`; drops the unrolls that pay for the batch."""
        update = self._updates() + self._skipped
        price = acted_unrolls(update, config.batch_size, config.demonstration_ratio)
        self.queue.resize(max(self.queue.capacity, price))
        if price:
            acted = self.queue.take(price, timeout_s=timeout_s)
            if not acted:
                return None
            for unroll in acted:
                if unroll.flight is not None:
                    unroll.flight.land()
        self._batch_size = config.batch_size
        return self._drawn(update, config.batch_size)

    def batch_unrolls(self, config: Any) -> int:
        """See `experience.Experience`: those that are held out as well."""
        return sum(number for _, number in self._parts(config.batch_size))

    def _parts(self, size: int) -> list[tuple[DemonstrationStream, int]]:
        """From which streams how many unrolls of a batch come, of which `size` are trained on."""
        held = [] if self._held is None else [(self._held, held_out_unrolls(size, self._share))]
        return [(self._trained, size), *held]

    def _drawn(self, update: int, size: int) -> Batch:
        """Batch number `update`, from 0 on: `size` unrolls to train on, then held-out ones."""
        parts = self._parts(size)
        steps = [(stream, stream.steps_of(stream.starts(update * number + np.arange(number))))
                 for stream, number in parts]
        weights = np.repeat([1.0, 0.0][: len(parts)], [number for _, number in parts]).astype(np.float32)
        tensors = self._memory.take(self._layout.fields, len(weights))
        for name in self._layout.fields:
            self._fill(tensors[name].numpy(), name, steps)
        tensors["policy_version"].fill_(self._updates())  # no lag: another policy acted
        tensors["weight"].numpy()[:] = weights
        return Batch.of(tensors)

    def _fill(self, array: Array, name: str, steps: list[tuple[DemonstrationStream, Array]]) -> None:
        """Write a batch's field of the unrolls at these steps [L, B] into `array`; what nobody recorded is zero."""
        axis, at = unroll_axis(name), 0
        for stream, unrolls in steps:
            part = array[:, at : at + unrolls.shape[1]] if axis else array[at : at + unrolls.shape[1]]
            if name in _RECORDED:
                stream.gather(name, unrolls, part)
            elif name == "stack_prefix":
                stream.frames_before(unrolls[0], part)
            else:
                part[:] = 0
            at += unrolls.shape[1]

    def after_update(self, batch: Batch, loss: Loss | None, config: Any = None) -> None:
        """Passes over a batch that was skipped, which would be drawn again. The next one is trained on twice instead:
        the number of a batch depends on updates alone, as a resume needs it."""
        self._skipped = self._skipped + 1 if loss is None else 0

    def metrics(self) -> tuple[dict[str, float], dict[str, Any]]:
        """See `experience.Experience`: how often the demonstrations were trained on, since the run began."""
        if not self._batch_size:
            return {}, {}
        return {"demonstration_epochs": self._updates() * self._batch_size / self._trained.unrolls}, {}
