"""What tests look at in the panel of a run, by the CSS classes that `workbench.widgets.panel.panel` names."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.driver import Notebook

# One number per canvas, which changes when a pixel does; 0 of an empty one.
_PICTURES = """root => [...root.querySelectorAll('canvas')].map(one => {
  if (!one.width || !one.height) return 0;
  const seen = new Uint32Array(one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer);
  return seen.reduce((sum, pixel) => (sum * 31 + pixel) >>> 0, 0) })"""
# Elements that stick out of the panel to the right, other than those inside something that scrolls; the whole output,
# while that sticks out of the window (the application lays its page out a little after the window has changed).
_CUT_OFF = """root => { const edge = root.closest('.jp-OutputArea-output').getBoundingClientRect().right;
  if (edge > innerWidth) return ['the output'];
  const scrolls = one => { for (let at = one.parentElement; at && at !== root; at = at.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX)) return true; return false; };
  return [...root.querySelectorAll('*')].filter(one => one.checkVisibility() &&
    one.getBoundingClientRect().width && one.getBoundingClientRect().right > edge + 1 && !scrolls(one))
    .concat([...root.querySelectorAll('.workbench-small .workbench-fact')]
      .filter(one => one.scrollWidth > one.clientWidth))
    .map(one => one.outerHTML.slice(0, 120)) }"""

# Controls without a name that a screen reader could say.
NAMELESS = """root => [...root.querySelectorAll('button, select, input, summary, [role=slider]')].filter(one =>
  !(one.getAttribute('aria-label') || one.textContent.trim()
    || [...(one.labels ?? [])].some(its => its.textContent.trim())))
  .map(one => one.outerHTML.slice(0, 200))"""


def pictures(root: Locator) -> list[int]:
    """One number per canvas in an element, which changes when a pixel does; 0 of one that shows nothing."""
    found: list[int] = root.first.evaluate(_PICTURES)
    return found


class Panel:
    """The panel that the output of a cell shows."""

    def __init__(self, notebook: Notebook, cell: int) -> None:
        self.notebook, self.root = notebook, notebook.output(cell).locator(".workbench-panel")

    def part(self, name: str) -> Locator:
        """The part whose class is workbench-NAME."""
        return self.root.locator(f".workbench-{name}")

    def press(self, name: str) -> None:
        """Click the button of that name."""
        self.part(name).click()

    def unfold(self, section: str) -> None:
        """Open a section."""
        if "mod-active" not in (self.part(f"toggle-{section}").get_attribute("class") or ""):
            self.press(f"toggle-{section}")

    def fold(self, section: str) -> None:
        """Close a section."""
        if "mod-active" in (self.part(f"toggle-{section}").get_attribute("class") or ""):
            self.press(f"toggle-{section}")

    def field(self, name: str) -> Locator:
        """The field of a hyperparameter."""
        return self.part(f"field-{name}").locator("input")

    def type(self, name: str, text: str) -> None:
        """Type into its field, and Enter."""
        self.field(name).fill(text)
        self.field(name).press("Enter")

    def slide(self, name: str, place: float) -> None:
        """Drag its slider's handle to that share of its way."""
        bar = self.part(f"slider-{name}").locator(".noUi-base")
        expect(bar).to_be_visible()
        size = bar.bounding_box()
        assert size is not None
        self.part(f"slider-{name}").locator(".noUi-touch-area").drag_to(
            bar, target_position={"x": place * size["width"], "y": size["height"] / 2})

    def shows_state(self, state: str) -> None:
        """Until the headline says that the run is in that state."""
        expect(self.part("headline")).to_contain_text(state)

    def charts(self) -> list[int]:
        """One number per chart that is drawn, which changes when the chart does."""
        return pictures(self.part("charts"))

    def wait_for_charts(self) -> None:
        """Bring them into view, and back where the page moves meanwhile, until all are drawn: only those seen are."""
        self.part("charts").first.scroll_into_view_if_needed()
        self.notebook.page.wait_for_function(
            "root => { root.scrollIntoView({ block: 'center' }); "
            f"const all = ({_PICTURES})(root); return all.length > 2 && all.every(Boolean) }}",
            arg=self.part("charts").first.element_handle())

    def cut_off(self) -> list[str]:
        """What sticks out of the cell's output to the right, and facts that are not whole."""
        found: list[str] = self.root.evaluate(_CUT_OFF)
        return found


def actor_row(panel: Panel, index: int) -> Locator:
    """The row of an actor."""
    return panel.part("actor-table").locator(f"tr[data-key='{index}']")


def rich_outputs(cells: list[Any], index: int) -> list[dict[str, Any]]:
    """What a saved cell shows, by MIME type."""
    return [dict(one.data) for one in cells[index].outputs if one.output_type in ("display_data", "execute_result")]


def busy_until(name: str) -> str:
    """A cell that occupies the kernel until `end_cell` is told that name."""
    return f"from pathlib import Path\nimport time\nwhile not Path({name!r}).exists():\n    time.sleep(0.1)"


def end_cell(notebook: Notebook, name: str) -> None:
    """Let the cell of `busy_until` end."""
    (notebook.server.root / name).touch()
