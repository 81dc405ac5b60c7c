#!/usr/bin/env python3
"""desk point 12: the workflow of docs/guide/ci is what the page shows, is valid YAML, and its scripts do what
they are for, on plans that hold and on plans that do not.

usage: ci_test.py SHARDSIM        (needs PyYAML, package python3-yaml)
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from sanitizer_note import without_note  # noqa: E402  pylint: disable=wrong-import-position
GUIDE = ROOT / "docs/guide"
WORKFLOW = GUIDE / "ci/github-workflow.yml"
PAGE = GUIDE / "ci-reference.md"
# The distribution's Python has the distribution's packages; the first in PATH may be another.
READ = """import json, sys, yaml
class Strict(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key stands twice: {keys}"
        return super().construct_mapping(node, deep)
json.dump(yaml.load(sys.stdin.read(), Strict), sys.stdout)
"""


def read_yaml(text):
    import json
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    done = subprocess.run([python, "-c", READ], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return json.loads(done.stdout)


class CiTest(unittest.TestCase):
    shardsim = ""

    def test_desk_point_12_the_page_shows_the_workflow_that_ships(self):
        blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        self.assertEqual(blocks[0], WORKFLOW.read_text(encoding="utf-8"))
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            self.assertIsInstance(read_yaml(block), dict)
        with self.assertRaises(ValueError):
            read_yaml(blocks[0].replace("    steps:", "   steps:"))

    def workflow(self):
        workflow = read_yaml(WORKFLOW.read_text(encoding="utf-8"))
        # YAML 1.1 reads the key "on" as true.
        self.assertEqual(set(workflow) - {"name", "jobs"}, {"true"})
        (job,) = workflow["jobs"].values()
        self.assertEqual(job["container"], "debian:12")
        for step in job["steps"]:
            self.assertEqual(len({"uses", "run"} & set(step)), 1, step)
        return job["steps"]

    def test_desk_point_12_the_commands_of_the_workflow_exist(self):
        steps = self.workflow()
        builds = [step["run"] for step in steps if "dev install" in step.get("run", "")]
        self.assertEqual(builds, [".shardsim/dev install /opt/shardsim"])
        self.assertRegex((ROOT / "dev").read_text(encoding="utf-8"), r"(?m)^cmd_install\(\) \{")
        commands = re.findall(r"shardsim (\w+) (.*)", "\n".join(step.get("run", "") for step in steps))
        commands += re.findall(r"- shardsim (\w+) (.*)", PAGE.read_text(encoding="utf-8"))
        self.assertEqual(sorted({verb for verb, _ in commands}), ["check", "run"])
        for verb, words in commands:
            shown = subprocess.run([self.shardsim, verb, "--help"], capture_output=True, text=True, check=True).stdout
            for option in re.findall(r"--[a-z-]+", words):
                self.assertIn(option, shown)

    def test_desk_point_12_the_guard_of_the_page_holds(self):
        guards = re.findall(r"(?m)^shardsim (diff docs/.*)$", PAGE.read_text(encoding="utf-8"))
        self.assertEqual(len(guards), 1)
        done = subprocess.run([self.shardsim, *shlex.split(guards[0])], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, without_note(done.stderr)), (0, ""))

    def run_steps(self, *plans, changed=None):
        """Exit code and output of each script with shardsim in it, and the files it leaves. `changed`: by plan, a
        text and what takes its place."""
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            (here / "plans").mkdir()
            (here / "opt/bin").mkdir(parents=True)
            os.symlink(self.shardsim, here / "opt/bin/shardsim")
            for plan in plans:
                shutil.copy(GUIDE / "ci" / plan, here / "plans" / plan)
            for plan, (old, new) in (changed or {}).items():
                text = (here / "plans" / plan).read_text(encoding="utf-8")
                self.assertIn(old, text)
                (here / "plans" / plan).write_text(text.replace(old, new), encoding="utf-8")
            ran = []
            for step in self.workflow():
                script = step.get("run", "")
                if "shardsim " not in script or "dev install" in script:
                    continue
                self.assertEqual(step["shell"], "bash")
                script = script.replace("/opt/shardsim", str(here / "opt"))
                # GitHub's own way to start a script.
                done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=here,
                                      capture_output=True, text=True, check=False,
                                      env={**os.environ, "GITHUB_WORKSPACE": folder})
                ran.append((done.returncode, done.stdout))
            results = {path.name: path.read_text(encoding="utf-8") for path in (here / "results").iterdir()}
            return ran, results

    def test_desk_point_12_the_workflow_passes_and_fails_as_its_plans_do(self):
        ran, results = self.run_steps("plan.json")
        self.assertEqual([code for code, _ in ran], [0, 0])
        self.assertEqual(sorted(results), ["plan.html", "plan.xml"])
        self.assertIn(' tests="5" failures="0" errors="0" ', results["plan.xml"])

        ran, results = self.run_steps("plan.json", changed={"plan.json": ('"value": 0.45', '"value": 0.99')})
        self.assertEqual([code for code, _ in ran], [0, 1])
        self.assertRegex(ran[1][1], r"(?m)^::error file=plans/plan\.json,line=10,col=17,title=expect::mfu >= 0\.99: 0\.\d+ by the model$")
        self.assertIn(' failures="1" ', results["plan.xml"])

        ran, results = self.run_steps("plan.json", "broken.json")
        self.assertEqual([code for code, _ in ran], [2, 1])
        self.assertIn("::error file=plans/broken.json,line=5,col=20,title=E0107::", ran[0][1])
        self.assertIn('<error message="unknown field', results["broken.xml"])
        self.assertIn(' failures="0" errors="0" ', results["plan.xml"])

    def run_gitlab(self, plan, *, is_cached):
        """Exit code of the job on GitLab's page of the guide, what it printed, and its test report."""
        job = read_yaml(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1])["plans"]
        with tempfile.TemporaryDirectory() as folder:
            here, tools = pathlib.Path(folder) / "checkout", pathlib.Path(folder) / "tools"
            (here / "plans").mkdir(parents=True)
            tools.mkdir()
            (here / "plans/llama.json").write_text(plan, encoding="utf-8")
            (cached,) = job["cache"]["paths"]
            installs = f'[ "$1" = install ] && mkdir -p "$2/bin" && ln -s {shlex.quote(self.shardsim)} "$2/bin/shardsim"'
            if is_cached:
                subprocess.run(["sh", "-c", installs, "dev", "install", str(here / cached)], check=True)
            # What the job fetches: a copy whose `dev install` puts the program there.
            programs = {"apt-get": "exit 0", "git": '[ "$1 $2" = "clone address" ] && mkdir "$3" && '
                        f'printf "#!/bin/sh\\n%s" {shlex.quote(installs)} > "$3/dev" && chmod +x "$3/dev"'}
            for name, text in programs.items():
                (tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
                (tools / name).chmod(0o755)
            # A runner gives all lines of a script to one shell, which ends at the first that fails.
            done = subprocess.run(["sh", "-e"], input="\n".join(job["script"]), cwd=here, capture_output=True, text=True,
                                  check=False, env={"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                                                    "SHARDSIM_REPOSITORY": "address"})
            self.assertEqual(job["artifacts"]["when"], "always")
            report = here / job["artifacts"]["reports"]["junit"]
            lint = subprocess.run(["xmllint", "--noout", "--nonet", "--schema", str(pathlib.Path(__file__).with_name("junit.xsd")),
                                   str(report)], capture_output=True, text=True, check=False)
            self.assertEqual(lint.returncode, 0, lint.stderr)
            return done.returncode, done.stdout + done.stderr, report.read_text(encoding="utf-8")

    def test_desk_point_12_the_job_of_gitlab_leaves_the_report_that_it_names(self):
        plan = (GUIDE / "ci/plan.json").read_text(encoding="utf-8")
        for is_cached in (True, False):
            code, said, report = self.run_gitlab(plan, is_cached=is_cached)
            self.assertEqual((code, said), (0, ""))
            self.assertIn(' tests="5" failures="0" errors="0" ', report)
        code, said, report = self.run_gitlab(plan.replace('"value": 0.45', '"value": 0.99'), is_cached=True)
        self.assertEqual(code, 1)
        self.assertRegex(said, r"^failed: plans/llama\.json: expectation mfu >= 0\.99: 0\.\d+ by the model\n$")
        self.assertIn(' failures="1" ', report)
        code, _, report = self.run_gitlab("{", is_cached=True)
        self.assertEqual(code, 2)
        self.assertIn(' errors="1" ', report)


if __name__ == "__main__":
    CiTest.shardsim = os.path.abspath(sys.argv.pop(1))
    unittest.main()
