"""An agent of a recording that goes on until later than now: it has seen what is past, and plays
the rest as it comes. Run as `present_agent.py FILE OPTION…`, the options of `trntop export`.
"""

import sys
from typing import Any

from trntop.cli import main, opening
from trntop.session.runner import Session

_session = opening.session


def caught_up(*sources: Any, **options: Any) -> Session:
    session = _session(*sources, **options)
    assert session.playback is not None
    session.playback.catch_up = True
    return session


if __name__ == "__main__":
    opening.session = caught_up
    sys.exit(main(["export", *sys.argv[1:]]))
