"""Sweeps: rows with their axes, kept folders, and the best of them."""

import pathlib

import pytest

import shardsim
from shardsim import units

AXES = {"training.micro_batch_size": [1, 2], "parallelism.zero_stage": [1, 3]}


@pytest.fixture(scope="module")
def four() -> shardsim.Sweep:
    return shardsim.sweep("llama3-8b", AXES, gpu="h200", gpus=8, training={"global_batch_size": 16})


def test_a_row_for_each_point(four: shardsim.Sweep) -> None:
    assert [(row["training.micro_batch_size"], row["parallelism.zero_stage"]) for row in four.rows] == [
        (1, 1),
        (1, 3),
        (2, 1),
        (2, 3),
    ]
    assert four.axes == list(AXES)
    assert {row["status"] for row in four.rows} == {"ok", "out_of_memory"}
    assert 1 < len(four.ok) < 4


def test_a_point_is_the_run_of_its_scenario(four: shardsim.Sweep) -> None:
    row = four.rows[1]
    alone = shardsim.run(
        "llama3-8b",
        gpu="h200",
        gpus=8,
        training={"global_batch_size": 16, "micro_batch_size": 1},
        parallelism={"zero_stage": 3},
    )
    assert row["step_time_s"] == alone.step_time_s
    assert row["step_time_s.band_centre"] == alone.figure("step_time_s").value


def test_a_frame_has_a_row_for_each_point(four: shardsim.Sweep) -> None:
    table = four.df()
    assert list(table.index) == [0, 1, 2, 3] and table.index.name == "point"
    assert list(table["step_time_s"]) == [row["step_time_s"] for row in four.rows]
    assert "cost.usd" not in table and "mfu" in table


def test_the_best_row_fits(four: shardsim.Sweep) -> None:
    fastest = four.best()
    assert fastest["step_time_s"] == min(row["step_time_s"] for row in four.ok)
    assert four.best("mfu")["mfu"] == max(row["mfu"] for row in four.ok)
    assert four.best("mfu", largest=False)["mfu"] == min(row["mfu"] for row in four.ok)
    with pytest.raises(KeyError, match="cost.usd"):
        four.best("cost.usd")
    none = shardsim.sweep("llama3-405b", {"training.micro_batch_size": [1]}, gpu="h100", gpus=8)
    with pytest.raises(shardsim.DoesNotFit, match="none of 1 points fits"):
        none.best()


def test_a_page_has_the_axes_and_the_pair_of_numbers(four: shardsim.Sweep) -> None:
    text = repr(four)
    assert text.startswith(f"4 points, {len(four.ok)} ok")
    assert "training.micro_batch_size" in text and "out_of_memory" in text
    row = four.ok[0]
    assert (
        f"about {units.seconds(row['step_time_s.band_centre'])} ({units.seconds(row['step_time_s'])})" in text
    )
    assert "step (by the model)" in text
    assert "out_of_memory" in four._repr_html_()


def test_a_folder_keeps_the_points() -> None:
    first = shardsim.sweep("gpt2", {"training.micro_batch_size": [1]}, gpus=8, out="kept", progress=True)
    assert [path.suffix for path in pathlib.Path("kept").iterdir()] == [".ndjson"]
    again = shardsim.sweep("gpt2", {"training.micro_batch_size": [1]}, gpus=8, out="kept")
    assert again.rows == first.rows


def test_names_are_values_of_axes() -> None:
    sweep = shardsim.sweep("gpt2", {"system.preset": ["dgx-h100", "dgx-b200"]}, gpus=8)
    assert list(sweep.df()["system.preset"]) == ["dgx-h100", "dgx-b200"]


def test_a_wrong_axis_is_refused() -> None:
    with pytest.raises(shardsim.UsageError, match='no field "parallelism.tpp"'):
        shardsim.sweep("gpt2", {"parallelism.tpp": [1]}, gpus=8)
