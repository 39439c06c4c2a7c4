"""Altair for all charts: `from workbench.widgets.charts.altair import alt`.

Altair imports jsonschema, which builds the 39 grammars of `rfc3987_syntax` if it is installed (JupyterLab installs it):
2.5 s of processor time for a format (IRI) that no chart uses. jsonschema also works without that package, so this
module hides it during the import.

Altair asks pandas about every datum as soon as another thread has begun to import it, half imported as it may be; so it
is imported before.
"""

from __future__ import annotations

import sys

import pandas as _whole  # noqa: F401

__all__ = ["alt"]

_GRAMMARS = "rfc3987_syntax"
_hidden = _GRAMMARS not in sys.modules
if _hidden:
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]  # makes an import of it raise ImportError
try:
    import altair as alt
finally:
    if _hidden:
        del sys.modules[_GRAMMARS]
