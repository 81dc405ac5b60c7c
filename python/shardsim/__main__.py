"""The command `shardsim` of the wheel: this process becomes the program."""

import os
import sys

from shardsim import program


def main() -> int:
    found = program.own()  # Neither SHARDSIM nor PATH: they may lead back to this command.
    if found is None:
        error = program.missing()
        print(error, file=sys.stderr)
        return error.exit_code
    os.execve(found, ["shardsim", *sys.argv[1:]], program.environment())


if __name__ == "__main__":
    sys.exit(main())
