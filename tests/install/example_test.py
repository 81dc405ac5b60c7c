#!/usr/bin/env python3
"""The installed tree is complete: an independent project builds against it, with Meson
and with CMake, and passes its tests. It is docs/guide/write-a-strategy, whose page shows the output
of its programs. Nothing is fetched.

usage: example_test.py WHY_NOT BUILD COMPILER... -- [--update] [TEST...]

WHY_NOT: the reason why this build's libraries fit no other program; then all is skipped. --update
rewrites the output on the page.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/guide/write-a-strategy"
sys.path.insert(0, str(ROOT / "sim/package"))
sys.path.insert(0, str(ROOT / "tests"))
from list_headers import installed_headers  # noqa: E402  pylint: disable=wrong-import-position
from sample import in_sample  # noqa: E402  pylint: disable=wrong-import-position

# Headers that a user's program must not have to read or to find.
FOREIGN = re.compile(r"/(boost|Eigen|eigen3|nlohmann|CLI|fmt|mpi)/|/(mpi|xxhash)\.h")
SHOWN = re.compile(r"<!-- output of: (build/.+?) -->\n```\n(.*?)```\n", re.DOTALL)
# A token names the build that made it.
TOKEN = re.compile(r"(?<== replay: )\S+")


def run(*command, cwd=None, **variables):
    """stdout of a command that ends well; else the test fails with all it said."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True,
                          encoding="utf-8", env={**os.environ, **variables})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class InstalledTest(unittest.TestCase):
    why_not = ""
    build = ""
    compiler = []
    update = False

    @classmethod
    def setUpClass(cls):
        if cls.why_not:
            return
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name)
        # Another folder than that of the build: the tree can be moved.
        run("meson", "install", "-C", cls.build, "--no-rebuild", "--quiet", "--destdir", cls.scratch / "to")
        package, = (cls.scratch / "to").rglob("shardsim.pc")
        cls.environment = {"PKG_CONFIG_PATH": str(package.parent), "CXX": " ".join(cls.compiler)}
        command, = (cls.scratch / "to").rglob("bin/shardsim")
        cls.prefix = command.parent.parent
        cls.example = cls.scratch / "example"
        shutil.copytree(EXAMPLE, cls.example, ignore=shutil.ignore_patterns("build*"))

    def setUp(self):
        if self.why_not:
            self.skipTest(self.why_not)

    def test_shells_and_man_find_what_is_for_them(self):
        for name, word in (("bash-completion/completions/shardsim", "complete -o default -F"),
                           ("zsh/site-functions/_shardsim", "#compdef shardsim"),
                           ("fish/vendor_completions.d/shardsim.fish", "complete -c shardsim"),
                           ("man/man1/shardsim.1", ".TH SHARDSIM 1")):
            self.assertIn(word, (self.prefix / "share" / name).read_text(encoding="utf-8"))

    def test_every_header_is_there_and_compiles_without_libraries_of_others(self):
        folder = self.prefix / "include/shardsim"
        names = [path.as_posix() for path in installed_headers(ROOT)]
        there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.hpp")}
        self.assertEqual(set(names) - there, set(), "a new header? meson setup --reconfigure BUILD")
        self.assertIn("check.hpp", there)
        alone = [name for name in names if not name.startswith("sim/harness/testing/")]
        source = self.scratch / "headers.cpp"
        source.write_text("".join(f'#include "{name}"\n' for name in alone), encoding="utf-8")
        flags = run("pkg-config", "--cflags", "shardsim", **self.environment).split()
        included = run(*self.compiler, *flags, "-fsyntax-only", "-H", source)
        self.assertIn("/shardsim/sim/harness/check.hpp", included)
        self.assertIsNone(FOREIGN.search(included))

    def test_nothing_names_the_machine_that_built_it(self):
        for path in (self.scratch / "to").rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                for place in (ROOT, pathlib.Path(self.build).resolve()):
                    at = content.find(os.fsencode(str(place)) + b"/")
                    self.assertEqual(at, -1, f"{path} names {content[at : at + 80]!r}")

    def test_the_command_finds_its_presets(self):
        listed = run(self.prefix / "bin/shardsim", "presets", cwd=self.scratch)
        self.assertIn("llama3-8b", listed)
        self.assertIn("dgx-h100", listed)

    def test_the_command_finds_its_python_part(self):
        done = subprocess.run([self.prefix / "bin/shardsim", "torch", "--world", "8", "train.py"],
                              cwd=self.scratch, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              text=True, env={**os.environ, "SHARDSIM_PYTHON": sys.executable})
        # The recorder says it.
        self.assertEqual(done.stderr, "shardsim torch: there is no script train.py\n")

    def test_the_example_builds_with_meson_and_prints_what_its_page_shows(self):
        run("meson", "setup", "build", cwd=self.example, **self.environment)
        run("ninja", "-C", "build", "-j", "2", cwd=self.example)
        run("meson", "test", "-C", "build", "--no-rebuild", "--print-errorlogs", cwd=self.example)
        page = EXAMPLE / "README.md"
        shown = SHOWN.findall(page.read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(shown), 3)
        for command, text in shown:
            done = subprocess.run(command.split(), cwd=self.example, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, check=False, text=True, encoding="utf-8")
            if self.update:
                page.write_text(page.read_text(encoding="utf-8").replace(text, done.stdout),
                                encoding="utf-8")
            else:
                self.assertEqual(TOKEN.sub("TOKEN", done.stdout), TOKEN.sub("TOKEN", text), command)

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    @unittest.skipUnless(in_sample("cmake", 3), "another commit's part")
    def test_the_example_builds_with_cmake(self):
        folder = self.scratch / "cmake"
        run("cmake", "-S", self.example, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            **self.environment)
        run("ninja", "-C", folder, "-j", "2")
        run("ctest", "--output-on-failure", cwd=folder)

    def test_a_project_may_have_it_as_a_subproject(self):
        folder = self.scratch / "above"
        (folder / "subprojects").mkdir(parents=True)
        (folder / "subprojects/shardsim").symlink_to(ROOT)
        (folder / "main.cpp").write_text("#include <shardsim/check.hpp>\n#include \"strategies/mesh.hpp\"\n"
                                         "int main() { return 0; }\n", encoding="utf-8")
        (folder / "meson.build").write_text(
            "project('above', 'cpp', default_options: ['cpp_std=c++20'])\n"
            "executable('main', 'main.cpp', dependencies: dependency('shardsim', fallback: 'shardsim'))\n",
            encoding="utf-8")
        # Its own package must not stand in for the subproject.
        run("meson", "setup", "build", "--force-fallback-for=shardsim", cwd=folder, CXX=self.environment["CXX"])
        run("ninja", "-C", "build", "main.p/main.cpp.o", cwd=folder)


if __name__ == "__main__":
    end = sys.argv.index("--")
    InstalledTest.why_not, InstalledTest.build, *InstalledTest.compiler = sys.argv[1:end]
    if "--update" in sys.argv:
        sys.argv.remove("--update")
        InstalledTest.update = True
    unittest.main(argv=[sys.argv[0], "--verbose", *sys.argv[end + 1:]])
