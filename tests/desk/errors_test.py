#!/usr/bin/env python3
"""desk points 12 and 13: errors as programs and people meet them. --json is one object for every kind of
error, annotations name files of the checkout alone, lines fit the terminal, and each code is explained.

usage: errors_test.py SHARDSIM
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from sanitizer_note import without_note  # noqa: E402  pylint: disable=wrong-import-position
PLAN = "scenarios/quickstart.json"
FIELDS = ["code", "severity", "file", "pointer", "message", "help", "fix"]
BAD_USAGE, DOES_NOT_FIT = 2, 3


def with_fields(*flags):
    return ["check", PLAN, *(word for flag in flags for word in ("--set", flag))]


# Command lines, each with an error of another code.
WRONG = {
    "E0001": ["check", "nowhere.json"],
    "E0101": with_fields("parallelism.tp=two"),
    "E0102": with_fields("parallelism.tp=0"),
    "E0103": with_fields("training.global_batch_size=null"),
    "E0104": with_fields("training.precision=bf61"),
    "E0105": with_fields("model=llama3-7b"),
    "E0107": with_fields("a=1"),
    "E0109": with_fields("tp"),
    "E0110": with_fields("output.report=/tmp/step.html"),
    "E0111": with_fields('expect=[{"metric": "mfuu", "op": ">=", "value": 1}]'),
    "E0112": with_fields('expect=[{"metric": "oracle.max_rel_error.loss", "op": "<=", "value": 1}]'),
    "E0203": with_fields("parallelism.tp=3"),
    "E0206": with_fields("parallelism.schedule=1f1b"),
    "E0209": with_fields("output.trace_ranks=[99]"),
    "E0210": with_fields("training.num_microbatches=7"),
    "E0211": with_fields("output.result=a.json", "output.trace=a.json"),
    "E0270": with_fields('faults.stragglers=[{"slowdown": 2}]'),
    "E0352": with_fields("execution.tensors=real"),
    "E0408": with_fields("system.network_model=alpha_beta", "system.nccl.algorithms=ring"),
    "E0902": ["presets", "llama3-70"],
    "E0904": ["run", PLAN, "--tp", "8"],
    "E0905": ["run"],
    "E0907": ["run", PLAN, "--record-decisions", "record.json"],
    "E0910": ["run", PLAN, "--report", PLAN],
    "E0912": ["run", PLAN, "--trace", ""],
    "E0915": ["presets", "gpt2", "gpt2-xl"],
    "E0916": ["deom"],
    "E0933": ["validate", "--sample", "--write-band", "band.json"],
    "E1073": ["run", PLAN, "--backend=mpi"],
    "E1080": ["collective", "all_reduce", "-b", "8X"],
    "E1084": ["collective"],
    "E1087": ["collective", "all_reduce", "--system", "h1000"],
    "E1201": ["run", PLAN, "--replay", "nonsense"],
    "E1204": ["run", PLAN, "--backend=mpi", "--explore=pct"],
    "E1205": ["explain", "DEADLOK"],
    "E1321": ["plan", "llama3-7b", "--gpus", "8", "--gpu", "h100"],
    "E1322": ["plan", "llama3-8b", "--gpus", "8", "--gpu", "h1000"],
    "E1343": ["diff", PLAN, "nowhere.json"],
    "E1344": ["diff", PLAN, "--set", "parallelism.zero_stage=2", "--fail-if", "slower"],
    "E1345": ["diff", PLAN],
}
EXIT_CODES = {"E0352": DOES_NOT_FIT}


class ErrorsTest(unittest.TestCase):
    shardsim = ""

    def run_here(self, *words, folder=ROOT, **environment):
        clean = {key: value for key, value in os.environ.items() if key != "GITHUB_WORKSPACE"}
        done = subprocess.run([self.shardsim, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, encoding="utf-8", check=False, env={**clean, **environment})
        return done.returncode, done.stdout, without_note(done.stderr)

    def test_desk_point_12_json_is_an_object_on_30_kinds_of_error(self):
        self.assertGreaterEqual(len(WRONG), 30)
        for code, words in WRONG.items():
            with self.subTest(code=code):
                exit_code, out, err = self.run_here(*words, "--json")
                document = json.loads(out)
                self.assertEqual(list(document), ["errors"])
                self.assertIn(code, [error["code"] for error in document["errors"]])
                for error in document["errors"]:
                    self.assertEqual([key for key in error if key not in ("line", "column")], FIELDS)
                    self.assertEqual(error["severity"], "error")
                    self.assertTrue(error["message"])
                self.assertEqual(exit_code, EXIT_CODES.get(code, BAD_USAGE))
                self.assertEqual(err, "")

    def test_desk_point_12_json_is_an_object_where_nothing_is_wrong(self):
        for words in (["check", PLAN], [PLAN], ["explain"], ["explain", "E0107"], ["presets"], ["doctor"]):
            with self.subTest(words=words):
                self.assertIsInstance(json.loads(self.run_here(*words, "--json")[1]), dict)
        self.assertEqual(json.loads(self.run_here("check", PLAN, "--json")[1]), {"errors": []})

    def annotations(self, *words, folder=ROOT, **environment):
        code, out, err = self.run_here("check", "--output-format=github", *words, folder=folder, **environment)
        self.assertEqual((code, err), (BAD_USAGE, ""))
        lines = out.splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertTrue(line.startswith("::error "), line)
            named = re.match(r"::error file=([^,]*),", line)
            if named:
                self.assertTrue((pathlib.Path(environment.get("GITHUB_WORKSPACE", folder)) / named[1]).is_file(), line)
        return lines

    def test_desk_point_12_annotations_name_real_files(self):
        with tempfile.TemporaryDirectory() as checkout, tempfile.TemporaryDirectory() as elsewhere:
            wrong = '{\n  "schema_version": 1,\n  "modle": 7\n}\n'
            below = pathlib.Path(checkout) / "plans"
            below.mkdir()
            for folder in (below, pathlib.Path(elsewhere)):
                (folder / "mine.json").write_text(wrong, encoding="utf-8")
            # The page of a change knows paths from the root of the checkout.
            for name, folder in (("plans/mine.json", checkout), ("mine.json", below), (str(below / "mine.json"), "/")):
                lines = self.annotations(name, folder=folder, GITHUB_WORKSPACE=checkout)
                self.assertTrue(lines[0].startswith("::error file=plans/mine.json,line=3,col=3,title=E0107::"), lines)
            self.assertTrue(self.annotations("plans/mine.json", folder=checkout)[0]
                            .startswith("::error file=plans/mine.json,line=3,"))
            outside = str(pathlib.Path(elsewhere) / "mine.json")
            self.assertTrue(self.annotations(outside, GITHUB_WORKSPACE=checkout)[0]
                            .startswith(f"::error title=E0107::{outside}: unknown field"))
        # What is no file is said in words.
        self.assertTrue(self.annotations(PLAN, "--set", "training.a=1")[0]
                        .startswith('::error title=E0107::--set training.a=1: unknown field "a"'))
        self.assertTrue(self.annotations("nowhere.json")[0].startswith("::error title=E0001::nowhere.json: cannot find"))

    def test_desk_point_12_a_failed_expectation_has_the_line_of_its_entry(self):
        with tempfile.TemporaryDirectory() as checkout:
            file = pathlib.Path(checkout) / "plan.json"
            text = (ROOT / "docs/guide/ci/plan.json").read_text(encoding="utf-8").replace("0.45", "0.95")
            # A block of a sweep before it moves no line.
            text = text.replace('  "expect": [', '  "sweep": {\n    "axes": { "training.micro_batch_size": [1, 3] }\n'
                                '  },\n  "expect": [')
            file.write_text(text, encoding="utf-8")
            line = 1 + text[:text.index('"mfu"')].count("\n")
            words = {"folder": checkout, "GITHUB_WORKSPACE": checkout}
            place = f"::error file=plan.json,line={line},col=17,title=expect::"
            _, out, _ = self.run_here("run", "plan.json", "-q", "--output-format=github", **words)
            self.assertRegex(out, rf"(?m)^{re.escape(place)}mfu >= 0\.95: 0\.\d+ by the model$")
            # The entry of a flag is in no file.
            _, out, _ = self.run_here("run", "plan.json", "-q", "--output-format=github", "--set",
                                      'expect=[{"metric": "ranks", "op": "==", "value": 7}]', **words)
            self.assertIn("::error file=plan.json,title=expect::ranks == 7: 64.0\n", out)
            code, out, err = self.run_here("sweep", "plan.json", "-q", "--output-format=github", **words)
            self.assertEqual((code, err), (0, ""))
            first, second = out.splitlines()
            self.assertTrue(first.startswith(f"{place}point 0: training.micro_batch_size=1: mfu >= 0.95: 0."), out)
            self.assertTrue(second.startswith("::error file=plan.json,line=8,col=38,title=E0204::point 1: training.micro_batch_size=3: "), out)

    def test_desk_point_12_report_and_trace_go_where_they_are_sent(self):
        with tempfile.TemporaryDirectory() as folder:
            report, trace = pathlib.Path(folder) / "deep/step.html", pathlib.Path(folder) / "step.json"
            code, _, err = self.run_here(PLAN, "-q", "--report", str(report), "--trace", str(trace))
            self.assertEqual((code, err), (0, ""))
            self.assertTrue(report.read_text(encoding="utf-8").lower().startswith("<!doctype html>"))
            self.assertTrue(json.loads(trace.read_text(encoding="utf-8")))
            # Relative to the current folder, and not to --out.
            plan = str(ROOT / PLAN)
            code, _, _ = self.run_here(plan, "-q", "--report", "here.html", "--out", "there", folder=folder)
            self.assertEqual(code, 0)
            self.assertTrue((pathlib.Path(folder) / "here.html").is_file())
            code, _, err = self.run_here(plan, "--report", "a.html", "--trace", "a.html", folder=folder)
            self.assertEqual(code, BAD_USAGE)
            self.assertIn("E0910", err)
        _, _, err = self.run_here(PLAN, "--set", "output.report=/abs/step.html")
        self.assertIn('"shardsim run --report PATH" takes any path', err)

    def on_terminal(self, columns, *words, **environment):
        """stderr of a terminal of so many columns."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(ROOT)
            environment = {**{key: value for key, value in os.environ.items() if key != "COLUMNS"}, **environment}
            os.execve(self.shardsim, [self.shardsim, *words], environment)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        text = b""
        while True:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # The other side has closed it.
                break
            if not part:
                break
            text += part
        os.waitpid(child, 0)
        os.close(terminal)
        return text.decode("utf-8").replace("\r\n", "\n")

    def test_desk_point_13_errors_fit_the_terminal(self):
        words = ("check", PLAN, "--set", "training.a=1", "--set", "model.numlayers=1")
        whole = self.run_here(*words)[2]
        self.assertGreater(max(map(len, whole.splitlines())), 200)
        for columns, environment in ((80, {}), (120, {}), (200, {"COLUMNS": "60"})):
            with self.subTest(columns=columns, **environment):
                width = int(environment.get("COLUMNS", columns))
                shown = self.on_terminal(columns, *words, **environment)
                self.assertLessEqual(max(map(len, shown.splitlines())), width)
                # The words are the same, and lines are filled.
                self.assertEqual(shown.split(), whole.split())
                self.assertLess(len(shown.splitlines()), len(whole) / width + 20)

    def test_desk_point_13_the_page_of_a_run_fits_the_terminal(self):
        whole = self.run_here(PLAN)[1]
        self.assertGreater(max(map(len, whole.splitlines())), 90)
        for columns in (80, 90, 200):
            with self.subTest(columns=columns):
                shown = re.sub(r"\033\[\d*m|\r", "", self.on_terminal(columns, PLAN, "--color=never"))
                page = shown[:shown.index("Next: ")]
                self.assertLessEqual(max(map(len, page.splitlines())), min(columns, 100))
                self.assertIn("MFU", page)

    def test_desk_point_13_a_long_line_of_a_file_is_cut_around_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.json"
            file.write_text('{"schema_version": 1, "model": "llama3-8b", "system": {"preset": "dgx-h100", "nodes": 1}, '
                            '"parallelism": {"tpp": 8}, "training": {"global_batch_size": 64}}\n', encoding="utf-8")
            shown = self.on_terminal(60, "check", str(file))
        lines = shown.splitlines()
        marks = next(line for line in lines if "^" in line)
        text = lines[lines.index(marks) - 1]
        self.assertLessEqual(len(text), 60)
        self.assertEqual(text[marks.index("^"):marks.rindex("^") + 1], '"tpp"')

    def explained(self):
        return {row["code"]: row for row in json.loads(self.run_here("explain", "--json")[1])["codes"]}

    def test_desk_point_13_every_code_of_the_sources_is_explained(self):
        used = set()
        for folder in ("sim", "scenarios", "strategies", "backends", "reports"):
            for path in (ROOT / folder).rglob("*.?pp"):
                used |= set(re.findall(r'"(E\d{4})"', path.read_text(encoding="utf-8")))
        used -= {"E9999"}  # Stands in a table for a code that must never be printed.
        explained = self.explained()
        self.assertEqual(sorted(used - set(explained)), [], "add three lines to sim/command/errors")
        self.assertEqual(sorted(code for code in explained if re.fullmatch(r"E\d{4}", code) and code not in used), [])
        for code, row in explained.items():
            with self.subTest(code=code):
                for key in ("meaning", "causes", "fix", "example"):
                    self.assertTrue(row[key].strip(), key)

    def test_desk_point_13_a_code_has_one_meaning(self):
        """init and demo had codes of recorded traces, so that explain spoke of Chakra."""
        # Errors of one kind that two rooms find.
        shared = {"E0907", "E0940", "E0944", "E0957", "E1310", "E1323", "E1324", "E1330", "E1377", "E1378", "E1399",
                  "E7000", "E9000"}
        rooms = {}
        for path in (ROOT / "sim").rglob("*.cpp"):
            for code in re.findall(r'"(E\d{4})"', path.read_text(encoding="utf-8")):
                rooms.setdefault(code, set()).add(path.parent.name)
        self.assertEqual({code for code, found in rooms.items() if len(found) > 1}, shared)

    def test_desk_point_13_examples_end_with_their_errors(self):
        command = re.compile(r"(^|[;|] )(\w+=\S* )*shardsim ")
        examples = {code: row["example"] for code, row in self.explained().items() if command.search(row["example"])}
        self.assertGreater(len(examples), 150)
        with tempfile.TemporaryDirectory() as programs:
            os.symlink(self.shardsim, os.path.join(programs, "shardsim"))
            path = programs + os.pathsep + os.environ["PATH"]
            for code, example in examples.items():
                with self.subTest(code=code, example=example), tempfile.TemporaryDirectory() as folder:
                    environment = {**os.environ, "PATH": path, "TMPDIR": folder}
                    subprocess.run(["shardsim", "init", "-q"], cwd=folder, env=environment, check=True)
                    done = subprocess.run(["bash", "-c", example], cwd=folder, stdin=subprocess.DEVNULL, check=False,
                                          capture_output=True, text=True, env=environment)
                    self.assertIn(f"error[{code}]", done.stderr)
                    self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    ErrorsTest.shardsim = os.path.abspath(sys.argv.pop(1))
    unittest.main()
