"""Checks of a page in a browser, named after the criteria of WCAG 2.2; what axe can check is left to axe."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

NARROW = 320
"""Width in CSS pixels at which pages must reflow: 1280 pixels at 400 % zoom."""

SMALLEST_TEXT = 10.75
"""Pixels below which text in a chart is too small: 11, but for a chart that is a little wider than its place."""

SMALLEST_TARGET = 24
"""Pixels that a link or button must be wide and high."""

MOST_FOCUSED = 300
"""Elements of a page that get the focus in turn."""

_DESCRIBE = """
const describe = element => {
  const text = (element.getAttribute('aria-label') || element.textContent || '').trim().replace(/\\s+/g, ' ');
  return `<${element.tagName.toLowerCase()} class="${element.getAttribute('class') || ''}"> ${text.slice(0, 60)}`;
};
"""

_STRUCTURE = """() => {
  const found = [];
  const [name, site] = document.title.split(' · ');
  if (!name.trim() || !site) { found.push(`the title is "${document.title}"`); }
  const first = document.querySelector('a[href], button, input, select, summary, [tabindex]');
  const target = first && first.hash && document.querySelector(first.hash);
  if (!target || !target.matches('main')) { found.push('the first link does not skip to the content'); }
  return found;
}"""

REFLOW = """() => {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return wide > 0 ? [`${wide} pixels beyond the window`] : [];
}"""

_SPACING = (
    """() => {"""
    + _DESCRIBE
    + """
  const hides = style => ['hidden', 'clip'].includes(style);
  const isCut = element => {
    const style = getComputedStyle(element);
    return (hides(style.overflowX) && element.scrollWidth > element.clientWidth + 1)
      || (hides(style.overflowY) && element.scrollHeight > element.clientHeight + 1);
  };
  const boxes = [...document.querySelectorAll('main *, header *, footer *')].filter(element =>
    element instanceof HTMLElement && Math.min(element.clientWidth, element.clientHeight) > 2);
  const before = new Set(boxes.filter(isCut));
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`p { margin-bottom: 2em !important; }
    * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const isNamed = element => {
    const titled = element.closest('[title]');
    return titled !== null && titled.title.includes(element.textContent.trim());
  };
  // The first lines of a text, whose row leads to the whole, are an excerpt at any spacing.
  const isExcerpt = element => getComputedStyle(element).webkitLineClamp !== 'none'
    && element.closest('tbody').querySelector('th a') !== null;
  const found = boxes.filter(element =>
    isCut(element) && !before.has(element) && !isNamed(element) && !isExcerpt(element)).map(describe);
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) { found.push(`${wide} pixels beyond the window`); }
  document.adoptedStyleSheets = document.adoptedStyleSheets.filter(one => one !== sheet);
  return found;
}"""
)

_FOCUS = (
    """most => {"""
    + _DESCRIBE
    + """
  const found = [];
  const names = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
  const all = [...document.querySelectorAll(names)].filter(element =>
    !element.disabled && element.type !== 'hidden' && element.checkVisibility({visibilityProperty: true}));
  for (const element of all.slice(0, most)) {
    element.focus();
    if (document.activeElement !== element) { found.push(`no focus: ${describe(element)}`); continue; }
    const style = getComputedStyle(element);
    const hasRing = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    if (!hasRing && style.boxShadow === 'none') { found.push(`no ring: ${describe(element)}`); }
    const box = element.getClientRects()[0];
    if (!box) { found.push(`no box: ${describe(element)}`); continue; }
    const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
    const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
    const isSeen = [0.1, 0.5, 0.9].some(x => [0.2, 0.5, 0.8].some(y => {
      const seen = document.elementFromPoint(left + x * (right - left), top + y * (bottom - top));
      return seen && (element.contains(seen) || seen.contains(element));
    }));
    if (!isSeen) { found.push(`covered or out of the window: ${describe(element)}`); }
  }
  if (document.activeElement) { document.activeElement.blur(); }
  scrollTo(0, 0);
  return found;
}"""
)

_CHART_TEXT = """smallest => {
  const found = new Set();
  document.querySelectorAll('main svg text').forEach(text => {
    if (!text.checkVisibility() || !text.textContent.trim()) { return; }
    const scale = text.getScreenCTM();
    const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
    if (size < smallest) { found.add(`${size.toFixed(1)} pixels: ${text.textContent.trim().slice(0, 40)}`); }
  });
  return [...found].slice(0, 5);
}"""

_PRINTED = (
    """() => {"""
    + _DESCRIBE
    + """
  return [...document.querySelectorAll('main *')].filter(element => {
    if (!(element instanceof HTMLElement) || !element.checkVisibility() || element.clientWidth <= 2) { return false; }
    const style = getComputedStyle(element);
    return (style.overflowX !== 'visible' && element.scrollWidth > element.clientWidth + 1)
      || (style.overflowY !== 'visible' && element.scrollHeight > element.clientHeight + 1);
  }).map(describe);
}"""
)

_FOLDED = """() => [...document.querySelectorAll('.case details:not(.notes details) > :not(summary)')]
  .filter(one => !one.checkVisibility()).map(one => one.textContent.trim().slice(0, 60))"""

_WATCH_FOR_CHANGES = """() => {
  window.changes = [];
  document.addEventListener('submit', event => { window.changes.push('submits'); event.preventDefault(); }, true);
  if (window.navigation) {
    navigation.addEventListener('navigate', event => {
      if (!event.destination.sameDocument) { window.changes.push('navigates'); }
    });
  }
}"""


def problems(page: Page) -> Iterator[str]:
    """Yield what is wrong with a page at its present width and in its present colors."""
    for name, script in (("2.4.1 Bypass Blocks, 2.4.2 Page Titled", _STRUCTURE), ("1.4.10 Reflow", REFLOW)):
        yield from (f"{name}: {one}" for one in page.evaluate(script))
    yield from (f"1.4.12 Text Spacing: {one}" for one in page.evaluate(_SPACING))
    yield from (f"text of charts: {one}" for one in page.evaluate(_CHART_TEXT, SMALLEST_TEXT))
    page.keyboard.press("Tab")  # from now on the focus is that of a keyboard
    found = page.evaluate(_FOCUS, MOST_FOCUSED)
    yield from (f"2.4.7 Focus Visible, 2.4.11 Focus Not Obscured: {one}" for one in found)


def problems_of_keys(page: Page) -> Iterator[str]:
    """Yield selects in which an arrow key sends a form, leads to another page or loses the focus."""
    page.evaluate(_WATCH_FOR_CHANGES)
    for place, select in enumerate(page.locator("main select:visible").all()):
        select.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        if changes := page.evaluate("window.changes.splice(0)"):
            yield f"3.2.2 On Input: an arrow key in select {place + 1} {' and '.join(changes)}"
        if not select.evaluate("element => element === document.activeElement"):
            yield f"3.2.2 On Input: an arrow key in select {place + 1} loses the focus"


def problems_in_print(page: Page) -> Iterator[str]:
    """Yield what a printed page would cut off, and parts of a case that stay folded."""
    page.emulate_media(media="print")
    for name, script in (("cut", _PRINTED), ("folded", _FOLDED)):
        yield from (f"print, {name}: {one}" for one in page.evaluate(script))
    page.emulate_media(media="screen")


@cache
def _axe() -> Any:
    return pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    ).Axe()


def violations(page: Page, *, only_colors: bool = False) -> list[str]:
    """Return the violations that axe finds, the size of targets (2.5.8) included.

    `only_colors`: True to check the contrast alone, where nothing else differs from a page that was checked.
    """
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}  # the policy forbids to fetch files
    if only_colors:
        options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
    else:
        options["rules"] = {"target-size": {"enabled": True}}
    found = _axe().run(page, options=options).response
    assert found["passes"] or found["inapplicable"], "axe looked at nothing"
    wrong = []
    for one in found["violations"]:
        nodes = [node for node in one["nodes"] if one["id"] != "target-size" or not _is_large(page, node["target"])]
        if nodes:
            wrong.append(f"axe {one['id']}: {len(nodes)} times, such as {nodes[0]['html'][:160]}")
    return wrong


def _is_large(page: Page, target: list[str]) -> bool:
    """Tell whether a target has the size, so that it is small only where a scrolled table covers a part of it."""
    box = page.locator(target[0]).first.bounding_box()
    return box is not None and min(box["width"], box["height"]) >= SMALLEST_TARGET
