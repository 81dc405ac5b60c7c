#!/usr/bin/env python3
"""Executes a notebook in a kernel of this Python, and compares its outputs with those that it has.

Prints the seconds until the first figure, and its moment on the machine's monotonic clock. The exit code is 1 if a
cell fails or prints something else.

usage: notebook.py NOTEBOOK [--update]     (--update writes the outputs into the notebook)
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

CELL_LIMIT_S = 120


@contextlib.contextmanager
def kernel_of_this_python() -> Iterator[None]:
    """Jupyter's packaged kernel names /usr/bin/python3; a virtual environment has another one."""
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder) / "kernels/python3"
        spec.mkdir(parents=True)
        (spec / "kernel.json").write_text(
            json.dumps(
                {
                    "argv": [
                        sys.executable,
                        "-Xfrozen_modules=off",
                        "-m",
                        "ipykernel_launcher",
                        "-f",
                        "{connection_file}",
                    ],
                    "display_name": "Python 3",
                    "language": "python",
                }
            )
        )
        # No file is left in a home, and no connection file is found by others.
        os.environ.update(
            JUPYTER_PATH=folder,
            JUPYTER_RUNTIME_DIR=f"{folder}/runtime",
            IPYTHONDIR=f"{folder}/ipython",
            JUPYTER_CONFIG_DIR=f"{folder}/config",
            PYDEVD_DISABLE_FILE_VALIDATION="1",
        )
        yield


def plain(output: Any) -> dict[str, Any]:
    """An output without what differs from run to run."""
    if output["output_type"] == "stream":
        return {"output_type": "stream", "name": output["name"], "text": trimmed(output["text"])}
    data = {
        kind: trimmed(text) for kind, text in output["data"].items() if kind in ("text/plain", "text/html")
    }
    return {
        "output_type": output["output_type"],
        "data": data,
        "metadata": {},
        **(
            {"execution_count": output["execution_count"]}
            if output["output_type"] == "execute_result"
            else {}
        ),
    }


def trimmed(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.splitlines()).rstrip("\n")


def executed(path: pathlib.Path) -> tuple[Any, float, float]:
    """The notebook with its new outputs, and the moments of its begin and of the first of them."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    begin = time.monotonic()
    first: list[float] = []

    def after_cell(cell: Any, cell_index: int, **_: object) -> None:
        if cell.get("outputs") and not first:
            first.append(time.monotonic())

    with kernel_of_this_python():
        client = nbclient.NotebookClient(
            notebook, timeout=CELL_LIMIT_S, kernel_name="python3", on_cell_executed=after_cell
        )
        client.execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(plain(output)) for output in cell.outputs]
    return notebook, begin, first[0]


def outputs_of(notebook: Any) -> list[list[dict[str, Any]]]:
    return [[plain(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def main() -> int:
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    import nbclient
    import nbformat

    path = pathlib.Path(sys.argv[1])
    try:
        notebook, begin, first = executed(path)
    except nbclient.exceptions.CellExecutionError as error:
        print(f"a cell failed: {error}", file=sys.stderr)
        return 1
    print(f"first figure after {first - begin:.1f} s, at {first:.3f}")
    if "--update" in sys.argv:
        notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
        nbformat.write(notebook, path)
        return 0
    status = 0
    for number, (was, now) in enumerate(
        zip(outputs_of(nbformat.read(path, as_version=4)), outputs_of(notebook), strict=True), 1
    ):
        if was != now:
            status = 1
            print(
                f"code cell {number} printed\n{json.dumps(now, indent=1)}\ninstead of\n{json.dumps(was, indent=1)}",
                file=sys.stderr,
            )
    return status


if __name__ == "__main__":
    sys.exit(main())
