#!/usr/bin/env python3
"""Writes docs/guide/pictures: follows the guide's task pages in empty folders, and takes pictures of the pages
that their commands write. Outside CI: fonts differ from machine to machine.

Needs a Chromium; pngquant makes the pictures a third of their size.

usage: guide_pictures.py SHARDSIM [FOLDER]        (FOLDER: docs/guide/pictures)
"""

import base64
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/html/browser"), str(ROOT / "tests/desk")]

import browser  # noqa: E402
import task_page  # noqa: E402

WIDTH, SCALE, COLOURS = 1366, 0.72, "48"
MARGIN = 6
LARGEST = 120_000
# Of each task page: the file that a command wrote, the picture, and what is on it: from the top of an element (None: of
# the page) to the end of another.
PICTURES = {
    "plan": (("machines.html", "machines", None, "#summary"), ("layouts.html", "layouts", "#ranking", "#front"),
             ("best.html", "report", None, "#summary")),
    "verify": (("verify.html", "verify", "#checks", "#checks"),),
    "compare": (("layouts.html", "comparison", None, "#summary"),
                ("sensitivity.html", "sensitivity", "#sensitivity", "#sensitivity")),
    "ci": (("results/llama.html", "ci", "#checks", "#checks"),),
}


def box_of(page, selector):
    """Left, top, right and bottom of an element on its page; a folded section is opened."""
    return page.evaluate(f"""(() => {{
      const element = document.querySelector('{selector}');
      element.open = true;
      const box = element.getBoundingClientRect();
      return [box.left, box.top + scrollY, box.right, box.bottom + scrollY];
    }})()""")


def take(page, first, last, path):
    """A picture of the page from the top of one element to the end of another, without the page's empty sides."""
    left, top, right, bottom = box_of(page, last)
    top = max(0, box_of(page, first)[1] - MARGIN) if first else 0
    page.until("document.getAnimations().length === 0")
    clip = {"x": left - MARGIN, "y": top, "width": right - left + 2 * MARGIN, "height": bottom + MARGIN - top, "scale": SCALE}
    answer = page.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(answer["data"]))
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--strip", "--speed", "1", "--output", path, COLOURS, path], check=True)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"{path.name} is larger than {LARGEST:,} bytes")


def follow(name, shardsim, chromium, folder):
    """Types all that a task page says, then takes its pictures."""
    with task_page.Reader(shardsim) as reader:
        text = (task_page.GUIDE / f"{name}.md").read_text(encoding="utf-8")
        for step, met in task_page.follow(text, reader):
            if met is not None and met[0] != step.code:
                raise SystemExit(f"{name}, line {step.line}: exit code {met[0]}, not {step.code}")
        for file, picture, first, last in PICTURES[name]:
            page = chromium.open(reader.folder / file, width=WIDTH)
            take(page, first, last, folder / f"{picture}.png")


def main():
    shardsim = sys.argv[1]
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else task_page.GUIDE / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    with browser.Browser() as chromium:
        for name in PICTURES:
            follow(name, shardsim, chromium, folder)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
