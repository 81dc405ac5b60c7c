"""Opens sample reports, and one that the command wrote, in a headless Chromium: every chart is
drawn, no network is used, nothing is written to the console, and no name becomes markup.

usage: run.py WRITE_SAMPLE_PAGE SHARDSIM WORK_FOLDER

Screenshots are left in WORK_FOLDER, for people to look at. Skipped (77) where there is no Chromium.
"""
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import browser

SKIPPED = 77
CHARTS = {"axes", "breakdown", "links", "memory", "memory-time", "roofline", "schedule", "traffic"}
LAPTOP, NARROW = 1366, 400
# For each chart: its name, its own state, and the count of pixels near a colour of its series.
# In gradients, colours between two of the series count, too. A chart has canvases one over the
# other, transparent but for the drawing. Below the squares of the traffic is a legend in their
# colours, which does not count.
STATE = """(() => {
  const css = getComputedStyle(document.documentElement);
  const rgb = (name) => [1, 3, 5].map((i) => parseInt(css.getPropertyValue(`--${name}`).trim().slice(i, i + 2), 16));
  const list = (name, count) => Array.from({ length: count }, (_, i) => rgb(`${name}-${i}`));
  const near = (a, b) => a.every((value, i) => Math.abs(value - b[i]) <= 2);
  const mix = (a, b, share) => a.map((value, i) => value + (b[i] - value) * share);
  const between = (colours) => colours.slice(1).flatMap(
    (end, k) => Array.from({ length: 65 }, (_, i) => mix(colours[k], end, i / 64)));
  const series = {
    axes: [rgb('time-1'), rgb('hidden')],
    breakdown: list('time', 4),
    links: [rgb('time-1')],
    memory: list('memory', 5),
    'memory-time': list('memory', 5),
    roofline: list('bar', 12),
    schedule: list('bar', 12),
    traffic: between(list('heat', 4)),
  };
  return [...document.querySelectorAll('[data-chart]')].map((place) => {
    const { chart, drawn, items } = place.dataset;
    const counts = new Map();
    for (const canvas of place.querySelectorAll('canvas')) {
      const height = canvas.height - (chart === 'traffic' ? 50 : 0);
      const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, height).data;
      for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] < 128) continue;
        const colour = pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2];
        counts.set(colour, (counts.get(colour) ?? 0) + 1);
      }
    }
    let coloured = 0;
    for (const [colour, count] of counts) {
      const channels = [colour >> 16, colour >> 8 & 255, colour & 255];
      if (series[chart].some((wanted) => near(channels, wanted))) coloured += count;
    }
    return [chart, drawn, Number(items), coloured];
  });
})()"""
# Texts of the page that cannot be read whole: beyond the page, cut by their own box, one over the
# other, or names of checks that break inside a word. Boxes that scroll may hold more than they show. Charts on canvases are not seen here.
UNREADABLE = """(() => {
  const width = document.documentElement.clientWidth;
  const faults = [];
  const seen = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const clipsOf = (element) => {
    const clips = [];
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== 'visible') clips.push(at.getBoundingClientRect());
    }
    return clips;
  };
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('script, style, noscript') || !parent.checkVisibility()) continue;
    const text = node.data.trim().slice(0, 40);
    const clips = clipsOf(parent);
    const style = getComputedStyle(parent);
    if (style.overflowX === 'hidden' && parent.scrollWidth > parent.clientWidth + 1) faults.push(`cut: ${text}`);
    const range = document.createRange();
    range.selectNodeContents(node);
    const named = parent.closest('#checks tbody th') && /^\\w+$/.test(text);
    if (named && range.getClientRects().length > 1) faults.push(`broken: ${text}`);
    for (const rect of range.getClientRects()) {
      let [left, right, top, bottom] = [rect.left, rect.right, rect.top, rect.bottom];
      for (const clip of clips) {
        [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
        [top, bottom] = [Math.max(top, clip.top), Math.min(bottom, clip.bottom)];
      }
      // A table scrolls with its cells; all else should be seen without scrolling.
      if (rect.right > right + 1 && !parent.closest('td, th, pre, svg')) faults.push(`cut: ${text}`);
      if (right - left < 1 || bottom - top < 1) continue;
      if (left < -0.5 || right > width + 0.5) faults.push(`beyond the page: ${text}`);
      // Lines of text may touch: what counts is their middle.
      const inset = (bottom - top) / 4;
      seen.push({ text, node, left: left + 1, right: right - 1, top: top + inset, bottom: bottom - inset });
    }
  }
  seen.sort((a, b) => a.top - b.top);
  seen.forEach((a, i) => {
    for (let k = i + 1; k < seen.length && seen[k].top < a.bottom; ++k) {
      const b = seen[k];
      if (a.node !== b.node && a.left < b.right && b.left < a.right) faults.push(`"${a.text}" over "${b.text}"`);
    }
  });
  return faults;
})()"""
# The same for texts on the canvases of charts, by the boxes of what the library has drawn there.
UNREADABLE_LABELS = """(() => {
  const TOUCH = 2; // Pixels by which boxes may lie over each other: they are larger than their letters.
  const boxOf = (shape) => {
    const { x, y, width, height } = shape.getBoundingRect();
    const [a, b, c, d, e, f] = shape.transform ?? [1, 0, 0, 1, 0, 0];
    const corners = [[x, y], [x + width, y], [x, y + height], [x + width, y + height]];
    const xs = corners.map(([u, v]) => a * u + c * v + e);
    const ys = corners.map(([u, v]) => b * u + d * v + f);
    return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
  };
  const faults = [];
  let texts = 0;
  for (const place of document.querySelectorAll('[data-chart]')) {
    const { chart } = place.dataset;
    const drawing = place.drawing.getZr();
    const canvas = { left: 0, right: drawing.getWidth(), top: 0, bottom: drawing.getHeight() };
    const sticksOut = (box, of) => box.left < of.left - TOUCH || box.right > of.right + TOUCH
      || box.top < of.top - TOUCH || box.bottom > of.bottom + TOUCH;
    const seen = [];
    for (const shape of drawing.storage.getDisplayList(true)) {
      if (shape.type !== 'tspan' || !String(shape.style.text ?? '').trim() || shape.invisible) continue;
      const box = { text: shape.style.text, ...boxOf(shape) };
      if (sticksOut(box, canvas)) faults.push(`${chart}: "${box.text}" leaves its canvas`);
      const clips = (shape.__clipPaths ?? []).map(boxOf);
      if (clips.some((clip) => sticksOut(box, clip))) faults.push(`${chart}: "${box.text}" is cut`);
      for (const other of seen) {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const tall = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > TOUCH && tall > TOUCH) faults.push(`${chart}: "${box.text}" over "${other.text}"`);
      }
      seen.push(box);
    }
    texts += seen.length;
  }
  return [texts, faults];
})()"""
# Whole numbers of four digits and more without separators. Names and code have such; so do years, which
# stand among the assumptions.
UNGROUPED = """(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest('script, style, code, pre, h1, #assumptions-table')) continue;
    found.push(...(node.data.match(/(?<![\\w.,:\\/-])\\d{4,}(?![\\w\\/-])/g) ?? []));
  }
  return found;
})()"""
# The size of the smallest text that is seen, in pixels, with that text. Figures may be drawn smaller than
# their style says.
SMALLEST = """(() => {
  let smallest = [Infinity, ''];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('script, style, noscript, title') || !parent.checkVisibility()) continue;
    const scale = parent.closest('svg') ? parent.closest('text').getScreenCTM().a : 1;
    const size = parseFloat(getComputedStyle(parent).fontSize) * Math.abs(scale || 1);
    if (size < smallest[0]) smallest = [size, node.data.trim().slice(0, 40)];
  }
  return smallest;
})()"""
# What is between the margins of an A4 page, and the smallest letters on it: 7.5 pt. In pixels.
PAPER_WIDTH, SMALLEST_ON_PAPER = 703, 10
TALLEST = {1366: 6000, 400: 10000}  # Pixels of a page with its sections closed, by its width.
# Pages that commands write; the name of the file is the last word.
QUICKSTART, OTHER = "scenarios/quickstart.json", "scenarios/gpt2-xl-zero2-32xa100.json"
COMMANDS = {
    "two-runs": ("diff", QUICKSTART, "--set", "parallelism.zero_stage=2", "--report"),
    "four-runs": ("diff", QUICKSTART, OTHER, QUICKSTART, OTHER, "--report"),
    "plan": ("plan", "llama3-8b", "--gpus", "16", "--gpu", "h100", "--tokens", "1T", "--usd-per-gpu-hour", "2.5",
             "-q", "--report"),
    "machines": ("plan", "llama3-8b", "--gpus", "8..16", "--gpu", "h100,b200", "--tokens", "1T", "--deadline", "900d",
                 "-q", "--report"),
    "validation": ("validate", "--sample", "--html"),
    "sensitivity": ("sensitivity", QUICKSTART, "--report"),
}
LEAST_COLOURED = 40  # Pixels. Axes alone have none, or few by chance where text is antialiased.
LARGEST_REPORT = 3_000_000  # Bytes, of 1,024 ranks: small enough for a mail.
ROOT = pathlib.Path(__file__).resolve().parents[3]

write_sample_page, shardsim, work = None, None, None


def page_file(name):
    path = work / f"{name}.html"
    if not path.exists():
        subprocess.run([write_sample_page, name, path], check=True)
    return path


def real_report(scenario, *overrides):
    """A page that the command writes."""
    path = work / f"{pathlib.Path(scenario).stem}-real.html"
    flags = [word for override in (f"output.report={path.name}", *overrides) for word in ("--set", override)]
    subprocess.run([shardsim, scenario, "-q", "--out", work, *flags], cwd=ROOT, check=True)
    return path


def without_series(path):
    """The page with charts of axes alone; the script is another, so the policy has its hash."""
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(r"\.setOption\((this\.#\w+\.option\([^()]*\))\)",
                             r".setOption((o=>{for(const s of o.series)s.data=[];return o})(\1))", text)
    assert count == 1, f"{count} places where charts are drawn"

    def hash_of(page):
        script = re.search(r"<script>(.*?)</script>", page, re.DOTALL).group(1)
        return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert hash_of(text) in text
    broken = work / "without-series.html"
    broken.write_text(changed.replace(hash_of(text), hash_of(changed)), encoding="utf-8")
    return broken


def pages_of(pdf):
    """How many pages a PDF of Chromium has: asked of pdfinfo, or counted where there is none."""
    if shutil.which("pdfinfo") is None:
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", pathlib.Path(pdf).read_bytes()))
    said = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    if "(A4)" not in said:
        raise AssertionError(f"not A4: {said}")
    return int(re.search(r"^Pages:\s+(\d+)", said, re.MULTILINE).group(1))


def choose(page, chart, choice):
    """Takes another of the choices above a chart."""
    page.evaluate(f"""(() => {{
      const select = document.querySelector('[data-chart={chart}]').closest('figure').querySelector('.choice select');
      select.value = '{choice}';
      select.dispatchEvent(new Event('change'));
    }})()""")


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, name, **options):
        return self.open_file(page_file(name), **options)

    def open_file(self, path, expected="drawn", unfolded=True, **options):
        page = self.browser.open(path, **options)
        page.until("document.body.dataset.report !== undefined")
        self.assertEqual(page.evaluate("document.body.dataset.report"), expected, page.problems)
        if unfolded:
            self.unfold(page)
        return page

    @staticmethod
    def unfold(page):
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        if page.evaluate("document.body.dataset.report") == "drawn":
            page.until("[...document.querySelectorAll('[data-chart]')].every((place) => place.dataset.drawn)")

    def require_short(self, page, tallest):
        """Sections are closed at first, and the page is not tall."""
        self.assertEqual(page.evaluate("document.querySelectorAll('details[open]').length"), 0)
        self.assertLess(page.evaluate("document.documentElement.scrollHeight"), tallest)

    def require_readable(self, page):
        self.require_fitting(page)
        self.assertEqual(page.evaluate(UNREADABLE), [])

    def require_quiet(self, page, path):
        self.assertEqual(page.problems, [])
        self.assertEqual(page.requests, [path.resolve().as_uri()])

    def require_drawn(self, page, charts):
        state = page.evaluate(STATE)
        self.assertEqual({name for name, *_ in state}, charts)
        for name, drawn, items, coloured in state:
            with self.subTest(chart=name):
                self.assertEqual(drawn, "true")
                self.assertGreater(items, 0)
                self.assertGreaterEqual(coloured, LEAST_COLOURED)

    def require_fitting(self, page):
        self.assertEqual(page.evaluate("document.documentElement.scrollWidth"),
                         page.evaluate("document.documentElement.clientWidth"))

    def test_every_chart_is_drawn_in_every_view(self):
        for view, width, scheme in (("light", LAPTOP, "light"), ("dark", LAPTOP, "dark"),
                                    ("narrow", NARROW, "light"), ("narrow-dark", NARROW, "dark")):
            with self.subTest(view=view):
                page = self.open("small", width=width, scheme=scheme)
                self.require_drawn(page, CHARTS)
                self.require_fitting(page)
                self.require_quiet(page, page_file("small"))
                page.screenshot(work / f"small-{view}.png")

    def require_readable_labels(self, page, least=20):
        texts, faults = page.evaluate(UNREADABLE_LABELS)
        self.assertGreaterEqual(texts, least)
        self.assertEqual(faults, [])

    def test_every_label_of_a_chart_can_be_read(self):
        pages = [(name, page_file(name)) for name in ("small", "large", "hostile")]
        for scenario, *overrides in (("scenarios/quickstart.json",), ("scenarios/gpt3-175b-1024xa100.json", "execution.fold=auto")):
            pages.append((scenario, real_report(scenario, *overrides)))
        for name, path in pages:
            for width in TALLEST:
                for scheme in ("light", "dark"):
                    with self.subTest(name=name, width=width, scheme=scheme):
                        page = self.open_file(path, width=width, scheme=scheme)
                        self.require_readable_labels(page)
                        if page.evaluate("document.querySelector('[data-chart=schedule]').dataset.items !== '0'"):
                            choose(page, "schedule", 1)
                            self.require_readable_labels(page)

    def test_a_label_that_cannot_be_read_would_be_seen(self):
        for change, fault in (
                ("drawing.setOption({ series: drawing.getOption().series.map(() => ({ label: { formatter: 'far too long a label' } })) })",
                 '" over "'),
                ("drawing.setOption({ xAxis: { nameGap: 60 }, grid: { outerBoundsMode: 'none' } })", "leaves its canvas"),
                ("""const shapes = drawing.getZr().storage.getDisplayList(true);
                  const Rectangle = shapes.find((one) => one.type === 'rect').constructor;
                  shapes.find((one) => one.type === 'tspan').setClipPath(new Rectangle({ shape: { x: 0, y: 0, width: 3, height: 3 } }))""",
                 "is cut")):
            with self.subTest(fault=fault):
                page = self.open("small")
                self.require_readable_labels(page)
                page.evaluate(f"""(() => {{
                  const {{ drawing }} = document.querySelector('[data-chart=breakdown]');
                  {change};
                }})()""")
                _, faults = page.evaluate(UNREADABLE_LABELS)
                self.assertTrue(any(fault in each for each in faults), faults)

    def test_every_text_can_be_read_and_the_closed_page_is_short(self):
        for name in ("small", "large", "bare"):
            for width, tallest in TALLEST.items():
                with self.subTest(name=name, width=width):
                    page = self.open(name, width=width, unfolded=False)
                    self.require_short(page, tallest)
                    self.require_readable(page)
                    self.unfold(page)
                    self.require_readable(page)

    def test_pages_with_plain_figures_can_be_read_in_every_view(self):
        for name in ("layouts", "compared", "sensitive", "question"):
            path = page_file(name)
            for width, tallest in TALLEST.items():
                for scheme in ("light", "dark"):
                    with self.subTest(name=name, width=width, scheme=scheme):
                        page = self.open_file(path, unfolded=False, width=width, scheme=scheme)
                        self.require_short(page, tallest)
                        self.require_readable(page)
                        page.screenshot(work / f"{name}-{width}-{scheme}.png")
                        self.unfold(page)
                        self.require_readable(page)
                        self.require_quiet(page, path)

    def test_the_page_of_validate_is_short_and_can_be_read(self):
        path = work / "validate.html"
        subprocess.run([shardsim, "validate", "torchtitan", "megascale", "--html", path], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        for width, tallest in TALLEST.items():
            page = self.open_file(path, unfolded=False, width=width)
            self.require_short(page, tallest)
            self.require_readable(page)
            # What comes first is the plot of all points.
            self.assertTrue(page.evaluate("document.querySelector('main > section svg circle') !== null"))
            self.require_quiet(page, path)

    def test_points_tell_their_layout_and_a_search_leaves_those_that_match(self):
        page = self.open("layouts")
        first = "document.querySelector('svg circle')"
        page.evaluate(f"{first}.dispatchEvent(new PointerEvent('pointerenter'))")
        self.assertEqual(page.evaluate("document.querySelector('.tip.floating').textContent"),
                         page.evaluate(f"{first}.querySelector('title').textContent"))
        self.require_fitting(page)
        page.evaluate(f"{first}.dispatchEvent(new PointerEvent('pointerleave'))")
        self.assertTrue(page.evaluate("document.querySelector('.tip.floating').hidden"))
        page.evaluate("""(() => {
          const input = document.querySelector('[data-filters=ranking-table]');
          input.value = 'tp1 dp8x5';
          input.dispatchEvent(new Event('input'));
        })()""")
        shown = page.evaluate("[...document.querySelectorAll('#ranking-table tbody tr')].filter((row) => !row.hidden).length")
        self.assertEqual(shown, 1)
        faint = page.evaluate("document.querySelectorAll('svg circle.faint').length")
        clear = page.evaluate("document.querySelectorAll('svg circle:not(.faint)').length")
        self.assertGreater(faint, 100)
        self.assertGreater(clear, 0)

    def test_a_text_that_cannot_be_read_would_be_seen(self):
        page = self.open("small", unfolded=False)
        for style, fault in (("position: absolute; left: 1340px; white-space: nowrap", "beyond the page"),
                             ("display: block; margin-bottom: -20px; margin-left: 0", '" over "'),
                             ("display: block; overflow: hidden; white-space: nowrap; width: 20px", "cut")):
            page.evaluate(f"document.querySelector('.tiles dt').style.cssText = {style!r}")
            faults = page.evaluate(UNREADABLE)
            self.assertTrue(any(fault in each for each in faults), (fault, faults))
        page.evaluate("document.getElementById('unfold').click()")
        page.evaluate("document.querySelector('#checks tbody th').style.cssText = 'overflow-wrap: anywhere; min-width: 0; width: 1px'")
        self.assertIn("broken: conservation", page.evaluate(UNREADABLE))

    def test_names_of_checks_stay_whole_beside_a_long_detail(self):
        page = self.open("small")
        page.evaluate("document.querySelector('#checks tbody td:last-child').textContent = 'some words '.repeat(60)")
        self.assertIn("conservation", page.evaluate("document.querySelector('#checks tbody th').textContent"))
        for width in (LAPTOP, NARROW):
            page.resize(width)
            self.assertEqual([fault for fault in page.evaluate(UNREADABLE) if "broken" in fault], [])

    def test_what_is_folded_is_drawn_when_it_is_opened(self):
        page = self.open("small", unfolded=False)
        drawn = "document.querySelector('[data-chart=roofline]').dataset.drawn ?? null"
        self.assertIsNone(page.evaluate(drawn))
        page.evaluate("location.hash = '#roofline'")
        page.until(f"({drawn}) === 'true'")
        self.assertTrue(page.evaluate("document.getElementById('roofline').open"))
        page.evaluate("document.getElementById('unfold').click()")
        page.until("document.querySelectorAll('details.part:not([open])').length === 0")
        page.until("document.getElementById('unfold').textContent === 'Close all'")

    def require_one_page(self, path):
        """Returns the page, which is printed on one sheet, in letters that can be read."""
        page = self.open_file(path, unfolded=False)
        pdf = work / f"{path.stem}.pdf"
        page.print(pdf)
        self.assertEqual(pages_of(pdf), 1, path)
        page.send("Emulation.setEmulatedMedia", media="print")
        page.resize(PAPER_WIDTH)
        size, text = page.evaluate(SMALLEST)
        self.assertGreaterEqual(size, SMALLEST_ON_PAPER, text)
        self.require_readable(page)
        self.assertTrue(page.evaluate("document.querySelector('footer .paper-only').checkVisibility()"))
        self.assertFalse(page.evaluate("[...document.querySelectorAll('details.part')].some((part) => part.checkVisibility())"))
        return page

    def test_the_printed_summary_of_every_page_is_one_sheet(self):
        for name in ("small", "large", "bare", "hostile", "sensitive", "layouts", "compared", "question"):
            with self.subTest(name=name):
                self.require_one_page(page_file(name))
        for name, words in COMMANDS.items():
            with self.subTest(name=name):
                path = work / f"{name}.html"
                subprocess.run([shardsim, *words, path], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
                self.require_one_page(path)
        self.require_one_page(real_report("scenarios/gpt3-175b-1024xa100.json", "execution.fold=auto",
                                          "training.tokens_total=3e11", "cost.usd_per_gpu_hour=2.5"))

    def test_paper_says_how_much_more_is_on_screen(self):
        page = self.require_one_page(page_file("layouts"))
        shown = "[...document.querySelectorAll('#ranking tbody tr')].filter((row) => row.checkVisibility()).length"
        more = "[...document.querySelectorAll('#ranking .more')].map((one) => one.checkVisibility() && one.textContent)"
        self.assertEqual((page.evaluate(shown), page.evaluate(more)), (5, ["5 more on screen."]))
        self.assertFalse(page.evaluate("document.getElementById('front').checkVisibility()"))
        page.evaluate("""(() => {
          const input = document.querySelector('[data-filters=ranking-table]');
          input.value = 'tp1 dp8x5';
          input.dispatchEvent(new Event('input'));
        })()""")
        self.assertEqual((page.evaluate(shown), page.evaluate(more)), (1, [False]))

    def test_sections_that_are_open_are_printed_and_all_of_them_whole(self):
        page = self.open("layouts", unfolded=False)
        page.evaluate("document.getElementById('assumptions').open = true")
        page.send("Emulation.setEmulatedMedia", media="print")
        self.assertTrue(page.evaluate("document.querySelector('#assumptions li').checkVisibility()"))
        self.assertFalse(page.evaluate("document.getElementById('front').checkVisibility()"))
        page.evaluate("document.getElementById('unfold').click()")
        page.until("document.querySelectorAll('#ranking tr').length === "
                   "[...document.querySelectorAll('#ranking tr')].filter((row) => row.checkVisibility()).length")
        self.assertTrue(page.evaluate("document.getElementById('front').checkVisibility()"))
        page.print(work / "layouts-whole.pdf")
        self.assertGreater(pages_of(work / "layouts-whole.pdf"), 1)

    def test_the_schedule_shows_computing_first_and_all_on_demand(self):
        page = self.open("small")
        items = "Number(document.querySelector('[data-chart=schedule]').dataset.items)"
        computing = page.evaluate(items)
        choose(page, "schedule", 1)
        page.until(f"{items} > {computing}")
        choose(page, "schedule", 0)
        page.until(f"{items} === {computing}")

    def test_a_large_run_is_drawn_whole(self):
        page = self.open("large")
        self.require_drawn(page, CHARTS)
        choose(page, "schedule", 1)
        page.until("Number(document.querySelector('[data-chart=schedule]').dataset.items) > 10000")
        self.assertEqual(page.evaluate("Number(document.querySelector('[data-chart=schedule]').dataset.items)"),
                         20000)
        self.require_quiet(page, page_file("large"))
        page.screenshot(work / "large-light.png")

    def test_a_report_of_the_command_is_drawn(self):
        path = real_report("scenarios/quickstart.json")
        page = self.open_file(path)
        self.require_drawn(page, CHARTS)
        self.require_fitting(page)
        self.require_quiet(page, path)
        page.screenshot(work / "quickstart-real.png")

    def test_a_report_of_a_thousand_ranks_is_small_and_drawn(self):
        path = real_report("scenarios/gpt3-175b-1024xa100.json", "execution.fold=auto")
        self.assertLess(path.stat().st_size, LARGEST_REPORT)
        page = self.open_file(path)
        self.require_drawn(page, CHARTS)
        self.require_quiet(page, path)

    def test_whole_numbers_have_separators(self):
        page = self.open_file(real_report("scenarios/gpt3-175b-1024xa100.json", "execution.fold=auto"))
        self.assertIn("1,024 ranks", page.evaluate("document.querySelector('.facts').textContent"))
        self.assertEqual(page.evaluate(UNGROUPED), [])
        page.evaluate("document.querySelector('.tiles dt').textContent = '1024'")
        self.assertEqual(page.evaluate(UNGROUPED), ["1024"])

    def test_operations_of_the_roofline_have_names(self):
        page = self.open("small", width=NARROW)
        names = page.evaluate("""[...document.querySelector('[data-chart=roofline]').closest('figure')
          .querySelectorAll('.key li')].map((item) => item.textContent)""")
        self.assertEqual(names[:2], ["matmul", "attention"])
        self.assertEqual(len(names), 7)  # Those that can be drawn.

    def test_axes_alone_are_not_taken_for_a_chart(self):
        path = without_series(page_file("small"))
        for width, scheme in ((LAPTOP, "light"), (LAPTOP, "dark"), (NARROW, "light"), (NARROW, "dark")):
            page = self.open_file(path, width=width, scheme=scheme)
            state = page.evaluate(STATE)
            self.assertEqual({name for name, *_ in state}, CHARTS)
            for name, _, _, coloured in state:
                with self.subTest(chart=name, width=width, scheme=scheme):
                    self.assertLess(coloured, LEAST_COLOURED)

    def test_names_do_not_become_markup(self):
        page = self.open("hostile", width=NARROW)
        self.require_drawn(page, CHARTS)
        self.assertEqual(page.evaluate("document.images.length"), 0)
        self.assertIn("</script><img src=x onerror=alert(1)>\"'&\\x1b[31m",
                      page.evaluate("document.querySelector('h1').textContent"))
        self.require_fitting(page)
        self.require_quiet(page, page_file("hostile"))
        page.screenshot(work / "hostile-narrow.png")

    def test_a_run_without_detail_has_what_metrics_tell(self):
        page = self.open("bare")
        self.require_drawn(page, {"breakdown"})
        self.require_quiet(page, page_file("bare"))
        page.screenshot(work / "bare-light.png")

    def test_the_button_changes_colours_and_charts(self):
        page = self.open("small")
        background = "getComputedStyle(document.body).backgroundColor"
        pixels = "document.querySelector('[data-chart=traffic] canvas').toDataURL()"
        light = page.evaluate(background), page.evaluate(pixels)
        page.evaluate("document.getElementById('theme').click()")
        page.evaluate("new Promise((done) => setTimeout(done, 1500))")
        dark = page.evaluate(background), page.evaluate(pixels)
        self.assertNotEqual(light[0], dark[0])
        self.assertNotEqual(light[1], dark[1])
        self.require_drawn(page, CHARTS)

    def test_search_hides_what_does_not_match(self):
        page = self.open("small")
        page.evaluate("""(() => {
          const input = document.querySelector('[data-filters=assumptions-table]');
          input.value = 'datasheet PEAK';
          input.dispatchEvent(new Event('input'));
        })()""")
        self.assertEqual(page.evaluate("""[...document.querySelectorAll('#assumptions-table tbody tr')]
          .map((row) => row.checkVisibility())"""), [True, False, False])
        self.assertEqual(page.evaluate("document.getElementById('assumptions-table-count').textContent"),
                         "1 of 3")

    def test_another_stage_can_be_chosen(self):
        page = self.open("small")
        pixels = "document.querySelector('[data-chart=memory-time] canvas').toDataURL()"
        first = page.evaluate(pixels)
        choose(page, "memory-time", 3)
        page.until(f"{pixels} !== {first!r}")
        self.assertEqual(page.problems, [])

    def test_without_a_script_there_are_plain_figures(self):
        page = self.browser.open(page_file("small"), script=False)
        self.unfold(page)
        shown = page.evaluate("[...document.querySelectorAll('.static svg')].map((svg) => svg.checkVisibility())")
        self.assertEqual(shown, [True] * 4)
        self.assertFalse(page.evaluate("document.querySelector('.plot').checkVisibility()"))
        self.require_quiet(page, page_file("small"))
        page.screenshot(work / "small-scriptless.png")

    def test_paper_has_plain_figures_and_the_page_comes_back(self):
        page = self.open("small", scheme="dark")
        page.send("Emulation.setEmulatedMedia", media="print")
        self.assertTrue(page.evaluate("document.querySelector('.static svg').checkVisibility()"))
        self.assertFalse(page.evaluate("document.querySelector('.plot.has-static').checkVisibility()"))
        page.send("Emulation.setEmulatedMedia", media="")
        page.print(work / "small.pdf")
        self.assertIn(b"%PDF", (work / "small.pdf").read_bytes()[:8])
        self.assertIsNone(page.evaluate("document.documentElement.dataset.theme ?? null"))
        self.require_drawn(page, CHARTS)

    def test_what_this_test_looks_for_would_be_seen(self):
        text = page_file("small").read_text(encoding="utf-8")
        broken = work / "broken.html"
        broken.write_text(text.replace('{"device_memory_bytes"', "{device_memory_bytes"), encoding="utf-8")
        page = self.open_file(broken, expected="failed")
        self.assertNotEqual(page.problems, [])
        self.assertTrue(page.evaluate("document.querySelector('.static svg').checkVisibility()"))
        asking = work / "asking.html"
        asking.write_text(text.replace("<main>", '<main><img src="https://example.invalid/x.png" onerror="alert(1)">'),
                          encoding="utf-8")
        page = self.open_file(asking)
        self.assertTrue(any("Content Security Policy" in str(problem) for problem in page.problems), page.problems)


def main():
    global write_sample_page, shardsim, work
    write_sample_page, shardsim = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    work = pathlib.Path(sys.argv[3])
    if browser.find_browser() is None:
        print("skipped: there is no Chromium (chromium, chromium-browser or google-chrome)")
        return SKIPPED
    work.mkdir(parents=True, exist_ok=True)
    for path in work.glob("*.html"):
        path.unlink()
    program = unittest.main(argv=[sys.argv[0], *sys.argv[4:]], exit=False, verbosity=2)
    return 0 if program.result.wasSuccessful() and program.result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
