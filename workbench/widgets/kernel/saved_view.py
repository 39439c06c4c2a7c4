"""A live view in a notebook with a still picture beside it, for the saved notebook.

A cell gets two outputs: the widget, and under it the picture, which a style sheet hides as long as the widget is on the
page. So the picture shows wherever there is no widget: on GitHub, in nbviewer and nbconvert, in a notebook that is
opened the next day without a kernel, and while a page waits for the kernel. The same style sheet hides JupyterLab's
"Error displaying widget: model not found".
"""

from __future__ import annotations

import sys
import uuid
from typing import Any

from IPython.display import DisplayHandle, display

from workbench.widgets.kernel import placeholder

Bundle = dict[str, Any]  # what a saved notebook keeps: data by MIME type, text/html among them

GONE = "Detached: the kernel of this view is gone, and it shows what was last. Run the cell again to see it live."
_DISCONNECTED = "jupyter-widgets-disconnected"  # ipywidgets' class of a view whose kernel is gone


def reference(view: Any) -> Bundle:
    """The data by which a front end shows a widget."""
    widget = {"version_major": 2, "version_minor": 0, "model_id": view.model_id}
    return {"application/vnd.jupyter.widget-view+json": widget}


class Shown:
    """One place in a notebook where a widget is shown.

    `view` must be an ipywidget; it gets a class by which the page finds it. Colab, where each output is a separate
    page, gets no picture beside the widget but only in its place (`freeze`).
    """

    def __init__(self, view: Any, still: Bundle, *, gone: str = GONE) -> None:
        """Shows `view`, in the place of a placeholder if there is one; `gone`: HTML that a page shows with it once its
        kernel is gone."""
        self._mark = f"workbench-live-{uuid.uuid4().hex[:12]}"
        view.add_class(self._mark)
        self._gone = gone
        self._handles = [DisplayHandle(f"{self._mark}-{part}") for part in ("view", "still")]
        self._reference = reference(view)
        if (place := placeholder.take()) is not None:
            self._handles[0] = place
            place.update(self._live(still), raw=True)
        else:
            display(self._live(still), raw=True, display_id=self._handles[0].display_id)
        if "google.colab" in sys.modules:
            self._handles.pop()
        else:
            display(self._beside(still), raw=True, display_id=self._handles[1].display_id)

    def keep(self, still: Bundle) -> None:
        """Puts a newer picture beside the widget."""
        for handle in self._handles[1:]:
            handle.update(self._beside(still), raw=True)

    def freeze(self, still: Bundle, *, below: Any = None) -> None:
        """Puts the picture in the widget's place, and below it another widget, which a page without a kernel hides."""
        mark = f"{self._mark}-below"
        missing = f".jp-OutputArea-child:has(.{mark}) + .jp-OutputArea-child:not(:has(.{mark}-view))"
        style = f'<style class="{mark}">{missing}{{display:none!important}}</style>'
        self._handles[0].update({**still, "text/html": still["text/html"] + style}, raw=True)
        for handle in self._handles[1:]:
            if below is None:
                handle.update({"text/html": "", "text/plain": ""}, raw=True)
            else:
                below.add_class(f"{mark}-view")
                handle.update({**reference(below), "text/plain": ""}, raw=True)

    def revive(self, still: Bundle) -> None:
        """Puts the widget back in the picture's place."""
        self._handles[0].update(self._live(still), raw=True)
        self.keep(still)

    def _live(self, still: Bundle) -> Bundle:
        return {**self._reference, "text/plain": still["text/plain"]}

    def _beside(self, still: Bundle) -> Bundle:
        """The picture, with the style that hides it as long as the widget is there."""
        live, picture = f".{self._mark}", f"{self._mark}-still"
        dead, note = f"{live}.{_DISCONNECTED}", f"{self._mark}-gone"
        # JupyterLab's output before the picture, while it waits for a widget.
        waiting = f".jp-OutputArea-child:has(+ * .{picture}):not(:has({live}))"
        style = (f"<style>body:has({live}) .{picture},{waiting},.{note}{{display:none!important}}"
                 f"body:has({dead}) .{note}{{display:block!important}}"
                 f"{live} .{_DISCONNECTED}::before,{dead}::before{{content:none!important}}</style>")
        grey = f"<style>{dead}{{filter:grayscale(1)}}{dead} canvas{{opacity:.7}}</style>" if self._gone else ""
        gone = f'<div class="{note}" role="status">{self._gone}</div>' if self._gone else ""
        page = f'{style}{grey}{gone}<div class="{picture}">{still["text/html"]}</div>'
        return {"text/html": page, "text/plain": ""}
