#!/usr/bin/env python3
"""What a newer command prints otherwise for the plans that an older one had: every scenario of the
older tree, shape-only, and one plan for each software row, preset of a system and schedule
that it names (plan_comparison.py).

A result is compared value by value. A value that changed or went is a difference, and each is printed
with the plans that have it. A value that came is listed once. Texts of assumptions and warnings
are compared as sets.

usage: older_plans.py OLD_COMMAND OLD_TREE COMMAND [--real]

--real: scenarios that verify run with their numbers, too.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import plan_comparison
from determinism_matrix import AS_PLAN

SHOWN = 5  # plans beside a difference


def leaves(value, path=""):
    """The values of a result by path. Elements of a list of texts or named objects go by text or
    name, so that one that comes moves no other."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}/{key}")
    elif isinstance(value, list):
        seen = collections.Counter()
        for number, part in enumerate(value):
            name = part if isinstance(part, str) else str(number)
            if isinstance(part, dict):
                name = next((part[key] for key in ("name", "text", "field") if isinstance(part.get(key), str)), name)
            seen[name] += 1
            yield from leaves(part, f"{path}/[{name}]" + (f"#{seen[name]}" if seen[name] > 1 else ""))
        yield f"{path}/#", len(value)
    else:
        yield path, value


def run(command, arguments, folder):
    done = subprocess.run([str(command), *arguments, "--json", "-q"], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    try:
        return done.returncode, dict(leaves(json.loads(done.stdout)))
    except json.JSONDecodeError:
        return done.returncode, None


def cases(old, tree, folder, real):
    """Command lines by name. Scenarios are copied, so that each command has presets of its own."""
    for name in tree.glob("scenarios/*"):
        if name.suffix in (".json", ".csv"):
            shutil.copy(name, folder)
    shutil.copytree(tree / "scenarios/routing", folder / "routing")
    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".schema.json"):
            continue
        is_real = path.name.startswith("verify-")
        found[path.name] = [path.name, *(AS_PLAN if is_real else ())]
        if is_real and real:
            found[path.name + ", real"] = [path.name]
    presets = sorted(path.stem for path in tree.glob("scenarios/systems/*.json"))
    for number, plan in enumerate(plan_comparison.plans(plan_comparison.schema_of(old), presets)):
        name = f"plan-{number}.json"
        (folder / name).write_text(json.dumps(plan), encoding="utf-8")
        found[plan["name"]] = [name]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("command", type=os.path.abspath)
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    differences = collections.defaultdict(list)
    came = collections.Counter()
    equal, compared = 0, 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(name)
        wanted = cases(options.old, options.tree, folder, options.real)
        results = {case: [pool.submit(run, command, arguments, folder) for command in (options.old, options.command)]
                   for case, arguments in wanted.items()}
        for case, pair in results.items():
            (old_code, old), (code, new) = (each.result() for each in pair)
            compared += 1
            before = sum(map(len, differences.values()))
            if old_code != code:
                differences[f"exit code {old_code} is {code}"].append(case)
            if old is None or new is None:
                differences["no result"].append(case)
                continue
            came.update(new.keys() - old.keys())
            for path, value in old.items():
                if path not in new:
                    differences[f"{path} is gone"].append(case)
                elif new[path] != value and not path.endswith("/#"):
                    differences[f"{path}: {value!r} is {new[path]!r}"].append(case)
            equal += sum(map(len, differences.values())) == before
    for difference, plans in sorted(differences.items()):
        more = f" and {len(plans) - SHOWN} more" if len(plans) > SHOWN else ""
        print(f"{len(plans):4} {difference}  ({'; '.join(plans[:SHOWN])}{more})")
    for path, times in sorted(came.items()):
        print(f"new in {times:4}: {path}")
    print(f"{compared} plans: {equal} have every value of before, {compared - equal} differ; {len(came)} values are new")
    return 0 if compared > 0 and equal == compared else 1


if __name__ == "__main__":
    raise SystemExit(main())
