"""Comparisons: of results, of scenarios, and of a scenario with itself changed."""

import subprocess

import pytest

import shardsim
from conftest import ROOT
from shardsim import program

QUICKSTART = ROOT / "scenarios/quickstart.json"


@pytest.fixture(scope="module")
def diff() -> shardsim.Diff:
    return shardsim.diff(QUICKSTART, system={"preset": "dgx-b200"})


def test_the_page_is_that_of_the_command(diff: shardsim.Diff) -> None:
    words = [str(program.find()), "diff", str(QUICKSTART), "--set", "system.preset=dgx-b200"]
    printed = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert printed.rstrip().replace("\n", " ").endswith(diff.sentence)
    bands = [line for line in printed.splitlines() if "by the model" in line and line[:3] in ("A  ", "B  ")]
    assert len(bands) == 4
    for line in bands:
        assert line in repr(diff)
    assert diff.sentence in repr(diff) and diff.verdict == "distinguishable"


def test_parts_add_up_to_their_total(diff: shardsim.Diff) -> None:
    table = diff.df()
    steps = table.loc["step_time_s"]
    assert steps["a"].iloc[1:].sum() == pytest.approx(steps["a"].iloc[0], rel=1e-12)
    assert steps.loc["step time", "a"] == pytest.approx(diff.metrics["step_time_s"][0], rel=1e-12)
    assert (table["b"] - table["a"] - table["difference"]).abs().max() < 1e-6
    assert diff.fields["system.preset"] == ("dgx-h100", "dgx-b200")


def test_results_are_compared_as_scenarios_are(diff: shardsim.Diff) -> None:
    of_results = shardsim.diff(
        shardsim.run(QUICKSTART), shardsim.run(QUICKSTART, system={"preset": "dgx-b200"})
    )
    assert of_results.metrics == diff.metrics
    assert of_results.sentence.split("mostly")[0] == diff.sentence.split("mostly")[0]


def test_a_limit_that_is_exceeded_fails() -> None:
    scenario = {
        "model": "gpt2",
        "system": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 8},
    }
    assert not shardsim.diff(scenario, system={"preset": "dgx-a100"}, fail_if="step_time_s > 2%").passed
    assert shardsim.diff(scenario, system={"preset": "dgx-a100"}, fail_if=["step_time_s > 9000%"]).passed
    with pytest.raises(shardsim.UsageError):
        shardsim.diff(scenario, system={"preset": "dgx-a100"}, fail_if="nonsense")


def test_nothing_to_compare_with_is_an_error() -> None:
    with pytest.raises(shardsim.UsageError, match="nothing to compare"):
        shardsim.diff(QUICKSTART)


def test_a_page_of_html_has_the_sentence(diff: shardsim.Diff) -> None:
    assert diff.sentence.split(" (")[0] in diff._repr_html_() and "</table>" in diff._repr_html_()
