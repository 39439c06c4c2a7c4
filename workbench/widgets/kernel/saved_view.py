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

Bundle = dict[str, Any]  # what a saved notebook keeps: data by MIME type, text/html among them

_WIDGET = "application/vnd.jupyter.widget-view+json"


class Shown:
    """One place in a notebook where a widget is shown.

    `view` must be an ipywidget; it gets a class by which the page finds it. Colab, where each output is a separate
    page, gets no picture beside the widget but only in its place (`freeze`).
    """

    def __init__(self, view: Any, still: Bundle) -> None:
        self._mark = f"workbench-live-{uuid.uuid4().hex[:12]}"
        view.add_class(self._mark)
        self._handles = [DisplayHandle(f"{self._mark}-{part}") for part in ("view", "still")]
        self._reference = {"version_major": 2, "version_minor": 0, "model_id": view.model_id}
        display(self._live(still), raw=True, display_id=self._handles[0].display_id)
        if "google.colab" in sys.modules:
            self._handles.pop()
        else:
            display(self._beside(still), raw=True, display_id=self._handles[1].display_id)

    def keep(self, still: Bundle) -> None:
        """Puts a newer picture beside the widget."""
        for handle in self._handles[1:]:
            handle.update(self._beside(still), raw=True)

    def freeze(self, still: Bundle) -> None:
        """Puts the picture in the widget's place."""
        self._handles[0].update(still, raw=True)
        for handle in self._handles[1:]:
            handle.update({"text/html": "", "text/plain": ""}, raw=True)

    def revive(self, still: Bundle) -> None:
        """Puts the widget back in the picture's place."""
        self._handles[0].update(self._live(still), raw=True)
        self.keep(still)

    def _live(self, still: Bundle) -> Bundle:
        return {_WIDGET: self._reference, "text/plain": still["text/plain"]}

    def _beside(self, still: Bundle) -> Bundle:
        """The picture, with the style that hides it as long as the widget is there."""
        live, picture = f".{self._mark}", f"{self._mark}-still"
        # JupyterLab's output before the picture, while it waits for a widget.
        waiting = f".jp-OutputArea-child:has(+ * .{picture}):not(:has({live}))"
        style = f"<style>body:has({live}) .{picture},{waiting}{{display:none!important}}</style>"
        page = f'{style}<div class="{picture}">{still["text/html"]}</div>'
        return {"text/html": page, "text/plain": ""}
