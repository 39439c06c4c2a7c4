"""Sphinx's configuration of the site: the pages as they lie in the repository, in the order of NAVIGATION.

The folder of sources is the repository itself, so links between Markdown files, notebooks and code hold on GitHub and
in the site alike: a link to a file that is no page becomes a download.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))
from navigation import NAVIGATION, linked, pages_of  # noqa: E402

project = "RL Workbench"
author = copyright = "the authors of RL Workbench"
extensions = ["myst_nb"]
root_doc = "docs/site/contents"
include_patterns = [f"{page}.*" for page in ("docs/site/contents", *linked(), *(
    page for section in NAVIGATION for page in pages_of(section)))]
exclude_patterns = [".*", "**/.*", "build", "dist", "widgets/node_modules", "**/__pycache__", "**/*.py", "**/*.svg",
                    "**/*.png", "**/*.gif", "**/*.css", "**/*.csv", "**/*.json", "docs/drawings"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
suppress_warnings = ["myst.header", "misc.highlighting_failure", "mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = "RL Workbench"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["root"]  # index.html, which leads to docs/index.html
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks/run.py executes them, see docs/site/build.py
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # else a CDN is asked for each widget; stills show instead

EXECUTED = Path(os.environ["EXECUTED"]) if os.environ.get("EXECUTED") else None


def _executed(app: Any, document: str, source: list[str]) -> None:
    """Put the executed copy of a lesson in its place, and say at its top which one is shown."""
    if document in linked():
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
    if not document.startswith("notebooks/"):
        return
    copy = EXECUTED / f"{Path(document).name}.executed.ipynb" if EXECUTED else None
    there = copy is not None and copy.exists()
    notebook = json.loads(copy.read_text(encoding="utf-8") if copy and there else source[0])
    note = ("The outputs below are of one execution while the site was built; widgets show a still picture."
            if there else "This notebook was not executed for the site, so no outputs are shown. `make lab` opens it.")
    cell = {"cell_type": "markdown", "metadata": {}, "source": f":::{{note}}\n{note}\n:::"}
    notebook["cells"].insert(1, cell if notebook["nbformat_minor"] < 5 else {**cell, "id": "site-note"})
    for each in notebook["cells"]:
        each.get("metadata", {}).pop("editable", None)
    notebook["metadata"].pop("widgets", None)
    source[0] = json.dumps(notebook)


def setup(app: Any) -> None:
    """Register what the site adds to Sphinx."""
    app.connect("source-read", _executed)
