"""Errors are exceptions with code, place and way out, in whatever shape the program prints them."""

import json
import pathlib
from collections.abc import Callable

import pytest

import shardsim
from conftest import StandIn

ITEM = {
    "code": "E0107",
    "severity": "error",
    "file": "plan.json",
    "line": 3,
    "column": 7,
    "pointer": "/model/x",
    "message": "unknown",
    "help": "leave it out",
    "fix": None,
}


def test_a_scenario_s_error_has_its_place() -> None:
    pathlib.Path("plan.json").write_text('{\n  "schema_version": 1,\n  "modell": {}\n}\n')
    with pytest.raises(shardsim.UsageError) as caught:
        shardsim.run("plan.json")
    error = next(problem for problem in caught.value.problems if problem.pointer == "/modell")
    assert (error.code, error.file, error.line, error.column) == ("E0107", "plan.json", 3, 3)
    assert len(caught.value.problems) > 1
    assert "plan.json:3:3 at /modell" in str(caught.value)


def test_an_unknown_option_of_plan_is_refused_by_the_program() -> None:
    with pytest.raises(shardsim.UsageError, match="--tokenz") as caught:
        shardsim.plan("gpt2", gpus=8, gpu="h100", tokenz=3)
    assert caught.value.code == "E0904" and caught.value.help


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(shardsim.UsageError, match="nofile.json"):
        shardsim.run("nofile.json")
    with pytest.raises(shardsim.UsageError, match="nofile.json"):
        shardsim.diff("nofile.json", "other.json")
    with pytest.raises(shardsim.UsageError, match="nofile.json"):
        shardsim.sweep("nofile.json", {"parallelism.tp": [1]})
    assert shardsim.check("nofile.json")[0].file == "nofile.json"


def test_a_model_that_is_unknown_is_told_its_neighbour() -> None:
    with pytest.raises(shardsim.UsageError, match='"llama3-8x"') as caught:
        shardsim.run("llama3-8x")
    assert "llama3-8b" in caught.value.help


@pytest.mark.parametrize("shape", [{"errors": [ITEM]}, [ITEM]])
@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [
        (1, shardsim.CheckFailed),
        (2, shardsim.UsageError),
        (3, shardsim.DoesNotFit),
        (4, shardsim.Deadlock),
        (5, shardsim.BackendError),
        (70, shardsim.InternalError),
        (99, shardsim.InternalError),
    ],
)
def test_an_exit_code_is_a_class(
    stand_in: StandIn, shape: object, exit_code: int, kind: type[shardsim.ShardsimError]
) -> None:
    stand_in(json.dumps(shape), exit_code=exit_code)
    verbs: list[Callable[[], object]] = [
        lambda: shardsim.run("a.json"),
        lambda: shardsim.plan("m", gpus=1, gpu="h100"),
        lambda: shardsim.sweep("a.json"),
        lambda: shardsim.diff("a.json", "b.json"),
    ]
    for verb in verbs:
        with pytest.raises(kind) as caught:
            verb()
        assert type(caught.value) is kind
        assert (caught.value.code, caught.value.message, caught.value.help) == (
            "E0107",
            "unknown",
            "leave it out",
        )
        assert (caught.value.file, caught.value.line, caught.value.column, caught.value.pointer) == (
            "plan.json",
            3,
            7,
            "/model/x",
        )
        assert isinstance(caught.value, shardsim.ShardsimError)


def test_an_error_page_is_read_too(stand_in: StandIn) -> None:
    stand_in(
        log='error[E0904]: "--x" is not an option\n  --> plan.json:2:5   at /a/b\n   = help: write "--y"\n',
        exit_code=2,
    )
    with pytest.raises(shardsim.UsageError) as caught:
        shardsim.run("a.json")
    assert caught.value.problems == [
        shardsim.Problem("E0904", '"--x" is not an option', 'write "--y"', "plan.json", 2, 5, "/a/b")
    ]


def test_a_program_that_dies_is_a_bug(stand_in: StandIn) -> None:
    stand_in(then="kill -SEGV $$")
    with pytest.raises(shardsim.InternalError, match="signal 11"):
        shardsim.run("a.json")
    stand_in("half a {", log="said this", exit_code=0)
    with pytest.raises(shardsim.InternalError, match="exit code 0: said this"):
        shardsim.run("a.json")


def test_messages_are_passed_on_when_asked(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in('{"rows": []}', log="12 simulated\n")
    assert shardsim.plan("m", gpus=1, gpu="h100").log == "12 simulated\n"
    assert capsys.readouterr().err == ""
    shardsim.plan("m", gpus=1, gpu="h100", progress=True)
    assert capsys.readouterr().err == "12 simulated\n"
