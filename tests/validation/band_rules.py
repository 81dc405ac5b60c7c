#!/usr/bin/env python3
"""Compares rules for error bands on the measured errors, for docs/decisions/0038-error-band.md:

    python3 tests/validation/band_rules.py sim/run/band/measured_errors.json docs/decisions/0038-error-band.md

It writes that page's tables anew, between `<!-- rules -->`, `<!-- widths -->` and their ends. Each rule makes bands from all tables but one, with all that it derives, and is asked how many rows of that table they hold. The
first table has the coverage of every rule; the second the widths (high / low) of the former and the present one, per group.
`shardsim validate` computes the present rule in C++: the figures agree to rounding."""

import bisect
import json
import re
import sys
from collections import defaultdict, namedtuple

Row = namedtuple("Row", "quantity table device software experts ranks ratio")
SHARE = 0.8
MOST_OF_GROUP = 0.875
FEW_TAIL = 0.03
MANY_TABLES = 8
GENERATIONS = (("a", "ampere"), ("h", "hopper"), ("b3", "blackwell ultra"), ("gb3", "blackwell ultra"))


def generation(device):
    return next((name for start, name in GENERATIONS if device.startswith(start)), "blackwell")


def read(path):
    with open(path, encoding="utf-8") as file:
        groups = json.loads(re.sub(r"(?m)^//.*$", "", file.read()))
    return [Row(group["quantity"], group["table"], group["device"], group["software"], group["model"] == "experts",
                int(ranks), 1.0 / (1.0 + error))
            for group in groups if "errors" in group
            for ranks, errors in group["errors"].items() for error in errors]


def tables(rows):
    return sorted({row.table for row in rows})


def quantiles(rows):
    """The value below which a share of the weight lies; each table has the same weight, a row counts at its middle."""
    counts = defaultdict(int)
    for row in rows:
        counts[row.table] += 1
    values = sorted((row.ratio, 1.0 / counts[row.table]) for row in rows)
    whole = sum(weight for _, weight in values)
    places, below = [], 0.0
    for _, weight in values:
        places.append((below + weight / 2) / whole)
        below += weight

    def at(share):
        i = bisect.bisect_left(places, share)
        if i in (0, len(places)):
            return values[min(i, len(places) - 1)][0]
        part = (share - places[i - 1]) / (places[i] - places[i - 1])
        return values[i - 1][0] + part * (values[i][0] - values[i - 1][0])
    return at


def shrunk_median(rows):
    count = len(tables(rows))
    return 1.0 + (quantiles(rows)(0.5) - 1.0) * count / (count + 1)


def mean_error(rows, table, centre):
    own = [row for row in rows if row.table == table]
    return sum(abs(centre / row.ratio - 1.0) for row in own) / len(own)


def centre_of(rows):
    names = tables(rows)
    if len(names) < 2:
        return 1.0
    of_centres = sum(mean_error(rows, name, shrunk_median([r for r in rows if r.table != name])) for name in names)
    return shrunk_median(rows) if of_centres < sum(mean_error(rows, name, 1.0) for name in names) else 1.0


def narrowest(at, share):
    starts = [(1.0 - share) * place / 20 for place in range(21)]
    return min(((at(start), at(start + share)) for start in starts), key=lambda ends: ends[1] / ends[0])


def tails(at, share):
    return at((1.0 - share) / 2), at((1.0 + share) / 2)


EXPERTS = lambda a, b: a.experts == b.experts
GENERATION = lambda a, b: EXPERTS(a, b) and generation(a.device) == generation(b.device)
SOFTWARE = lambda a, b: GENERATION(a, b) and a.software == b.software
ALL = lambda a, b: True


def group_rule(levels, most, interval, few=None, symmetric=False):
    """Bands per group: `interval` with 8 of 10 of the tables and of one more, at most `most`; `few`: the interval where a
    quantity has few tables; `symmetric`: as far below the centre as above, in factors."""
    def fit(rows):
        made = {}
        many = len(tables(rows)) >= MANY_TABLES

        def band(row):
            key = (row.experts, generation(row.device), row.software)
            if key in made:
                return made[key]
            for like in levels:
                group = [other for other in rows if like(other, row)]
                if len(group) >= 9 and len(tables(group)) >= 2:
                    break
            count = len(tables(group))
            centre, at = centre_of(group), quantiles(group)
            share = min(most, SHARE * (count + 1) / count)
            if symmetric:
                far = quantiles([other._replace(ratio=max(other.ratio / centre, centre / other.ratio))
                                 for other in group])(share)
                ends = centre / far, centre * far
            else:
                ends = interval(at, share) if many or few is None else few(at)
            made[key] = min(ends[0], centre), centre, max(ends[1], centre)
            return made[key]
        return band
    return fit


def nearest(rows, row):
    """Of each table the 20 rows nearest in the ratio of ranks, and all that are as near."""
    by_table = defaultdict(list)
    for other in rows:
        by_table[other.table].append(other)
    kept = []
    for own in by_table.values():
        def distance(other):
            return max(other.ranks / row.ranks, row.ranks / other.ranks)
        own.sort(key=distance)
        kept += [other for other in own if distance(other) <= distance(own[min(20, len(own)) - 1])]
    return kept


def former_band(rows, row):
    for like in (lambda a, b: a.device == b.device and a.software == b.software,
                 lambda a, b: a.device == b.device or a.software == b.software, ALL):
        group = [other for other in rows if like(other, row)]
        if len(group) >= 20 and len(tables(group)) >= 2:
            break
    at = quantiles(nearest(group, row))
    return at(0.1), at(0.5), at(0.9)


def former_rule(rows):
    """That of before: the nearest rows' 10th to 90th percentile, and one factor for all that widens it."""
    made, factors = {}, []
    names = tables(rows)

    def kept(source, which, row):
        key = (which, row.device, row.software, row.ranks)
        if key not in made:
            made[key] = former_band(source, row)
        return made[key]
    for name in names if len(names) > 1 else []:
        others = [row for row in rows if row.table != name]
        own = [row for row in rows if row.table == name]
        for row in own:
            low, _, high = kept(others, name, row)
            factors.append((max(low / row.ratio, row.ratio / high), 1.0 / len(own)))
    held, widening = 0.0, 1.0
    for factor, weight in sorted(factors):
        held += weight
        if held >= SHARE * len(names) - 1e-9:
            widening = max(1.0, factor)
            break

    def band(row):
        low, centre, high = kept(rows, None, row)
        return low / widening, centre, high * widening
    return band


def few_tails(at):
    return at(FEW_TAIL), at(1.0 - FEW_TAIL)


LEVELS = (SOFTWARE, GENERATION, EXPERTS, ALL)
RULES = {
    "the former rule, experts among the rows": former_rule,
    "**as decided**": group_rule(LEVELS, MOST_OF_GROUP, narrowest, few_tails),
    "without groups of frameworks": group_rule(LEVELS[1:], MOST_OF_GROUP, narrowest, few_tails),
    "one group of all": group_rule(LEVELS[3:], MOST_OF_GROUP, narrowest, few_tails),
    "at most 85 % of a group": group_rule(LEVELS, 0.85, narrowest, few_tails),
    "at most 90 % of a group": group_rule(LEVELS, 0.9, narrowest, few_tails),
    "at most 95 % of a group": group_rule(LEVELS, 0.95, narrowest, few_tails),
    "no limit: conformal": group_rule(LEVELS, 1.0, narrowest),
    "as decided, the narrowest interval for few tables, too": group_rule(LEVELS, MOST_OF_GROUP, narrowest),
    "equal tails everywhere": group_rule(LEVELS, MOST_OF_GROUP, tails),
    "as far below the centre as above": group_rule(LEVELS, MOST_OF_GROUP, None, None, True),
}


def median(values):
    return sorted(values)[len(values) // 2]


def coverage(rows, rule):
    """Shares of rows inside bands without their table: mean of tables, all rows, all but the largest table's; median width."""
    inside, widths = {}, []
    for name in tables(rows):
        own = [row for row in rows if row.table == name]
        band = rule([row for row in rows if row.table != name])
        bands = [band(row) for row in own]
        inside[name] = sum(low <= row.ratio <= high for row, (low, _, high) in zip(own, bands)), len(own)
        widths.append(median([high / low for low, _, high in bands]))
    largest = max(inside, key=lambda name: inside[name][1])
    shares = [held / count for held, count in inside.values()]
    held, count = (sum(each) for each in zip(*inside.values()))
    return (sum(shares) / len(shares), held / count, (held - inside[largest][0]) / (count - inside[largest][1]),
            median(widths))


def selections(rows):
    for quantity, words in (("step_time_s", "step"), ("peak_memory_bytes", "memory")):
        for has_framework in (True, False):
            yield (f"{words}, {'framework' if has_framework else 'none'}",
                   [row for row in rows if row.quantity == quantity and (row.software != "none") == has_framework])


def rules_table(chosen):
    lines = ["| rule | " + " | ".join(name for name, _ in chosen) + " |", "|---" + "|---:" * len(chosen) + "|"]
    for name, rule in RULES.items():
        cells = []
        for _, own in chosen:
            mean, of_rows, but_largest, width = coverage(own, rule)
            cells.append(f"{100 * mean:.0f}, {100 * of_rows:.0f}, {100 * but_largest:.0f} %, {width:.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def widths_table(chosen):
    lines = ["| bands | group | rows | former width | width |", "|---|---|---:|---:|---:|"]
    for name, own in chosen:
        groups = defaultdict(list)
        for row in own:
            groups[("experts" if row.experts else "dense", generation(row.device), row.software)].append(row)
        former, present = former_rule(own), RULES["**as decided**"](own)
        for group, members in sorted(groups.items()):
            widths = [median([band(row)[2] / band(row)[0] for row in members]) for band in (former, present)]
            lines.append(f"| {name} | {', '.join(group)} | {len(members)} | {widths[0]:.2f} | {widths[1]:.2f} |")
    return lines


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    chosen = list(selections(read(sys.argv[1])))
    with open(sys.argv[2], encoding="utf-8") as file:
        page = file.read()
    for name, make in (("rules", rules_table), ("widths", widths_table)):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        if page.count(begin) != 1 or page.count(end) != 1:
            sys.exit(f"{sys.argv[2]} has no comments {begin.strip()} and {end.strip()}")
        before, rest = page.split(begin)
        page = before + begin + "\n" + "\n".join(make(chosen)) + "\n\n" + end + rest.split(end)[1]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()
