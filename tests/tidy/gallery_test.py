#!/usr/bin/env python3
"""Tests the gallery's measured runs: which lines of a table become points, and which of them a cell shows."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/campaigns"))

import gallery  # noqa: E402  (found by the line above)

MAPPING = {"fields": {"model.preset": {"column": "model", "words": {"L8": "llama3-8b", "X": {"cannot": "no"}}}}}


def cells(**changed):
    return {"model": "L8", "task": "Pre-Training", "confirmed": "yes", "global_batch_seqs": "128",
            "seq_len_tokens": "8192", "micro_batch_seqs": "1", "tp": "1", "pp": "4", "cp": "", "fsdp": "0", **changed}


def run(line, **changed):
    return {"line": line, "device": "h100-sxm", "ranks": 64, "source": "a page", "traits": {"precision": "bf16"},
            "step_time_s": {"measured": 2.0, "predicted": 1.6, "error": -0.2}, **changed}


def points(rows, runs):
    return gallery.points_of({"rows": runs}, MAPPING, rows)


def point(gpus, precision="bf16", model="llama3-8b", machine="h100"):
    return {"model": model, "machine": machine, "gpus": gpus, "precision": precision}


class GalleryTest(unittest.TestCase):
    def test_a_run_has_its_own_layout_and_tokens(self):
        [found] = points([cells()], [run(2)])
        self.assertEqual(found["layout"], "pp4 mb1")
        line = gallery.point_line(found)
        # 128 x 8,192 tokens on 64 GPUs in 2 s, and in 1.6 s.
        self.assertIn("| 2.00 s | 1.60 s (-20.0 %) | 8,192 | 10,240 | a page |", line)

    def test_other_tasks_devices_and_unconfirmed_or_unpredicted_runs_are_no_points(self):
        rows = [cells(task="LoRA"), cells(confirmed="no"), cells(), cells()]
        no_device = {"line": 5, "not_represented": "adapters"}
        self.assertEqual(points(rows, [run(2), run(3), run(4, device="a100"), no_device]), [])

    def test_a_cell_shows_bf16_first_and_then_the_nearest_number_of_gpus(self):
        own = [point(8), point(512), point(60, "fp8"), point(64, model="llama3-70b"), point(64, machine="b200")]
        self.assertEqual(gallery.nearest(own, "llama3-8b", "h100", 64), own[0])
        self.assertEqual(gallery.nearest(own[1:3], "llama3-8b", "h100", 64), own[1])
        self.assertIsNone(gallery.nearest(own, "llama3-8b", "gb200", 64))

    def test_tables_name_models_of_the_gallery(self):
        self.assertIn("dgxc", gallery.tables_with(["llama3-8b"]))
        self.assertEqual(gallery.tables_with(["no such model"]), {})


if __name__ == "__main__":
    unittest.main()
