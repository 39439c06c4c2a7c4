"""One control per live hyperparameter, made from the metadata of its `Setting`.

A control is a slider (where a slider makes sense), a field for the exact value (a box to tick, a list to choose from),
and a line under them for what went wrong. It changes nothing by itself: it hands a value over and shows what it is
told.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

import ipywidgets

from workbench.config import Setting
from workbench.errors import OutOfBounds

Ask = Callable[[str, Any], None]  # name and value that a person asks for; must return at once

_DECADES = 3.0  # a logarithmic slider reaches this far on both sides of the default; the field takes any value
_WIDEST_LINEAR = 100.0  # a linear slider over more than this could not be aimed


class Control:
    """The widgets of one live setting.

    Attributes:
        view: what a panel shows.
        name: of the setting; what it is shows up under the pointer.
        slider: None where there are no bounds to slide between.
        field: the exact value as text, in any notation that Python reads, "none" where that is allowed; a checkbox for
            yes or no, a list where there are choices.
    """

    def __init__(self, setting: Setting, value: Any, ask: Ask) -> None:
        self.setting, self.value, self._ask = setting, value, ask
        self._mirroring = False
        self.slider = _slider(setting)
        self.field = _field(setting)
        self.message = ipywidgets.HTML(layout={"width": "390px", "display": "none"})
        said = html.escape(description(setting), quote=True)
        self.name = ipywidgets.HTML(f'<span title="{said}">{setting.name}</span>', layout={"width": "152px"})
        row = [self.name, self.slider or ipywidgets.Box(layout={"width": "134px"}), self.field]
        self.view = ipywidgets.VBox([ipywidgets.HBox(row), self.message])
        self.show(value)
        self.field.observe(self._typed, names="value")
        if self.slider is not None:
            self.slider.observe(self._slid, names="value")

    def show(self, value: Any) -> None:
        """Show `value` as the one in force."""
        self.value = value
        self._mirror()

    def succeeded(self, value: Any) -> None:
        """Show `value` as the one in force, and nothing wrong any more."""
        self._say("")
        self.show(value)

    def failed(self, message: str) -> None:
        """Say what went wrong under the control, and return to the value in force."""
        self._say(message)
        self._mirror()

    def _say(self, message: str) -> None:
        self.message.value = f'<span role="alert" style="color:#d0564f;line-height:1.3">{html.escape(message)}</span>'
        self.message.layout.display = "" if message else "none"

    def _mirror(self) -> None:
        self._mirroring = True
        try:
            self.field.value = self.value if self.setting.kind is bool else as_text(self.value)
            if self.slider is not None and self.value is not None:
                self.slider.value = min(max(self.value, lowest(self.slider)), highest(self.slider))
        finally:
            self._mirroring = False

    def _slid(self, change: dict[str, Any]) -> None:
        if not self._mirroring:
            digits = float(f"{change['new']:.3g}")  # a slider's position has no more meaning than that
            self._ask(self.setting.name, round(digits) if self.setting.kind is int else digits)

    def _typed(self, change: dict[str, Any]) -> None:
        if self._mirroring:
            return
        try:
            value = parsed(self.setting, change["new"])
        except OutOfBounds as error:
            self.failed(str(error))
        else:
            self._ask(self.setting.name, value)


def description(setting: Setting) -> str:
    """What the setting is, with its bounds, default and source."""
    lines = [f"{setting.name}: {setting.help}"]
    if setting.low is not None and setting.high is not None:
        lines.append(f"from {setting.low:g} to {setting.high:g} {setting.unit}".rstrip())
    elif setting.unit:
        lines.append(f"in {setting.unit}")
    if setting.choices:
        lines.append(f"one of {', '.join(setting.choices)}")
    lines.append(f"default {as_text(setting.default)}")
    if setting.source:
        lines.append(f"source: {setting.source}")
    return "\n".join(lines)


def as_text(value: Any) -> str:
    """A value as the field shows it."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def parsed(setting: Setting, text: str | bool) -> Any:
    """The value that was typed or ticked. Raises OutOfBounds if it is not one, or lies outside the bounds."""
    if isinstance(text, bool):
        return setting.check(text)
    text = text.strip()
    if setting.optional and text.lower() in ("", "none"):
        return None
    try:
        value = float(text) if setting.kind in (int, float) else text
    except ValueError:
        raise OutOfBounds(f"{setting.name}={text!r} is not a number. Type one, such as {setting.default!r}.") from None
    return setting.check(value)


def lowest(slider: Any) -> float:
    """The value at the slider's left end."""
    return float(slider.base**slider.min if isinstance(slider, ipywidgets.FloatLogSlider) else slider.min)


def highest(slider: Any) -> float:
    """The value at the slider's right end."""
    return float(slider.base**slider.max if isinstance(slider, ipywidgets.FloatLogSlider) else slider.max)


def _field(setting: Setting) -> Any:
    if setting.kind is bool:
        return ipywidgets.Checkbox(indent=False, layout={"width": "88px"})
    if setting.choices:
        options = [*setting.choices, "none"] if setting.optional else setting.choices
        return ipywidgets.Dropdown(options=options, layout={"width": "88px"})
    return ipywidgets.Text(continuous_update=False, layout={"width": "88px"})


def _slider(setting: Setting) -> Any:
    if setting.kind not in (int, float) or setting.low is None or setting.high is None or setting.optional:
        return None
    look = dict(continuous_update=False, readout=False, layout={"width": "130px"})
    if setting.scale == "log" and setting.default > 0:
        middle = math.log10(setting.default)
        low = math.log10(setting.low) if setting.low > 0 else -math.inf
        ends = max(middle - _DECADES, low), min(middle + _DECADES, math.log10(setting.high))
        return ipywidgets.FloatLogSlider(value=setting.default, min=ends[0], max=ends[1], step=0.01, **look)
    if setting.high - setting.low > _WIDEST_LINEAR:
        return None
    if setting.kind is int:
        return ipywidgets.IntSlider(min=int(setting.low), max=int(setting.high), **look)
    return ipywidgets.FloatSlider(min=setting.low, max=setting.high, step=(setting.high - setting.low) / 1000, **look)
