# ruff: noqa: E501 (rows of a table)
"""Writes `docs/reliability.md`: what goes wrong, what trntop does, and the tests that show it.

A test belongs to a fault by its name, `test_fault_07_…`; every fault has at least one.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
NAME = re.compile(r"test_fault_(\d\d)_(\w+)")


class Fault(NamedTuple):
    """A row of the page."""

    fault: str
    behavior: str


SECTIONS: dict[str, tuple[Fault, ...]] = {
    "Source processes and files": (
        Fault("neuron-monitor is not installed or not executable", "One line states what to install; other sources go on; exit code 0 of the dashboard"),
        Fault("It exits, fails or is killed", "Restart with growing pauses; its values turn stale; restarts are counted"),
        Fault("It hangs", "After 15 s or three periods its process group is ended and it is restarted"),
        Fault("It ignores SIGTERM", "SIGKILL to the process group"),
        Fault("It writes to standard error without end", "The pipe is drained; the last line is kept"),
        Fault("trntop is killed", "The child ends at its next write; nothing is orphaned"),
        Fault("Reports come in bursts", "The newest counts, the others are dropped and counted"),
        Fault("Lines are cut, joined, blank, CRLF or begin with a byte order mark", "They are reassembled, or skipped and counted"),
        Fault("A line of megabytes, or without an end", "Read up to 8 MiB, then dropped up to the next newline; memory stays flat"),
        Fault("Damaged JSON: wrong types, 100,000 levels, duplicate keys, huge numbers", "Counted by kind; the last good report stays until it is stale"),
        Fault("Invalid UTF-8, lone surrogates, NUL", "Replaced in text only; numbers survive; reported"),
        Fault("Unknown or missing fields, groups with an error, other versions", "The known parts are shown, the error is the reason for what lacks"),
        Fault("Two runtimes report one core; cores beyond the hardware; another core size", "Nothing counts twice; the topology is rebuilt; reported once"),
        Fault("A device disappears and returns", "It is lost, not 0; the others go on; it starts over"),
        Fault("A counter is reset, wraps or jumps", "No rate for that interval, and never a spike"),
        Fault("Idle cores are not in the report; the report is old", "Idle is 0, old is absent"),
        Fault("Sentinels such as 2^63 or 1.4e16", "Absent"),
        Fault("A read of sysfs blocks", "One thread per source waits; the source is down with that reason; others go on"),
        Fault("No permission, or a container without the host's files", "The missing files are named once; the rest is read"),
        Fault("A fork storm, or 10,000 processes", "The scan has a budget of time; its result is partial and the count absent"),
    ),
    "Time": (
        Fault("The wall clock is set", "Intervals are those of the steady clock; no negative age, no incident"),
        Fault("Ten minutes of suspension", "One gap; no burst of ticks"),
        Fault("A node's clock is off by minutes", "Ages follow the local time of receipt; the skew is shown"),
        Fault("A tick takes too long", "Ticks are skipped and the lag is shown"),
    ),
    "Network": (
        Fault("Refused, unresolvable or without a valid certificate", "The node is down with the reason; TLS is never turned off"),
        Fault("An agent never answers, trickles or never ends", "A deadline for the whole response; the connection is closed"),
        Fault("Many nodes hang", "The healthy ones are read in each tick all the same"),
        Fault("A bomb: compressed, endless, or of countless empty elements", "Limits of bytes on the wire and decoded, and of the work they cause"),
        Fault("A redirect, or a metadata address in a list", "Not followed, not connected"),
        Fault("Hostile entries in a list of nodes", "Refused with the line; passwords are never shown"),
        Fault("An agent or a local user claims to be another", "A node's identity is that of the list; a job belongs to the user who reports it"),
        Fault("No file descriptors are left", "It goes on with what it has and names the limit"),
        Fault("NaN, infinities and impossible numbers", "Absent before any sum; means equal those computed afresh"),
        Fault("A Prometheus backend fails, in any of its ways; a damaged file of profiles", "Every output states the reason; exit code 1 without data; the damaged file is ignored"),
        Fault("The newest sample of a backend is old", "Shown as old; incidents say so"),
    ),
    "The exporter": (
        Fault("Pages that a scraper refuses", "Both formats are read back by two parsers and by promtool, for every scenario"),
        Fault("Hostile label values", "Escaped, cleaned and cut"),
        Fault("Slow, half-open, oversized and ambiguous requests", "Deadlines and limits; scrapes among a thousand such connections are answered"),
        Fault("Odd methods, paths, queries and Accept headers", "405, 404, and the text format as a last resort"),
        Fault("Wrong passwords, hashes as passwords, a damaged or empty web configuration", "Refused at equal cost; the previous configuration stays; an empty file refuses to start"),
        Fault("The port is in use", "A message and exit code 2; loopback by default"),
        Fault("A scrape while a source is down", "200 with the state of the source, 503 from the readiness endpoint"),
        Fault("Jobs and processes come and go", "No series is left behind; a limit on series is exported"),
        Fault("Scrapes for weeks", "They allocate nothing that stays"),
        Fault("A full disk, a missing folder or a kill while the textfile is written", "The old file stays whole; temporary files have no name or are removed"),
    ),
    "The terminal": (
        Fault("Markup and escape sequences in names", "Literal text; no control byte reaches the terminal"),
        Fault("Any size, a storm of sizes, no terminal", "No crash; text where nothing can be drawn"),
        Fault("The terminal or the connection goes away; SIGHUP", "The dashboard ends within seconds; an agent reads its web configuration again"),
        Fault("A defect in a panel, or a fatal one", "One line; the other panels go on; the terminal is restored"),
        Fault("A slow line", "Pictures are dropped, readings are not"),
    ),
    "Recordings": (
        Fault("The disk is full or fails", "Recording stops with a message; the file is readable; monitoring goes on; the journal of incidents is written again once it can be"),
        Fault("A recorder is killed; a byte changes", "Whole lines are read; a changed line is damaged, counted and never another number"),
        Fault("Empty, special, huge, foreign or malicious files", "Refused with a reason; limits of lines, nodes, bytes and work"),
        Fault("An output that exists, or is a link", "Never overwritten unasked, never followed; mode 0600"),
        Fault("Hostile binary messages", "Limits before allocation; one message is lost; nothing is ever unpickled"),
    ),
    "Rules and settings": (
        Fault("A value around its limit", "At most one change per hold"),
        Fault("Everything degrades at once", "One incident for the job"),
        Fault("Data is missing", "Neither opens nor closes an incident; each alert is tested with stale, absent and reset input"),
        Fault("Screen, exporter and Prometheus disagree", "All derive from one rulebook, compared on the same runs"),
        Fault("Bombs and mistakes in settings", "Line and key are named; expressions for logs take linear time"),
    ),
}  # fmt: skip


MEASURED = """
## Measured

On two cores shared with other work.

**Killed**: `python -m tools.crash --kills 200 --seed 7`. Each program under load, ended by `kill -9` at
random moments. The recorder loses less than one flush (64 readings or 2 s), `trntop record` what came in
the last 2 s; journals and step telemetry lose nothing.

| program | kills | handed over | lost | most at once | faults |
|---|---|---|---|---|---|
| recorder | 60 | 4,909,442 readings | 2,080 | 63 | 0 |
| `trntop record` | 30 | 421 readings | 130 | 9 | 0 |
| agent with its journal | 30 | 30 incidents | 0 | 0 | 0 |
| aggregator with its journal | 20 | 20 incidents | 0 | 0 | 0 |
| dashboard in a terminal | 30 | | | | 0 |
| step telemetry | 30 | 283,403 records | 0 | 0 | 0 |

**Soaked**: `python -m tools.soak --minutes 42`. Two agents on a made-up neuron-monitor, a Prometheus that
scrapes them each second, a dashboard of the agents and one of the Prometheus in tmux; each minute one
agent is killed and started again and a new job begins. Medians of the first and the last third of 26
minutes, after 16 in which the history fills. Descriptors, threads, child processes and temporary files
never changed.

| process | MiB, first third | MiB, last third | descriptors | threads |
|---|---|---|---|---|
| agent | 64.9 | 65.8 | 20 | 12 |
| dashboard of streams | 139.4 | 148.8 | 11 | 7 |
| dashboard of Prometheus | 119.1 | 125.1 | 13 | 7 |

The dashboards still grew: lines that Textual had painted were collected too rarely. At 40 times the speed
(`trntop 'sim:demo?nodes=2&minutes=1440' --speed 40`), MiB after so many hours of data, before this was
mended and after:

| hours | 1 | 4 | 8 | 12 | 16 | 18 | 24 |
|---|---|---|---|---|---|---|---|
| before | 113.6 | 116.0 | 119.0 | 122.1 | 125.2 | 127.2 | 131.4 |
| after | 108.1 | 109.7 | 112.7 | 113.4 | 113.5 | 113.7 | 115.5 |

Of the rest, 10 KiB of traced memory are for each closed incident that is kept, of at most 1,000; this has 12
an hour. Descriptors and threads never changed.

`python -m benchmarks soak` at full speed: an agent and a dashboard of its stream, with a job each five
minutes and another agent each hour, had 75.3 MiB after 3 hours of data, 79.0 after 12 and 83.1 after 24,
with the 276 incidents of the day; one file of state. A dashboard of a real Prometheus with a day's pages of two nodes, refreshed for each 15 s of
them, had 84.0 MiB after one hour and 84.3 after 24. A million scrapes of the application in one process: their
last 900,000 added 240 bytes of traced memory.

**Slow and hanging**: `python -m benchmarks hanging`. Of 1,000 agents 300 hang: the 99th percentile of the
delay of frames of the other 700 went from 22.6 to 26.0 ms (+15 %), and from 24.1 to 23.7 ms (−2 %) in a
second run.

**TLS handshakes**: scrapes over TLS, each on a new connection, while another client has 5,000 handshakes
open that it does not finish: the slowest took 60.3 s, and the agent held 1,406 MiB; with the limits of
handshakes and of their buffers 0.2 s and 82 MiB (63 MiB before).

**Fuzzed**: `python -m tools.fuzz`, guided by coverage: 10,190,906 inputs on 39 surfaces in
several runs, 209,182 of them on recordings with checksums. They found four defects, all mended: impossible
numbers of devices in a schema, an infinite rate of CloudWatch, a list of hosts longer than the name of a
file, and a checksum that was not checked where it was written differently.
"""


def faults() -> list[Fault]:
    """All rows; the number of a fault is its index, from 1 on."""
    return [fault for section in SECTIONS.values() for fault in section]


def tests_of_faults() -> dict[int, list[tuple[str, str]]]:
    """Number of a fault → file and name of each of its tests."""
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in _functions(path):
            if match := NAME.fullmatch(name):
                found[int(match[1])].append((path.relative_to(ROOT).as_posix(), name))
    return found


def _functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def describe() -> str:
    """The page."""
    tests = tests_of_faults()
    lines = [
        "# Reliability",
        "",
        "Made by `make docs`; do not edit.",
        "",
        f"{len(faults())} faults, what trntop does, and the tests that show it: "
        "`pytest -k test_fault_07` runs those of fault 7. What a hostile party can do is on the page",
        "about [security](security.md).",
    ]
    number = 0
    for section, rows in SECTIONS.items():
        lines += ["", f"## {section}", "", "| | fault | behavior | tests |", "|---|---|---|---|"]
        for row in rows:
            number += 1
            shown = "<br>".join(
                f"[{_words(name)}](../{path})" for path, name in tests.get(number, ())
            )
            lines.append(f"| {number} | {row.fault} | {row.behavior} | {shown} |")
    return "\n".join(lines) + "\n" + MEASURED


def _words(name: str) -> str:
    match = NAME.fullmatch(name)
    return match[2].replace("_", " ") if match else name


if __name__ == "__main__":
    PAGE.write_text(describe())
