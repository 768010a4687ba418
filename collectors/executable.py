"""Paths of the Neuron tools."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from trntop.core.errors import TrntopError
from trntop.core.text import clean

NEURON_TOOLS = Path("/opt/aws/neuron/bin")
"""Directory of aws-neuronx-tools; only the login profile of AWS images has it on PATH."""
REMEDY = f"install aws-neuronx-tools and put {NEURON_TOOLS} on PATH"


class NotRunnableError(TrntopError):
    """A program is not installed, or not executable by this user."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(f"{found}; {remedy}")
        self.found = found
        self.remedy = remedy


def locate(command: str | Sequence[str], folder: Path = NEURON_TOOLS) -> list[str]:
    """`command` (a name, a path, or a whole argument list) with its program's path.

    A name is searched on PATH, then in `folder`.

    Raises:
        NotRunnableError: it is missing; the text names where it was searched.
    """
    program, *arguments = [command] if isinstance(command, str) else command
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(folder)))
    if found := shutil.which(program, path=path):
        return [found, *arguments]
    name = clean(program)
    if os.sep in program:
        candidates, places = [Path(program)], ""
    else:
        candidates = [Path(place, program) for place in path.split(os.pathsep)]
        places = f": neither on PATH nor in {folder}"
    for candidate in candidates:
        if candidate.is_file():
            raise NotRunnableError(
                f"{clean(str(candidate))} is not executable by this user", REMEDY
            )
    raise NotRunnableError(f"{name} is not installed{places}", REMEDY)
