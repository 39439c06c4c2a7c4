"""The controls of live fields in groups, with a search box and a switch that leaves only what was changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import ipywidgets

from workbench.config import Setting
from workbench.config.settings import in_groups
from workbench.widgets.panel.tuning.controls import FieldControl, SharedStyles

_HIDDEN = "workbench-hidden"


class ControlGrid:
    """A heading and a grid of controls for each group.

    Attributes:
        view: all widgets.
        search: shows only the fields whose name, meaning or group has all of its words.
        changed_only: shows only the fields that are not at their default, or that were changed in this run.
    """

    def __init__(
        self, settings: Mapping[str, Setting], controls: Mapping[str, FieldControl], styles: SharedStyles
    ) -> None:
        self._settings, self._controls, self._changed = settings, controls, set[str]()
        self.search = styles.widget(
            ipywidgets.Text, "workbench-search", description="search", tooltip="show the fields that have these words",
            placeholder="name or meaning", continuous_update=True, layout=styles.layout(width="305px"))
        self.changed_only = styles.widget(
            ipywidgets.Checkbox, "workbench-changed-only", description="changed only", indent=False,
            tooltip="only fields that are not at their default, or that were changed in this run",
            layout=styles.layout(width="150px"))
        for widget in (self.search, self.changed_only):
            widget.observe(lambda _: self._filter(), names="value")
        self._groups = {group: self._group(group, list(fields), styles)
                        for group, fields in in_groups(settings).items()}
        self._none = styles.widget(ipywidgets.HTML, "workbench-quiet", value="No field is like that.")
        top = ipywidgets.HBox([self.search, self.changed_only], layout=styles.layout(flex_flow="row wrap"))
        self.view = ipywidgets.VBox([top, *self._groups.values(), self._none])
        self._filter()

    def _group(self, group: str, names: Collection[str], styles: SharedStyles) -> Any:
        heading = styles.widget(ipywidgets.HTML, value=f"<h4>{(group or 'other').capitalize()}</h4>",
                                layout=styles.layout(width="100%"))
        row = styles.layout(flex_flow="row wrap")
        fields = (self._controls[name].view for name in names)
        return ipywidgets.Box([heading, *fields], layout=row).add_class("workbench-group")

    def show(self, changed: Collection[str]) -> None:
        """Show the fields for a run in which those were `changed`."""
        others = {name for name, field in self._settings.items()
                  if field.live and self._controls[name].value != field.default}
        if (now := {*changed, *others}) != self._changed:
            self._changed = now
            self._filter()

    def _filter(self) -> None:
        words, anything = self.search.value.lower().replace("_", " ").split(), False
        for group, fields in in_groups(self._settings).items():
            shown = {name for name, field in fields.items() if self._fits(field, words)}
            for name in fields:
                _hide(self._controls[name].view, name not in shown)
            _hide(self._groups[group], not shown)
            anything |= bool(shown)
        _hide(self._none, anything)

    def _fits(self, field: Setting, words: Collection[str]) -> bool:
        text = f"{field.name} {field.title} {field.help} {field.group}".lower().replace("_", " ")
        return all(word in text for word in words) and (not self.changed_only.value or field.name in self._changed)


def _hide(widget: Any, hidden: bool) -> None:
    (widget.add_class if hidden else widget.remove_class)(_HIDDEN)
