"""Pictures of widgets for documents: in both themes, of few colours."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator

from tests.browser.driver import DARK, LIGHT, Notebook

THEMES = ((LIGHT, "light"), (DARK, "dark"))
COLOURS = 256  # of a picture: a tenth of its size, and nobody sees it
SETTLED_MS = 4000  # until all charts are drawn in a theme


def photograph(notebook: Notebook, widget: Locator, path: Path) -> None:
    """A picture of a widget as it is, without a pointer over it or a focus in it."""
    widget.scroll_into_view_if_needed()
    notebook.page.mouse.move(5, 5)
    notebook.page.evaluate("() => document.activeElement?.blur()")
    notebook.page.wait_for_timeout(SETTLED_MS)
    widget.screenshot(path=path, animations="disabled")
    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
