"""Writes frames as a film, .mp4 by PyAV (H.264) or .gif by Pillow, with saliency and text drawn in on request."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.config import Setting
from workbench.environments.observations import drawable, picture
from workbench.errors import InvalidInput, MissingPackage, StorageFailed
from workbench.playing import action_words
from workbench.playing.action_bars import domain_of, strip
from workbench.playing.store.pictures import LARGEST_SIDE
from workbench.rundir.files import saving
from workbench.trajectory import Array

if TYPE_CHECKING:
    from workbench.playing.rollout import Rollout

SMALLEST_PX = 320  # of the shorter side; smaller frames are enlarged by a whole factor
_HEAT = np.array([255.0, 64.0, 0.0], np.float32)  # orange-red: visible on Atari's black, blue and green alike
_TEXT_PX, _STRIP_PX = 22, 44
_GIF_TICK_S = 0.01  # the unit of GIF; viewers slow down below two
_KINDS = (".mp4", ".gif")
_FPS = Setting("fps", float, 15.0, "", unit="steps/s", low=0.1, high=240)


def watchable(fps: float) -> float:
    """An environment's own frame rate, clipped to the bounds of a film's."""
    return float(np.clip(fps, _FPS.low, _FPS.high))


def named(path: Path) -> Path:
    """The path of a film; in a folder that is there, the first free one of gymnasium.wrappers.RecordVideo's names."""
    if not path.is_dir():
        return path
    names = (path / f"rl-video-episode-{number}.mp4" for number in itertools.count())
    return next(name for name in names if not os.path.lexists(name))


def check_target(path: Path) -> None:
    """Raises InvalidInput for a suffix of no film, StorageFailed where there is no folder for it."""
    if path.suffix.lower() not in _KINDS:
        raise InvalidInput(f"cannot save a film as {path.name!r}: its name must end in {' or '.join(_KINDS)}.")
    if not path.parent.is_dir():
        why = os.strerror(errno.ENOTDIR if path.parent.exists() else errno.ENOENT)
        raise StorageFailed(f"cannot write {path}: {why}. Make its folder, or name another.")


def save(frames: Iterator[Array], path: Path, *, fps: float) -> Path:
    """Write frames, uint8 [H, W, 3], as a film in the format of the path's suffix, and return the path.

    Sizes become even, as H.264 requires. Raises InvalidInput, MissingPackage, StorageFailed.
    """
    fps = _FPS.check(fps)
    check_target(path)
    write = _write_mp4 if path.suffix.lower() == ".mp4" else _write_gif
    with saving(path) as beside:
        write(_of_one_size(map(_enlarged, frames)), beside, fps)
    return path


def _of_one_size(frames: Iterator[Array]) -> Iterator[Array]:
    """The frames. Raises StorageFailed at one of another size, which no film holds."""
    first = next(frames)
    for frame in itertools.chain([first], frames):
        if frame.shape != first.shape:
            raise StorageFailed(f"its frames are of {first.shape} and {frame.shape}. No game draws such; delete its "
                                "folder.")
        yield frame


def _enlarged(frame: Array) -> Array:
    """The frame with each pixel repeated until its shorter side has about 320 px, and an even size."""
    times = max(1, min(round(SMALLEST_PX / min(frame.shape[:2])), LARGEST_SIDE // max(frame.shape[:2])))
    large = frame.repeat(times, 0).repeat(times, 1)
    height, width = large.shape[:2]
    return np.pad(large, [(0, height % 2), (0, width % 2), (0, 0)], mode="edge")


def _write_mp4(frames: Iterator[Array], path: Path, fps: float) -> None:
    try:
        import av
    except ModuleNotFoundError:
        raise MissingPackage("an mp4 needs PyAV. Install it: pip install av. Or save a .gif.") from None
    first = next(frames)
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream: Any = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
        stream.height, stream.width = first.shape[:2]
        stream.pix_fmt, stream.options = "yuv420p", {"crf": "18", "preset": "veryfast"}
        for frame in itertools.chain([first], frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())


def _write_gif(frames: Iterator[Array], path: Path, fps: float) -> None:
    """Write a GIF. Above 50 steps/s it skips every second or third frame, so that the film keeps its pace.

    Each frame is the part of the picture that changed, with its own colours. Image.save would hold all in memory.
    """
    from PIL import Image, ImageChops
    from PIL.GifImagePlugin import getdata, getheader

    stride = 1
    while stride / fps < 2 * _GIF_TICK_S:
        stride += 1
    ticks = round(stride / fps / _GIF_TICK_S)
    before = None
    with open(path, "wb") as file:
        for frame in itertools.islice(frames, 0, None, stride):
            image = Image.fromarray(frame)
            box = (0, 0, *image.size)
            if before is not None:
                box = ImageChops.difference(image, before).getbbox() or (0, 0, 1, 1)
            part = image.crop(box).quantize(256, dither=Image.Dither.NONE)
            if before is None:
                file.writelines(getheader(part, info={"loop": 0})[0])
            file.writelines(getdata(part, box[:2], duration=ticks * 10, disposal=1, include_color_table=True))
            before = image
        file.write(b";")


# --- overlay ----------------------------------------------------------------------------------------------------------


def with_overlay(rollout: Rollout) -> Iterator[Array]:
    """The enlarged frames under their saliency, with the policy (see `strip`) and a line of text below.

    If the saliency belongs to another view than the frames, that view is shown.
    """
    assert rollout.frames is not None
    frames: Iterable[Array] = rollout.frames
    if rollout.saliency is not None and rollout.saliency.ndim == 3 and rollout.explains_what_frames_do_not_show:
        rows = rollout.observation_rows
        frames = (picture(drawable(rows[t : t + 1], parts=rollout.parts).values[0]) for t in range(len(rows)))
    returns = [0.0, *np.cumsum(rollout.rewards, dtype=np.float64).tolist()]
    domain = domain_of(rollout.action_spec, rollout.q_values)
    for t, frame in enumerate(frames):
        enlarged = _enlarged(frame)
        words = f"step {t}   return {returns[t]:g}"
        if t < rollout.steps:
            if rollout.saliency is not None:
                enlarged = _heated(enlarged, rollout.saliency[t])
            action = action_words.in_words(rollout.action_spec, rollout.action_names, rollout.actions[t])
            if np.isfinite(rollout.values[t]):  # NaN without an agent
                words += f"   value {round(float(rollout.values[t]), 2) + 0:.2f}"
            actor = "" if rollout.by_person is None else " (person)" if rollout.by_person[t] else " (agent)"
            words += f"   {action}{actor}"
            bars = strip(rollout.action_spec, rollout.said[t], rollout.actions[t], domain=domain,
                         size=(enlarged.shape[1], _STRIP_PX))
        else:
            bars = np.zeros((_STRIP_PX, enlarged.shape[1], 4), np.uint8)
        yield np.concatenate([enlarged, _on_black(bars), _line(words, enlarged.shape[1])])


def _on_black(bars: Array) -> Array:
    coloured: Array = np.where(bars[..., 3:] > 0, bars[..., :3], 0).astype(np.uint8)
    return coloured


def _heated(frame: Array, saliency: Array) -> Array:
    if saliency.ndim != 2:
        return frame
    from PIL import Image

    height, width = frame.shape[:2]
    stretched = np.asarray(Image.fromarray(saliency).resize((width, height), Image.Resampling.BILINEAR))
    share = 0.8 * stretched[:, :, None].astype(np.float32) / 255
    heated: Array = (frame * (1 - share) + _HEAT * share).astype(np.uint8)
    return heated


def _line(words: str, width: int) -> Array:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, _TEXT_PX))
    ImageDraw.Draw(image).text((4, 3), words, fill="white", font=ImageFont.load_default(13))
    return np.asarray(image)
