"""The server's half of JupyterLab's side panel: a Jupyter server extension, which the wheel's data files enable.

The browser's half is `widgets/src/lab.js`, built into `jupyter/labextensions`. Nothing else of the package needs
either; without them notebooks work as they do in VS Code.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """What Jupyter's server asks of a module that its configuration names."""
    return [{"module": "workbench.widgets.side_panel"}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Adds the panel's addresses to a server. Runs are not looked at before a page asks for them."""
    from workbench.widgets.side_panel.handlers import add_to

    add_to(server.web_app)
