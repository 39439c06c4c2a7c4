"""Altair as the charts here import it: `from workbench.widgets.charts.altair import alt`.

Altair imports jsonschema, and that builds the 39 grammars of `rfc3987_syntax`, where it is installed (JupyterLab brings
it): 2.5 s of processor time, for a format (IRI) that no chart has. jsonschema does without that package where it is
missing, so it is missing while jsonschema is imported.
"""

from __future__ import annotations

import sys

__all__ = ["alt"]

_GRAMMARS = "rfc3987_syntax"
_hidden = _GRAMMARS not in sys.modules
if _hidden:
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]  # Python's own way to say that a module is not there
try:
    import altair as alt
finally:
    if _hidden:
        del sys.modules[_GRAMMARS]
