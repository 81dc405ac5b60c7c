"""The page of `shardsim serve` in a headless Chromium, and how soon it draws a change.

    with browser.Browser() as chromium:
        page = open_page(chromium, served.url)
        milliseconds = drawn_ms(page, "gpus", "512")
"""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "html/browser"))
import browser  # noqa: E402, F401

IDLE = "document.getElementById('answer')?.getAttribute('aria-busy') === 'false' && document.getElementById('model').options.length > 0"
# From a change of a control to the second frame after the answer's figures and charts stand in the
# page: the first one may have begun before them. A change that changes nothing would take no time.
DRAWN = """((id, value) => new Promise((done, failed) => {
  const answer = document.getElementById('answer');
  const control = document.getElementById(id);
  const before = location.hash;
  performance.clearResourceTimings();
  const begin = performance.now();
  const isDrawn = () => answer.getAttribute('aria-busy') === 'false' && answer.dataset.scenario === location.hash.slice(3);
  const watch = new MutationObserver(() => {
    if (!isDrawn()) return;
    watch.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin)));
  });
  watch.observe(answer, { attributes: true });
  control.value = value;
  control.dispatchEvent(new Event('change', { bubbles: true }));
  if (location.hash === before) failed(new Error(`${id}=${value} changes nothing`));
}))"""


def open_page(chromium, url, width=1366, scheme="light"):
    """A tab with the page, after its first answer."""
    page = chromium.open(os.devnull, width=width, scheme=scheme)
    page.is_loaded = False
    page.requests.clear()
    page.send("Page.navigate", url=url)
    while not page.is_loaded:
        chromium.pump()
    page.until(IDLE)
    return page


def drawn_ms(page, control, value):
    """Milliseconds from the change of a control to its charts on the page."""
    return page.evaluate(f"{DRAWN}({json.dumps(control)}, {json.dumps(str(value))})")


def answer_ms(page):
    """How many of these the page waited for the answer."""
    return page.evaluate("performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/show')).at(-1).duration")
