"""Runs shardsim on one of the folder's scenarios and reads what --dump-state wrote."""

import json
import pathlib
import subprocess
import tempfile

import safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]


class DumpedRun:
    """files[k] is (tensors, metadata) after k steps, for one replica if several train apart."""

    def __init__(self, shardsim, scenario, overrides=(), replica=""):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "state"
            command = [shardsim, "run", str(scenario), "--json", "--dump-state", str(target)]
            for override in overrides:
                command += ["--set", override]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n"
                                     f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            self.names = sorted(path.name for path in target.iterdir())
            self.result = json.loads(done.stdout)
            self.files = [safetensors.read(target / name) for name in self.names
                          if name.endswith(replica + ".safetensors")]
        self.scenario = self.result["scenario"]

    @property
    def steps(self):
        return len(self.files) - 1

    def tensors(self, step):
        return self.files[step][0]

    def of_kind(self, step, kind):
        """{name of the model: tensor} of "parameter", "gradient", "optimizer.exp_avg", ..."""
        start = kind + "."
        return {name[len(start):]: tensor for name, tensor in self.tensors(step).items()
                if name.startswith(start)}

    def scalar(self, step, name):
        return self.tensors(step)[name].item()
