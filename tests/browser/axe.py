"""What keeps people out of a widget on the screen: violations of WCAG 2.1 AA, and controls without the Tab key.

axe-core comes with the package axe-playwright-python, so no page asks another machine for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from playwright.sync_api import Locator

from tests.browser.driver import DARK, LIGHT, Notebook

AROUND, BARS = 600, 150  # px of a window around a widget; and of the menu, the toolbar and the line of states at most
SETTLED_MS = 1500  # until colours have faded from one theme to the other, and the page is laid out anew

EXCUSED = {"th-has-data-cells": "an empty table has none"}  # results that axe-core is unsure of

_SCRIPT = files("axe_playwright_python") / "axe.min.js"
# It makes decidable what axe-core cannot decide. JupyterLab's body is 0 px high and hides what overflows it: axe-core
# would see no text at all. An element with an opacity it takes for one that lies under its parents, unless it has a
# position. The arrow of a drop-down list is a background image; a sticky cell, which has its row's ground, lies over
# others. What stays unclear, such as text over a picture, counts.
_FINDINGS = """async (root, excused) => {
  root.scrollIntoView({ block: 'center' });
  const { top, bottom } = root.getBoundingClientRect();
  if (top < 0 || bottom > innerHeight) throw Error(`of ${innerHeight} px, the widget takes ${top} to ${bottom}`);
  const style = new CSSStyleSheet(); // which the policy of a shared page allows
  style.replaceSync(`body { min-height: 100vh } .scanned { position: relative }
    .wb-doing { position: static !important } .widget-dropdown > select { background-image: none !important }`);
  document.adoptedStyleSheets.push(style);
  const faint = [...root.querySelectorAll('*')].filter(element =>
    getComputedStyle(element).opacity < 1 && getComputedStyle(element).position === 'static');
  faint.forEach(element => element.classList.add('scanned'));
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];
  const short = { 'color-contrast': { options: { ignoreLength: true, ignoreUnicode: false } } }; // they count
  const { violations, incomplete } = await axe.run(root, { runOnly: tags, checks: short });
  faint.forEach(element => element.classList.remove('scanned'));
  document.adoptedStyleSheets.pop();
  const described = (what, { id, nodes }) => nodes.map(({ html, failureSummary, any }) =>
    `${id}${what}: ${html.slice(0, 200)}: ${(failureSummary ?? any[0]?.message ?? '').replace(/\\s+/g, ' ')}`);
  return [...violations.flatMap(rule => described('', rule)),
    ...incomplete.filter(({ id }) => !excused.includes(id)).flatMap(rule => described(' (unclear)', rule))] }"""
# Numbers every place at which Tab has to stop. Arrows walk within a group: there, one stop is enough.
_NUMBERED = """root => {
  const controls = 'button, select, input, textarea, summary, a[href], [role=slider], [tabindex="0"]';
  const places = [...root.querySelectorAll(controls)].filter(place =>
    place.checkVisibility({ visibilityProperty: true }) && !place.disabled
    && !(place.tabIndex < 0 && place.closest('[role=grid], [role=radiogroup], [role=tablist]')));
  document.querySelectorAll('[data-stop]').forEach(place => delete place.dataset.stop);
  places.forEach((place, at) => (place.dataset.stop = at));
  places.find(place => place.tabIndex >= 0)?.focus();
  return places.map(place => place.outerHTML.slice(0, 200)) }"""
_AT = "() => Number(document.activeElement.dataset.stop ?? -1)"


@contextmanager
def whole(root: Locator) -> Iterator[None]:
    """A window that `barriers` may enlarge: axe-core does not judge the contrast of text outside the window."""
    before = root.page.viewport_size
    assert before is not None
    try:
        yield
    finally:
        root.page.set_viewport_size(before)


def _fit(root: Locator) -> None:
    """Show a widget whole, in a window that is enlarged if need be: some grow as they are laid out anew in it."""
    page = root.page
    for _ in range(4):
        root.evaluate("root => root.scrollIntoView({ block: 'center' })")  # charts that are not seen are not drawn
        page.wait_for_timeout(SETTLED_MS)
        size, box = page.viewport_size, root.bounding_box()
        assert size is not None and box is not None
        if box["y"] >= BARS and box["y"] + box["height"] <= size["height"] - BARS:
            return
        page.set_viewport_size({"width": size["width"], "height": max(size["height"], int(box["height"]) + AROUND)})


def barriers(root: Locator) -> list[str]:
    """Each violation, and each result that axe-core is unsure of, in the page's present theme; within `whole`."""
    _fit(root)
    root.page.evaluate(_SCRIPT.read_text(encoding="utf-8"))
    findings: list[str] = root.evaluate(_FINDINGS, list(EXCUSED))
    return findings


def barriers_by_theme(notebook: Notebook, root: Locator) -> list[str]:
    """The `barriers` in the dark theme and then in the light one."""
    findings = []
    with whole(root):
        for theme in (DARK, LIGHT):
            notebook.theme(theme)
            findings += [f"{theme}: {finding}" for finding in barriers(root)]
    return findings


def missed_by_tab(root: Locator) -> list[str]:
    """The controls of a widget that Tab does not reach in their order, from the first one on."""
    page = root.page
    places: list[str] = root.evaluate(_NUMBERED)
    reached = [page.evaluate(_AT)]
    for _ in range(2 * len(places)):  # what scrolls is a stop, too, though it is no control
        if reached[-1] == len(places) - 1:
            break
        page.keyboard.press("Tab")
        reached.append(page.evaluate(_AT))
    in_order = [at for at in reached if at >= 0]
    assert in_order == sorted(in_order), f"Tab jumps back: {in_order}"
    return [place for at, place in enumerate(places) if at not in in_order]
