#!/usr/bin/env python3
"""desk, task pages: a reader with an empty folder and the installed program types all that a page says, and sees all
that it shows (task_page.py). Each page is short, has four to seven steps, and its pictures exist.

usage: task_pages_test.py SHARDSIM [--update]     (--update rewrites what pages show)
"""

import pathlib
import re
import sys
import unittest

import task_page

MOST_LINES = 150
STEPS = range(4, 8)
HEADING = re.compile(r"^## (\d+)\. ", re.MULTILINE)
PICTURE = re.compile(r"!\[(.*?)\]\((.*?)\)", re.DOTALL)
SMALLEST_ALT, LARGEST_PICTURE = 30, 120_000
SAMPLE = """Some words.

```sh
printf 'one\\ntwo\\nthree\\nfour\\n'
```
```text
one
...
four
```

<!-- exit 3 -->
```sh
exit 3
```
"""


def page_of(name):
    return task_page.GUIDE / f"{name}.md"


class TaskPagesTest(unittest.TestCase):
    shardsim = ""

    def follow(self, text):
        """What is wrong with a page, and how many of its scripts ran and did not."""
        wrong, ran, left = [], 0, []
        with task_page.Reader(self.shardsim) as reader:
            for step, met in task_page.follow(text, reader):
                if met is None:
                    left.append(f"line {step.line}: {step.reason}")
                    continue
                ran += 1
                code, printed = met
                if code != step.code:
                    wrong.append(f"line {step.line}: exit code {code}, not {step.code}\n" + "\n".join(printed))
                told = task_page.difference(step.shown, printed)
                if told:
                    wrong.append(f"line {step.line}: {told}")
        return wrong, ran, left

    def check_page(self, name):
        wrong, ran, left = self.follow(page_of(name).read_text(encoding="utf-8"))
        print(f"{name}: {ran} scripts run, {len(left)} not run", *left, sep="\n  ", file=sys.stderr)
        self.assertEqual(wrong, [], "to accept it: python3 tests/desk/task_pages_test.py SHARDSIM --update")
        self.assertGreaterEqual(ran, min(STEPS))

    def test_pages_are_short_and_their_pictures_exist(self):
        for name in task_page.NAMES:
            with self.subTest(page=name):
                text = page_of(name).read_text(encoding="utf-8")
                self.assertLessEqual(text.count("\n"), MOST_LINES)
                numbers = [int(number) for number in HEADING.findall(text)]
                self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
                self.assertIn(len(numbers), STEPS)
                self.assertIn(f"{name}-reference.md" if name != "verify" else "reading-results.md", text)
                for words, path in PICTURE.findall(text):
                    self.assertGreaterEqual(len(words), SMALLEST_ALT, "a picture says in words what it shows")
                    self.assertLess((task_page.GUIDE / path).stat().st_size, LARGEST_PICTURE)

    def test_no_picture_is_left_over(self):
        shown = {pathlib.Path(path).name for name in task_page.NAMES
                 for _, path in PICTURE.findall(page_of(name).read_text(encoding="utf-8"))}
        self.assertEqual(shown, {path.name for path in (task_page.GUIDE / "pictures").glob("*")})

    def test_a_page_that_differs_is_found(self):
        self.assertEqual(self.follow(SAMPLE), ([], 2, []))
        for old, new, words in (("one\n...", "eins\n...", "not printed:\neins"),
                                ("...\nfour", "...\nfive", "behind what is cut:\nfive"),
                                ("one\n...\nfour", "one\n...\ntwo\n...\nthree\nfour", "behind what is cut:\ntwo"),
                                ("...\nfour", "...", ""),
                                ("...\nfour", "...\nthree", "behind what is cut:\nthree"),
                                ("one\n...\nfour", "one\ntwo\nthree\nfour", ""),
                                ("exit 3 -->", "exit 1 -->", "exit code 3, not 1"),
                                ("\nexit 3\n", "\necho more; exit 3\n", "+more")):
            with self.subTest(new=new):
                self.assertIn(old, SAMPLE)
                wrong = "\n".join(self.follow(SAMPLE.replace(old, new))[0])
                self.assertIn(words, wrong)
                self.assertEqual(bool(words), bool(wrong))

    def test_what_a_page_shows_is_renewed_where_it_is_cut(self):
        printed = ["step 2 s", "first", "second 7", "third", "end"]
        for shown, renewed in ((["step 1 s", "...", "second 6", "...", "end"], ["step 2 s", "...", "second 7", "...", "end"]),
                               (["step 1 s", "..."], ["step 2 s", "..."]), (["old"], printed), ([], printed)):
            self.assertEqual(task_page.refilled(shown, printed), renewed)
            self.assertEqual(task_page.difference(renewed, printed), "")

    def test_a_block_that_follows_no_script_is_refused(self):
        for text in ("```text\none\n```\n", "```sh\nls\n```\nwords\n```text\none\n```\n", "```json\n{}\n```\n"):
            with self.assertRaises(task_page.PageError):
                task_page.steps_of(text)


for page_name in task_page.NAMES:
    setattr(TaskPagesTest, f"test_a_reader_can_follow_{page_name}",
            lambda self, name=page_name: self.check_page(name))


def update(shardsim, names):
    for name in names:
        text, moved = page_of(name).read_text(encoding="utf-8"), 0
        renewed = text
        with task_page.Reader(shardsim) as reader:
            for step, met in task_page.follow(text, reader):
                if met is None:
                    continue
                code, printed = met
                if code != step.code:
                    sys.exit(f"{name}, line {step.line}: exit code {code}\n" + "\n".join(printed))
                if step.place is None:
                    if printed:
                        sys.exit(f"{name}, line {step.line}: it needs a block of text for\n" + "\n".join(printed))
                    continue
                block = "".join(line + "\n" for line in task_page.refilled(step.shown, printed))
                begin, end = (place + moved for place in step.place)
                renewed = renewed[:begin] + block + renewed[end:]
                moved += len(block) - (end - begin)
        page_of(name).write_text(renewed, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if "--update" in sys.argv:
        place = sys.argv.index("--update")
        update(sys.argv[1], sys.argv[place + 1:] or task_page.NAMES)
    else:
        TaskPagesTest.shardsim = sys.argv.pop(1)
        unittest.main(verbosity=2)
