"""The guide's notebook runs and shows what it shows, and a notebook's interrupt stops a search."""

import os
import subprocess
import sys
import time

import pytest

import notebook
from conftest import ROOT
from shardsim import program

PAGE = ROOT / "docs/guide/python.ipynb"
SCRIPT = ROOT / "tests/python/notebook.py"
SEARCH = """import shardsim
try:
    shardsim.plan("deepseek-v3", gpus=2048, gpu="h100", time_limit=0)
except KeyboardInterrupt as stop:
    print(type(stop).__name__, stop.partial.raw["interrupted"])
"""
MOMENT_S, LIMIT_S = 4.0, 30.0


def test_the_notebook_shows_what_it_prints() -> None:
    update = ["--update"] if os.environ.get("UPDATE_GOLDEN") == "1" else []
    done = subprocess.run(
        [sys.executable, "-B", SCRIPT, PAGE, *update],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "SHARDSIM": str(program.find())},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("first figure after ")
    assert PAGE.stat().st_size < 50_000


def test_an_interrupt_of_a_kernel_stops_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_client.manager import start_new_kernel

    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    with notebook.kernel_of_this_python():
        manager, client = start_new_kernel(kernel_name="python3")
        try:
            client.execute(SEARCH)
            time.sleep(MOMENT_S)
            manager.interrupt_kernel()
            printed = ""
            while "Interrupted" not in printed:
                message = client.get_iopub_msg(timeout=LIMIT_S)
                assert message["msg_type"] != "error", message["content"]
                if message["msg_type"] == "stream":
                    printed += message["content"]["text"]
            assert printed == "Interrupted True\n"
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
