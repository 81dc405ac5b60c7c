#!/usr/bin/env python3
"""desk point 12: test results as JUnit's XML. What check, run and sweep print is valid by the schema beside
this file, counts its cases, and keeps hostile names harmless.

usage: junit_test.py SHARDSIM        (needs xmllint, package libxml2-utils)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = pathlib.Path(__file__).with_name("junit.xsd")
PLAN = str(ROOT / "scenarios/quickstart.json")
FORMAT = "--output-format=junit"


def valid(text):
    """What xmllint says of a document, '' if it is valid."""
    done = subprocess.run(["xmllint", "--noout", "--nonet", "--schema", str(SCHEMA), "-"], input=text,
                          capture_output=True, check=False)
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace")


class JunitTest(unittest.TestCase):
    shardsim = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def cases_of(self, *words, code, **environment):
        """{name: (outcome, type, message)} of the one suite that is printed."""
        done = subprocess.run([self.shardsim, *words, FORMAT], cwd=self.folder.name, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False, env={**os.environ, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(valid(done.stdout), "")
        self.err = done.stderr.decode("utf-8", "replace")
        suite, = xml.etree.ElementTree.fromstring(done.stdout)
        cases = {}
        for case in suite.findall("testcase"):
            found, = list(case) or [None]
            self.assertNotIn(case.get("name"), cases)
            cases[case.get("name")] = ("passed", None, None) if found is None else (
                found.tag, found.get("type"), found.get("message"))
        for attribute, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            self.assertEqual(int(suite.get(attribute)), sum(case[0] == outcome for case in cases.values()))
        self.assertEqual(int(suite.get("tests")), len(cases))
        self.suite = suite
        return cases

    def test_desk_point_12_the_schema_refuses_what_is_wrong(self):
        done = subprocess.run([self.shardsim, "check", PLAN, FORMAT], capture_output=True, check=True)
        text = done.stdout.decode("utf-8")
        self.assertEqual(valid(text.encode()), "")
        for old, new in ((' tests="1"', ""), (" time=\"0\"/>", "/>"), ("<system-out/>", ""), ("timestamp=\"", "timestamp=\"x"),
                         ("<properties>", "<properties a=\"1\">"), ("</testsuites>", "")):
            self.assertIn(old, text)
            self.assertNotEqual(valid(text.replace(old, new).encode()), "", old)

    def test_desk_point_12_a_check_has_a_case_for_each_file(self):
        wrong = pathlib.Path(self.folder.name) / "wrong.json"
        wrong.write_text('{"schema_version": 1, "modle": 7}', encoding="utf-8")
        self.assertEqual(self.cases_of("check", PLAN, code=0), {"valid": ("passed", None, None)})
        cases = self.cases_of("check", str(wrong), code=2)
        self.assertEqual(cases["valid"], ("error", "E0107", 'unknown field "modle"'))
        self.assertEqual(self.err, f'failed: {wrong}: valid: unknown field "modle"\n')
        text = self.suite.find("testcase/error").text
        self.assertIn('error[E0103]: "system" is missing', text)  # All problems, as people see them.
        self.assertEqual(self.suite.find("testcase").get("classname"), str(wrong))
        done = subprocess.run([self.shardsim, "check", str(wrong), PLAN, "nowhere.json", FORMAT], cwd=self.folder.name,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, valid(done.stdout)), (2, ""))
        suite, = xml.etree.ElementTree.fromstring(done.stdout)
        self.assertEqual([case.get("classname") for case in suite.findall("testcase")], [str(wrong), PLAN, "nowhere.json"])
        self.assertEqual((suite.get("tests"), suite.get("errors")), ("3", "2"))

    def test_desk_point_12_a_run_has_a_case_for_each_check_and_expectation(self):
        expect = 'expect=[{"metric": "mfu", "op": ">=", "value": 0.9}, {"metric": "ranks", "op": "==", "value": 64}]'
        cases = self.cases_of("run", PLAN, "--set", expect, code=1)
        self.assertEqual(cases["expect mfu >= 0.9"][:2], ("failure", "expect"))
        self.assertRegex(cases["expect mfu >= 0.9"][2], r"^mfu >= 0\.9: 0\.\d+ by the model$")
        # The XML goes to a file: the log of the job has a line for each case that failed.
        self.assertRegex(self.err, rf"^failed: {PLAN}: expectation mfu >= 0\.9: 0\.\d+ by the model\n$")
        self.assertEqual(cases["expect ranks == 64"], ("passed", None, None))
        self.assertEqual(cases["check conservation"], ("passed", None, None))
        self.assertEqual(cases["the run came to its end"], ("passed", None, None))
        # Too large for its devices: the check of memory fails.
        cases = self.cases_of(PLAN, "--set", "model.preset=llama3-70b", "--set", "parallelism.zero_stage=0", code=3)
        self.assertEqual(cases["check memory"][:2], ("failure", "memory"))
        self.assertRegex(self.err, rf"^failed: {PLAN}: check memory: rank \d+ needs .*\n$")

    def test_desk_point_12_a_sweep_has_a_case_for_each_point(self):
        axis = ("--axis", "parallelism.tp=1,3,8")
        cases = self.cases_of("sweep", PLAN, *axis, code=0)
        self.assertEqual(list(cases), [f"point {i}: parallelism.tp={tp}" for i, tp in enumerate((1, 3, 8))])
        self.assertEqual([case[0] for case in cases.values()], ["passed", "failure", "passed"])
        self.assertEqual(cases["point 1: parallelism.tp=3"][1:], ("E0203", "tp (3) does not divide the 64 ranks"))

    def test_desk_point_12_a_point_says_all_that_is_wrong_with_it(self):
        expect = 'expect=[{"metric": "mfu", "op": ">=", "value": 0.95}, {"metric": "ranks", "op": "==", "value": 7}]'
        unread = ("--set", "system.inter_node.latency_us=123")
        cases = self.cases_of("sweep", PLAN, "--axis", "parallelism.tp=1,3", "--set", expect, *unread, code=0)
        self.assertEqual([case[0] for case in cases.values()], ["failure", "failure"])
        texts = [case.text for case in self.suite.iterfind("testcase/failure")]
        self.assertIn("mfu >= 0.95: 0.", texts[0])
        self.assertIn("error[expect]: ranks == 7: 64.0\n", texts[0])  # The row has the first alone.
        warning = "system.inter_node.latency_us has no effect here: this run does not use it"
        self.assertIn(f"warning: {warning}\n", texts[0])
        self.assertIn("error[E0203]: tp (3) does not divide the 64 ranks", texts[1])
        self.assertIn("  = help: ", texts[1])
        told = [line for line in self.err.splitlines() if line.startswith("failed: ")]
        self.assertEqual(len(told), 2)
        self.assertTrue(told[1].startswith(f"failed: {PLAN}: point 1: parallelism.tp=3: tp (3) does not"), told)
        # A point that passed has no place for messages in the schema: they are the suite's.
        cases = self.cases_of("sweep", PLAN, "--axis", "parallelism.tp=1", *unread, "--out", "passed", code=0)
        self.assertEqual([case[0] for case in cases.values()], ["passed"])
        self.assertEqual(self.suite.findtext("system-err"), f"point 0: parallelism.tp=1: warning: {warning}\n")

    def test_desk_point_12_points_that_a_sweep_passes_over_are_skipped(self):
        sweep = {"axes": {"parallelism.tp": [1, 3]}, "skip": ["invalid"]}
        scenario = json.loads("\n".join(line.split("//")[0] for line in pathlib.Path(PLAN).read_text().splitlines()))
        del scenario["$schema"]
        file = pathlib.Path(self.folder.name) / "s.json"
        file.write_text(json.dumps({**scenario, "sweep": sweep}), encoding="utf-8")
        cases = self.cases_of("sweep", str(file), code=0)
        self.assertEqual([case[0] for case in cases.values()], ["passed", "skipped"])
        # A shard has its own points alone.
        self.assertEqual(list(self.cases_of("sweep", str(file), "--shard", "0/2", "--out", "other", code=0)),
                         ["point 0: parallelism.tp=1"])

    def test_desk_point_12_what_cannot_be_tried_is_an_error(self):
        for words in (("run", "nowhere.json"), ("run", PLAN, "--tp", "8"), ("deom",)):
            cases = self.cases_of(*words, code=2)
            self.assertEqual([case[0] for case in cases.values()], ["error"])
            self.assertRegex(self.err, r"^error\[E\d+\]: ")

    def test_desk_point_12_hostile_text_stays_text(self):
        names = ["a&b<c>\"d\".json", "]]>.json", "x\x01\x1b[31my.json", "bad\udcff.json", "tab\there.json"]
        for name in names:
            with self.subTest(name=name.encode("utf-8", "surrogateescape")):
                (pathlib.Path(self.folder.name) / name).write_text("{", encoding="utf-8")
                cases = self.cases_of("check", name, code=2)
                self.assertEqual(cases["valid"][0], "error")
        self.cases_of(PLAN, "--set", "name=<b>&amp;\u202e\ufffe</b>", code=2)  # A name may not hide characters.

    def test_desk_point_12_the_same_run_gives_the_same_bytes(self):
        texts = {subprocess.run([self.shardsim, PLAN, FORMAT], capture_output=True, check=True,
                                env={**os.environ, "SOURCE_DATE_EPOCH": "86400"}).stdout for _ in range(2)}
        text, = texts
        self.assertIn(b' timestamp="1970-01-02T00:00:00"', text)


if __name__ == "__main__":
    JunitTest.shardsim = os.path.abspath(sys.argv.pop(1))
    unittest.main()
