"""`trntop check` over eight hosts with agents of their own: fit at first, then four with faults.

The latencies are those of real fi_pingpong over tcp; what the agents show of their hardware is
made up. `TRNTOP_UPDATE_EXAMPLES=1` keeps the report as docs/examples/check-report.md.
"""

import os
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fakes import sysfs_tree as fake
from tests.network import FIRST, ROOT, Network, network, until
from trntop.check.model import Outcome
from trntop.check.result import Check
from trntop.exporters.check.markdown import markdown

NAMES = [f"trn-{number:03d}" for number in range(1, 9)]
SLOW, LOSSY, HUNG, CLOSED = "trn-003", "trn-005", "trn-006", "trn-007"
SECONDS = 60.0
"""How long the check of eight nodes may take."""
EXAMPLE = ROOT / "docs/examples/check-report.md"
ABOUT = """\
<!-- Written by tests/test_check_network.py with TRNTOP_UPDATE_EXAMPLES=1. -->

The report below is that of a check of eight hosts in network namespaces on one machine, each with
its own agent: the EFA devices and Neuron devices that they show are simulated, the probes are real
ones of `fi_pingpong` over `tcp`, one pair at a time. The path of trn-003 delays packets by 2 ms
each way, that of trn-005 loses 5 % of them, the agent of trn-006 is stopped, and that of trn-007
allows no probes.

    trntop check --markdown --provider tcp http://trn-[001-008]:10042 \\
        --iterations 100 --repeats 2 --deadline 4

Since all of them share a machine, loaded hosts are judged as well (`check.load`), and a pair
counts as slow only above five times the median (`check.slow`).

---

"""
AGENT = (*FIRST, sys.executable, "-m", "trntop", "export")
SOURCE = "sim:healthy?nodes=1&type=trn1.2xlarge&minutes=0.1"

pytestmark = [
    pytest.mark.skipif(shutil.which("fi_pingpong") is None, reason="fi_pingpong is not installed"),
    pytest.mark.xdist_group("machine"),
    pytest.mark.slow,  # eight agents, of real-time priority
]


class Cluster:
    """Eight hosts with agents, and one from which they are checked.

    Args:
        net: the network.
        folder: for what is written.
    """

    def __init__(self, net: Network, folder: Path) -> None:
        self.net = net
        self.folder = folder
        self.token = folder / "token"
        self.token.write_text(secrets.token_hex(32))
        _machine(folder / "root")
        for name in NAMES:
            self.start(name, "--allow-probes", "--probe-token-file", str(self.token))
        assert until(lambda: all(map(self.serves, NAMES)), 60), self.reasons(NAMES[0])

    def start(self, name: str, *options: str) -> None:
        """Starts the agent of a host."""
        host = self.net[name]
        host.start(
            *(*AGENT, SOURCE, "--listen", f"{host.address}:10042", *options),
            *("--set", f"collect.root={self.folder / 'root'}"),
            output=self.folder / f"{name}.{len(options)}",
            env=self._environment(name),
        )

    def serves(self, name: str) -> bool:
        """Whether the newest agent of a host listens."""
        return "serving" in self.reasons(name)

    def reasons(self, name: str) -> str:
        """The output of the newest agent of a host."""
        newest = max(self.folder.glob(f"{name}.*"), key=lambda path: path.stat().st_mtime_ns)
        return newest.read_text()

    def command(self, *options: str) -> list[str]:
        """The words of a check."""
        return [
            *(sys.executable, "-m", "trntop", "check", "http://trn-[001-008]:10042"),
            *("--provider", "tcp", "--iterations", "100", "--repeats", "2", "--deadline", "4"),
            *("--set", f"fleet.token_file={self.token}"),
            # One pair at a time, since all of them share a machine; and before what loads that.
            *("--set", "check.pairs=1", "--set", "check.load=1000"),
            # Microseconds of a memory copy, of which some more or less do not matter.
            *("--set", "check.slow=5", "--set", "check.very_slow=20"),
            *("--set", "check.inspect_seconds=4", *options),
        ]

    def check(self) -> tuple[int, Check]:
        """A check from the host `login`: exit code, result."""
        run = self.net["login"].run(
            *self.command("--json"), timeout=3 * SECONDS, env=self._environment("login")
        )
        assert not run.stderr, run.stderr
        return run.returncode, msgspec.json.decode(run.stdout, type=Check)

    def left(self) -> dict[str, list[str]]:
        """Host → what runs there besides its agent."""
        found = {
            name: [process for process in host.processes().values() if " export " not in process]
            for name, host in self.net.hosts.items()
        }
        return {name: running for name, running in found.items() if running}

    def probing(self) -> bool:
        """Whether a probe is under way somewhere."""
        return any(
            "fi_pingpong" in process for running in self.left().values() for process in running
        )

    def _environment(self, name: str) -> dict[str, str]:
        state, none = self.folder / f"state-{name}", self.folder / "none"
        own = {"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": none, "PYTHONPATH": ROOT}
        return {name: str(path) for name, path in own.items()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("check")
    with network([*NAMES, "login"], folder) as net:
        yield Cluster(net, folder)


def test_all_are_fit(cluster: Cluster) -> None:
    code, check = cluster.check()
    errors = [inspection.error for inspection in check.inspections]
    assert (code, check.verdict) == (0, "PASS: 8 nodes are fit"), errors
    assert check.simulated
    assert {
        entry.node: (entry.efa_devices, entry.expected_efa_devices) for entry in check.nodes
    } == dict.fromkeys(NAMES, (8, 8))
    assert len(check.probe_runs) >= len(NAMES)
    assert cluster.left() == {}


def test_interrupted_it_leaves_nothing_running(cluster: Cluster) -> None:
    login = cluster.net["login"]
    process = login.start(
        *cluster.command(), output=cluster.folder / "interrupted", env=cluster._environment("login")
    )
    assert until(cluster.probing, 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert until(lambda: not cluster.left(), 60), cluster.left()


def test_each_fault_names_only_its_culprit(cluster: Cluster) -> None:
    net = cluster.net
    net.spoil(SLOW, delay=0.002)
    net.spoil(LOSSY, loss=0.05)
    for pid in net[HUNG].processes():
        os.kill(pid, signal.SIGSTOP)
    net[CLOSED].end_all()
    cluster.start(CLOSED)
    assert until(lambda: cluster.serves(CLOSED), 30)

    code, check = cluster.check()
    text = markdown(check)
    assert code == 2, text
    outcomes = {entry.node: entry.outcome for entry in check.nodes}
    good = dict.fromkeys(set(NAMES) - {SLOW, LOSSY, HUNG, CLOSED}, Outcome.PASS)
    bad = dict.fromkeys((SLOW, LOSSY, HUNG), Outcome.FAIL)
    assert outcomes == {**good, **bad, CLOSED: Outcome.UNKNOWN}, text
    failed = [finding for finding in check.findings if finding.outcome is not Outcome.PASS]
    assert {(finding.node, finding.check) for finding in failed} == {
        (SLOW, "latency"),
        (LOSSY, "latency"),
        (HUNG, "reachable"),
        (CLOSED, "reachable"),
    }, text
    reasons = {finding.node: finding.text for finding in failed}
    assert "2." in reasons[SLOW] and "ms" in reasons[SLOW]
    assert "this agent permits no probes" in reasons[CLOSED]
    assert "no response within" in reasons[HUNG]
    assert [finding.fault for finding in failed if finding.node == HUNG] == ["unreachable"]

    assert until(lambda: not cluster.left(), 60), cluster.left()
    if os.environ.get("TRNTOP_UPDATE_EXAMPLES"):
        EXAMPLE.parent.mkdir(exist_ok=True)
        EXAMPLE.write_text(ABOUT + text)


def _machine(root: Path) -> None:
    """What an agent reads: a trn1.32xlarge with all that a check wants, made up."""
    fake.efa_tree(root, 8, rate=100, mellanox=False)
    fake.neuron_tree(root, 16, 2)
    for path, content in (
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2"),
        ("sys/class/dmi/id/product_name", "trn1.32xlarge"),
        ("sys/module/ib_uverbs/refcnt", 0),
        ("sys/module/ib_core/refcnt", 0),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 5128),
        ("proc/sys/kernel/osrelease", "6.1.0-42-aws"),
        ("proc/self/limits", "Max locked memory  unlimited  unlimited  bytes"),
        ("dev/infiniband/uverbs0", ""),
        ("opt/amazon/efa_installed_packages", "# EFA installer version: 1.43.3"),
    ):
        fake.write(root / path, content)
