"""make_table.py refuses files of GPUs that do not fit, with the file and the cause, and says whose a constant is."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
GPUS = ROOT / "sim/hardware/kernels/gpus"
SCRIPT = ROOT / "sim/hardware/kernels/make_table.py"


def table_of(change):
    """What the script says and writes after `change` of {file name: document}."""
    documents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(GPUS.glob("*.json"))}
    change(documents)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, document in documents.items():
            path = pathlib.Path(folder) / name
            path.write_text(json.dumps(document), encoding="utf-8")
            if name != "every-gpu.json":
                paths.append(str(path))
        output = pathlib.Path(folder) / "table.hpp"
        done = subprocess.run([sys.executable, "-B", str(SCRIPT), str(output), folder + "/every-gpu.json", *paths],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stderr, output.read_text(encoding="utf-8") if output.exists() else ""


class KernelTableTest(unittest.TestCase):
    def refused(self, change, *words):
        status, said, written = table_of(change)
        self.assertNotEqual(status, 0)
        self.assertEqual(written, "")
        for word in words:
            self.assertIn(word, said)

    def test_the_files_as_they_are_make_a_table(self):
        status, said, written = table_of(lambda documents: None)
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(written.count(".matmul_rate = "), len(list(GPUS.glob("*.json"))) - 1)

    def test_an_unknown_constant_is_refused(self):
        def change(documents):
            documents["gb300.json"]["constants"]["matmul_rat"] = [0.5, "sms"]
        self.refused(change, "gb300.json", "matmul_rat", "matmul_rate")

    def test_a_constant_without_a_source_is_refused(self):
        def change(documents):
            documents["b200-sxm.json"]["constants"]["fp8_share"] = [0.9, "hearsay"]
        self.refused(change, "b200-sxm.json", "hearsay", "fp8_share")

    def test_a_source_that_nothing_has_is_refused(self):
        def change(documents):
            documents["gb300.json"]["sources"]["old"] = "a table that is gone"
        self.refused(change, "gb300.json", "\"old\"")

    def test_a_constant_that_nobody_has_is_refused(self):
        def change(documents):
            del documents["b200-sxm.json"]["constants"]["fp4_share"]
        self.refused(change, "b200-sxm.json", "fp4_share missing", "neighbour")

    def test_a_neighbour_without_a_file_is_refused(self):
        def change(documents):
            documents["gb300.json"]["neighbour"] = "gb400"
        self.refused(change, "gb300.json", "gb400")

    def test_a_neighbours_constant_says_so(self):
        _, _, written = table_of(lambda documents: None)
        row = written[written.index('"gb300"'):written.index('"h100-sxm"')]
        self.assertIn("{152.0, \"152 multiprocessors", row)
        self.assertIn(".matmul_rate = {1.0, \"neighbour: the GB200's", row)


if __name__ == "__main__":
    unittest.main()
