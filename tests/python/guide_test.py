"""The guide's page shows what Python prints: each block is run, in their order, in an empty folder.

UPDATE_GOLDEN=1 writes what was printed into the page.
"""

import contextlib
import doctest
import io
import os
import pathlib
import re

import pytest

from conftest import ROOT

PAGE = ROOT / "docs/guide/python.md"
USERS = ROOT / "docs/what-users-met.md"
BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def printed_by(example: doctest.Example, names: dict[str, object]) -> str:
    """The text that a statement prints at Python's prompt."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example.source, PAGE.name, "single"), names)
    return "".join(line.rstrip() + "\n" for line in output.getvalue().splitlines())


def shown(block: str, names: dict[str, object]) -> str:
    """The block with what its statements print."""
    text = ""
    for example in doctest.DocTestParser().get_examples(block):
        first, *others = example.source.splitlines()
        text += "".join([f">>> {first}\n", *(f"... {line}\n" for line in others), printed_by(example, names)])
    return text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("path", "blocks"), [(PAGE, 9), (USERS, 1)])
def test_the_page_shows_what_python_prints(path: pathlib.Path, blocks: int) -> None:
    page = path.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    pairs = [(block, shown(block, names)) for block in BLOCK.findall(page)]
    assert len(pairs) >= blocks
    if os.environ.get("UPDATE_GOLDEN") == "1":
        for old, new in pairs:
            page = page.replace(f"```pycon\n{old}```", f"```pycon\n{new}```", 1)
        path.write_text(page, encoding="utf-8")
        return
    for old, new in pairs:
        assert new == old, "to accept it: UPDATE_GOLDEN=1"


def test_the_page_installs_a_file_and_never_a_name() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]:
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not re.search(
                r"pip3? install (?:-\S+ )*shardsim(?!-\*?\S*\.whl)", line
            ), f"{page.name}: {line}"


def test_every_public_name_is_on_the_page() -> None:
    import shardsim

    page = PAGE.read_text(encoding="utf-8")
    hidden = {
        "Band",
        "Diff",
        "Figure",
        "Metrics",
        "Plan",
        "Preset",
        "Problem",
        "Result",
        "Scenario",
        "Sweep",
        "Validation",
        "presets",
        "version",
    }
    for name in set(shardsim.__all__) - hidden:
        assert f"`{name}`" in page or f"shardsim.{name}" in page, name
    assert hidden < set(shardsim.__all__)
