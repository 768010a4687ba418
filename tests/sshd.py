"""A real sshd on loopback, for tests: its own host key, users' keys, and clients' configuration.

with sshd(tmp_path) as server:
    settings = Fleet(ssh=server.ssh())
    subprocess.run([*shlex.split(server.ssh()), "trn-001", "hostname"])

Nothing outside the folder is read or written: neither the machine's sshd, nor ~/.ssh.
"""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
PRIVILEGES = Path("/run/sshd")
"""A folder that sshd insists on when root starts it; who has none gives it one of its own."""
START_SECONDS = 10.0
ALIAS = "trntop-test"
"""What all nodes are called in known_hosts."""

needs_sshd = pytest.mark.skipif(
    SSHD is None
    or shutil.which("ssh") is None
    or (os.geteuid() == 0 and not PRIVILEGES.is_dir() and shutil.which("unshare") is None),
    reason="sshd is not installed, or cannot be started here",
)


class Sshd:
    """A running sshd; made by `sshd`.

    Args:
        folder: where its files are.
        port: where it listens.
        process: what sshd runs below.
    """

    def __init__(self, folder: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.port = port
        self.folder = folder
        self._process = process
        self._own = descendants(process.pid)
        self._configurations = 0

    def ssh(
        self,
        *options: str,
        key: str = "user",
        nodes: Mapping[str, Mapping[str, str]] | None = None,
    ) -> str:
        """A command that runs ssh with a configuration of its own: every name is this server.

        Args:
            options: further lines of the configuration, which count first; one that begins with
                `Host` holds for the names behind it only, as do those after it.
            key: which of the folder's keys is shown: `user`, or `other`, which is refused.
            nodes: by name, variables that a node's sessions have (`FAKE_…`, `TRNTOP_…`).
        """
        self._configurations += 1
        path = self.folder / f"ssh_config{self._configurations}"
        own = [
            # Only the first SetEnv counts.
            f"Host {name}\n  SetEnv {' '.join(f'{key}={value}' for key, value in some.items())}\n"
            for name, some in (nodes or {}).items()
            if some
        ]
        common = (
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"HostKeyAlias {ALIAS}",
            f"UserKnownHostsFile {self.folder / 'known_hosts'}",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
            f"IdentityFile {self.folder / key}",
            "IdentitiesOnly yes",
            "IdentityAgent none",
        )
        text = "\n".join((*own, "Host *", *options, "Host *", *common, ""))
        path.write_text(text)
        return shlex.join(["ssh", "-F", str(path)])

    def sessions(self) -> set[int]:
        """Processes of all sessions that are there, sshd's own included."""
        return descendants(self._process.pid) - self._own

    def running(self, word: str) -> set[int]:
        """Those of them whose command lines contain `word`."""
        found = set()
        for pid in self.sessions():
            with contextlib.suppress(OSError):
                if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.add(pid)
        return found


@contextlib.contextmanager
def sshd(folder: Path, *options: str) -> Iterator[Sshd]:
    """A server that lets this user in with the key `user` in `folder`, until the block ends.

    Args:
        folder: for its files; a folder of a test's own.
        options: further lines of sshd_config, which count first.
    """
    assert SSHD is not None
    for name in ("host", "user", "other"):
        if not (folder / name).exists():
            make_key(folder / name)
    (folder / "authorized_keys").write_text((folder / "user.pub").read_text())
    kind, key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"{ALIAS} {kind} {key}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    configuration = folder / "sshd_config"
    lines = (
        *options,
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host'}",
        "PidFile none",
        "UsePAM no",
        "StrictModes no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "AcceptEnv FAKE_* TRNTOP_*",
        "MaxStartups 1000",
        "UseDNS no",
    )
    configuration.write_text("\n".join(lines) + "\n")
    command = [SSHD, "-D", "-e", "-f", str(configuration)]
    if os.geteuid() == 0 and not PRIVILEGES.is_dir():
        own = f"mount -t tmpfs tmpfs /run && mkdir {PRIVILEGES} && exec {shlex.join(command)}"
        command = ["unshare", "--mount", "sh", "-c", own]
    # It goes with a test run that is killed, whose end of the pipe is closed then.
    guarded = f"{shlex.join(command)} & server=$!; read -r _; kill $server; wait"
    log = folder / "sshd.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["sh", "-c", guarded],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        _wait(port, process, log)
        yield Sshd(folder, port, process)
    finally:
        _end(process)


def make_key(path: Path) -> None:
    """A new key without passphrase, and `.pub` next to it."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "trntop test", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )


def descendants(pid: int) -> set[int]:
    """A process and all below it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"sshd does not listen: {log.read_text()}"
        time.sleep(0.02)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends sshd and every session, also those that are in process groups of their own."""
    for pid in descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
