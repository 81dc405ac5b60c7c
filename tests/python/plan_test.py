"""Plans: rows of today's shape, of a comparison of precisions, and of a question with many rows."""

import json

import pytest

import shardsim
from conftest import StandIn
from shardsim import units

SMALL = {"cp": 1, "schedule": ["none", "1f1b"]}
QUESTION = {
    "gpus": "8..16",
    "gpu": ["h100", "a100"],
    "tokens": 300e9,
    "budget": 15e3,
    "usd_per_gpu_hour": {"h100": 2.5, "a100": 1.5},
    "failures": {"gpu_mtbf_hours": 50000, "restart_s": 600, "checkpoint_write_s": 30},
    "fix": SMALL,
    "time_limit": 0,
}


@pytest.fixture(scope="module")
def small() -> shardsim.Plan:
    return shardsim.plan("gpt2-xl", gpus=8, gpu="h100", fix=SMALL, time_limit=0)


def test_rows_are_the_ranked_layouts(small: shardsim.Plan) -> None:
    assert small.rows == small.raw["ranked"] and len(small.rows) > 1
    assert small.best is small.rows[0]
    assert small.complete and small.gap == 0
    assert small.warnings == [] and any("global batch" in text for text in small.assumptions)
    steps = [row["metrics"]["step_time_s"] for row in small.rows]
    assert steps == sorted(steps)


def test_a_frame_has_a_row_for_each_layout(small: shardsim.Plan) -> None:
    table = small.df()
    assert list(table.index) == list(range(1, len(small.rows) + 1)) and table.index.name == "rank"
    assert list(table["layout"]) == [row["layout"] for row in small.rows]
    assert list(table["pp"]) == [row["fields"]["pp"] for row in small.rows] and table["pp"].nunique() > 1
    assert (table["step_time_s.low"] < table["step_time_s.centre"]).all()
    assert table.loc[1, "step_time_s"] == small.best["metrics"]["step_time_s"]


def test_a_page_has_the_centre_and_the_model_s_number(small: shardsim.Plan) -> None:
    best, text = small.best, repr(small)
    assert text.startswith("gpt2-xl on 8 GPUs of NVIDIA DGX H100, complete")
    assert best["layout"] in text
    centre = best["error_bands"]["step_time_s"]["centre"]
    assert (
        f"about {centre:.2f} s ({best['metrics']['step_time_s']:.2f} s)" in text
        and "step (by the model)" in text
    )
    assert f"about {centre:.2f} s" in small._repr_html_() and best["layout"] in small._repr_html_()


def test_precisions_are_rows_of_one_frame() -> None:
    plan = shardsim.plan(
        "llama3-8b",
        gpus=8,
        gpu="b200",
        precision=["fp8", "bf16"],
        global_batch_size=64,
        fix={"pp": 1, "cp": 1, "schedule": "none", "micro_batch_size": 1},
        time_limit=0,
    )
    assert set(plan.df()["precision"]) == {"fp8", "bf16"}
    assert plan.complete and plan.best["precision"] == "fp8"


def test_nothing_that_fits_has_no_best() -> None:
    plan = shardsim.plan("llama3-405b", gpus=8, gpu="h100", fix={"tp": 8, "pp": 1, "cp": 1}, time_limit=0)
    assert plan.rows == [] and plan.exit_code == 3 and len(plan.df()) == 0
    least = plan.raw["least_that_did_not_fit"]
    with pytest.raises(
        shardsim.DoesNotFit, match=f"the smallest, {least['layout']}, needs {least['bytes'] / 2**30:.0f} GiB"
    ):
        _ = plan.best
    assert "no layout fits" in repr(plan) and "no layout fits" in plan._repr_html_()


def test_a_scenario_is_a_model_too() -> None:
    scenario = {
        "model": "gpt2-xl",
        "system": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 64},
    }
    plan = shardsim.plan(scenario, gpus=8, gpu="b200", fix=SMALL, time_limit=0)
    assert plan.raw["global_batch_size"] == 64 and plan.raw["system"] == "NVIDIA DGX B200"


def test_a_question_has_a_row_for_each_machine() -> None:
    plan = shardsim.plan("gpt2-xl", deadline="12d", **QUESTION)  # type: ignore[arg-type]
    assert {(row["gpus"], row["gpu"]) for row in plan.rows} == {
        (gpus, gpu) for gpus in (8, 16) for gpu in ("h100", "a100")
    }
    assert plan.exit_code == 0 and plan.complete and plan.best is plan.rows[0]
    table = plan.df()
    assert (
        list(table["fate"]) == ["holds", "holds", "holds", "misses"] and table.loc[4, "lost_to"] == "deadline"
    )
    assert (table["days.low"] < table["days.centre"]).all()
    held = table[table["fate"] == "holds"]
    assert list(held["usd.centre"]) == sorted(held["usd.centre"])
    assert list(table["usd.centre"]) == pytest.approx(
        list(table["gpu_hours.centre"] * table["usd_per_gpu_hour"])
    )
    text = repr(plan)
    assert text.startswith("gpt2-xl, 4 machines, 3 of them in time and within the budget, complete")
    days = {end: units.number(value) for end, value in plan.best["days"].items()}
    assert (
        f"about {days['centre']} ({days['by_the_model']})" in text
        and f"{days['low']} to {days['high']}" in text
    )
    assert "deadline" in plan._repr_html_()


def test_a_question_that_no_machine_answers_has_no_best() -> None:
    plan = shardsim.plan("gpt2-xl", deadline="1d", **QUESTION)  # type: ignore[arg-type]
    assert len(plan.rows) == 4 and plan.exit_code == 1
    with pytest.raises(shardsim.DoesNotFit, match="no machine holds; the first, .*: late: .* days"):
        _ = plan.best


def test_long_plans_are_cut_in_pages_and_nowhere_else(stand_in: StandIn) -> None:
    stand_in(json.dumps({"ranked": [{"layout": f"tp{n}"} for n in range(25)]}))
    plan = shardsim.plan("m", gpus=8, gpu="h100")
    assert len(plan.df()) == 25
    assert repr(plan).endswith("and 5 more rows") and "tp20" not in repr(plan)
