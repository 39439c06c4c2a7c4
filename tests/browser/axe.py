"""What axe-core, and a keyboard, find wrong in a widget on the screen: rules of WCAG 2 up to AA, in the page's present
theme and width. axe-core comes with the package axe-playwright-python, so that no page asks another machine for it."""

from __future__ import annotations

from importlib.resources import files

from playwright.sync_api import Locator

# What is not ours to change: (rule of axe-core, selector of the element, why). Nothing else is excused.
EXCUSED: tuple[tuple[str, str, str], ...] = ()

_SCRIPT = files("axe_playwright_python") / "axe.min.js"
# JupyterLab's body has no height and hides what sticks out of it, so axe-core would take all of the page for hidden.
# What it can't judge counts as wrong, too: text whose ground it can't tell; but not a letter, which may be a drawing.
_VIOLATIONS = """async (root, excused) => {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];
  document.body.style.height = '100vh';
  const results = await axe.run(root, { runOnly: tags, elementRef: true });
  document.body.style.height = '';
  const isOurs = (rule, element) => !excused.some(([its, selector]) => its === rule && element.matches(selector));
  const drawn = ({ element, any: [{ data }] }) =>  // the picture behind a list is its arrow
    ['nonBmp', 'shortTextContent', element.matches('select') && 'bgImage'].includes(data?.messageKey);
  const unsure = results.incomplete.filter(({ id }) => id === 'color-contrast')
    .map(({ id, nodes }) => ({ id, nodes: nodes.filter((node) => !drawn(node)) }));
  return [...results.violations, ...unsure].flatMap(({ id, nodes }) => nodes
    .filter(({ element }) => isOurs(id, element))
    .map(({ html, failureSummary, any }) =>
      `${id}: ${html.slice(0, 200)}: ${(failureSummary ?? any[0].message).replace(/\\s+/g, ' ')}`)) }"""
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
