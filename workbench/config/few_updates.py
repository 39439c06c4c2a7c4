"""Whether a run has frames enough to learn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from workbench.config.run import RunConfig

ROUND = ("batch_size", "unroll_length", "minibatches")  # whose product is the steps that training waits for
_USES = ("echo_factor", "epochs", "replay_ratio", "demonstration_ratio")  # how often a step is trained on


def few_updates(config: RunConfig, who: str, values: Callable[[str], Sequence[Any]] | None = None) -> str:
    """A sentence where no run of `config` makes an update, or none whose learning rate is whole; "" where one may.

    Args:
        who: the run, or the runs.
        values: those that a field has in some run, by its name; None: its own alone.
    """
    known, frames = config.all_settings(), config.total_frames
    found = {name: values(name) if values else [config.value(name)]
             for name in (*ROUND, *_USES, "warmup_updates") if name in known}
    steps = math.prod(min(found[name]) for name in ROUND if name in found)
    if not (config.replays or config.imitates) and frames < steps:  # a step has a frame or more
        made = " x ".join(f"{name}={min(found[name])}" for name in ROUND if name in found)
        return (f"{who} makes no update in total_frames={frames:,}: training waits for {steps:,} steps ({made}). Give "
                "more frames, or smaller batches.")
    uses = math.prod(max(found[name]) for name in _USES if name in found)
    updates, warm_up = int(frames * uses * min(found.get("minibatches", [1])) // steps), min(found["warmup_updates"])
    if not 0 < updates <= warm_up:
        return ""
    return (f"{who} makes at most {updates:,} updates in total_frames={frames:,}, and its learning rate rises in all "
            f"of them (warmup_updates={warm_up:,}): give more frames, or warmup_updates=0.")
