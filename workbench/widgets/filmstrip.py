"""What a saved notebook keeps of something that moves: a strip of a few frames, and facts in words."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from workbench.trajectory import Array

MOST_FRAMES = 6
HEIGHT = 160  # pixels of a frame in the strip
_GAP, _CAPTION = 4, 16
_GREY = (128, 128, 128, 255)  # readable on white and on black
_PLANES = np.array([(86, 180, 233), (230, 159, 0), (240, 228, 66), (0, 158, 115), (213, 94, 0), (204, 121, 167),
                    (0, 114, 178), (255, 255, 255)])  # as widgets/src/pixels.js


def chosen(number: int, most: int = MOST_FRAMES) -> list[int]:
    """Which of `number` frames to keep: evenly spaced, the first and the last among them."""
    return sorted({round(one) for one in np.linspace(0, number - 1, min(number, most)).tolist()})


def seen(observation: Array) -> Array | None:
    """An observation [channels, height, width] as a picture, uint8 [H, W, 3]; None for a vector."""
    if observation.ndim != 3:
        return None
    if len(observation) == 1:
        return np.repeat(observation.transpose(1, 2, 0), 3, axis=2)
    if len(observation) == 3:
        return observation.transpose(1, 2, 0)
    colours = _PLANES[np.arange(len(observation)) % len(_PLANES)]
    lit: Array = (observation[..., None] / 255 * colours[:, None, None]).max(0).astype(np.uint8)
    return lit


def png(frames: Sequence[tuple[str, Array]]) -> bytes:
    """Frames, uint8 [H, W, 3], side by side, each above its caption, on a transparent ground."""
    pictures = [Image.fromarray(np.ascontiguousarray(frame)) for _, frame in frames]
    pictures = [
        one.resize((max(1, round(one.width * HEIGHT / one.height)), HEIGHT), Image.Resampling.NEAREST)
        for one in pictures
    ]
    width = sum(one.width + _GAP for one in pictures) - _GAP
    strip = Image.new("RGBA", (width, HEIGHT + _CAPTION))
    draw, x = ImageDraw.Draw(strip), 0
    for picture, (caption, _) in zip(pictures, frames, strict=True):
        strip.paste(picture, (x, 0))
        draw.text((x + 2, HEIGHT + 2), caption, fill=_GREY)
        x += picture.width + _GAP
    file = io.BytesIO()
    strip.save(file, "PNG", optimize=True)
    return file.getvalue()


def named(facts: Iterable[tuple[str, str]]) -> str:
    """Names, each with its value beside it, as HTML."""
    cells = "".join(
        f'<div style="margin:0 1.4em .2em 0"><span style="opacity:.65">{html.escape(name)}</span> '
        f"<b>{html.escape(value)}</b></div>" for name, value in facts
    )
    return f'<div style="display:flex;flex-wrap:wrap;margin:.5em 0">{cells}</div>'


def bundle(title: str, facts: Mapping[str, str], frames: Sequence[tuple[str, Array]]) -> dict[str, Any]:
    """text/html that loads nothing, text/plain, and image/png where there are frames."""
    image = base64.b64encode(png(frames)).decode() if frames else ""
    alternative = html.escape(f"{len(frames)} frames of {title}")
    picture = f'<img alt="{alternative}" style="max-width:100%" src="data:image/png;base64,{image}">' if image else ""
    page = (
        f'<div style="font-family:sans-serif;font-size:13px;max-width:980px"><b>{html.escape(title)}</b>'
        f"{named(facts.items())}{picture}</div>"
    )
    text = "\n".join([title, *(f"  {name}: {value}" for name, value in facts.items())])
    return {"text/html": page, "text/plain": text, **({"image/png": image} if image else {})}
