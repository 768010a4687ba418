"""`trntop lemons`: nodes with repeated incidents."""

import os
import shutil
import sys
import time
from argparse import Namespace
from collections import Counter

from trntop.core.errors import TrntopError, UsageError
from trntop.core.text import clean
from trntop.exporters import document
from trntop.exporters.grid import Column, fill, lines
from trntop.session.lemons import Lemons, Record, default_path


def lemons(args: Namespace) -> int:
    """Lists the nodes, the worst first; or deletes the history of one."""
    path = default_path(os.environ)
    if path is None:
        raise TrntopError("no home directory for the history of nodes; set XDG_STATE_HOME")
    history = Lemons(path, warn=lambda text: print(f"trntop: {text}", file=sys.stderr))
    if args.forget is not None:
        if not history.forget(args.forget):
            raise UsageError(f"node {clean(args.forget, 40)} has no history in {path}")
        return 0
    records = history.all()
    if args.json:
        found = {"schema": document.SCHEMA, "nodes": [_document(one) for one in records]}
        sys.stdout.buffer.write(document.encode(found) + b"\n")
    elif records:
        width = max(80, shutil.get_terminal_size((100, 24)).columns)
        print("\n".join(line.rstrip() for line in lines(_columns(records), width)))
    else:
        print(f"no incidents recorded for any node ({path})")
    return 0


def _columns(records: list[Record]) -> list[Column]:
    columns = [
        Column("node", left=True),
        Column("incidents"),
        Column("last, UTC", left=True),
        Column("kinds", left=True),
        Column("components", left=True, rank=1),
    ]
    for one in records:
        last = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.last or 0.0))
        row = (one.node, f"{len(one.blames)}", last, _counts(one.kinds), _counts(one.components))
        fill(columns, row)
    return columns


def _counts(counts: Counter[str]) -> str:
    """`efa_degraded 3, straggler`."""
    return ", ".join(
        name if count == 1 else f"{name} {count}" for name, count in counts.most_common()
    )


def _document(record: Record) -> document.Document:
    return {
        "node": record.node,
        "count": len(record.blames),
        "kinds": dict(record.kinds.most_common()),
        "components": dict(record.components.most_common()),
        "first": min(one.since for one in record.blames),
        "last": record.last,
    }
