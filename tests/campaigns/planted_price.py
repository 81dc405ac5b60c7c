#!/usr/bin/env python3
"""Does `./dev plans` see a price that depends on the compiler? In a copy of the tracked files, Clang adds
a picosecond to every price. No table shows it: only the plans do. There `./dev plans` must fail, with a
count of failures and the name of a metric that differs.

usage: planted_price.py
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import count_results

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = "sim/hardware/device.cpp"
PRICE = re.compile(r"^Time Device::price\(.*?^}$", re.DOTALL | re.MULTILINE)
END = re.compile(r"^  return Time::from_seconds\(", re.MULTILINE)
PLANTED = "#ifdef __clang__\n  seconds += 1e-12;\n#endif\n"
COUNTS = re.compile(r"^\d+ passed, (\d+) failed", re.MULTILINE)
METRIC = re.compile(r"the plans differ: (/metrics/\S+ is .+)$", re.MULTILINE)


def planted(text):
    """The source with a picosecond more; None if the place is not there, once."""
    price = PRICE.search(text)
    if not price or len(END.findall(price.group())) != 1:
        return None
    return text[:price.start()] + END.sub(lambda end: PLANTED + end.group(), price.group()) + text[price.end():]


def copy_tracked(to):
    """Copies the tracked files as they are now."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def problem_of(status, output):
    """The fault in the end of a `./dev plans` that should have failed, as a sentence, or None."""
    counts = COUNTS.findall(output)
    if status == 0:
        return "./dev plans passes"
    if not counts:
        return "./dev plans ends without counts"
    if int(counts[-1]) == 0:
        return "./dev plans counts no failure"
    if not METRIC.search(output):
        return "./dev plans names no metric that differs"
    return None


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        copy_tracked(copy)
        text = planted((copy / SOURCE).read_text(encoding="utf-8"))
        if text is None:
            problem = f"{SOURCE} does not end Device::price as it did"
        else:
            (copy / SOURCE).write_text(text, encoding="utf-8")
            done = subprocess.run([str(copy / "dev"), "plans"], cwd=copy, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, text=True, check=False)
            problem = problem_of(done.returncode, done.stdout)
            # Omits the line of counts: the test wants these failures.
            said = [line for line in done.stdout.splitlines() if not COUNTS.match(line)]
            if problem:
                print("\n".join(said))
            else:
                failed = COUNTS.findall(done.stdout)[-1]
                print(f"{failed} plans differ by a picosecond, as in {METRIC.search(done.stdout).group(1)}")
    print(f"{'FAIL' if problem else 'ok':4} planted price{': ' + problem if problem else ''}")
    print(count_results.line_of([int(problem is None), int(problem is not None), 0]))
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
