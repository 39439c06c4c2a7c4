"""One control per live hyperparameter, made from the metadata of its `Setting`.

A control has a field for the exact value (or a box to tick, or a list to choose from) that is labelled with name and
unit, a slider where one makes sense, an undo button, and a line for an error. It changes nothing by itself: it passes
the requested value on and shows the value in force.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import ipywidgets

from workbench.config import Setting
from workbench.errors import OutOfBounds
from workbench.tables import shown
from workbench.widgets.kernel.message_line import message_line

OnRequest = Callable[[str, Any], None]  # gets a field's name and the requested value; must return at once
OnUndo = Callable[[str], None]  # gets the name of the field whose last change is undone; likewise

ERROR_S = 30.0  # a page does not say that the value in force was typed again, which would end an error, too
_DECADES = 1.0  # a logarithmic slider reaches this far on both sides of the value in force; the field takes any value
_EDGE = 0.1  # decades; at a value this near to an end, the slider moves on to the decades around that value
_SHARE = 0.1  # a linear slider of fractions reaches this share of its bounds on both sides of the value in force
_NEAR = 0.05  # of the slider; at a value this near to an end, the slider moves on, too
_WIDEST_LINEAR = 100.0  # over a wider range, a linear slider is too coarse
_LABEL = {"description_width": "205px"}


class SharedStyles:
    """Layouts and styles that the controls of a panel share, since each is a model of its own in the browser."""

    def __init__(self) -> None:
        self._layouts: dict[str, Any] = {}
        self._styles: dict[type, Any] = {}

    def layout(self, **traits: str) -> Any:
        """The layout with these traits."""
        if (name := repr(traits)) not in self._layouts:
            self._layouts[name] = ipywidgets.Layout(**traits)
        return self._layouts[name]

    def widget(self, kind: type, *classes: str, style: dict[str, str] | None = None, **traits: Any) -> Any:
        """A new widget with CSS classes, in the style of the first widget of its kind."""
        widget = kind(style=self._styles.get(kind, style or {}), **traits)
        self._styles[kind] = widget.style
        for name in classes:
            widget.add_class(name)
        return widget


class FieldControl:
    """The widgets of one live setting.

    Attributes:
        view: all widgets of the control.
        field: the exact value as text, in any notation that Python reads, "none" where that is allowed; a checkbox for
            yes or no, a list where there are choices. Its tooltip has the description, bounds and source of the
            setting.
        slider: None where the setting has no bounds.
        undo: undoes the last change; disabled where there is none.
        pending: number of requested values without an answer yet.
    """

    def __init__(
        self, setting: Setting, value: Any, on_request: OnRequest, *, undo: OnUndo, styles: SharedStyles | None = None
    ) -> None:
        self.setting, self.value, self._on_request = setting, value, on_request
        self.pending, self._mirroring, self._said_at = 0, False, 0.0
        self._styles = styles = styles or SharedStyles()
        self.field = _field(setting, styles)
        self.slider = _slider(setting, styles)
        name = setting.name
        self.undo = styles.widget(
            ipywidgets.Button, f"workbench-undo-{name}", icon="undo", tooltip=f"undo the last change of {name}",
            disabled=True, layout=styles.layout(width="32px"),
        )
        row = [widget for widget in (self.field, self.slider, self.undo) if widget is not None]
        place = styles.layout(width="475px", max_width="100%", flex_flow="row wrap")
        self.view = ipywidgets.Box(row, layout=place).add_class(f"workbench-control-{name}")
        self.show(value)
        self.field.observe(self._typed, names="value")
        if self.slider is not None:
            self.slider.observe(self._slid, names="value")
        if isinstance(self.field, ipywidgets.Text):  # Enter after a text that is shown already is no change of value
            self.field.on_msg(self._committed)
        self.undo.on_click(lambda _: self._undo(undo))

    @cached_property
    def message(self) -> Any:
        """The error, if any; made with the first one, since most controls never have any."""
        message = self._styles.widget(ipywidgets.HTML, "workbench-error", f"workbench-error-{self.setting.name}",
                                      layout=self._styles.layout(width="100%", margin="0"))
        self.view.children = (*self.view.children, message)
        return message

    def show(self, value: Any) -> None:
        """Show `value` as the one in force, unless a requested value has no answer yet; an error of before goes."""
        if value != self.value:
            self.say("")
        self.value = value
        if not self.pending:
            self._mirror()

    def follow(self, value: Any) -> None:
        """Called once a second with the value in force: shows it if it is another one, and no error for too long."""
        if value != self.value and not self.pending:
            self.show(value)
        elif time.monotonic() - self._said_at > ERROR_S:
            self.say("")

    def succeeded(self, value: Any) -> None:
        """A request was granted: show `value` as the one in force."""
        self.value = value
        self._answered()

    def failed(self, message: str) -> None:
        """A request was refused: show the error under the control, and the value in force."""
        self.say(message)
        self._answered()

    def _answered(self) -> None:
        self.pending = max(0, self.pending - 1)
        if not self.pending:  # else a newer request is on its way
            self._mirror()

    def say(self, message: str) -> None:
        """Show an error under the control, for ERROR_S at most; "": none."""
        self._said_at = time.monotonic()
        if message or "message" in vars(self):
            self.message.value = message_line(message, bad=True)

    def _mirror(self) -> None:
        self._mirroring = True
        try:
            self.field.value = self.value if self.setting.kind is bool else as_text(self.value)
            if self.slider is not None and self.value is not None:
                self._place_slider(self.slider)
        finally:
            self._mirroring = False

    def _place_slider(self, slider: Any) -> None:
        with slider.hold_sync():  # in one message, so that the page never shows a value between two ranges
            if isinstance(slider, ipywidgets.FloatLogSlider) and self.value > 0:
                place = math.log10(self.value)
                if not slider.min + _EDGE <= place <= slider.max - _EDGE:
                    _set_range(slider, *_decades_around(place, self.setting))
            elif isinstance(slider, ipywidgets.FloatSlider):
                edge = _NEAR * (slider.max - slider.min)
                if not slider.min + edge <= self.value <= slider.max - edge:
                    _set_range(slider, *_share_around(self.value, self.setting))
            slider.value = min(max(self.value, lowest(slider)), highest(slider))

    def _slid(self, change: dict[str, Any]) -> None:
        if not self._mirroring:
            value = float(f"{change['new']:.3g}")  # a slider's position is no more precise
            self._request(round(value) if self.setting.kind is int else value)

    def _typed(self, change: dict[str, Any]) -> None:
        if self._mirroring:
            return
        try:
            self._request(self._entered(change["new"]))
        except OutOfBounds as error:
            self.say(str(error))
            self._mirror()

    def _entered(self, text: str | bool) -> Any:
        """The value of what was typed or ticked; an empty field stands for the value in force."""
        if isinstance(text, bool):
            return text
        empty = not text.strip() and self.setting.kind is not str
        return self.value if empty and not self.setting.optional else self.setting.typed(text)

    def _committed(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("event") == "submit":
            self.say("")

    def _undo(self, undo: OnUndo) -> None:
        self.say("")
        undo(self.setting.name)

    def _request(self, value: Any) -> None:
        self.say("")
        if value == self.value and not self.pending:  # the same value in another notation
            self._mirror()
            return
        self.pending += 1
        self._on_request(self.setting.name, value)


def description(setting: Setting) -> str:
    """The help of a setting, with its bounds, default and source."""
    lines = [f"{setting.name}: {setting.help}"]
    if setting.low is not None and setting.high is not None:
        lines.append(f"from {as_text(setting.low)} to {as_text(setting.high)} {setting.unit}".rstrip())
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
    return "none" if value is None else shown(value)


def lowest(slider: Any) -> float:
    """The value at the slider's left end."""
    return float(slider.base**slider.min if isinstance(slider, ipywidgets.FloatLogSlider) else slider.min)


def highest(slider: Any) -> float:
    """The value at the slider's right end."""
    return float(slider.base**slider.max if isinstance(slider, ipywidgets.FloatLogSlider) else slider.max)


def _field(setting: Setting, styles: SharedStyles) -> Any:
    tooltip = "tooltip" if "tooltip" in ipywidgets.Text.class_trait_names() else "description_tooltip"  # 8 | 7
    common: dict[str, Any] = {"description": setting.title, tooltip: description(setting)}
    css = f"workbench-field-{setting.name}"
    if setting.kind is bool:  # its label stands behind the box
        return styles.widget(ipywidgets.Checkbox, css, indent=False, layout=styles.layout(width="305px"), **common)
    common |= {"style": _LABEL, "layout": styles.layout(width="305px")}
    if setting.choices:
        options = [*setting.choices, "none"] if setting.optional else setting.choices
        return styles.widget(ipywidgets.Dropdown, css, options=options, **common)
    empty = "none" if setting.optional else "unchanged"  # panel.css hides an old error while this is shown
    return styles.widget(ipywidgets.Text, css, continuous_update=False, placeholder=empty, **common)


def _slider(setting: Setting, styles: SharedStyles) -> Any:
    """A slider whose description names its ends; the page shows its value while it is dragged (panel.css)."""
    if setting.kind not in (int, float) or setting.low is None or setting.high is None or setting.optional:
        return None
    kind: type
    if setting.scale == "log" and setting.default > 0:
        low, high = _decades_around(math.log10(setting.default), setting)
        kind, how = ipywidgets.FloatLogSlider, {"value": setting.default, "step": 0.01, "readout_format": ".3g"}
    elif setting.high - setting.low > _WIDEST_LINEAR:
        return None
    elif setting.kind is int:
        low, high = int(setting.low), int(setting.high)
        kind, how = ipywidgets.IntSlider, {}
    else:
        low, high = _share_around(setting.default, setting)
        kind, how = ipywidgets.FloatSlider, {"step": (setting.high - setting.low) / 1000, "readout_format": ".3g"}
    slider = styles.widget(kind, f"workbench-slider-{setting.name}", continuous_update=False, min=low, max=high,
                           layout=styles.layout(width="115px"), **how)
    slider.description = _ends(slider)
    return slider


def _decades_around(place: float, setting: Setting) -> tuple[float, float]:
    """The ends of a logarithmic slider around the value 10^`place`, within the bounds of the setting."""
    assert setting.low is not None and setting.high is not None
    lowest_place = math.log10(setting.low) if setting.low > 0 else -math.inf
    return max(place - _DECADES, lowest_place), min(place + _DECADES, math.log10(setting.high))


def _share_around(value: float, setting: Setting) -> tuple[float, float]:
    """The ends of a linear slider around a value, within the bounds of the setting."""
    assert setting.low is not None and setting.high is not None
    reach = _SHARE * (setting.high - setting.low)
    return max(value - reach, setting.low), min(value + reach, setting.high)


def _set_range(slider: Any, low: float, high: float) -> None:
    if low > slider.max:
        slider.max = high  # the ends must never cross
    slider.min, slider.max = low, high
    slider.description = _ends(slider)


def _ends(slider: Any) -> str:
    return " … ".join(as_text(float(f"{end:.2g}")) for end in (lowest(slider), highest(slider)))
