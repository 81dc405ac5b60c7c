"""Builds the script and style of the report from its sources and its lockfile, and compares them
with what is checked in.

usage: run.py WEB_FOLDER WORK_FOLDER

The packages come from npm, pinned with their checksums by package-lock.json, into WORK_FOLDER.
Skipped (77), with the reason, where there is no Node or no way to the packages; a package that does
not match its checksum is a failure.
"""
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
SOURCES = ("package.json", "package-lock.json", ".npmrc", "build.mjs")


def fetch(work):
    """Installs the packages; returns the exit status for this test, or 0."""
    lock = (work / "package-lock.json").read_bytes()
    stamp = work / "installed-lock.json"
    if stamp.exists() and stamp.read_bytes() == lock:
        return 0
    result = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
        cwd=work, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        stamp.write_bytes(lock)
        return 0
    print(result.stdout, result.stderr, sep="\n")
    if "EINTEGRITY" in result.stderr:
        print("FAILED: a package from npm is not the one that was pinned")
        return 1
    print("skipped: npm could not fetch the packages of the report; the reason stands above")
    return SKIPPED


def compare(built, checked_in):
    """The names of files that differ, or are in one folder only."""
    names = sorted({path.name for folder in (built, checked_in) for path in folder.iterdir()})
    return [name for name in names
            if not (built / name).exists() or not (checked_in / name).exists()
            or (built / name).read_bytes() != (checked_in / name).read_bytes()]


def main(web_folder, work_folder):
    web, work = pathlib.Path(web_folder), pathlib.Path(work_folder)
    # Pages are sent to people: a lockfile that names somebody's registry would tell of it.
    if '"resolved"' in (web / "package-lock.json").read_text(encoding="utf-8"):
        print("FAILED: package-lock.json names addresses; .npmrc tells npm to leave them out")
        return 1
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed, so the bundle cannot be built")
            return SKIPPED
    work.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        shutil.copyfile(web / name, work / name)
    for name in ("src", "built"):
        shutil.rmtree(work / name, ignore_errors=True)
    shutil.copytree(web / "src", work / "src")
    status = fetch(work)
    if status != 0:
        return status
    subprocess.run(["node", "build.mjs", "built"], cwd=work, check=True)
    different = compare(work / "built", web / "dist")
    if different:
        print(f"FAILED: of reports/web/dist, {', '.join(different)} are not what the sources give; "
              "in reports/web: npm ci && npm run build")
        return 1
    print("the bundle that is checked in is the one that its sources give")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
