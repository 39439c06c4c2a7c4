"""The best rollout of a run for a file of bounded size: as many of its frames as fit."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from workbench.errors import WorkbenchError
from workbench.playing.episodes import rollout as play
from workbench.playing.rollout import Rollout
from workbench.running.handle import Run
from workbench.widgets.episodes.player import episode

PLAYED_STEPS, PLAYED_S = 1000, 60.0  # of an episode that is played for the file, and for how long it may take
SIDE_PX, QUALITY = 320, 80  # of frames that are made smaller
_SAMPLES = 12  # frames from which the size of a film is estimated


@dataclass(frozen=True)
class Film:
    """A rollout as a player's message, with what was left out of it.

    Attributes:
        message, buffers: as `player.episode` returns them.
        note: what was left out, in a sentence; "": nothing.
    """

    message: dict[str, Any]
    buffers: list[bytes]
    note: str = ""


def best_rollout(run: Run) -> Rollout | str:
    """The policy's rollout with the highest return, which nobody changed; else one that is played now, if that takes
    little time; else how to get one."""
    rollouts = [rollout for rollout in run.rollouts if rollout.by_person is None and rollout.branched is None]
    if rollouts:
        return max(rollouts, key=lambda rollout: rollout.episode_return)
    checkpoint = run.best or next(reversed(run.checkpoints), None)
    if checkpoint is None:
        return "This run has no checkpoint yet, so that nothing can be played."
    try:
        return play(checkpoint, max_steps=PLAYED_STEPS, timeout_s=PLAYED_S)
    except WorkbenchError:
        return (f"This run has no rollout yet. wb.rollout({run.name!r}) plays and stores one; run.share() then writes "
                "it into this file.")


def fitted(rollout: Rollout, bytes_left: int) -> Film | None:
    """The rollout with as many frames as fit into that many bytes; None where not even its numbers fit.

    What is left out, in this order: the saliency, the size of frames, all but every second, third, ... frame.
    """
    notes = []
    if rollout.saliency is not None and len(episode(rollout, ("", []))[1][2]) > bytes_left // 4:
        rollout, notes = replace(rollout, saliency=None), ["it has no saliency"]
    if rollout.frames is None:
        message, buffers = episode(rollout)
    else:
        empty = [b""] * len(rollout.frames)
        rest = sum(map(len, episode(rollout, ("image/png", empty))[1]))
        mime, pictures, left_out = _pictures(rollout, max(0, bytes_left - rest))
        message, buffers = episode(rollout, (mime, pictures))
        notes += left_out
    if sum(map(len, buffers)) > bytes_left:
        return None
    note = f"So that this file stays small, {' and '.join(notes)}." if notes else ""
    return Film(message, buffers, note)


def _pictures(rollout: Rollout, bytes_left: int) -> tuple[str, list[bytes], list[str]]:
    """The type of the pictures, one for each frame, empty where it was left out, and what was done, in words."""
    mime, files = rollout.pictures()
    if sum(map(len, files)) <= bytes_left:
        return mime, files, []
    frames = rollout.frames
    assert frames is not None
    count = len(files)
    samples = [_smaller(frames[count * at // _SAMPLES]) for at in range(_SAMPLES)]
    stride = max(1, math.ceil(count * sum(map(len, samples)) / len(samples) / max(1, bytes_left)))
    while stride < count:
        pictures = [_smaller(frames[at]) if at % stride == 0 else b"" for at in range(count)]
        if sum(map(len, pictures)) <= bytes_left:
            left_out = [f"the film shows one frame of {stride}"] if stride > 1 else []
            return "image/jpeg", pictures, [f"its pictures have at most {SIDE_PX} px", *left_out]
        stride += 1 + stride // 8
    return "image/jpeg", [_smaller(frames[0]) if at == 0 and bytes_left else b"" for at in range(count)], [
        "the film shows its first frame alone"]


def _smaller(frame: Any) -> bytes:
    """A frame, uint8 [H, W, 3], as a JPEG with no side above SIDE_PX."""
    image = Image.fromarray(frame)
    image.thumbnail((SIDE_PX, SIDE_PX))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
