"""The plot of docs/guide/accuracy.md as SVG: step times of the headline, one colour per table. Above predicted against
measured, below their ratio. Equal reports give equal bytes. accuracy_tables.py calls it."""

import html
import math

WIDTH, HEIGHT = 960, 904
LEFT, RIGHT = 64, 584
TOP, BOTTOM = 24, 544  # Of the upper frame, which is a square,
RATIO_TOP, RATIO_BOTTOM = 624, 844  # and of the lower one.
LEGEND = RIGHT + 32
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#4d4d4d", "#bcbd22", "#17becf",
           "#00429d", "#93003a", "#7fbf7b", "#b8860b", "#5e3c99", "#a6611a")
INK, SOFT, RULE = "#1b222c", "#5a6675", "#e1e5ea"
DASHED = ' stroke-dasharray="4 3"'


def points(table):
    """(measured, predicted) of the rows that make the headline."""
    return [(row["step_time_s"]["measured"], row["step_time_s"]["predicted"]) for row in table["rows"]
            if "step_time_s" in row and "apart" not in row]


def text(x, y, words, anchor="start", ink=SOFT, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}"{more}>{html.escape(words)}</text>'


def line(x1, y1, x2, y2, ink, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{ink}"{more}/>'


def upright(y, words):
    return text(16, y, words, "middle", more=f' transform="rotate(-90 16 {y:g})"')


class LogAxis:
    """Whole powers of a base along pixels from `begin` to `end`."""

    def __init__(self, base, values, begin, end):
        self.logarithm = {2: math.log2, 10: math.log10}[base]
        self.low = math.floor(self.logarithm(min(values)))
        self.high = max(self.low + 1, math.ceil(self.logarithm(max(values))))
        self.base, self.begin, self.end = base, begin, end

    def at(self, value):
        return self.begin + (self.logarithm(value) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def powers(self):
        return [float(self.base) ** power for power in range(self.low, self.high + 1)]


class Frame:
    """Values to the right against other values upwards."""

    def __init__(self, right, up):
        self.right, self.up = right, up

    def grid(self, unit):
        for value in self.right.powers():
            x = self.right.at(value)
            yield line(x, self.up.begin, x, self.up.end, RULE)
            yield text(x, self.up.begin + 20, f"{value:g} s", "middle")
        for value in self.up.powers():
            y = self.up.at(value)
            yield line(self.right.begin, y, self.right.end, y, RULE)
            yield text(self.right.begin - 8, y + 4, f"{value:g}{unit}", "end")

    def dots(self, pairs, colour):
        """Lines of no length with round ends, of which a thousand stay small."""
        path = "".join(f"M{self.right.at(x):.1f} {self.up.at(y):.1f}h0" for x, y in pairs)
        return (f'<path d="{path}" stroke="{colour}" stroke-width="5" stroke-linecap="round" stroke-opacity=".7" '
                'fill="none"/>')


def legend(tables):
    for i, (table, found, colour) in enumerate(tables):
        y = TOP + 12 + 22 * i
        mean = table["headline"]["step_time_s"]["mean_absolute_error"]
        yield f'<circle cx="{LEGEND}" cy="{y - 4}" r="5" fill="{colour}"/>'
        yield text(LEGEND + 14, y, table["name"], ink=INK)
        yield text(WIDTH - 16, y, f"{100 * mean:.1f} %, {len(found)} rows", "end")
    yield text(LEGEND, TOP + 26 + 22 * len(tables), "Full lines: both are equal. Dashed: 10 % off.")


def plot(report):
    """Tables with most rows lie below the others."""
    tables = [(table, points(table)) for table in report["tables"]]
    tables = [(table, found, COLOURS[i % len(COLOURS)])
              for i, (table, found) in enumerate(each for each in tables if each[1])]
    below_first = sorted(tables, key=lambda each: -len(each[1]))
    seconds = [value for _, found, _ in tables for pair in found for value in pair]
    ratios = [predicted / measured for _, found, _ in tables for measured, predicted in found]
    times = LogAxis(10, seconds, LEFT, RIGHT)
    upper = Frame(times, LogAxis(10, seconds, BOTTOM, TOP))
    lower = Frame(times, LogAxis(2, [0.5, 2.0, *ratios], RATIO_BOTTOM, RATIO_TOP))
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *upper.grid(" s"), *lower.grid(""), *legend(tables)]
    for factor, more in ((1.0, ""), (0.9, DASHED), (1.1, DASHED)):
        first, last = times.powers()[0], times.powers()[-1]
        begin, end = max(first, first / factor), min(last, last / factor)
        ink = SOFT if more else INK
        parts.append(line(times.at(begin), upper.up.at(begin * factor), times.at(end), upper.up.at(end * factor), ink, more))
        parts.append(line(LEFT, lower.up.at(factor), RIGHT, lower.up.at(factor), ink, more))
    parts += [upper.dots(found, colour) for _, found, colour in below_first]
    parts += [lower.dots([(measured, predicted / measured) for measured, predicted in found], colour)
              for _, found, colour in below_first]
    parts += [upright((TOP + BOTTOM) / 2, "predicted step"), upright((RATIO_TOP + RATIO_BOTTOM) / 2, "predicted / measured"),
              text((LEFT + RIGHT) / 2, BOTTOM + 40, "measured step", "middle"),
              text((LEFT + RIGHT) / 2, RATIO_BOTTOM + 40, "measured step", "middle")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="13" role="img" aria-label="Predicted against measured step times">\n'
            + "\n".join(parts) + "\n</svg>\n")
