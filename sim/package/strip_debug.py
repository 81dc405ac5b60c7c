#!/usr/bin/env python3
"""Takes debug information out of what has just been installed: it names the folders of the machine
that built it, and is most of its size. Symbols stay.

usage: strip_debug.py STRIP PATH_BELOW_THE_PREFIX...     (run by `meson install`)
"""

import os
import pathlib
import subprocess
import sys

if __name__ == "__main__":
    prefix = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"])
    # What a tag leaves out is not there.
    installed = [prefix / name for name in sys.argv[2:] if (prefix / name).is_file()]
    if installed and "MESON_INSTALL_DRY_RUN" not in os.environ:
        subprocess.run([sys.argv[1], "--strip-debug", *installed], check=True)
