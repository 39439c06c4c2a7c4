"""The picture of an episode in a saved notebook: a strip of a few frames, and facts in words."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from workbench import tables
from workbench.environments import observations
from workbench.environments.sketches import Sketch, draw
from workbench.trajectory import Array

MOST_FRAMES = 6
KEPT_STEPS = 600  # of what goes on, for a page that is opened or refreshed
HEIGHT = 160  # pixels of a frame in the strip
_GAP, _CAPTION, _STRIP = 4, 16, 28
_GREY = (128, 128, 128, 255)  # readable on white and on black


class StripFrame(NamedTuple):
    """One frame of the strip.

    Attributes:
        frame: uint8 [H, W, 3].
        policy: draws the policy's output at that step, uint8 [height, width, 4] of `size` (width, height), or None.
    """

    caption: str
    frame: Array
    policy: Callable[..., Array] | None = None


def picture_of(observation: Array, sketch: Sketch | None = None) -> Array | None:
    """An observation [channels, height, width] as a picture, uint8 [H, W, 3]; of a vector its sketch, if there is one,
    else None."""
    if sketch is not None:
        return draw(sketch, observation)
    return observations.picture(observation) if observation.ndim == 3 else None


def png(frames: Sequence[StripFrame]) -> bytes:
    """Frames side by side, each above its policy and its caption, on a transparent background."""
    pictures = [Image.fromarray(np.ascontiguousarray(moment.frame)) for moment in frames]
    pictures = [
        picture.resize((max(1, round(picture.width * HEIGHT / picture.height)), HEIGHT), Image.Resampling.NEAREST)
        for picture in pictures
    ]
    width = sum(picture.width + _GAP for picture in pictures) - _GAP
    below = HEIGHT + (_STRIP + _GAP if any(moment.policy for moment in frames) else 0)
    strip = Image.new("RGBA", (width, below + _CAPTION))
    draw, x = ImageDraw.Draw(strip), 0
    for picture, moment in zip(pictures, frames, strict=True):
        strip.paste(picture, (x, 0))
        if moment.policy:
            strip.paste(Image.fromarray(moment.policy(size=(picture.width, _STRIP))), (x, HEIGHT + _GAP))
        draw.text((x + 2, below + 2), moment.caption, fill=_GREY)
        x += picture.width + _GAP
    file = io.BytesIO()
    strip.save(file, "PNG", optimize=True)
    return file.getvalue()


def named(facts: Iterable[tuple[str, str]]) -> str:
    """Names with their values, as HTML."""
    cells = "".join(
        f'<div style="margin:0 1.4em .2em 0"><span style="opacity:.65">{html.escape(name)}</span> '
        f"<b>{html.escape(value)}</b></div>" for name, value in facts
    )
    return f'<div style="display:flex;flex-wrap:wrap;margin:.5em 0">{cells}</div>'


def bundle(title: str, facts: Mapping[str, str], frames: Sequence[StripFrame]) -> dict[str, Any]:
    """Self-contained text/html, text/plain, and image/png if there are frames."""
    image = base64.b64encode(png(frames)).decode() if frames else ""
    strip = tables.picture(image, f"{len(frames)} frames of {title}")
    body = f"<b>{html.escape(title)}</b>{named(facts.items())}{strip}"
    page = tables.output(body, f"{tables.SMALL};max-width:980px")
    text = "\n".join([title, *(f"  {name}: {value}" for name, value in facts.items())])
    return {"text/html": page, "text/plain": text, **({"image/png": image} if image else {})}
