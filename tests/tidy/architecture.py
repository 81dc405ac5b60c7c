#!/usr/bin/env python3
"""The picture and the table of docs/architecture.md, made from the tree itself.

The picture has a box for each room (a layer of rules.py) on the floor above the rooms it includes, and
an arrow for each direct need that no longer way implies. The table counts the files that say the name
of one example of each kind of thing: what adding another one touches.

usage: architecture.py ROOT [--write]

Without --write, fails when the picture or the table is older than the tree.
"""

import pathlib
import re
import sys

import rules
import source

PAGE = "docs/architecture.md"
PICTURE = "docs/architecture.svg"
MARKS = ("<!-- counted by tests/tidy/architecture.py -->\n", "<!-- end of count -->\n")

# A kind of thing, its example, and what says the example's name in code, data and lists of sources.
EXAMPLES = (
    ("schedule", "DualPipeV", r"dualpipe_?v", re.IGNORECASE),
    ("gradient compressor", "top-k", r"make_top_k|\bTopK|'top_k\.cpp|\.name = \"top_k\"|largest_elements", 0),
    ("optimizer", "RMSprop", r"rms_?prop", re.IGNORECASE),
    ("attention over a context", "Ulysses", r"ulysses", re.IGNORECASE),
    ("router", "skewed", r"RoutingKind::skewed|\"skewed\"|^\s*skewed,", re.MULTILINE),
    ("activation", "squared ReLU", r"squared_?relu", re.IGNORECASE),
    ("factor of the model", "residual_scale", r"residual_scale", 0),
    ("mixer", "gated DeltaNet", r"delta_net|DeltaNet|delta_rule|DeltaRule", 0),
    ("collective", "all-to-all", r"CollectiveKind::all_to_all|\bkAllToAll\b|\"all_to_all\"", 0),
    ("metric", "MFU", r"metric::kMfu\b|\bkMfu\b|\"mfu\"", 0),
    ("GPU", "H200", r"\bh200\b", re.IGNORECASE),
    ("chart", "pipeline schedule", r"schedule_chart|ScheduleChart|schedule_part", 0),
    ("verb", "merge", r"command_merge|merge_verb", 0),
    ("import format", "DeepSpeed", r"import_deepspeed", 0),
)
LOOKED_AT = (".cpp", ".hpp", ".in", "meson.build", ".json")

WIDTH, BOX_HEIGHT, FLOOR, MARGIN = 1000, 34, 84, 24
SHIFTS = (0, 70, -70, 30, -30)  # The shifts of floors, one after another.


def rooms_of(tree):
    """{room: rooms that its files include}, without tests."""
    names = sorted((layer for layer in rules.LAYERS if layer != "tests"), key=len, reverse=True)

    def room(path):
        return next((name for name in names if path.startswith(name + "/")), None)

    needs = {name: set() for name in names}
    for path, file in tree.items():
        for _, bracket, name in file.includes:
            if room(path) and bracket == '"' and room(name) and room(name) != room(path):
                needs[room(path)].add(room(name))
    return needs


def floors_of(needs):
    """{room: floor}; a room lies above all that it includes."""
    floors = {}

    def floor(room):
        if room not in floors:
            floors[room] = 1 + max((floor(below) for below in needs[room]), default=-1)
        return floors[room]

    for room in needs:
        floor(room)
    return floors


def direct(needs):
    """The arrows that no chain of others implies."""
    def reachable(room):
        found = set()
        waiting = list(needs[room])
        while waiting:
            below = waiting.pop()
            if below not in found:
                found.add(below)
                waiting.extend(needs[below])
        return found

    return sorted((room, below) for room in needs for below in needs[room]
                  if not any(below in reachable(other) for other in needs[room] if other != below))


def picture(needs):
    floors = floors_of(needs)
    top = max(floors.values())
    height = 2 * MARGIN + top * FLOOR + BOX_HEIGHT
    place = {}
    boxes = []
    for number in range(top + 1):
        here = sorted(room for room in floors if floors[room] == number)
        step = (WIDTH - 2 * MARGIN) / len(here)
        for i, room in enumerate(here):
            width = 8.2 * len(room) + 20
            x = MARGIN + step * (i + 0.5) + SHIFTS[number % len(SHIFTS)]  # No arrow behind a box.
            y = MARGIN + (top - number) * FLOOR
            place[room] = (x, y)
            boxes.append(f'<rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{BOX_HEIGHT}" rx="5"/>'
                         f'<text x="{x:.1f}" y="{y + 22}">{room}</text>')
    lines = [f'<path d="M{place[room][0]:.1f} {place[room][1] + BOX_HEIGHT} '
             f'L{place[below][0]:.1f} {place[below][1] - 3}"/>' for room, below in direct(needs)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="Rooms of the tree; an arrow points to a room that is included">',
        "<style>rect{fill:#eef3f8;stroke:#4a6785}text{font:14px monospace;text-anchor:middle;fill:#1c2833}"
        "path{stroke:#8a9bad;fill:none;marker-end:url(#a)}.ground{fill:#fff;stroke:none}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#8a9bad;stroke:none"/></marker></defs>',
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>', *lines, *boxes, "</svg>", ""])


def table(root):
    """Markdown: for each kind, the files that say the example's name."""
    rows = ["| what | example | files | which |", "|---|---|---|---|"]
    for kind, example, pattern, flags in EXAMPLES:
        found = []
        for folder in rules.PRODUCT:
            for path in sorted((root / folder).rglob("*")):
                name = path.relative_to(root).as_posix()
                if not name.endswith(LOOKED_AT) or re.match(r"scenarios/[^/]+\.json$", name):
                    continue
                if re.search(pattern, path.name, flags) or re.search(
                        pattern, path.read_text(encoding="utf-8"), flags):
                    found.append(name)
        rows.append(f"| {kind} | {example} | {len(found)} | {', '.join(f'`{name}`' for name in found)} |")
    return "\n".join(rows) + "\n"


def filled(page, text):
    """The page with the counted table between its marks."""
    start = page.index(MARKS[0]) + len(MARKS[0])
    return page[:start] + text + page[page.index(MARKS[1]):]


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    tree = source.read_tree(root, rules.PRODUCT)
    needs = rooms_of(tree)
    page = (root / PAGE).read_text(encoding="utf-8")
    wanted = {PICTURE: picture(needs), PAGE: filled(page, table(root))}
    stale = []
    for name, text in wanted.items():
        path = root / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if sys.argv[2:]:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name}: is older than the tree; python3 -B tests/tidy/architecture.py . --write makes it anew")
    print(f"architecture: {len(needs)} rooms, {len(direct(needs))} arrows, {len(EXAMPLES)} kinds, {len(stale)} stale")
    return 1 if stale and not sys.argv[2:] else 0


if __name__ == "__main__":
    sys.exit(main())
