"""pandas is optional: without it all works but .df(), which says so. All numbers in words have one form."""

import subprocess
import sys

import pytest

from conftest import ROOT
from shardsim import frames, program, units

WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = None  # As if it were not installed.
import shardsim
result = shardsim.run("gpt2", gpus=8)
print(result.step_time_s > 0, len(result._repr_html_()) > 100)
sweep = shardsim.sweep("gpt2", {"training.micro_batch_size": [1, 2]}, gpus=8)
plan = shardsim.plan("gpt2", gpus=8, gpu="h100", fix={"tp": 1, "pp": 1, "cp": 1})
diff = shardsim.diff(result, result)
validation = shardsim.validate("bloom_176b", sample=True)
print(len(sweep.rows), len(plan.rows) > 0, len(diff.rows()) > 0, len(validation.rows()) > 0)
for each in (result, sweep, plan, diff, validation):
    try:
        each.df()
    except ImportError as error:
        print("pip install pandas" in str(error) and "apt install python3-pandas" in str(error))
"""
NOT_IMPORTED = """
import sys, shardsim
shardsim.run("gpt2", gpus=8)
print("pandas" in sys.modules, "numpy" in sys.modules)
"""


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "python"), "SHARDSIM": str(program.find())},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_but_frames_works_without_pandas() -> None:
    assert python(WITHOUT_PANDAS).split("\n")[:-1] == ["True True", "2 True True True", *["True"] * 5]


def test_pandas_is_imported_when_a_frame_is_asked_for() -> None:
    assert python(NOT_IMPORTED).strip() == "False False"


def test_nested_keys_become_columns() -> None:
    assert frames.flat({"a": {"b": 1, "c": {"d": [2]}}, "e": {}}) == {"a.b": 1, "a.c.d": [2], "e": {}}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("step_time_s", 1.5872, "1.59 s"),
        ("step_time_s", 0.000999996, "1.00 ms"),
        ("step_time_s", 0.0, "0 s"),
        ("time.host_s", 2e-9, "2.00 ns"),
        ("memory.device_bytes.max", 49515299840, "46.1 GiB"),
        ("memory.device_bytes.max", 1023.9 * 1024, "1.00 MiB"),
        ("comm.bytes_sent.total", 6.07e12, "6.07 TB"),
        ("mfu", 0.5372, "53.7 %"),
        ("tokens_per_s_per_gpu", 10322.5, "10,300"),
        ("ranks", 64, "64"),
        ("model.parameters", 8030261248, "8,030,261,248"),
        ("cost.days", 0.00123, "1.23e-03"),
        ("status", "ok", "ok"),
        ("passed", True, "True"),
        ("x", None, ""),
        ("x", float("nan"), "nan"),
        ("x", float("-inf"), "-inf"),
        ("step_time_s", 12345.6, "12,300 s"),
    ],
)
def test_a_number_has_the_unit_of_its_name(name: str, value: object, text: str) -> None:
    assert units.metric(name, value) == text


def test_a_range_names_one_unit_once() -> None:
    assert units.range_of("1.54 s", "1.88 s") == "1.54 to 1.88 s"
    assert units.range_of("980 ms", "1.20 s") == "980 ms to 1.20 s"
    assert units.range_of("3.1", "4.2") == "3.1 to 4.2"


def test_a_table_escapes_all_texts() -> None:
    table = units.table(["<a>"], [["<b>"]], "<c>")
    assert all(f"&lt;{name}&gt;" in table and f"<{name}>" not in table for name in "abc")
