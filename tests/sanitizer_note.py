"""AddressSanitizer prints a note on each program that switches stacks: once a process, with its number, on
stderr (docs/decisions/0002-sanitizer-build.md). A test that compares stderr takes the note out first.
"""

import re

NOTE = r"(?m)^==\d+==WARNING: ASan doesn't fully support makecontext.*\n"


def without_note(said):
    """`said`, text or bytes, without the note."""
    if isinstance(said, bytes):
        return re.sub(NOTE.encode(), b"", said)
    return re.sub(NOTE, "", said)
