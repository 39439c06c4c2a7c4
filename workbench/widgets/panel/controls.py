"""One control per live hyperparameter, made from the metadata of its `Setting`.

A control is a field for the exact value (a box to tick, a list to choose from) that is labelled with name and unit, a
slider where one makes sense, a button that takes the last change back, and a line for what went wrong. It changes
nothing by itself: it hands a value over and shows what it is told.
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
Undo = Callable[[str], None]  # name of the field whose last change a person takes back; likewise

_DECADES = 3.0  # a logarithmic slider reaches this far on both sides of the default; the field takes any value
_WIDEST_LINEAR = 100.0  # a linear slider over more than this could not be aimed
_LABEL = {"description_width": "205px"}


class Looks:
    """Layouts and styles that the controls of a panel share: each is a model of its own in the browser."""

    def __init__(self) -> None:
        self._layouts: dict[str, Any] = {}
        self._styles: dict[type, Any] = {}

    def layout(self, **traits: str) -> Any:
        """The layout with these traits."""
        if (name := repr(traits)) not in self._layouts:
            self._layouts[name] = ipywidgets.Layout(**traits)
        return self._layouts[name]

    def widget(self, kind: type, *classes: str, style: dict[str, str] | None = None, **traits: Any) -> Any:
        """A new widget of that kind, in the style of the first of its kind, with CSS classes."""
        made = kind(style=self._styles.get(kind, style or {}), **traits)
        self._styles[kind] = made.style
        for name in classes:
            made.add_class(name)
        return made


class Control:
    """The widgets of one live setting.

    Attributes:
        view: what a panel shows.
        field: the exact value as text, in any notation that Python reads, "none" where that is allowed; a checkbox for
            yes or no, a list where there are choices. Its tooltip says what the setting is, its bounds and source.
        slider: None where there are no bounds to slide between.
        undo: takes the last change back; disabled where there is none.
        message: what went wrong.
        pending: values that were asked for and have no answer yet.
    """

    def __init__(self, setting: Setting, value: Any, ask: Ask, *, undo: Undo, looks: Looks | None = None) -> None:
        self.setting, self.value, self._ask = setting, value, ask
        self.pending, self._mirroring = 0, False
        looks = looks or Looks()
        self.field = _field(setting, looks)
        self.slider = _slider(setting, looks)
        name = setting.name
        self.undo = looks.widget(
            ipywidgets.Button, f"workbench-undo-{name}", icon="undo", tooltip=f"take the last change of {name} back",
            disabled=True, layout=looks.layout(width="32px"),
        )
        self.message = looks.widget(ipywidgets.HTML, "workbench-error", f"workbench-error-{name}",
                                    layout=looks.layout(width="100%", margin="0"))
        row = [one for one in (self.field, self.slider, self.undo, self.message) if one is not None]
        self.view = ipywidgets.Box(row, layout=looks.layout(width="475px", max_width="100%", flex_flow="row wrap"))
        self.view.add_class(f"workbench-control-{name}")
        self.show(value)
        self.field.observe(self._typed, names="value")
        if self.slider is not None:
            self.slider.observe(self._slid, names="value")
        self.undo.on_click(lambda _: undo(name))

    def show(self, value: Any) -> None:
        """Show `value` as the one in force, unless a person waits for another one."""
        self.value = value
        if not self.pending:
            self._mirror()

    def succeeded(self, value: Any) -> None:
        """What was asked for is done: show `value` as the one in force, and nothing wrong any more."""
        self.value = value
        self._answered("")

    def failed(self, message: str) -> None:
        """It is not done: say under the control what went wrong, and return to the value in force."""
        self._answered(message)

    def _answered(self, message: str) -> None:
        self.pending = max(0, self.pending - 1)
        self.say(message)
        if not self.pending:  # else the person has moved on already
            self._mirror()

    def say(self, message: str) -> None:
        """Say under the control what went wrong; "": nothing did."""
        self.message.value = f'<div role="alert">⚠ {html.escape(message)}</div>' if message else ""

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
            self._hand_over(round(digits) if self.setting.kind is int else digits)

    def _typed(self, change: dict[str, Any]) -> None:
        if self._mirroring:
            return
        try:
            value = parsed(self.setting, change["new"])
        except OutOfBounds as error:
            self.say(str(error))
            self._mirror()
        else:
            self._hand_over(value)

    def _hand_over(self, value: Any) -> None:
        if value == self.value and not self.pending:  # it was only written differently
            self.say("")
            self._mirror()
            return
        self.pending += 1
        self._ask(self.setting.name, value)


def label(setting: Setting) -> str:
    """Name and unit."""
    return f"{setting.name} ({setting.unit})" if setting.unit else setting.name


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


def _field(setting: Setting, looks: Looks) -> Any:
    said = "tooltip" if "tooltip" in ipywidgets.Text.class_trait_names() else "description_tooltip"  # ipywidgets 8, 7
    common: dict[str, Any] = {"description": label(setting), said: description(setting)}
    own = f"workbench-field-{setting.name}"
    if setting.kind is bool:  # its label stands behind the box
        return looks.widget(ipywidgets.Checkbox, own, indent=False, layout=looks.layout(width="305px"), **common)
    common |= {"style": _LABEL, "layout": looks.layout(width="305px")}
    if setting.choices:
        options = [*setting.choices, "none"] if setting.optional else setting.choices
        return looks.widget(ipywidgets.Dropdown, own, options=options, **common)
    return looks.widget(ipywidgets.Text, own, continuous_update=False, **common)


def _slider(setting: Setting, looks: Looks) -> Any:
    if setting.kind not in (int, float) or setting.low is None or setting.high is None or setting.optional:
        return None
    look = dict(continuous_update=False, readout=False, layout=looks.layout(width="115px"))
    own = f"workbench-slider-{setting.name}"
    if setting.scale == "log" and setting.default > 0:
        middle = math.log10(setting.default)
        low = math.log10(setting.low) if setting.low > 0 else -math.inf
        ends = max(middle - _DECADES, low), min(middle + _DECADES, math.log10(setting.high))
        return looks.widget(ipywidgets.FloatLogSlider, own, value=setting.default, min=ends[0], max=ends[1], step=0.01,
                            **look)
    if setting.high - setting.low > _WIDEST_LINEAR:
        return None
    if setting.kind is int:
        return looks.widget(ipywidgets.IntSlider, own, min=int(setting.low), max=int(setting.high), **look)
    return looks.widget(ipywidgets.FloatSlider, own, min=setting.low, max=setting.high,
                        step=(setting.high - setting.low) / 1000, **look)
