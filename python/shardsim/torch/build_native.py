"""Builds the virtual device for the PyTorch that is installed, once, on first use.

A CPU build of PyTorch is needed: a CUDA build has kernels of its own where the virtual device puts
its own. The result lies in $XDG_CACHE_HOME/shardsim (default ~/.cache/shardsim), by the version of
PyTorch and the sources.
"""

import functools
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "native"
SOURCES = sorted(path.stem for path in FOLDER.glob("*.cpp"))


class CannotBuild(Exception):
    """The virtual device cannot be built here; the text says why, and what to do."""


def include_folders(torch):
    """The folders of PyTorch's, pybind11's and Python's headers."""
    root = pathlib.Path(torch.__file__).resolve().parent
    found = [root / "include", root / "include/torch/csrc/api/include",
             pathlib.Path("/usr/include/torch/csrc/api/include")]  # Debian's package.
    return [folder for folder in found if folder.is_dir()] + [sysconfig.get_path("include")]


def library_folders(torch):
    root = pathlib.Path(torch.__file__).resolve().parent
    return [folder for folder in (root / "lib",) if folder.is_dir()]


def compile_commands(torch, out):
    """One command for each source, and the one that links them."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise CannotBuild("no C++ compiler is installed: install g++ (apt install g++), or set CXX")
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    flags = ["-std=c++20", "-O1", "-fPIC", "-w", "-DTORCH_EXTENSION_NAME=native", "-DUSE_DISTRIBUTED",
             "-DUSE_C10D", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    flags += [f"-I{folder}" for folder in include_folders(torch)]
    objects = [out.with_name(f"{out.stem}-{name}.o") for name in SOURCES]
    launcher = [shutil.which("ccache")] if shutil.which("ccache") else []
    compiles = [[*launcher, compiler, *flags, "-c", str(FOLDER / f"{name}.cpp"), "-o", str(made)]
                for name, made in zip(SOURCES, objects)]
    folders = library_folders(torch)
    paths = [f"-L{folder}" for folder in folders] + [f"-Wl,-rpath,{folder}" for folder in folders]
    link = [compiler, "-shared", *map(str, objects), "-o", str(out), *paths,
            "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10"]
    return compiles, link


def fingerprint(torch):
    """Of all that the shared object depends on."""
    text = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for path in sorted(FOLDER.glob("*.?pp")):
        text.update(path.read_bytes())
    return text.hexdigest()[:16]


def run_all(commands):
    """Runs them beside each other. Raises CannotBuild with the first that fails."""
    jobs = len(os.sched_getaffinity(0))
    waiting = list(commands)
    running = []
    while waiting or running:
        while waiting and len(running) < jobs:
            command = waiting.pop(0)
            running.append((command, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)))
        command, process = running.pop(0)
        _, errors = process.communicate()
        if process.returncode != 0:
            raise CannotBuild("the virtual device does not compile: " + " ".join(command) + "\n"
                              + errors[-4000:])


def built(torch):
    """The path of the shared object, which is built if it is not there."""
    if torch.version.cuda is not None or torch.version.hip is not None:
        raise CannotBuild(
            f"PyTorch {torch.__version__} is built for GPUs: its kernels stand where the virtual "
            "device has its own. Install a CPU build beside it: pip install torch "
            "--index-url https://download.pytorch.org/whl/cpu, or Debian's python3-torch")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "shardsim" / "torch" / fingerprint(torch)
    out = folder / ("native" + sysconfig.get_config_var("EXT_SUFFIX"))
    if out.is_file():
        return out
    folder.mkdir(parents=True, exist_ok=True)
    print(f"shardsim: building the virtual device for PyTorch {torch.__version__} (a minute, once)",
          file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder) as work:  # Two may build at the same time.
        made = pathlib.Path(work) / "native.so"
        compiles, link = compile_commands(torch, made)
        run_all(compiles)
        run_all([link])
        made.replace(out)
    return out


@functools.cache
def load(torch):
    """The native module; it can be loaded once in a process."""
    spec = importlib.util.spec_from_file_location("native", built(torch))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    import torch

    try:
        built(torch)
    except CannotBuild as error:
        print(f"shardsim: {error}", file=sys.stderr)
        return 70
    return 0


if __name__ == "__main__":
    sys.exit(main())
