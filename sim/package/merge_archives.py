#!/usr/bin/env python3
"""Makes one static library of several. (Meson's link_whole would, but in 1.0 it counts the objects
of unity builds wrongly.)

usage: merge_archives.py AR LIBRARY PART...
"""

import pathlib
import subprocess
import sys


def members_of(ar, part):
    """The objects of a thin archive, which is what Meson makes of libraries that it does not install."""
    if not part.read_bytes().startswith(b"!<thin>"):
        sys.exit(f"merge_archives: {part} is no thin archive; its objects have no files of their own")
    listed = subprocess.run([ar, "t", part], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return listed.split("\n")[:-1]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    ar, library, *parts = sys.argv[1:]
    members = [member for part in parts for member in members_of(ar, pathlib.Path(part))]
    # `ar` adds to a library that is there.
    pathlib.Path(library).unlink(missing_ok=True)
    subprocess.run([ar, "csrD", library, *members], check=True)


if __name__ == "__main__":
    main()
