"""Results of runs: attributes, pages, frames, and what a plan that does not fit gives."""

import copy
import json
import pathlib
import pickle
import subprocess

import pytest

import shardsim
from conftest import ROOT
from shardsim import Band, program, units

QUICKSTART = ROOT / "scenarios/quickstart.json"
SCHEMA = json.loads((ROOT / "reports/schema/result.schema.json").read_text())
DOES_NOT_FIT = {"nodes": 1}


@pytest.fixture(scope="module")
def quickstart() -> shardsim.Result:
    return shardsim.run(QUICKSTART)


def page(*words: str) -> str:
    """The command's page for people, without its line breaks."""
    done = subprocess.run([program.find(), *words], stdout=subprocess.PIPE, text=True, check=False)
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "name", ["quickstart", "gpt3-175b-1024xa100", "llama3-405b-16384xh100", "deepseek-v3-2048xh800"]
)
def test_the_first_lines_are_those_of_the_page(name: str) -> None:
    scenario = ROOT / f"scenarios/{name}.json"
    result, printed = shardsim.run(scenario, output={"result": ""}), page(str(scenario))
    lines = [" ".join(line.split()) for line in result.lines()]
    device = next(line for line in lines if line.startswith("on device"))
    assert lines[0] == result.name and repr(result).startswith(result.name)
    assert ("about" in lines[1]) == ("step_time_s" in result.bands)
    for line in lines[: lines.index(device)]:
        assert line in printed
    if "about" in device:
        assert device.split(" (")[0] + ", " in printed
    assert lines[-1] == "OK"


def test_a_simulated_number_outside_of_its_band_is_said_to_be() -> None:
    band = Band("step_time_s", 2.0, 2.5, 3.0, 85, "all models", 0.8, "", -0.25)
    assert band.by_the_model(2.0) == "by the model 2.00 s"
    assert band.by_the_model(1.9) == "by the model 1.90 s (outside that range: this group's bias is -25 %)"
    few = Band.of(
        "step_time_s",
        {"low": 2, "centre": 2, "high": 3, "runs": 1200, "group": "all models", "held_out_share": 0.8}
        | {"least_ranks": 16, "most_ranks": 2048, "too_few": "on blackwell"},
    )
    assert few.evidence(64) == "1,200 measured of all models, too few on blackwell"
    assert few.evidence(8) == "1,200 measured of all models, too few on blackwell, from 16 GPUs"
    assert few.evidence(4096) == "1,200 measured of all models, too few on blackwell, up to 2,048 GPUs"


def test_a_run_without_a_band_shows_what_was_simulated() -> None:
    result = shardsim.run(ROOT / "scenarios/verify-llama-tp2.json")
    assert result.bands == {}
    assert " ".join(result.lines()[1].split()) in page(str(ROOT / "scenarios/verify-llama-tp2.json"))
    assert result.figure("step_time_s").low is None


def test_the_headline_is_the_centre_of_the_band(quickstart: shardsim.Result) -> None:
    figure, band = quickstart.figure("step_time_s"), quickstart.bands["step_time_s"]
    assert (figure.value, figure.low, figure.high) == (band.centre, band.low, band.high)
    assert figure.by_the_model == quickstart.step_time_s == quickstart.raw["metrics"]["step_time_s"]
    assert figure.value != figure.by_the_model


def test_days_and_dollars_have_the_range_of_the_step() -> None:
    result = shardsim.run(QUICKSTART, training={"tokens_total": 1e12}, cost={"usd_per_gpu_hour": 2})
    step, days = result.figure("step_time_s"), result.figure("cost.days")
    assert days.low is not None and step.low is not None
    assert days.low / days.by_the_model == pytest.approx(step.low / step.by_the_model, rel=1e-12)
    line = next(line for line in result.lines() if "training" in line)
    words = line.split("training ")[1].split("), ")[0] + "), "
    assert words.startswith("about ") and " days (" in words
    assert words in page(
        str(QUICKSTART), "--set", "training.tokens_total=1e12", "--set", "cost.usd_per_gpu_hour=2"
    )
    assert f"${units.number(result.figure('cost.usd').value)}" in line and "GPU hours" in line


def test_a_run_without_a_band_says_why() -> None:
    result = shardsim.run(QUICKSTART, system={"kernel_model": "roofline"})
    reason = result.raw["no_error_band"]
    assert f"error band none: {reason}" in " ".join(repr(result).split())
    assert reason in page(str(QUICKSTART), "--set", "system.kernel_model=roofline")


def test_a_number_that_is_not_finite_is_left_out() -> None:
    result = shardsim.run(QUICKSTART)
    result.raw["metrics"]["memory.device_bytes.max"] = None
    assert "on device" not in repr(result) and "step about" in repr(result)
    result.raw["metrics"].update({"mfu": None, "step_time_s": None})
    assert "on device" not in repr(result) and "step" not in repr(result) and "OK" in repr(result)
    assert "on device" not in result._repr_html_() and "tokens/s/GPU" in result._repr_html_()
    with pytest.raises(TypeError, match="mfu is no number"):
        result.figure("mfu")


def test_every_metric_is_an_attribute(quickstart: shardsim.Result) -> None:
    assert len(quickstart.metrics) > 30
    for name, value in quickstart.raw["metrics"].items():
        found: object = quickstart
        for part in name.split("."):
            assert part in dir(found)
            found = getattr(found, part)
        assert found == value == quickstart.metrics[name]
    assert set(quickstart.raw["metrics"]) - set(SCHEMA["properties"]["metrics"]["properties"]) <= {
        "comm.bytes_sent.padding",
        "comm.bytes_sent.scalars",
    }


def test_a_metric_that_is_not_there_is_named(quickstart: shardsim.Result) -> None:
    with pytest.raises(AttributeError, match="this run has no metric 'mfuu'"):
        _ = quickstart.mfuu
    with pytest.raises(AttributeError, match="this run has no metric 'memory.peak'"):
        _ = quickstart.memory.peak


def test_results_are_copied_and_sent_to_other_processes(quickstart: shardsim.Result) -> None:
    for other in (copy.deepcopy(quickstart), pickle.loads(pickle.dumps(quickstart))):
        assert other.raw == quickstart.raw and other.mfu == quickstart.mfu and repr(other) == repr(quickstart)


def test_a_model_name_is_a_scenario() -> None:
    result = shardsim.run("llama3-8b", gpu="b200", gpus=16, training={"global_batch_size": 32})
    assert result.scenario["system"]["preset"] == "dgx-b200"
    assert result.scenario["system"]["nodes"] == 2
    assert result.scenario["training"]["global_batch_size"] == 32


def test_a_dict_is_a_scenario() -> None:
    result = shardsim.run(
        {"model": "gpt2", "system": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 8}},
        overrides={"training.micro_batch_size": 1},
    )
    assert result.ranks == 8


def test_a_plan_that_does_not_fit_is_a_result() -> None:
    result = shardsim.run(QUICKSTART, system=DOES_NOT_FIT, training={"micro_batch_size": 16})
    assert not result.fits and not result.passed
    assert result.step_time_s > 0
    assert result.lines()[-1].strip() == "DOES NOT FIT"
    with pytest.raises(shardsim.DoesNotFit, match="rank 0 needs .* GiB of device memory") as caught:
        result.require()
    assert caught.value.result is result and caught.value.code == "memory"


def test_an_expectation_that_fails_is_a_result() -> None:
    scenario = {
        "model": "gpt2",
        "system": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 8},
        "expect": [{"metric": "mfu", "op": ">=", "value": 0.99}],
    }
    result = shardsim.run(scenario)
    assert result.fits and not result.passed
    with pytest.raises(shardsim.CheckFailed, match="mfu >= 0.99"):
        result.require()
    assert "FAILED" in repr(result)
    passed = shardsim.run({**scenario, "expect": []})
    assert passed.require() is passed


def test_a_deadlock_is_an_exception_with_its_result() -> None:
    pathlib.Path("swapped.csv").write_text("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    with pytest.raises(shardsim.Deadlock, match="waits in a cycle of 2 ranks") as caught:
        shardsim.run(
            ROOT / "scenarios/verify-llama-pp2-schedule-file.json",
            training={"global_batch_size": 4, "num_microbatches": 2},
            parallelism={"schedule_file": pathlib.Path("swapped.csv").resolve()},
        )
    assert caught.value.code == "SCHEDULE_DEADLOCK"
    assert caught.value.result is not None and caught.value.result.diagnosis is not None
    assert len(caught.value.result.diagnosis["cycle"]) == 2


def test_files_go_to_the_folder_that_is_named() -> None:
    shardsim.run("gpt2", gpus=8, output={"trace": "step.pftrace"}, out="files")
    assert [path.name for path in pathlib.Path("files").iterdir()] == ["step.pftrace"]


def test_a_page_of_html_escapes_names() -> None:
    result = shardsim.run("gpt2", name="<b>&")
    assert "&lt;b&gt;&amp;" in result._repr_html_() and "<b>" not in result._repr_html_()
    assert "by the model" in result._repr_html_() and "on device" in result._repr_html_()


def test_check_lists_all_problems() -> None:
    assert shardsim.check(QUICKSTART) == []
    problems = shardsim.check(QUICKSTART, parallelism={"tpp": 2}, training={"micro_batch_size": 0})
    assert {problem.code for problem in problems} == {"E0107", "E0102"}
    assert problems[0].pointer == "/parallelism/tpp"


def test_presets_name_models_and_systems() -> None:
    known = shardsim.presets()
    assert shardsim.Preset("model", "llama3-8b") in known and shardsim.Preset("system", "dgx-h100") in known
    assert f"version: '{shardsim.version()}'" in (ROOT / "meson.build").read_text()
