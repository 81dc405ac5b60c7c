"""Compiles header_check.cpp against the real nccl.h and cuda_runtime_api.h, where they are found;
skips (77) where they are not. With --wrong each declaration of ours is changed in a copy, one by
one, and the check must then fail: a third of them for each commit (tests/sample.py).

Usage: header_check.py tests/nccl/header_check.cpp [--wrong] COMPILER...
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sample import in_sample  # noqa: E402  pylint: disable=wrong-import-position

SKIP = 77
OURS = ("backends/nccl/nccl_abi.hpp",)


def folders_with_headers():
    """The folders to search: CUDA_HOME, the toolkit's usual places, and the compiler's own."""
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots += sorted((str(path) for path in pathlib.Path("/usr/local").glob("cuda*")), reverse=True)
    found = []
    for root in [*roots, "/usr"]:
        include = pathlib.Path(root) / "include"
        if (include / "nccl.h").exists() and (include / "cuda_runtime_api.h").exists():
            found.append(include.resolve())
    return list(dict.fromkeys(found))


def compiles(compiler, root, include, ours=None):
    """The compiler's result; `ours`: a folder that is searched before the source's root."""
    command = [*compiler, "-std=c++20", "-fsyntax-only", "-Werror"]
    command += ["-I", str(ours)] if ours else []
    command += ["-I", str(root), "-isystem", str(include),
                str(root / "tests/nccl/header_check.cpp")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def wrong_versions(text):
    """(name, text) with one declaration changed: each enum's value, member and function."""
    for match in re.finditer(r"^  (\w+) = (\d+),", text, re.MULTILINE):
        number = str(int(match[2]) + 1)
        yield match[0].strip(), text[:match.start(2)] + number + text[match.end(2):]
    for match in re.finditer(r"\{ (.*?) \};", text):  # Enums on one line.
        for value in re.finditer(r"\w+ = (\d+)", match[1]):
            start = match.start(1) + value.start(1)
            number = str(int(value[1]) + 10)
            yield value[0], text[:start] + number + text[match.start(1) + value.end(1):]
    for match in re.finditer(r"^using \w+ =\s+(?:const )?\w+\*?\(", text, re.MULTILINE):
        # One more parameter.
        rest = text[match.end():]
        comma = "" if rest.startswith(")") else ", "
        yield match[0], text[:match.end()] + "short more" + comma + rest
    for match in re.finditer(r"^  (int|unsigned int|std::size_t|const char\*) \w+ = [^;]+;", text,
                             re.MULTILINE):
        if "traffic_class" not in match[0]:
            yield match[0].strip(), text[:match.start(1)] + "short" + text[match.end(1):]
    for match in re.finditer(r"char \w+\[(\d+)\];", text):
        if "rest" not in match[0]:
            number = str(int(match[1]) + 8)
            yield match[0], text[:match.start(1)] + number + text[match.end(1):]


def count_wrong(compiler, root, include):
    """How many wrong declarations were tried; ends the test if one is not noticed."""
    tried = 0
    for name in OURS:
        text = (root / name).read_text(encoding="utf-8")
        for what, wrong in wrong_versions(text):
            if not in_sample(what, 3):
                continue
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / name
                copy.parent.mkdir(parents=True)
                copy.write_text(wrong, encoding="utf-8")
                if compiles(compiler, root, include, folder).returncode == 0:
                    sys.exit(f"not noticed when changed: {name}: {what}")
            tried += 1
    return tried


def main():
    """See above."""
    root = pathlib.Path(sys.argv[1]).resolve().parents[2]
    wrong = sys.argv[2] == "--wrong"
    compiler = sys.argv[3 if wrong else 2:]
    includes = folders_with_headers()
    if not includes:
        print("skipped: no nccl.h and cuda_runtime_api.h below CUDA_HOME, /usr/local/cuda* or /usr")
        return SKIP
    for include in includes:
        result = compiles(compiler, root, include)
        if result.returncode != 0:
            print(result.stderr)
            return 1
        print(f"our declarations are those of {include}")
    if wrong:
        tried = count_wrong(compiler, root, includes[0])
        print(f"{tried} wrong declarations, all noticed")
        return 0 if tried > 0 else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
