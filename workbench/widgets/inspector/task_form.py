"""A form for one task of the inspector: fields, a button, and a line under them with the outcome."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets

from workbench.errors import InvalidInput
from workbench.widgets.kernel.message_line import message_line
from workbench.widgets.kernel.refresher import REFRESHER, Actions
from workbench.widgets.panel.buttons import button

_TICK_S = 1.0


class TaskForm:
    """A row of fields with a button that runs a task in a thread, once at a time.

    Attributes:
        fields: widgets by name.
        button, message, view: the button, the line under it, and the whole form.
        busy: whether the task is running.
    """

    def __init__(
        self, name: str, title: str, fields: Mapping[str, Any], ask: Callable[[], tuple[str, Callable[[], str]]], *,
        tooltip: str,
    ) -> None:
        """Builds the widgets.

        Args:
            name: of its CSS classes: workbench-inspector-<name>, …-<name>-message and …-<name>-<field>.
            ask: called at a click; returns the task in words, and a function that runs it and returns the outcome.
        """
        self.fields, self._ask, self._actions, self._lock = dict(fields), ask, Actions(), threading.Lock()
        self.busy, self._since, self._words = False, 0.0, ""
        self.button = button(f"inspector-{name}", title, "", tooltip)
        self.message = ipywidgets.HTML().add_class(f"workbench-inspector-{name}-message")
        for field, widget in self.fields.items():
            widget.add_class(f"workbench-inspector-{name}-{field}")
        row = ipywidgets.HBox([self.button, *self.fields.values()], layout={"flex_flow": "row wrap"})
        self.view = ipywidgets.VBox([row, self.message])
        self.button.on_click(lambda _: self.start())

    def start(self) -> None:
        """Does the same as a click on the button; returns at once."""
        with self._lock:
            if self.busy:
                return
            try:
                self._words, do = self._ask()
            except Exception as error:  # shown under the button, whatever it is
                self.say(str(error) or type(error).__name__, bad=True)
                return
            self.busy, self.button.disabled, self._since = True, True, time.monotonic()
            self.say(f"{self._words} …")
        self._actions.submit(lambda: self._end(do()), lambda words: self._end(words, bad=True))
        REFRESHER.add(self, period_s=_TICK_S)

    def tick(self) -> bool:
        """Shows how long the task has taken; called by the refresher."""
        with self._lock:
            if self.busy and (took := time.monotonic() - self._since) >= _TICK_S:
                self.say(f"{self._words} … {took:.0f} s")
            return self.busy

    def _end(self, outcome: str, *, bad: bool = False) -> None:
        with self._lock:
            self.say(outcome, bad=bad)  # before the form is free: whoever waits for that reads it
            self.button.disabled = self.busy = False

    def say(self, text: str, *, bad: bool = False) -> None:
        """Shows a line under the button; "" clears it."""
        self.message.value = message_line(text, bad=bad).replace("\n", "<br>")


def keywords(text: str, *, reserved: Mapping[str, str]) -> dict[str, Any]:
    """Fields and values in a text such as "learning_rate=1e-4, optimizer='adam'"; {} for an empty text.

    Args:
        reserved: names that are not allowed here, and what to do instead.

    Raises InvalidInput unless the text consists of names with plain values.
    """
    try:
        call = ast.parse(f"fork({text})", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise InvalidInput(f"{text!r} are no changed fields. Type them as in Python: learning_rate=1e-4, actors=4")
    fields: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in reserved:
            what = reserved.get(str(keyword.arg), "Type fields one by one.")
            raise InvalidInput(f"{keyword.arg or '**'} cannot be given here. {what}")
        try:
            fields[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            raise InvalidInput(f"{keyword.arg}={ast.unparse(keyword.value)} is no plain value. Type a number, a "
                               "text in quotes, True, False or None.") from None
    return fields


def whole(label: str, value: int, low: int, high: int) -> Any:
    """A field for a whole number between bounds."""
    return ipywidgets.BoundedIntText(value=value, min=low, max=high, description=label, layout={"width": "200px"},
                                     style={"description_width": "initial"})


def text(label: str, placeholder: str, width: str) -> Any:
    """A field for a line of text."""
    return ipywidgets.Text(description=label, placeholder=placeholder, layout={"width": width},
                           style={"description_width": "initial"})


def box(label: str, value: bool) -> Any:
    """A box to tick."""
    return ipywidgets.Checkbox(value=value, description=label, indent=False, layout={"width": "auto"})
