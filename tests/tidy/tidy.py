#!/usr/bin/env python3
"""Style as a test: the direction of dependencies, sizes, banned calls with their replacement.

Prints one line per violation, `path:line: rule: what, and what to do instead`, and fails if there is
one. The rules are tables in rules.py, their exceptions in exceptions.txt. The length of functions is
clang-tidy's business.

usage: tidy.py ROOT
"""

import pathlib
import sys

import rules
import source


class Violation:
    """One finding; its text is what a person reads."""

    def __init__(self, rule, path, line, text):
        self.rule, self.path, self.line, self.text = rule, path, line, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def below(path, folders):
    return any(path.startswith(folder + "/") for folder in folders)


def layer_of(path):
    """The layer a path belongs to: the longest that holds it."""
    layers = [layer for layer in rules.LAYERS if path.startswith(layer + "/")]
    return max(layers, key=len, default=None)


def direction_problem(path, included):
    """Why one file of ours may not include another, or None."""
    mine, theirs = layer_of(path), layer_of(included)
    if theirs != mine and theirs not in rules.LAYERS[mine]:
        return f"{mine} must not know {theirs}, which lies above or beside it"
    if mine == "reports" and theirs != mine and included not in rules.REPORTS_MAY_INCLUDE:
        return f"of the kernel, reports see {', '.join(rules.REPORTS_MAY_INCLUDE)} only"
    if mine in rules.BLIND_TO_BACKENDS and theirs == "backends" and included.count("/") > 1:
        return f"{mine} must not know which backend runs; only backends/*.hpp are open to it"
    return None


def check_includes(tree):
    for path, file in tree.items():
        if layer_of(path) is None:
            yield Violation("layer", path, 1, "lies in no layer; add its folder to rules.py")
            continue
        for line, bracket, name in file.includes:
            for rule in rules.LIBRARY_RULES:
                if rule.pattern.search(name) and not rule.allowed.search(path):
                    yield Violation(rule.name, path, line, f"{name}; instead: {rule.instead}")
            if bracket == "<":
                continue
            if name not in tree:
                yield Violation("include-path", path, line,
                                f'"{name}" is no file of ours; includes start at the root')
            else:
                problem = direction_problem(path, name)
                if problem:
                    yield Violation("direction", path, line, f'"{name}": {problem}')


def check_cycles(tree):
    """A header that includes itself in a roundabout way compiles by luck of order."""
    done, reported = set(), set()

    def visit(path, trail):
        if path in trail:
            cycle = trail[trail.index(path):]
            if frozenset(cycle) not in reported:
                reported.add(frozenset(cycle))
                yield Violation("cycle", path, 1, " -> ".join([*cycle, path]))
            return
        if path in done:
            return
        for _, bracket, name in tree[path].includes:
            if bracket == '"' and name in tree:
                yield from visit(name, [*trail, path])
        done.add(path)

    for path in tree:
        yield from visit(path, [])


def check_sizes(tree):
    for path, file in tree.items():
        limit = rules.MAX_HEADER_LINES if file.is_header else rules.MAX_LINES
        if path == "sim/command/main.cpp":
            limit = rules.MAX_MAIN_LINES
        if file.lines > limit:
            yield Violation("size", path, limit, f"{file.lines} lines, the limit is {limit}; split it "
                            "by idea")


def check_openings(tree):
    """Sentences that open with "Of", "Who" or a relative "What": a ratchet by folder."""
    for folder, allowed in rules.OPENINGS_LEFT.items():
        found = [(path, line, match.group(1))
                 for path, file in tree.items() if below(path, (folder,))
                 for line, comment in source.comments(file)
                 for match in rules.OPENING.finditer(comment)]
        if len(found) < allowed:
            yield Violation("opening", folder, 1, f"{len(found)} are left of {allowed}; lower the number in rules.py")
        if len(found) > allowed:
            for path, line, text in found:
                yield Violation("opening", path, line, f'"{text}..."; instead: the subject first ({len(found)} of '
                                f"{allowed} in {folder})")


def check_headers(tree):
    for path, file in tree.items():
        if file.is_header and "#pragma once" not in file.code:
            yield Violation("pragma-once", path, 1, "a header starts with #pragma once")


def check_bans(tree):
    for path, file in tree.items():
        for ban in rules.BANS:
            if below(path, ban.folders):
                for line, found in file.find(ban.pattern, in_comments=ban.in_comments):
                    yield Violation(ban.name, path, line, f"{found}; instead: {ban.instead}")


def owner_of_codes(path):
    layer = layer_of(path)
    return "the command" if layer in rules.CODES_OF_THE_COMMAND else layer


def check_codes(tree):
    """An error code means one thing, so it belongs to one layer."""
    owners = {}
    for path, file in tree.items():
        if not below(path, rules.PRODUCT):
            continue
        for line, code in source.error_codes(file):
            owner = owners.setdefault(code, path)
            if owner_of_codes(owner) != owner_of_codes(path):
                yield Violation("error-code", path, line, f"{code} is taken by {owner}; take a free one")


def check_names(tree):
    """A name that a table gives stands nowhere else, nor does the enumerator of its row."""
    for rule in rules.NAME_RULES:
        if rule.table not in tree:
            continue
        table = tree[rule.table].text
        if not rule.names_in(table):
            yield Violation(rule.name, rule.table, 1, "no row gives a name; mend the rule in rules.py")
            continue
        pattern = rule.pattern(table)
        for path, file in tree.items():
            if path == rule.table or not below(path, rules.PRODUCT):
                continue
            for position, text in source.strings(file):
                for found in pattern.finditer(text):
                    yield Violation(rule.name, path, source.line_of(file.text, position + found.start()),
                                    f"{found.group()} is {rule.what}; instead: {rule.instead}")
            if rule.enumerators and path not in rule.declared_in:
                for line, found in file.find(rule.enumerators):
                    yield Violation(rule.name, path, line, f"{found} is {rule.what}; instead: {rule.instead}")


def check_takers(tree):
    """Objects are made of a scenario's fields in one place, so few functions get a Scenario."""
    listed = {(path, name) for path, names in rules.SCENARIO_TAKERS.items() for name in names}
    missing = {taker for taker in listed if taker[0] + ".cpp" in tree or taker[0] + ".hpp" in tree}
    for path, file in tree.items():
        if below(path, rules.SCENARIO_OWNERS):
            continue
        for line, name in source.takers_of(file, "Scenario"):
            taker = (path.rsplit(".", 1)[0], name)
            missing.discard(taker)
            if taker not in listed:
                yield Violation("takes-scenario", path, line, f"{name}; instead: an Experiment (compile() makes "
                                "one), or the values that it needs")
    for path, name in sorted(missing):
        yield Violation("takes-scenario", path, 1, f"{name} takes none any more; remove it from rules.py")


def check_built(root, tree):
    """A source that no build file names is dead, and a test among them tests nothing."""
    named = source.built_sources(root, rules.EVERYTHING)
    for path in tree:
        if path.endswith(".cpp") and path not in named:
            yield Violation("not-built", path, 1, "no meson.build names it")


def check_run(tree):
    """tests/meson.build runs the cases of files called *_test.cpp; hidden cases are started by name."""
    for path, file in tree.items():
        if not path.startswith("tests/") or not path.endswith(".cpp") or path.endswith("_test.cpp"):
            continue
        for number, line in enumerate(file.text.splitlines(), 1):
            if line.startswith("TEST_CASE(") and '"[.' not in line and path not in rules.OWN_TEST_PROGRAMS:
                yield Violation("not-run", path, number, "no test runs it; call the file *_test.cpp")


def check_conflicts(root):
    """The markers that a merge left, in pages too, which no compiler reads."""
    root = pathlib.Path(root)
    folders = [root / folder for folder in (*rules.EVERYTHING, "docs")]
    pages = sorted(path for folder in folders for suffix in rules.TEXTS for path in folder.rglob(f"*{suffix}"))
    for path in [*sorted(root.glob("*.md")), *pages]:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if rules.CONFLICT.match(line):
                yield Violation("conflict", path.relative_to(root).as_posix(), number, "a marker of a merge; choose a side")


def read_exceptions(path):
    """{(rule, path): line number}, and the violations of the list itself."""
    excused, problems = {}, []
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not row.strip() or row.startswith("#"):
            continue
        fields = row.split(None, 2)
        if len(fields) < 3 or len(fields[2].split()) < 3:
            problems.append(Violation("exception", path.name, number,
                                      "a row is: rule, path, and a reason in words"))
        else:
            excused[fields[0], fields[1]] = number
    return excused, problems


def check_tree(root, exceptions):
    """All violations below root, in a fixed order, exceptions taken out."""
    tree = source.read_tree(root, rules.EVERYTHING)
    found = [*check_includes(tree), *check_cycles(tree), *check_sizes(tree), *check_openings(tree), *check_headers(tree),
             *check_bans(tree), *check_codes(tree), *check_names(tree), *check_takers(tree),
             *check_built(root, tree), *check_run(tree), *check_conflicts(root)]
    excused, violations = read_exceptions(exceptions)
    used = {(violation.rule, violation.path) for violation in found}
    violations += [violation for violation in found
                   if (violation.rule, violation.path) not in excused]
    violations += [Violation("exception", exceptions.name, number,
                             f"{rule} {path} excuses nothing any more; remove the row")
                   for (rule, path), number in excused.items() if (rule, path) not in used]
    violations.sort(key=lambda violation: (violation.path, violation.line, violation.rule))
    return violations, tree


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    exceptions = pathlib.Path(__file__).with_name("exceptions.txt")
    violations, tree = check_tree(sys.argv[1], exceptions)
    for violation in violations:
        print(violation)
    print(f"tidy: {len(tree)} files, {len(violations)} violations")
    # An empty tree means a wrong root, not a clean one.
    return 0 if tree and not violations else 1


if __name__ == "__main__":
    sys.exit(main())
