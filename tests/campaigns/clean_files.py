"""Remembers which sources a linter found clean, so that it reads again only what has changed.

A source's name covers all that its findings depend on: the linter's version and settings, the
compile command, and the content of every included file. Only clean ones are
remembered, in files without content; delete the folder to forget them.
"""

import functools
import hashlib
import os
import pathlib
import shlex
import subprocess


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "shardsim" / "lint"


@functools.lru_cache(maxsize=None)
def content_hash(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def command_of(entry):
    """The compile command of an entry, without arguments that only name the checkout."""
    arguments = shlex.split(entry["command"])
    if os.path.basename(arguments[0]) == "ccache":
        del arguments[0]
    return [argument for argument in arguments if not argument.startswith("-fmacro-prefix-map=")]


def included_by(entry):
    """The files that a compile command of a database reads, the source itself among them; None if
    it cannot be preprocessed."""
    arguments = command_of(entry)
    # Its own output and dependency files are left alone.
    kept, skip = [], False
    for argument in arguments:
        if skip or argument in ("-o", "-MF", "-MQ", "-MT"):
            skip = not skip
        elif argument not in ("-c", "-MD", "-MMD"):
            kept.append(argument)
    done = subprocess.run([*kept, "-M", "-MT", "x"], cwd=entry["directory"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode != 0:
        return None
    names = done.stdout.replace("\\\n", " ").partition(":")[2].split()
    return sorted(os.path.normpath(os.path.join(entry["directory"], name)) for name in names)


class CleanFiles:
    """`settings`: the common input of all files, such as the linter's version, as text."""

    def __init__(self, settings, folder=None):
        self.settings = settings
        self.folder = folder or default_folder()

    def key(self, entry):
        """Names a source of a compilation database as it is now; None if that cannot be known."""
        included = included_by(entry)
        if included is None:
            return None
        whole = hashlib.sha256()
        for part in (self.settings, shlex.join(command_of(entry))):
            whole.update(hashlib.sha256(part.encode()).digest())
        for path in included:
            whole.update(content_hash(path))
        return whole.hexdigest()

    def has(self, key):
        return key is not None and (self.folder / key).exists()

    def add(self, key):
        if key is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / key).touch()
