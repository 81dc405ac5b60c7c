"""Facts of the GPU, which the command gives. No PyTorch is needed: a script stands for the command."""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from shardsim.torch import facts  # noqa: E402

H100 = {"name": "H100", "memory_bytes": 80 << 30, "compute_capability": [9, 0],
        "multiprocessors": 132, "gpus_per_node": 8}


class FactsTest(unittest.TestCase):
    def test_facts_are_read_and_each_must_be_there(self):
        self.assertEqual(facts.parsed(json.dumps(H100)), H100)
        for name in H100:
            less = {key: value for key, value in H100.items() if key != name}
            with self.assertRaisesRegex(argparse.ArgumentTypeError, name):
                facts.parsed(json.dumps(less))
        for text in ("", "7", "{"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "no JSON object"):
                facts.parsed(text)

    def test_the_command_is_asked_for_those_of_a_system(self):
        with tempfile.TemporaryDirectory() as folder:
            command = pathlib.Path(folder) / "shardsim"
            command.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
            command.chmod(0o755)
            with mock.patch.dict(os.environ, {"SHARDSIM": "", "PATH": f"{folder}:/usr/bin:/bin"}):
                self.assertEqual(facts.asked_of_command("dgx-b200"),
                                 "torch --gpu-facts --system dgx-b200\n")
            with mock.patch.dict(os.environ, {"SHARDSIM": "", "PATH": "/nowhere"}):
                with self.assertRaisesRegex(OSError, "set SHARDSIM to it"):
                    facts.asked_of_command("dgx-b200")


if __name__ == "__main__":
    unittest.main()
