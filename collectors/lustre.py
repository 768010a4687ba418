"""Lustre traffic of this machine.

Format: the client's `llite` statistics, one line per operation,
`read_bytes 123 samples [bytes] 4096 4194304 987654321`: count, unit, smallest, largest, sum; newer
clients append the sum of squares. A line appears with the first operation of its kind.
"""

from pathlib import Path

from .sysfs import read, reason

FOLDERS = ("sys/kernel/debug/lustre/llite", "proc/fs/lustre/llite")
"""Since Lustre 2.12, for root only; and before."""
MOUNTS = "sys/fs/lustre/llite"
"""Mounted file systems, for every user."""
MAX_MOUNTS = 64

_SUM = 6
_LINES = {b"read_bytes": "read_bytes", b"write_bytes": "written_bytes"}


def client_bytes(root: Path) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Bytes read and written since each file system was mounted, and errors."""
    volumes: dict[str, dict[str, int]] = {}
    errors: list[str] = []
    files = [file for folder in FOLDERS for file in sorted((root / folder).glob("*/stats"))]
    for file in files[:MAX_MOUNTS]:
        try:
            volumes[file.parent.name] = _sums(read(str(file)))
        except (OSError, ValueError) as error:
            errors.append(f"Lustre {file.parent.name}: {reason(error)}")
            return {}, errors  # a sum without it would be wrong
    if len(files) > MAX_MOUNTS:
        errors.append(f"{len(files)} Lustre mounts; only {MAX_MOUNTS} are read")
    if not files and any((root / MOUNTS).glob("*")):
        errors.append("Lustre is mounted, but only root can read its statistics")
    return volumes, errors


def _sums(statistics: bytes) -> dict[str, int]:
    sums = dict.fromkeys(_LINES.values(), 0)
    for line in statistics.splitlines():
        words = line.split()
        if words and words[0] in _LINES and len(words) > _SUM:
            sums[_LINES[words[0]]] = int(words[_SUM])
    return sums
