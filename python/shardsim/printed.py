"""What the program printed: the base of the results of all verbs that print one JSON object."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from shardsim.errors import error_of, is_result
from shardsim.program import Ended

_Kind = TypeVar("_Kind", bound="Printed")


class Printed:
    """The JSON of one call of the program, with how it ended."""

    def __init__(self, text: str, exit_code: int = 0, log: str = "") -> None:
        self.json = text  # as the program printed it
        self.raw: dict[str, Any] = json.loads(text)
        self.exit_code = exit_code
        self.log = log  # what the program said besides

    @classmethod
    def of(cls: type[_Kind], ended: Ended) -> _Kind:
        """The result of a program that has ended. Raises the program's error where it printed none."""
        if not is_result(ended.output):
            raise error_of(ended.exit_code, ended.output, ended.log)
        return cls(ended.output, ended.exit_code, ended.log)
