"""Arguments of Python become words of the command line, and nothing is lost on the way."""

import json
import pathlib

import numpy
import pytest

import shardsim
from conftest import StandIn
from shardsim import words

RESULT = json.dumps(
    {
        "schema_version": 1,
        "scenario": {"name": "one"},
        "metrics": {"step_time_s": 2.0},
        "checks": [],
        "expectations": [],
        "assumptions": [],
        "warnings": [],
    }
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8, "8"),
        (2.5, "2.5"),
        (True, "true"),
        (None, "null"),
        ("1f1b", "1f1b"),
        ("8", '"8"'),
        ("true", '"true"'),
        ("", '""'),
        ([1, 2], "[1, 2]"),
        (numpy.int64(3), "3"),
        (numpy.float64(0.5), "0.5"),
        (numpy.array([1, 2]), "[1, 2]"),
        (pathlib.PurePosixPath("a/b.csv"), "a/b.csv"),
        ({"value": 1}, '{"value": 1}'),
        ((1, 2), "[1, 2]"),
    ],
)
def test_a_value_is_json_or_a_string_that_is_none(value: object, text: str) -> None:
    assert words.as_value(value) == text


def test_a_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="is no value of a scenario"):
        words.as_value({1, 2})


def test_sections_are_flattened_and_whole_names_win() -> None:
    assert words.overrides(
        {"parallelism.tp": 4}, {"parallelism": {"tp": 8, "pp": 2}, "system": {"device": {"memory_gib": 40}}}
    ) == [
        "--set",
        "parallelism.tp=8",
        "--set",
        "parallelism.pp=2",
        "--set",
        "system.device.memory_gib=40",
        "--set",
        "parallelism.tp=4",
    ]


def test_lists_and_prices_are_joined_by_commas() -> None:
    assert words.options(
        {
            "gpus": [256, 512],
            "usd_per_gpu_hour": {"h100": 2.5, "b200": 5},
            "budget": None,
            "approximate": True,
            "wide": False,
        }
    ) == ["--gpus", "256,512", "--usd-per-gpu-hour", "h100=2.5,b200=5", "--approximate"]


def test_large_numbers_are_written_out() -> None:
    assert words.options({"budget": 6e6, "memory_margin": 0.05, "gpus": [256.0]}) == [
        "--budget",
        "6000000",
        "--memory-margin",
        "0.05",
        "--gpus",
        "256",
    ]


def test_a_dict_goes_to_standard_input(stand_in: StandIn, tmp_path: pathlib.Path) -> None:
    given = stand_in(RESULT)
    assert (
        shardsim.run({"model": "llama3-8b"}, parallelism={"tp": None}, out="files", jobs=2).step_time_s == 2.0
    )
    assert given.read_text().split("\n")[:-1] == [
        "run",
        "-",
        "--json",
        "--set",
        "parallelism.tp=null",
        "--out",
        "files",
        "--jobs",
        "2",
    ]
    assert json.loads((tmp_path / "input").read_text()) == {"schema_version": 1, "model": "llama3-8b"}


def test_a_path_is_read_by_the_program(stand_in: StandIn) -> None:
    given = stand_in(RESULT)
    shardsim.run(pathlib.Path("plan.json"))
    assert given.read_text().split() == ["run", "plan.json", "--json"]
    shardsim.run("plan.json")
    assert given.read_text().split() == ["run", "plan.json", "--json"]


def test_a_file_without_a_suffix_is_no_model(stand_in: StandIn) -> None:
    pathlib.Path("llama3-8b").write_text("{}")
    given = stand_in(RESULT)
    shardsim.run("llama3-8b")
    assert given.read_text().split() == ["run", "llama3-8b", "--json"]


def test_gpus_belong_to_a_name_alone() -> None:
    with pytest.raises(TypeError, match="gpu and gpus go with a model's name"):
        shardsim.run({"model": "llama3-8b"}, gpus=8)


def test_the_question_of_a_planner_is_passed_on(stand_in: StandIn) -> None:
    given = stand_in('{"rows": []}')
    shardsim.plan(
        "llama3-70b",
        gpus="256..2048",
        gpu=["h100", "b200"],
        tokens="10T",
        deadline="90d",
        budget="6M",
        usd_per_gpu_hour={"h100": 2.5, "b200": 5},
        time_limit=30,
        fix={"tp": [4, 8]},
        front_within=1.1,
        training={"precision": "fp8"},
        extra=["--quiet"],
    )
    assert given.read_text().split() == [
        "plan",
        "llama3-70b",
        "--json",
        "--gpus",
        "256..2048",
        "--gpu",
        "h100,b200",
        "--tokens",
        "10T",
        "--deadline",
        "90d",
        "--budget",
        "6M",
        "--usd-per-gpu-hour",
        "h100=2.5,b200=5",
        "--time-limit",
        "30",
        "--front-within",
        "1.1",
        "--fix",
        "tp=4,8",
        "--set",
        "training.precision=fp8",
        "--quiet",
    ]
