"""TensorBoard event files, written with tensorboard's own records and protobufs; no torch, no tensorflow.

The step axis is frames. The first write creates the file. The groups of metrics are TensorBoard's cards:
throughput/…, bottleneck/…, loss/…, life/…, training/…, episode/…, evaluation/…, policy_lag/…, system/….
"""

from __future__ import annotations

import io
import itertools
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import StorageFailed

_THROUGHPUT = {"batch_fill", "batch_wait_ms", "batch_size", "inference_ms", "update_ms", "queue_occupancy"}
_numbers = itertools.count()  # tell apart two files of one process within one second


def tag(name: str) -> str:
    """TensorBoard's tag of a metric: its group and its name."""
    if name.endswith("_per_second") or name in _THROUGHPUT:
        return f"throughput/{name}"
    if name == "loss" or name.endswith("_loss"):
        return f"loss/{name}"
    if name.endswith("_gb") or name.endswith("_percent"):
        return f"system/{name}"
    for prefix, group in (("time_", "bottleneck"), ("life_", "life"), ("episode_", "episode"),
                          ("evaluation_", "evaluation")):
        if name.startswith(prefix):
            return f"{group}/{name.removeprefix(prefix)}"
    return f"policy_lag/{name}" if name.startswith("policy_lag") else f"training/{name}"


class EventFile:
    """One event file in `folder`; used by one thread at a time."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._path: Path | None = None
        self._pending: list[Any] = []

    def scalars(self, unix_time: float, frames: int, values: Mapping[str, float]) -> None:
        """Add metrics by name, all at one point."""
        from tensorboard.compat.proto import summary_pb2

        self._add(unix_time, frames, [
            summary_pb2.Summary.Value(tag=tag(name), simple_value=value) for name, value in values.items()
        ])

    def histogram(
        self, unix_time: float, frames: int, name: str, edges: Sequence[float], counts: Sequence[int]
    ) -> None:
        """Add a histogram of N counts between N+1 edges."""
        from tensorboard.compat.proto import summary_pb2

        middles = [(low + high) / 2 for low, high in itertools.pairwise(edges)]
        weighted = list(zip(counts, middles, strict=True))
        histogram = summary_pb2.HistogramProto(
            min=edges[0], max=edges[-1], num=sum(counts), bucket_limit=edges[1:], bucket=counts,
            sum=sum(count * middle for count, middle in weighted),
            sum_squares=sum(count * middle**2 for count, middle in weighted),
        )
        self._add(unix_time, frames, [summary_pb2.Summary.Value(tag=tag(name), histo=histogram)])

    def _add(self, unix_time: float, frames: int, values: list[Any]) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2

        self._pending.append(
            event_pb2.Event(wall_time=unix_time, step=frames, summary=summary_pb2.Summary(value=values))
        )

    def flush(self) -> None:
        """Write all added events. Raises StorageFailed; these events are then lost, and the file stays whole."""
        events, self._pending = self._pending, []
        if not events:
            return
        try:
            if self._path is None:
                self._path = self._create()
            _append(self._path, events)
        except OSError as error:
            raise StorageFailed(
                f"cannot write TensorBoard's event file in {self._folder}: {error.strerror}. Free space on that disk; "
                "metrics.sqlite has these metrics."
            ) from error

    def _create(self) -> Path:
        from tensorboard.compat.proto import event_pb2

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        path = self._folder / name
        _append(path, [event_pb2.Event(wall_time=now, file_version="brain.Event:2")])
        return path


def _append(path: Path, events: Sequence[Any]) -> None:
    """Append all events or none: readers stop at a torn record."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    records = io.BytesIO()
    writer = RecordWriter(records)
    for event in events:
        writer.write(event.SerializeToString())
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        size = os.fstat(handle).st_size
        try:
            rest = records.getbuffer()
            while rest:
                rest = rest[os.write(handle, rest):]
        except OSError:
            os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)
