#!/usr/bin/env python3
"""Goes through the list of checks for a machine with GPUs (README of the report: hardware_report.py).

usage: hardware_check.py BINARY [OUT]

Every check ends as "ok", "failed" or "skipped", with what was seen. The record is kept as JSON
beside the report.
"""

import datetime
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

import hardware_report

SCENARIOS = pathlib.Path(__file__).resolve().parents[2] / "scenarios"
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "all_to_all")
SIZES = ("1K", "64K", "1M", "16M")
RANKS = (2, 4, 8)
SECONDS_IN_ALL = 470.0
SECONDS_TO_TRAINING = float(os.environ.get("SHARDSIM_SECONDS_TO_TRAINING", "15"))  # Before a rank is killed.
DEADLINE_S = 30  # For an operation without progress.
# Undoes the settings that make volume exact: NCCL may choose any algorithm and protocol.
ANY_ALGORITHM = {"NCCL_ALGO": "^CollNetDirect,CollNetChain", "NCCL_PROTO": "LL,LL128,Simple", "NCCL_PAT_ENABLE": "1"}
SKIPPED = 77
NEEDED = ("CUDA runtime", "NVIDIA driver", "GPUs", "NCCL")  # Rows of `shardsim doctor`.


class Runner:
    def __init__(self, binary, out, clock=time.monotonic):
        self.binary = str(pathlib.Path(binary).resolve())
        self.out = pathlib.Path(out)
        self.clock = clock
        self.end = clock() + SECONDS_IN_ALL
        self.checks = []
        self.tables = []
        self.logs = self.out / "nccl-logs"

    def left(self):
        return self.end - self.clock()

    def environment(self, more=None):
        self.logs.mkdir(parents=True, exist_ok=True)
        return {**os.environ, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{self.logs}/%h.%p.log", **(more or {})}

    def command(self, *words, more=None, seconds=120.0):
        """Exit code, output, errors; "skipped" if there is no time left, 124 if it took too long."""
        seconds = min(seconds, self.left())
        if seconds < 5:
            return "skipped", "", "the time for the whole list is up"
        process = subprocess.Popen([self.binary, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.out, env=self.environment(more), start_new_session=True)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                out, err = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
            return 124, out, f"not done after {seconds:.0f} s\n{err}"
        return process.returncode, out, err

    def note(self, line, name, status, seen, seconds=None):
        self.checks.append({"line": line, "name": name, "status": status, "seen": seen, "seconds": seconds})
        print(f"{status:8} {line} {name}: {seen}", flush=True)

    def timed(self, line, name, *words, judge, **options):
        begin = self.clock()
        code, out, err = self.command(*words, **options)
        seconds = round(self.clock() - begin, 1)
        if code == "skipped":
            self.note(line, name, "skipped", err)
            return None
        try:
            good, seen = judge(code, out, err)
        except (ValueError, KeyError, TypeError) as error:
            good, seen = False, f"exit {code}, no readable answer ({error}): {last_words(err)}"
        self.note(line, name, "ok" if good else "failed", seen, seconds)
        return out if good else None


def last_words(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return " / ".join(lines[-2:]) if lines else "nothing said"


def judge_collective(exact):
    def judge(code, out, err):
        if code not in (0, 1):
            return False, f"exit {code}: {last_words(err)}"
        run = json.loads(out)
        own, wire = run["sent_bytes"], run["wire_bytes"]
        bytes_seen = f"{own} bytes by own count, "
        bytes_seen += "no count of the wire" if wire is None else f"{wire} on the wire"
        same = all(row["sent_bytes"] == row["simulated_sent_bytes"] for row in run["rows"])
        wire_good = wire is None or not exact or wire == own
        wrong = run["wrong_elements"]
        seen = f"{wrong} wrong elements, {bytes_seen}" + ("" if same else ", own count differs from the simulation's")
        return code == 0 and wrong == 0 and same and wire_good, seen
    return judge


def judge_scenario(code, out, err):
    if not out.strip():
        return False, f"exit {code}: {last_words(err)}"
    result = json.loads(out)
    checks = result.get("checks", [])
    bad = [check["name"] for check in checks if not check["passed"]]
    seen = f"{len(checks) - len(bad)} of {len(checks)} checks passed" + (f"; failed: {', '.join(bad)}" if bad else "")
    if result.get("diagnosis"):
        seen += f"; {result['diagnosis'].get('code')}"
    return code == 0, f"exit {code}, {seen}"


def check_collectives(runner, line, exact):
    for ranks in RANKS:
        for operation in OPERATIONS:
            # The sizes are a factor of 16 or 64 apart: 1K and 64K, then 1M and 16M.
            for low, high, factor in ((SIZES[0], SIZES[1], "64"), (SIZES[2], SIZES[3], "16")):
                runner.timed(line, f"{operation}, {ranks} ranks, {low} and {high}", "collective", operation, "-b", low,
                             "-e", high, "-f", factor, "-n", "1", "-w", "0", "-q", "--json", "--backend=nccl", "--ranks",
                             str(ranks), f"--timeout={DEADLINE_S}", judge=judge_collective(exact),
                             more=None if exact else ANY_ALGORITHM, seconds=60)


def check_splits(runner):
    """Two axes whose calls interleave in a training step, 2 x 4 and 4 x 2."""
    for name, shape in (("verify-gpt-hsdp", "2 x 4 (replicas x shards)"), ("verify-gpt-tp2-dp4", "4 x 2 (dp x tp)"),
                        ("verify-llama-fsdp4-tp2", "4 x 2 (fsdp x tp), weights gathered during layers")):
        runner.timed("5", f"{shape}: {name}", str(SCENARIOS / f"{name}.json"), "--backend=nccl", "--json", "-q",
                     f"--timeout={DEADLINE_S}", judge=judge_scenario, seconds=90)


def ranks_of(parent):
    """Processes below `parent` by the rank that their environment names."""
    ranks = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        rank = [word.partition(b"=")[2] for word in words if word.startswith(b"SHARDSIM_RANK=")]
        if int(status[1]) == parent and rank and status[0] != "Z":
            ranks[int(rank[0])] = int(folder.name)
    return ranks


def check_killed_rank(runner, victim=1):
    name = "one rank killed, the others end and are not left behind"
    if runner.left() < DEADLINE_S + 20:
        runner.note("6", name, "skipped", "the time for the whole list is up")
        return
    process = subprocess.Popen([runner.binary, str(SCENARIOS / "verify-mlp-ddp.json"), "--backend=nccl", "-q",
                                "--set", "execution.steps=1000000", f"--timeout={DEADLINE_S}"], cwd=runner.out,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=runner.environment(),
                               start_new_session=True)
    begin = runner.clock()
    # Far enough in to be under way.
    while len(ranks_of(process.pid)) < 8 or runner.clock() - begin < SECONDS_TO_TRAINING:
        if process.poll() is not None or runner.clock() - begin > 60:
            break
        time.sleep(0.2)
    ranks = ranks_of(process.pid)
    if process.poll() is not None or victim not in ranks:
        process.kill()
        runner.note("6", name, "failed", f"the run did not get as far as its ranks: {last_words(process.communicate()[1])}")
        return
    os.kill(ranks[victim], signal.SIGKILL)
    killed = runner.clock()
    try:
        out, err = process.communicate(timeout=DEADLINE_S + 15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        runner.note("6", name, "failed", f"still running {DEADLINE_S + 15} s after rank {victim} was killed")
        return
    seconds = round(runner.clock() - killed, 1)
    left = [pid for pid in ranks.values() if pathlib.Path(f"/proc/{pid}").exists()]
    named = f"rank {victim}" in out + err
    good = process.returncode == 5 and named and not left
    runner.note("6", name, "ok" if good else "failed",
                f"exit {process.returncode} {seconds} s after the kill, rank {victim} "
                f"{'named' if named else 'not named'}, {len(left)} processes left", seconds)


def check_scenarios(runner):
    """Their own ranks (2, 4 and 8), and three data-parallel ones on fewer."""
    for name in ("verify-mlp-ddp", "verify-gpt-zero2", "verify-gpt-zero3"):
        for ranks in (2, 4):
            runner.timed("scenarios", f"{name} on {ranks} ranks", str(SCENARIOS / f"{name}.json"), "--set", "system.nodes=1",
                         "--set", f"system.gpus_per_node={ranks}", "--set", f"training.num_microbatches={16 // ranks}",
                         "--backend=nccl", "--json", "-q", f"--timeout={DEADLINE_S}", judge=judge_scenario, seconds=60)
    for path in sorted(SCENARIOS.glob("verify-*.json")):
        runner.timed("scenarios", path.stem, str(path), "--backend=nccl", "--json", "-q", f"--timeout={DEADLINE_S}",
                     judge=judge_scenario, seconds=60)


def check_table(runner):
    def judge(code, out, err):
        return code == 0, f"exit {code}" + ("" if code == 0 else f": {last_words(err)}")
    for operation in ("all_reduce", "all_gather"):
        out = runner.timed("table", f"{operation}, 8 B to 16 MiB, 2 ranks", "collective", operation, "-b", "8", "-e", "16M",
                           "-f", "4", "-n", "5", "-w", "1", "-q", "--backend=nccl", "--ranks", "2",
                           f"--timeout={DEADLINE_S}", judge=judge, seconds=60)
        if out:
            runner.tables.append(out)


def machine(runner, rows):
    try:
        driver = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                                capture_output=True, text=True, timeout=30, check=False).stdout.strip().splitlines()
    except OSError:
        driver = []
    code, out, _ = runner.command("--version")
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "libc": " ".join(platform.libc_ver()),
            "gpus": driver, "shardsim": out.strip() if code == 0 else "?", "doctor": rows}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()
    out.mkdir(parents=True, exist_ok=True)
    runner = Runner(sys.argv[1], out)
    code, text, err = runner.command("doctor", "--json", seconds=60)
    if code != 0:
        print(f"failed: the binary does not run here, exit {code}: {last_words(err)}", file=sys.stderr)
        return 1
    rows = json.loads(text)["doctor"]
    missing = [row for row in rows if not row["available"] and row["what"] in NEEDED]
    if missing:
        for row in missing:
            print(f"skipped: {row['what']}: {row['detail']}", file=sys.stderr)
        return SKIPPED
    date = datetime.datetime.now(datetime.timezone.utc)
    record = {"date": date.strftime("%Y-%m-%d %H:%M UTC"), "machine": machine(runner, rows)}
    runner.note("1", "versions", "ok", f"{os.cpu_count()} CPUs; " + "; ".join(row["detail"] for row in rows))
    for row in rows:
        if row["what"] == "loopback counter":
            runner.note("2", "loopback counter", "ok" if row["available"] else "skipped", row["detail"])
    check_killed_rank(runner)
    check_splits(runner)
    check_table(runner)
    check_collectives(runner, "3", exact=True)
    check_scenarios(runner)
    check_collectives(runner, "4", exact=False)
    logs = sorted(runner.logs.glob("*.log"))
    runner.note("7", "NCCL's INFO logs", "ok" if logs else "failed", f"{len(logs)} files in {runner.logs.name}/")
    record.update(checks=runner.checks, tables=runner.tables, seconds=round(SECONDS_IN_ALL - runner.left()))
    stem = out / f"hardware-{date.strftime('%Y-%m-%d')}"
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(hardware_report.render(record), encoding="utf-8")
    print(f"wrote {stem.with_suffix('.md')}")
    return 1 if any(check["status"] == "failed" for check in runner.checks) else 0


if __name__ == "__main__":
    sys.exit(main())
