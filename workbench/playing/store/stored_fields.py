"""Checks the contents of a rollout's folder before they are used, since a stranger may have written it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.rundir.files import check_fields
from workbench.trajectory import Array

_FIELDS: dict[str, tuple[type, ...]] = {
    "environment": (str,), "algorithm": (str,), "checkpoint": (str,), "checkpoint_frames": (int,), "seed": (int,),
    "greedy": (bool,), "terminated": (bool,), "truncated": (bool,), "fps": (float, int), "note": (str,),
    "action_names": (list,),
}  # fmt: skip
_OPTIONAL: dict[str, tuple[type, ...]] = {"max_abs_reward": (float, int), "reward_scale": (float, int)}
_FASTEST = 1000.0  # frames per second
_ROWS = {  # of each step: kinds of dtype, and numbers of axes
    "rewards": ("f", (1,)), "values": ("f", (1,)), "policy": ("f", (2,)), "q_values": ("f", (2,)), "means": ("f", (2,)),
    "scores": ("f", (1,)), "state_norm": ("f", (1,)), "saliency": ("u", (2, 3)), "by_person": ("bu", (1,)),
}  # fmt: skip
_NEEDED = ("rewards", "values")
OUTPUTS = {"policy": "probability", "q_values": "q_value", "means": "mean"}  # kinds of an `Outlook`, by their arrays


def spec_of(
    record: Mapping[str, Any], arrays: Mapping[str, Array], frames: int | None, path: Path
) -> EnvironmentSpec:
    """Check the record in `path` and all arrays, and return the environment's spec; `frames`: their number, or None.

    Raises StorageFailed, KeyError, ValueError or TypeError for impossible contents.
    """
    check_fields(record, _FIELDS | _OPTIONAL, path, needed=_FIELDS)
    if not all(type(name) is str for name in record["action_names"]):
        raise ValueError("a name of an action is not a text")
    if not 0 < record["fps"] <= _FASTEST:
        raise ValueError(f"fps={record['fps']!r:.100} is not between 0 and {_FASTEST:g}")
    rows, sizes = arrays["observations"], [len(record["action_names"])]
    actions = record.get("actions", {"kind": "categorical", "sizes": sizes})  # format 1 knew choices alone
    spec = EnvironmentSpec.from_json({
        "name": record["environment"], "observation_shape": rows.shape[1:], "observation_dtype": rows.dtype.name,
        "num_actions": ActionSpec.from_json(actions).encoded_size, "actions": actions,
        "parts": record["parts"] if "actions" in record else (),
    })  # fmt: skip
    _check_rows(arrays, spec, frames)
    return spec


def _check_rows(arrays: Mapping[str, Array], spec: EnvironmentSpec, frames: int | None) -> None:
    actions = arrays["actions"]
    steps, counts = len(actions), {"observations": len(arrays["observations"]), "frames": frames}
    kind, sizes = np.dtype(spec.actions.dtype).kind, np.array(spec.actions.sizes)
    if not steps or actions.shape[1:] != spec.actions.shape or actions.dtype.kind != kind:
        raise ValueError(f"actions of {spec.actions.kind} are not {actions.dtype} {actions.shape}")
    is_choice = (actions >= 0) & (actions < sizes) & (actions == np.floor(actions))
    if not ((sizes == 0) | is_choice).all():
        raise ValueError(f"an action is none of {spec.actions.sizes}")
    for name, count in counts.items():
        if count not in (None, steps + 1):
            raise ValueError(f"of {steps:,} steps there are {count:,} {name}")
    for name, (dtypes, axes) in _ROWS.items():
        rows = arrays[name] if name in _NEEDED else arrays.get(name)
        if rows is not None and (rows.dtype.kind not in dtypes or rows.ndim not in axes or len(rows) != steps):
            raise ValueError(f"{name} of {steps:,} steps are not {rows.dtype} {rows.shape}")
    _check_edits(arrays, steps)
    widths = {name: arrays[name].shape[1] for name in OUTPUTS if name in arrays}
    if set(widths.values()) != {spec.num_actions}:
        raise ValueError(f"the policy's output must have {spec.num_actions} columns: {widths}")


def _check_edits(arrays: Mapping[str, Array], steps: int) -> None:
    """Raises ValueError unless what the policy saw in the place of some observations is like these."""
    if "edited_at" not in arrays and "edited" not in arrays:
        return
    at, edited, rows = arrays["edited_at"], arrays["edited"], arrays["observations"]
    if at.dtype.kind != "i" or at.ndim != 1 or not ((at >= 0) & (at < steps)).all() or not (np.diff(at) > 0).all():
        raise ValueError(f"edited_at {at.dtype} {at.shape} are no steps of {steps:,}, one after the other")
    if edited.dtype != rows.dtype or edited.shape != (len(at), *rows.shape[1:]):
        raise ValueError(f"{len(at):,} edited observations are not {edited.dtype} {edited.shape}")
