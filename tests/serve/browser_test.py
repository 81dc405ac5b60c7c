"""Opens the page of `shardsim serve` in a headless Chromium.

usage: browser_test.py SHARDSIM WORK_FOLDER

Screenshots are left in WORK_FOLDER, for people to look at. Skipped (77) where there is no Chromium.
"""
import base64
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import unittest

from served import PLAN, Served
from served_page import IDLE, browser, drawn_ms, open_page

SKIPPED = 77
SHARDSIM, WORK = "", pathlib.Path()
WIDTHS = (1366, 400)
LONGEST_DRAWN_S = 30  # For hangs; tests/campaigns/serve_latency.py judges the time.
# Elements that stick out of the page, or cut their own text.
OVERFLOWS = """[...document.querySelectorAll('body *')].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width > 0 && (box.right > document.documentElement.clientWidth + 1 || box.left < -1)
    && one.closest('pre') === null;
}).map((one) => one.outerHTML.slice(0, 80))"""


def letters(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def text_of_letters(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def run(text):
    done = subprocess.run([SHARDSIM, "-"], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return " ".join(done.stdout.decode().split())


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served(SHARDSIM, "--jobs", "2")
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        assert cls.served.stop() == (0, ""), "nothing is logged"

    def open(self, fragment="", width=1366, scheme="light"):
        return open_page(self.browser, self.served.url + fragment, width, scheme)

    def scenario_of(self, page):
        """The exact text behind the # of the address."""
        return text_of_letters(page.evaluate("location.hash").removeprefix("#s="))

    def change(self, page, control, value):
        page.evaluate(f"""(() => {{ const one = document.getElementById('{control}'); one.value = '{value}';
          one.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()""")
        page.until(IDLE + " && document.getElementById('answer').dataset.scenario === location.hash.slice(3)")

    def test_a_changed_number_of_gpus_has_the_figures_of_run(self):
        page = self.open()
        before = self.scenario_of(page)
        self.change(page, "gpus", "512")
        after = self.scenario_of(page)
        self.assertNotEqual(before, after)
        self.assertEqual(json.loads(after)["system"]["ranks"], 512)
        own = run(after)
        values = page.evaluate("[...document.querySelectorAll('#tiles .value')].map((one) => one.textContent)")
        self.assertGreaterEqual(len(values), 2)
        for value in values:
            self.assertIn(value, own)
        self.assertEqual(" ".join(page.evaluate("document.getElementById('text').textContent").split()),
                         own.split(" Next: ")[0])
        self.assertEqual(page.evaluate("document.querySelectorAll('#time rect').length > 0"), True)
        self.assertEqual(page.problems, [])

    def test_charts_follow_a_change(self):
        page = self.open()
        times = [drawn_ms(page, *change) for change in (("gpus", 256), ("gpus", 1024), ("recompute", "full"), ("tp", 8), ("zero", 3),
                                                        ("gpus", 128), ("pp", 1), ("recompute", "none"))]
        print(f"from a change to its charts: median {statistics.median(times):.0f} ms, largest {max(times):.0f} ms")
        self.assertLess(max(times), 1e3 * LONGEST_DRAWN_S)
        self.assertEqual(page.problems, [])

    def test_the_memory_bar_has_categories(self):
        page = self.open()  # A layout with a pipeline, whose fullest stage is one of several.
        names = page.evaluate("[...document.querySelectorAll('#memory .legend li span:first-of-type')].map((one) => one.textContent)")
        self.assertEqual(names, ["parameters", "gradients", "optimizer", "activations", "communication", "allocator, CUDA, NCCL"])
        self.assertEqual(page.evaluate("document.querySelectorAll('#memory rect').length"), len(names))
        self.assertTrue(page.evaluate("document.querySelector('#memory .limit') !== null"))

    def test_tokens_and_price_become_days_and_dollars(self):
        page = self.open()
        self.change(page, "tokens", "10T")
        self.change(page, "price", "2.5")
        names = page.evaluate("[...document.querySelectorAll('#tiles dt')].map((one) => one.textContent)")
        self.assertEqual(names, ["Step time", "Time to train", "Cost", "Memory on the fullest GPU"])
        scenario = json.loads(self.scenario_of(page))
        self.assertEqual((scenario["training"]["tokens_total"], scenario["cost"]["usd_per_gpu_hour"]), (1e13, 2.5))

    def test_a_link_restores_the_same_scenario_byte_by_byte(self):
        for text in (json.dumps({**PLAN, "name": "Zürich 東京 \u2028"}, ensure_ascii=False) + "\n\n  ",
                     "// words\n" + json.dumps(PLAN, indent=7), json.dumps(PLAN).replace(" ", "\t\r\n")):
            page = self.open("#s=" + letters(text))
            self.assertEqual(self.scenario_of(page), text)
            again = self.open(page.evaluate("location.hash"))
            self.assertEqual(self.scenario_of(again), text)
            download = page.evaluate("document.getElementById('download').href")
            self.assertEqual(base64.b64decode(download.partition("base64,")[2]).decode(), text)

    def test_nothing_but_the_server_is_asked_and_never_with_the_scenario(self):
        page = self.open("#s=" + letters(json.dumps(PLAN)))
        self.assertTrue(page.requests)
        for url in page.requests:
            self.assertTrue(url.startswith((self.served.url, "data:")), url)
            self.assertNotIn(letters(json.dumps(PLAN))[:40], url.partition("#")[0])

    def test_a_strangers_link_is_neither_markup_nor_a_command(self):
        name = "<img src=x onerror=\"document.title='taken'\">'; touch taken; '\nEND\n"
        page = self.open("#s=" + letters(json.dumps({**PLAN, "name": name})))
        self.assertNotEqual(page.evaluate("document.title"), "taken")
        self.assertEqual(page.evaluate("document.querySelectorAll('main img').length"), 0)
        command = page.evaluate("document.getElementById('command').textContent")
        printed = subprocess.run(["sh", "-c", command.partition(" | ")[0]], stdout=subprocess.PIPE, check=True, cwd=WORK)
        self.assertEqual(json.loads(printed.stdout)["name"], name)
        self.assertFalse((WORK / "taken").exists())

    def test_a_scenario_that_cannot_run_says_why(self):
        page = self.open()
        self.change(page, "tp", "128")
        self.assertEqual(page.evaluate("document.getElementById('errors').hidden"), False)
        self.assertTrue(page.evaluate("document.querySelectorAll('#error-list li').length > 0"))
        self.change(page, "tp", "8")
        self.assertEqual(page.evaluate("document.getElementById('errors').hidden"), True)

    def test_a_search_ends_with_its_best_on_the_page(self):
        page = self.open()
        self.change(page, "model", "gpt2")
        self.change(page, "gpus", "8")
        page.evaluate("document.getElementById('search').click()")
        page.until("document.getElementById('search-words').textContent.startsWith('Shown is the best')")
        page.until(IDLE + " && document.getElementById('answer').dataset.scenario === location.hash.slice(3)")
        text = self.scenario_of(page)
        self.assertIn(page.evaluate("document.querySelector('#tiles .value').textContent"), run(text))
        plan = subprocess.run([SHARDSIM, "plan", "gpt2", "--gpus", "8", "--gpu", "dgx-h100", "--global-batch-size",
                               str(json.loads(text)["training"]["global_batch_size"]), "--json", "-q"],
                              stdout=subprocess.PIPE, check=True)
        best = json.loads(plan.stdout)["ranked"][0]["metrics"]["step_time_s"]
        own = subprocess.run([SHARDSIM, "-", "--json"], input=text.encode(), stdout=subprocess.PIPE, check=True)
        self.assertAlmostEqual(json.loads(own.stdout)["metrics"]["step_time_s"], best, delta=1e-9 * best)

    def test_a_closed_tab_ends_its_search(self):
        page = self.open("#s=" + letters(json.dumps({**PLAN, "model": {"preset": "deepseek-v3"}, "parallelism": {"ep": 8, "zero_stage": 3},
                                                     "system": {"preset": "dgx-h100", "ranks": 1024}, "training": {"global_batch_size": 1024, "micro_batch_size": 1}})))
        page.evaluate("document.getElementById('search').click()")
        self.served.wait_until_busy(1.0)
        load = self.served.load_for(0.5)
        page.send("Page.close")
        begin = time.monotonic()
        self.assertTrue(self.served.is_idle_within(1.0 + os.getloadavg()[0] / os.cpu_count()))
        took = time.monotonic() - begin
        print(f"a search computes on {load:.2f} cores; {took:.2f} s after its tab was closed on {self.served.load_for(0.5):.2f}")

    def test_nothing_overflows(self):
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page = self.open(width=width, scheme=scheme)
                self.change(page, "tokens", "10T")
                self.change(page, "price", "2.5")
                page.screenshot(WORK / f"serve-{width}-{scheme}.png")
                self.assertEqual(page.evaluate(OVERFLOWS), [])
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                self.assertEqual(page.problems, [])


if __name__ == "__main__":
    if browser.find_browser() is None:
        print("there is no Chromium")
        sys.exit(SKIPPED)
    WORK = pathlib.Path(sys.argv.pop(2))
    WORK.mkdir(parents=True, exist_ok=True)
    SHARDSIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
