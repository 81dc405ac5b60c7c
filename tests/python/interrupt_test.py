"""Ctrl-C ends the program, waits for it, and gives what it has printed. Nothing outlives its Python."""

import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

import shardsim
from conftest import ROOT, StandIn
from shardsim import program

MOMENT_S = 3.0  # for a search to begin; it would take a minute
LONG_S = 20.0  # until a stand-in would end by itself
ORPHAN = "import shardsim; shardsim.run('a.json')"


def interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def no_child_is_left() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_a_search_gives_what_it_knew() -> None:
    interrupt_after(MOMENT_S)
    with pytest.raises(shardsim.Interrupted) as caught:
        shardsim.plan("deepseek-v3", gpus=2048, gpu="h100", time_limit=0)
    partial = caught.value.partial
    assert isinstance(partial, shardsim.Plan) and partial.raw["interrupted"] and not partial.complete
    assert no_child_is_left()


def test_a_run_that_is_stopped_has_nothing(stand_in: StandIn) -> None:
    stand_in(then=f"exec sleep {LONG_S:.0f}")
    interrupt_after(0.5)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        shardsim.run("a.json")
    assert isinstance(caught.value, shardsim.Interrupted) and caught.value.partial is None
    assert time.monotonic() - begin < LONG_S / 2
    assert no_child_is_left()


def test_a_program_that_will_not_end_is_ended(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "GRACE_S", 0.5)
    stand_in(then=f"trap '' INT; touch ready; sleep {LONG_S:.0f}")
    interrupt_after(1.0)
    begin = time.monotonic()
    with pytest.raises(shardsim.Interrupted):
        shardsim.run("a.json")
    assert time.monotonic() - begin < LONG_S / 2
    assert no_child_is_left()


def test_a_terminal_s_ctrl_c_does_not_reach_the_program(stand_in: StandIn, tmp_path: pathlib.Path) -> None:
    stand_in('{"rows": []}', then="ps -o pgid= -p $$ > group")
    shardsim.plan("m", gpus=8, gpu="h100")
    assert int((tmp_path / "group").read_text()) != os.getpgid(0)


def test_a_program_does_not_outlive_its_python(stand_in: StandIn, tmp_path: pathlib.Path) -> None:
    stand_in(then=f"echo $$ > pid.part; mv pid.part pid; exec sleep {LONG_S:.0f}")
    parent = subprocess.Popen(
        [sys.executable, "-B", "-c", ORPHAN], env={**os.environ, "PYTHONPATH": str(ROOT / "python")}
    )
    wait_for((tmp_path / "pid").is_file)
    child = pathlib.Path("/proc") / (tmp_path / "pid").read_text().strip()
    assert child.is_dir()
    parent.kill()
    parent.wait()
    wait_for(lambda: not child.is_dir() or " Z " in (child / "stat").read_text())


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S / 2
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_a_program_that_somebody_else_stops_is_interrupted(stand_in: StandIn) -> None:
    stand_in('{"rows": [{"layout": "tp8"}], "interrupted": true}', exit_code=130)
    with pytest.raises(shardsim.Interrupted) as caught:
        shardsim.plan("m", gpus=8, gpu="h100")
    assert caught.value.partial is not None and caught.value.partial.rows == [{"layout": "tp8"}]


AXES = {"training.micro_batch_size": [1, 2], "training.global_batch_size": list(range(256, 256 * 1001, 256))}


def test_a_sweep_gives_the_points_that_were_done() -> None:
    interrupt_after(MOMENT_S)
    with pytest.raises(shardsim.Interrupted) as caught:
        shardsim.sweep("llama3-70b", AXES, gpu="h100", gpus=256)
    partial = caught.value.partial
    assert isinstance(partial, shardsim.Sweep) and 0 < len(partial.rows) < 2000
    assert partial.rows[0]["training.micro_batch_size"] == 1 and partial.rows[0]["step_time_s"] > 0


def test_a_sweep_that_is_stopped_at_once_has_no_points(stand_in: StandIn) -> None:
    stand_in(
        log="error[E0001]: no part files", exit_code=2, then="[ -f second ] || { touch second; exit 130; }"
    )
    with pytest.raises(shardsim.Interrupted) as caught:
        shardsim.sweep("a.json")
    assert caught.value.partial is None


IN_A_TERMINAL = """
import shardsim
print("begins", flush=True)
try:
    shardsim.plan("deepseek-v3", gpus=2048, gpu="h100", time_limit=0)
except shardsim.Interrupted as stop:
    print("stopped", stop.partial.raw["interrupted"], flush=True)
"""


def test_a_terminal_s_ctrl_c_stops_a_search_once() -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["PYTHONPATH"] = str(ROOT / "python")
        os.execv(sys.executable, [sys.executable, "-B", "-c", IN_A_TERMINAL])
    shown = b""
    while b"begins" not in shown:
        shown += os.read(terminal, 1000)
    time.sleep(MOMENT_S)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # The terminal ends with its last process.
        while part := os.read(terminal, 1000):
            shown += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shown.endswith(b"stopped True\r\n") and b"Traceback" not in shown
