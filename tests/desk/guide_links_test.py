#!/usr/bin/env python3
"""desk, task pages: a link from a page of this repository to another, to a heading or to a picture leads somewhere."""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ELSEWHERE = ("http://", "https://", "mailto:")


def pages_of(root):
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def anchors_of(text):
    """The names that GitHub gives to headings: words in lower case, joined by hyphens."""
    names = []
    for heading in HEADING.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return names


def dead_links(root):
    """(page, link) of each link inside `root` that leads nowhere."""
    dead = []
    for page in pages_of(root):
        for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if link.startswith(ELSEWHERE):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
                dead.append((page.relative_to(root).as_posix(), link))
    return dead


class GuideLinksTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertGreater(len(pages_of(ROOT)), 100)
        self.assertEqual(dead_links(ROOT), [])

    def test_a_dead_link_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs/b.md").write_text("# A `plan`, and more\n\n```\n# no heading\n```\n", encoding="utf-8")
            (root / "a.md").write_text("[1](docs/b.md) [2](docs/b.md#a-plan-and-more) [3](docs/c.md) [4](docs/b.md#no-heading)\n"
                                       "![a](b.png) [5](https://x.org/y) `[6](c.md)`\n\n```\n[7](c.md)\n```\n", encoding="utf-8")
            self.assertEqual(dead_links(root), [("a.md", "docs/c.md"), ("a.md", "docs/b.md#no-heading"), ("a.md", "b.png")])


if __name__ == "__main__":
    unittest.main()
