"""Sliders above a picture that follows them."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from typing import Any

import ipywidgets

from workbench.widgets.kernel import closing


def touch(draw: Callable[..., Any], **controls: ipywidgets.ValueWidget) -> ipywidgets.VBox:
    """Controls, and below them what `draw(**values)` returns for their values: an Altair chart, or HTML as text.

    It is drawn again whenever a control changes. A control without a description gets its name.
    """
    shown = ipywidgets.VBox()

    def redraw(_: object = None) -> None:
        try:
            view = picture(draw(**{name: control.value for name, control in controls.items()}))
        except Exception as error:  # else the old picture would stand under the new values
            if not shown.children:
                raise
            view = picture(f"{type(error).__name__}: {html.escape(str(error))}")
        closing.put(shown, view)

    for name, control in controls.items():
        control.description, control.style.description_width = control.description or name, "130px"
        control.observe(redraw, "value")
    redraw()
    return ipywidgets.VBox([*controls.values(), shown])


def picture(shown: Any) -> ipywidgets.DOMWidget:
    """An Altair chart as a PNG that needs no internet, or text as HTML."""
    if isinstance(shown, str):
        return ipywidgets.HTML(shown)
    file = io.BytesIO()
    shown.save(file, format="png", scale_factor=1.5)
    return ipywidgets.Image(value=file.getvalue())


def slider(low: float, high: float, value: float, *, name: str = "", step: float = 0.05) -> ipywidgets.FloatSlider:
    """A slider that answers when it is let go."""
    return ipywidgets.FloatSlider(
        min=low, max=high, value=value, step=step, description=name, continuous_update=False)
