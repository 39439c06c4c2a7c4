"""Whether a run has frames enough to learn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from workbench.config.run import RunConfig

ROUND = ("batch_size", "unroll_length", "minibatches")  # whose product is the steps that training waits for
_USES = ("echo_factor", "epochs", "replay_ratio", "demonstration_ratio")  # how often a step is trained on


def more_updates(config: RunConfig) -> str:
    """What lets a run train that makes no update."""
    return f"Give more frames, or {'a smaller replay_min_size' if config.replays else 'smaller batches'}"


def few_updates(config: RunConfig, who: str, values: Callable[[str], Sequence[Any]] | None = None) -> str:
    """A sentence where no run of `config` makes an update, or none whose learning rate is whole; "" where one may.

    Args:
        who: the run, or the runs.
        values: those that a field has in some run, by its name; None: its own alone.
    """
    known, frames = config.all_settings(), config.total_frames
    found = {name: values(name) if values else [config.value(name)]
             for name in (*ROUND, *_USES, "warmup_updates", "replay_min_size", "replay_size") if name in known}
    waits_for = [name for name in ROUND if name in found]
    if config.replays:
        holds = 0 < min(found["replay_size"]) < min(found["replay_min_size"])
        waits_for = ["replay_size" if holds else "replay_min_size", "unroll_length"]
    first, steps = (math.prod(min(found[name]) for name in names if name in found) for names in (waits_for, ROUND))
    if not config.imitates and frames < first:  # a step has a frame or more
        made = " x ".join(f"{name}={min(found[name])}" for name in waits_for)
        return (f"{who} makes no update in total_frames={frames:,}: training waits for {first:,} steps ({made}). "
                f"{more_updates(config)}.")
    uses = math.prod(max(found[name]) for name in _USES if name in found)
    updates, warm_up = int(frames * uses * min(found.get("minibatches", [1])) // steps), min(found["warmup_updates"])
    if not 0 < updates <= warm_up:
        return ""
    return (f"{who} makes at most {updates:,} updates in total_frames={frames:,}, and its learning rate rises in all "
            f"of them (warmup_updates={warm_up:,}): give more frames, or warmup_updates=0.")
