"""Settings, in order of precedence: defaults < TOML file < environment < options.

Each setting is declared once, below, with its default, its bounds and its meaning; error messages
and `docs/settings.md` (`tools/settings_page.py`) are derived from that. The file is the given one,
else `$TRNTOP_CONFIG`, else `trntop/config.toml` in `$XDG_CONFIG_HOME` (`~/.config`) if it exists.
An environment variable is named after the section and the setting:
`TRNTOP_ANALYSIS__COMM_SHARE=0.3`. Options use dotted keys. Custom rules can only be in the file.
"""

import os
import re
import stat
import tomllib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta, structs
from msgspec import inspect as types

from trntop.core.custom_rule import MAX_RULES, CustomRule
from trntop.core.errors import SettingsError
from trntop.core.folders import user_folder
from trntop.core.suggest import unknown

MAX_FILE_BYTES = 1 << 20
"""Size limit of the settings file."""
MAX_KEY_PARTS = 32
"""Parts of a dotted key; settings have two. tomllib needs time and memory quadratic in them."""
_DEEP_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{MAX_KEY_PARTS}}}"
)

_PREFIX = "TRNTOP_"
_PORT = r"(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86400)]
Text = Annotated[str, Meta(min_length=1)]
Address = Annotated[
    str,
    Meta(
        pattern=rf"^(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]*):{_PORT}\Z",
        description="an address such as 127.0.0.1:10042, [::1]:10042 or :10042",
    ),
]


class Collect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sources of this machine."""

    period: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Seconds between ticks; neuron-monitor runs at the same interval."""
    neuron_monitor: Text = "neuron-monitor"
    """Command that runs neuron-monitor: a name on the PATH or a path."""
    neuron_ls: Text = "neuron-ls"
    """Command that runs neuron-ls: a name on the PATH or a path."""
    root: Text = "/"
    """Directory that contains `sys`, `proc` and `dev`, for an agent in a container with the host's
    mounted elsewhere.
    """
    disabled: tuple[Text, ...] = ()
    """Sources of this machine to disable, such as `kernel-log`."""
    host_period: Annotated[float, Meta(ge=1, le=3600)] = 10.0
    """Seconds between readings of the host."""
    sysfs_period: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds between readings of the Neuron driver's sysfs tree: status, ECC, power and health,
    about 5,800 files on a trn2.48xlarge. Tensor engines are read every period.
    """
    steps_socket: str = ""
    """Unix socket on which step telemetry is received; empty means `steps.sock` in
    `/run/trntop`, or, if that is not writable, in `$XDG_RUNTIME_DIR`.
    """
    logs: tuple[Text, ...] = ()
    """Training logs to follow, such as `/var/log/train/*.log`."""
    log_patterns: tuple[Text, ...] = ()
    """Additional log line patterns: regular expressions of RE2 (no look-around, no references to
    groups; any line takes linear time) with named groups `step`, `step_seconds`,
    `loss`, `tokens_per_second`, `tokens_per_second_per_device`, `samples_per_second`, `mfu`
    (percent), `epoch` or `grad_norm`.
    """
    job: str = ""
    """Name of the job that writes the logs."""
    compile_cache: str = ""
    """Directory of neuronx-cc's compile cache, or its URL (`s3://bucket/cache`); empty means
    `NEURON_COMPILE_CACHE_URL`, else `/var/tmp/neuron-compile-cache`.
    """
    profiles: str = ""
    """File of the NEFF profiles that `trntop profile add` saves; empty means
    `trntop/profiles.json` in `$XDG_DATA_HOME` (`~/.local/share`).
    """
    job_mapping: Text = "/run/trntop-jobs"
    """Directory in which a scheduler's prolog writes the job of each Neuron device: one file per
    device index, or `all`, with one job id per line.
    """
    pod_resources: Text = "/var/lib/kubelet/pod-resources/kubelet.sock"
    """Unix socket of the kubelet's API that lists the Neuron devices of each pod."""


class Analysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Thresholds of the detection rules."""

    comm_ratio: Literal["comm_share", "exposed_share", "comm_compute"] = "comm_share"
    """The ratio with the limit `comm_share`: communication as a share of step time, the part of it
    that does not overlap with compute, or communication time over compute time.
    """
    comm_share: Share = 0.25
    """Communication above which a job is communication-bound, in the ratio `comm_ratio`."""
    comm_share_all_reduce: Share = 1.0
    """All-reduces and reduce-scatters as a share of step time above which a job is
    communication-bound too; 1 disables it.
    """
    exposed_comm_share: Share = 0.25
    """Communication that does not overlap with compute, as a share of step time, above which the
    incident is critical.
    """
    window: Annotated[float, Meta(ge=1, le=3600)] = 20.0
    """Seconds over which values are averaged before rules are evaluated."""
    hold: Seconds = 5.0
    """Seconds for which a condition must hold to open its incident, and be false to close it."""
    clear_ratio: Share = 0.9
    """An incident clears only below its limit times this factor; prevents flapping."""
    straggler: Share = 0.07
    """A node, rank or core is a straggler if it is slower than its peers by this share."""
    slowdown: Share = 0.2
    """A job has slowed down if its steps take longer than before by this share."""
    hang: Annotated[float, Meta(ge=1, le=86400)] = 15.0
    """Seconds without a step, beyond the usual step time, after which a job hangs at the latest if
    its cores are busy.
    """
    compilation: Annotated[float, Meta(ge=1, le=86400)] = 10.0
    """Seconds of compilation during a run after which the compilation counts as unexpected."""
    checkpoint: Annotated[float, Meta(ge=1, le=86400)] = 45.0
    """Seconds that a checkpoint may take, if that is more than three times its usual duration."""
    retransmits: Share = 0.002
    """Share of an EFA device's packets that are retransmitted above which it is degraded, if its
    peers are healthy.
    """
    card_traffic: Share = 0.85
    """An EFA device below this part of its usual share of the node's traffic is degraded."""
    card_silent: Annotated[float, Meta(ge=1, le=86400)] = 10.0
    """Seconds without traffic, while its peers carry traffic, after which an EFA device is down."""
    latency: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    """Multiple of its usual latency above which a probed link has regressed."""
    idle: Annotated[float, Meta(ge=1, le=86400)] = 120.0
    """Seconds for which a process may hold idle cores."""
    memory: Share = 0.95
    """Used share of a device's HBM above which memory is under pressure."""
    node_silent: Annotated[float, Meta(ge=1, le=86400)] = 15.0
    """Seconds without data after which a node counts as silent."""
    reopen: Seconds = 300.0
    """An incident that returns within this many seconds is reopened."""
    together: Share = 0.5
    """Share of a job's or the cluster's nodes at which one incident replaces those of the nodes."""
    disabled: tuple[Text, ...] = ()
    """Rules to disable, such as `memory_pressure`."""


class Export(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exporter and node agent."""

    listen: Annotated[tuple[Address, ...], Meta(min_length=1)] = ("127.0.0.1:10042",)
    """Addresses to listen on; port 0 picks any free port, an empty host means all interfaces."""
    web_config_file: str = ""
    """File with TLS, client certificates, passwords and rate limit, in the format of the Prometheus
    exporters' `--web.config.file`. Empty means no TLS and no authentication.
    """
    state: str = ""
    """Directory of the journal with the incidents of the last day; empty means `trntop` in
    `$XDG_STATE_HOME` (`~/.local/state`), and none for simulations and recordings.
    """
    max_series: Annotated[int, Meta(ge=1)] = 20000
    """Limit of series per page; the exporter drops and counts series above it."""
    compat: tuple[Text, ...] = ()
    """Other exporters whose metric names `/metrics` also has: `neuron-monitor`, `amazonefa`."""
    allow_probes: bool = False
    """Whether `trntop check` may inspect this node and probe from it; needs `probe_token_file`.
    """
    probe_token_file: str = ""
    """File whose first line is the token that a check must send as `Authorization: Bearer`. Without
    TLS it crosses the network in clear text.
    """
    probe_every: Annotated[float, Meta(ge=0, le=600)] = 0.0
    """Seconds between probes from this node to others, one link at a time; 0 disables them."""
    probe_peers: str = ""
    """Agents to probe, the same list on all: `trn-[001-016]`. It may contain this node.
    """
    probe_provider: Literal["efa", "tcp"] = "efa"
    """libfabric provider of these probes."""
    probe_load: Annotated[float, Meta(ge=0, le=1000)] = 0.5
    """Load average per vCPU above which this node skips its probes."""


class Screen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dashboard."""

    theme: Text = "auto"
    """Color theme, such as `trntop-dark`, `trntop-light`, `trntop-contrast`,
    `trntop-deuteranopia`, `trntop-ansi` (the terminal's own 16 colors) or one of Textual's;
    `auto` is `trntop-dark`, or `trntop-ansi` where the terminal has 16 colors.
    """
    mouse: bool = True
    """Whether the dashboard uses the mouse; if false, the terminal selects text as usual."""
    price_per_hour: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    """Price of a node per hour in US dollars, for the cost of tokens in `trntop compare`; 0 means
    unknown.
    """
    sort: str = ""
    """Sort column of the fleet table, such as `util`; empty means worst first."""
    columns: tuple[Text, ...] = ()
    """Columns of the fleet table, such as `util`, `efa_tx`, `state`; none means the default ones.
    """


class History(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """History in memory."""

    seconds: Annotated[int, Meta(ge=60, le=86400)] = 900
    """Length of the fine history in ticks, which are seconds at the default period."""
    coarse: Annotated[int, Meta(ge=1, le=86400)] = 1080
    """Rows of the coarse history."""
    step: Annotated[int, Meta(ge=2, le=3600)] = 10
    """Ticks averaged into one row of the coarse history."""


class Blackbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Raw readings of live sources, kept in memory and written to a recording on request."""

    seconds: Annotated[int, Meta(ge=0, le=86400)] = 900
    """Length in seconds; 0 disables it."""
    megabytes: Annotated[int, Meta(ge=1, le=65536)] = 16
    """Limit of its compressed size in MiB; a trn2.48xlarge needs about 7 for 15 minutes. With
    streams of more than 102 nodes it is off, unless there are 0.16 MiB for each.
    """
    agent: bool = False
    """Whether the exporter keeps one too, to record critical incidents without a dashboard."""
    folder: str = ""
    """Directory for recordings and reports written by a key; empty means the current one."""
    on_critical: bool = True
    """Whether a critical incident writes it automatically, to `trntop/blackbox` in
    `$XDG_STATE_HOME` (`~/.local/state`): at most every 15 minutes; the newest five are kept.
    """


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connections to remote agents and Prometheus backends."""

    port: Annotated[int, Meta(ge=1, le=65535)] = 10042
    """Default port of agents."""
    via: Literal["agent", "ssh"] = "agent"
    """How to connect to nodes from a list, `slurm:` or `ec2:`."""
    connect: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Timeout in seconds for the connection and for its first response."""
    refresh: Annotated[float, Meta(ge=5, le=86400)] = 30.0
    """Seconds between refreshes of node lists."""
    columns: Literal["auto", "all", "rules"] = "auto"
    """What an aggregator reads: all values, or those of nodes, jobs and rules; by default these if
    it reads more than 500 agents.
    """
    ca_file: str = ""
    """File with the CA certificates to verify servers; empty means the system's."""
    cert_file: str = ""
    """Client certificate; needs `key_file`."""
    key_file: str = ""
    """Private key of the client certificate."""
    user: str = ""
    """User name for basic authentication; needs `password_file`."""
    password_file: str = ""
    """File whose first line is the password."""
    token_file: str = ""
    """File whose first line is sent as `Authorization: Bearer`."""
    tenant: str = ""
    """Tenant of a Mimir or Thanos backend, sent as `X-Scope-OrgID`."""
    ssh: Text = "ssh"
    """Command that runs OpenSSH for `ssh://`, with options if needed: `ssh -F FILE`."""
    region: str = ""
    """AWS region for `ec2:` and `cloudwatch:`; empty means the one in the AWS configuration."""


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trntop check`: thresholds and limits."""

    slow: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    """Multiple of the median latency above which a pair is slow (warning)."""
    very_slow: Annotated[float, Meta(ge=1, le=1000)] = 2.5
    """Multiple of the median latency above which a pair fails."""
    deviations: Annotated[float, Meta(ge=0, le=1000)] = 6.0
    """A slow pair must also exceed the median by this many deviations (median absolute deviation,
    scaled to a standard deviation).
    """
    load: Annotated[float, Meta(ge=0.01, le=10_000)] = 1.0
    """Load average per core, on either side, above which a slow probe does not count.
    """
    retransmits: Share = 0.002
    """Share of an EFA device's packets retransmitted during the check that is reported."""
    memlock_gib: Annotated[float, Meta(ge=0, le=1_000_000)] = 16.0
    """Minimum limit of locked memory, in GiB."""
    huge_pages: Annotated[int, Meta(ge=0, le=10_000_000)] = 5128
    """Minimum number of reserved 2 MiB huge pages, as set by EFA's installer."""
    pairs: Annotated[int, Meta(ge=1, le=10_000)] = 128
    """Limit of pairs probed at the same time; 1 if the nodes share a machine."""
    inspect_seconds: Annotated[float, Meta(ge=0.5, le=600)] = 20.0
    """Timeout of the inspection of a node, in seconds."""
    time_limit: Annotated[float, Meta(ge=1, le=86400)] = 900.0
    """Seconds after which a check ends with partial results."""


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The terminal's bell. For alerts, use `trntop rules prometheus` and Alertmanager."""

    bell: bool = False
    """Whether the dashboard rings the bell when an incident opens, also in recordings."""
    severity: Literal["info", "warning", "critical"] = "warning"
    """Minimum severity."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings, by section."""

    collect: Collect = Collect()
    analysis: Analysis = Analysis()
    export: Export = Export()
    screen: Screen = Screen()
    history: History = History()
    blackbox: Blackbox = Blackbox()
    fleet: Fleet = Fleet()
    check: Check = Check()
    notify: Notify = Notify()
    rules: tuple[CustomRule, ...] = ()
    """Custom rules, in the order of the file."""


_RULES = "rules"
RULE_TYPES: dict[str, Any] = get_type_hints(CustomRule, include_extras=True)
SECTIONS: dict[str, type[msgspec.Struct]] = {
    name: section for name, section in get_type_hints(Settings).items() if name != _RULES
}
TYPES: dict[str, Any] = {
    f"{name}.{field}": kind
    for name, section in SECTIONS.items()
    for field, kind in get_type_hints(section, include_extras=True).items()
}


def load(
    path: Path | None,
    environ: Mapping[str, str],
    options: Mapping[str, Any] | None = None,
    reserved: Container[str] = (),
) -> Settings:
    """Settings from all sources.

    Args:
        path: the configuration file; None uses `environ`.
        environ: the process environment.
        options: values by dotted key, typed or as strings: `{"analysis.comm_share": 0.3}`.
        reserved: names that custom rules cannot have, those of the built-in rules.

    Raises:
        SettingsError: a setting is not valid; the message has its location and what is expected.
    """
    values: dict[str, Any] = {}
    rules: tuple[CustomRule, ...] = ()
    file = _file(path, environ)
    if file is not None:
        values, rules = _from_file(file, reserved)
    values |= _from_environ(environ)
    for key, value in (options or {}).items():
        values[key] = _convert(key, value, "", strict=not isinstance(value, str))
    document: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, field = key.split(".")
        document.setdefault(section, {})[field] = value
    return structs.replace(msgspec.convert(document, Settings), rules=rules)


def _file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The settings file; None if there is none."""
    if path is not None:
        return path
    if named := environ.get("TRNTOP_CONFIG"):
        return Path(named)
    folder = user_folder(environ, "XDG_CONFIG_HOME", ".config")
    file = folder / "config.toml" if folder else None
    # os.path.exists, unlike Path.exists, returns False for a directory without permission.
    return file if file and os.path.exists(file) else None  # noqa: PTH110


def _from_file(
    path: Path, reserved: Container[str]
) -> tuple[dict[str, Any], tuple[CustomRule, ...]]:
    """Values by dotted key, and rules, from a TOML file."""
    text = _read(path)
    if deep := _DEEP_KEY.search(text):
        row = text.count("\n", 0, deep.start()) + 1
        raise SettingsError(f"{path}, line {row}: a key has more than {MAX_KEY_PARTS} parts")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        where = f"{path}, line {line[1]}" if line else str(path)
        reason = str(error)[: line.start()] if line else str(error)
        raise SettingsError(f"{where}: not TOML: {reason}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: not TOML: nested too deeply") from error
    lines = _Lines(path, text)
    values: dict[str, Any] = {}
    rules = _rules(lines, document.pop(_RULES, []), reserved)
    for section, entries in document.items():
        if section not in SECTIONS:
            known = (*SECTIONS, _RULES)
            raise SettingsError(f"{lines.at(section)}: {unknown('section', section, known)}")
        if not isinstance(entries, dict):
            raise SettingsError(f"{lines.at(section)}: {section} must be a table, [{section}]")
        for field, value in entries.items():
            key = f"{section}.{field}"
            values[key] = _convert(key, value, f"{lines.at(key)}: ", strict=True)
    return values, rules


def _rules(lines: "_Lines", tables: Any, reserved: Container[str]) -> tuple[CustomRule, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{lines.at(_RULES)}: rules must be tables, each under [[rules]]")
    if len(tables) > MAX_RULES:
        raise SettingsError(
            f"{lines.at(_RULES)}: {len(tables)} rules, but at most {MAX_RULES} are allowed"
        )
    rules: dict[str, CustomRule] = {}
    for index, table in enumerate(tables):
        key = f"{_RULES}.{index}"
        values: dict[str, Any] = {}
        for field, value in table.items():
            where = lines.at(f"{key}.{field}")
            if field not in RULE_TYPES:
                raise SettingsError(f"{where}: {unknown('rule key', field, RULE_TYPES)}")
            values[field] = _as(RULE_TYPES[field], f"{_RULES}.{field}", value, f"{where}: ")
        if missing := [field for field in ("name", "when") if field not in values]:
            raise SettingsError(f"{lines.at(key)}: the rule needs {' and '.join(missing)}")
        rule = CustomRule(**values)
        mistake = rule.mistake()
        if rule.name in reserved:
            mistake = "name", f"name: {rule.name} is a built-in rule; choose another name"
        if rule.name in rules:
            mistake = "name", f"duplicate rule name {rule.name}"
        if mistake:
            raise SettingsError(f"{lines.at(f'{key}.{mistake[0]}')}: {mistake[1]}")
        rules[rule.name] = rule
    return tuple(rules.values())


def _read(path: Path) -> str:
    try:
        # Checked first: opening a FIFO would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path}: not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SettingsError(f"{path}: larger than 1 MiB")
        return data.decode()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise SettingsError(f"{str(path)!r} is not a path") from error


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    """Values by dotted key from variables such as `TRNTOP_ANALYSIS__COMM_SHARE`."""
    values: dict[str, Any] = {}
    for variable, value in sorted(environ.items()):
        if variable.startswith(_PREFIX) and "__" in variable:
            key = variable.removeprefix(_PREFIX).replace("__", ".", 1).lower()
            if key not in TYPES:
                known = [variable_of(key) for key in TYPES]
                raise SettingsError(unknown("environment variable", variable, known, _last))
            values[key] = _convert(key, value, f"environment variable {variable}: ", strict=False)
    return values


def variable_of(key: str) -> str:
    return _PREFIX + key.replace(".", "__").upper()


def _convert(key: str, value: Any, where: str, *, strict: bool) -> Any:
    """`value` as the type of the setting `key`; if not strict, from a string (lists: commas)."""
    if key not in TYPES:
        # In a known section, only the last part is compared: all its settings share the first.
        section = [name for name in TYPES if name.startswith(f"{key.partition('.')[0]}.")]
        if section:
            raise SettingsError(f"{where}{unknown('setting', key, section, _last)}")
        raise SettingsError(f"{where}{unknown('setting', key, list(TYPES))}")
    kind = TYPES[key]
    if not strict and isinstance(types.type_info(kind), types.VarTupleType):
        value = [item for part in value.split(",") if (item := part.strip())]
    return _as(kind, key, value, where, strict=strict)


def _as(kind: Any, key: str, value: Any, where: str, *, strict: bool = True) -> Any:
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}{key} must be {expected(kind)}, not {value!r:.80}") from error


def _last(name: str) -> str:
    return re.split(r"\.|__", name)[-1]


class _Lines:
    """Line numbers of the tables and keys of a TOML file."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._numbers: dict[str, int] = {}
        for number, name in _keys(text):
            self._numbers.setdefault(name, number)

    def at(self, key: str) -> str:
        """The file and, if found, the line that sets `key`."""
        # A key in an inline table is found by its section, a dotted key by its prefix.
        below = (number for name, number in self._numbers.items() if name.startswith(f"{key}."))
        line = self._numbers.get(key) or next(below, None)
        while not line and key:
            key = key.rpartition(".")[0]
            line = self._numbers.get(key)
        return f"{self._path}, line {line}" if line else str(self._path)


def _keys(text: str) -> Iterator[tuple[int, str]]:
    """Line number and dotted name of each table header and key, without parsing values."""
    table = ""
    arrays: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, _ = line.partition("=")
        if line.lstrip().startswith("["):
            table = _bare(line.partition("]")[0])
            yield number, table
            if line.lstrip().startswith("[["):
                arrays[table] = arrays.get(table, -1) + 1
                table = f"{table}.{arrays[table]}"
                yield number, table
        elif equals:
            yield number, f"{table}.{_bare(name)}" if table else _bare(name)


def _bare(name: str) -> str:
    return ".".join(part.strip(" \t[\"'") for part in name.split("."))


def expected(kind: Any) -> str:
    """What a setting of this type accepts, as a phrase: `a number from 0 to 1`."""
    description = ""
    info = types.type_info(kind)
    if isinstance(info, types.Metadata):
        description = (info.extra_json_schema or {}).get("description", "")
        info = info.type
    if isinstance(info, types.UnionType):  # optional
        info = next(kind for kind in info.types if not isinstance(kind, types.NoneType))
    match info:
        case _ if description:
            return description
        case types.BoolType():
            return "true or false"
        case types.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case types.IntType(ge=low, le=high) | types.FloatType(ge=low, le=high):
            noun = "a whole number" if isinstance(info, types.IntType) else "a number"
            return (
                f"{noun} from {low:g} to {high:g}"
                if high is not None
                else f"{noun}, at least {low:g}"
                if low is not None
                else noun
            )
        case types.VarTupleType(item_type=types.Metadata(extra_json_schema={"description": item})):
            return f"a list, each {item}"
        case types.VarTupleType():
            return "a list of names"
        case _:
            return "text"
