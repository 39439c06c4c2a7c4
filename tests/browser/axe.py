"""What axe-core, and a keyboard, find wrong in a widget on the screen: rules of WCAG 2 up to AA, in the page's present
theme and width. axe-core comes with the package axe-playwright-python, so that no page asks another machine for it."""

from __future__ import annotations

from importlib.resources import files

from playwright.sync_api import Locator

# What is not ours to change: (rule of axe-core, selector of the element, why). Nothing else is excused.
EXCUSED: tuple[tuple[str, str, str], ...] = ()

_SCRIPT = files("axe_playwright_python") / "axe.min.js"
_VIOLATIONS = """async (root, excused) => {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];
  const { violations } = await axe.run(root, { runOnly: tags, resultTypes: ['violations'], elementRef: true });
  const isOurs = (rule, element) => !excused.some(([its, selector]) => its === rule && element.matches(selector));
  return violations.flatMap(({ id, nodes }) => nodes.filter(({ element }) => isOurs(id, element))
    .map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)}: ${failureSummary.replace(/\\s+/g, ' ')}`)) }"""
# Controls that Tab leaves out; not those in a group that arrows walk.
_BY_POINTER_ONLY = """root =>
  [...root.querySelectorAll('button, select, input, textarea, summary, a[href], [role=slider]')]
  .filter(one => one.checkVisibility() && !one.disabled && one.tabIndex < 0
    && !one.closest('[role=radiogroup], [role=tablist], [role=grid], [role=listbox]'))
  .map(one => `only by pointer: ${one.outerHTML.slice(0, 200)}`)"""


def barriers(root: Locator) -> list[str]:
    """What keeps people out of a widget: each violation with its rule and element, and what no key reaches."""
    root.page.evaluate(_SCRIPT.read_text(encoding="utf-8"))
    excused = [list(one) for one in EXCUSED]
    found: list[str] = [*root.evaluate(_VIOLATIONS, excused), *root.evaluate(_BY_POINTER_ONLY)]
    return found
