"""Predictions beside published measurements: the program's figures, as rows and as a page."""

import json
import subprocess

import pytest

import shardsim
from conftest import StandIn
from shardsim import program

TABLE = "bloom_176b"


@pytest.fixture(scope="module")
def validation() -> shardsim.Validation:
    return shardsim.validate(TABLE, sample=True)


def test_the_figures_are_those_of_the_command(validation: shardsim.Validation) -> None:
    words = [str(program.find()), "validate", TABLE, "--sample", "--json"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert validation.raw == json.loads(printed)
    assert validation.overall == json.loads(printed)["overall"]


def test_a_row_has_what_was_measured_and_its_error(validation: shardsim.Validation) -> None:
    table = validation.df()
    figures = validation.overall
    assert len(table) == sum(each["rows"] for each in figures.values()) > 1
    assert ((table["predicted"] / table["measured"] - 1) - table["error"]).abs().max() < 1e-12
    steps = table[table["quantity"] == "step_time_s"]
    assert steps["error"].abs().mean() == pytest.approx(figures["step_time_s"]["mean_absolute_error"], rel=1e-9)


def test_the_page_has_the_errors(validation: shardsim.Validation) -> None:
    share = f"{100 * validation.overall['step_time_s']['mean_absolute_error']:.1f} %"
    assert share in repr(validation) and share in validation._repr_html_()
    assert "1 tables" not in repr(validation)


def test_arguments_become_words(stand_in: StandIn) -> None:
    words = stand_in('{"tables": [], "overall": {}}')
    shardsim.validate(["a", "b.json"], folder="here", extra=["--ratchet"])
    assert words.read_text().split() == ["validate", "a", "b.json", "--json", "--folder", "here", "--ratchet"]


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(shardsim.UsageError, match="no table"):
        shardsim.validate("bloom_177b")
