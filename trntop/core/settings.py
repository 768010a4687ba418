"""What a user can set, and where it comes from: defaults < TOML file < environment < options.

Each setting is declared once, below, with its default, its bounds and its meaning; the
messages and `docs/settings.md` (`python -m trntop.core.settings > docs/settings.md`) follow from
that. The file is the one named, else `$TRNTOP_CONFIG`, else `trntop/config.toml` in
`$XDG_CONFIG_HOME` (`~/.config`) if there is one. An environment variable is named after the
section and the setting: `TRNTOP_ANALYSIS__COMM_SHARE=0.3`. Options go by dotted keys. Rules of
the user's own stand in the file only.
"""

import ast
import inspect
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta, structs
from msgspec import inspect as types

from trntop.core.custom_rule import MAX_RULES, OwnRule
from trntop.core.errors import SettingsError
from trntop.core.suggest import unknown

MAX_FILE_BYTES = 1 << 20
"""Longest configuration file that is read."""

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
    """How values are gathered."""

    period: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Seconds between ticks; the same is asked of neuron-monitor."""
    neuron_monitor: Text = "neuron-monitor"
    """Command that runs neuron-monitor: a name on the PATH or a path."""
    neuron_ls: Text = "neuron-ls"
    """Command that runs neuron-ls: a name on the PATH or a path."""
    root: Text = "/"
    """Folder under which `sys`, `proc` and `dev` are looked for, for an agent in a container that
    has the host's mounted elsewhere.
    """
    disabled: tuple[Text, ...] = ()
    """Sources of this machine that are not read, such as `kernel-log`."""
    host_period: Annotated[float, Meta(ge=1, le=3600)] = 10.0
    """Seconds between readings of the host."""
    sysfs_period: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds between readings of the Neuron driver's sysfs tree: statuses, ECC, power and health,
    some 5,800 files on a trn2.48xlarge. Tensor engines are read each period.
    """
    steps_socket: str = ""
    """Unix socket on which step telemetry is received; empty means `steps.sock` in
    `/run/trntop`, or where that cannot be written in `$XDG_RUNTIME_DIR` or `/tmp/trntop-UID`.
    """
    steps_files: tuple[Text, ...] = ()
    """Files of step telemetry that are followed, such as `/shared/run7/steps-*.jsonl`."""
    logs: tuple[Text, ...] = ()
    """Training logs that are followed, such as `/var/log/train/*.log`."""
    log_patterns: tuple[Text, ...] = ()
    """Further forms of log lines: regular expressions with named groups `step`, `step_seconds`,
    `loss`, `tokens_per_second`, `tokens_per_second_per_device`, `samples_per_second`, `mfu`
    (percent) or `grad_norm`.
    """
    job: str = ""
    """Name of the job whose logs are followed."""
    compile_cache: str = ""
    """Folder of neuronx-cc's compile cache; empty means `/var/tmp/neuron-compile-cache`."""
    profiles: str = ""
    """File of the NEFF profiles that `trntop profile add` keeps; empty means
    `trntop/profiles.json` in `$XDG_DATA_HOME` (`~/.local/share`).
    """
    job_mapping: Text = "/run/trntop-jobs"
    """Folder in which a scheduler's prolog writes which job has which Neuron device: a file for
    each device index, or `all`, with a job id a line.
    """
    pod_resources: Text = "/var/lib/kubelet/pod-resources/kubelet.sock"
    """Unix socket on which the kubelet tells which pod has which Neuron devices."""


class Analysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When something counts as wrong."""

    comm_share: Share = 0.25
    """Communication as a share of step time above which a job is communication-bound."""
    exposed_comm_share: Share = 0.25
    """Communication not covered by compute, as a share of step time, above which that is
    critical.
    """
    window: Annotated[float, Meta(ge=1, le=3600)] = 20.0
    """Seconds over which values are averaged before they are judged."""
    hold: Seconds = 5.0
    """Seconds a condition must last before its incident opens, or be over before it closes."""
    clear_ratio: Share = 0.9
    """A value clears only below its limit times this, so that incidents do not flap."""
    straggler: Share = 0.07
    """Share by which a node, a rank or a core must be slower than its peers to hold a job back."""
    hang: Annotated[float, Meta(ge=1, le=86400)] = 15.0
    """Seconds without a step, beyond the usual one, after which a job hangs if its cores spin."""
    compilation: Annotated[float, Meta(ge=1, le=86400)] = 10.0
    """Seconds that a run under way may compile before that counts as an unexpected compilation."""
    checkpoint: Annotated[float, Meta(ge=1, le=86400)] = 45.0
    """Seconds that a checkpoint may take, if that is more than three times the job's usual."""
    retransmits: Share = 0.002
    """Share of an EFA card's packets sent again above which it is degraded, if its siblings are
    well.
    """
    card_traffic: Share = 0.85
    """Share of its usual part of the node's traffic below which an EFA card is degraded."""
    card_silent: Annotated[float, Meta(ge=1, le=86400)] = 10.0
    """Seconds without traffic, while its siblings carry the job's, after which a card is down."""
    latency: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    """Times its own usual latency above which a probed link has regressed."""
    idle: Annotated[float, Meta(ge=1, le=86400)] = 120.0
    """Seconds for which a process may hold cores that do nothing."""
    memory: Share = 0.95
    """Used share of a device's HBM above which memory is under pressure."""
    node_silent: Annotated[float, Meta(ge=1, le=86400)] = 15.0
    """Seconds without any reading after which a node counts as silent."""
    reopen: Seconds = 300.0
    """Seconds within which an incident that returns is the same one, opened again."""
    together: Share = 0.5
    """Share of a job's or the cluster's nodes from which one incident stands for all of them."""
    disabled: tuple[Text, ...] = ()
    """Kinds of incidents that are not looked for, such as `memory_pressure`."""


class Export(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exporter and node agent."""

    listen: Annotated[tuple[Address, ...], Meta(min_length=1)] = ("127.0.0.1:10042",)
    """Where it listens; port 0 lets the system choose. An empty host means every interface."""
    web_config_file: str = ""
    """File that says who may connect and ask: TLS, client certificates, passwords, rate limit; in
    the format of the Prometheus exporters' `--web.config.file`. Empty means anybody, without TLS.
    """
    max_series: Annotated[int, Meta(ge=1)] = 20000
    """Most series on one page; what is beyond is dropped and counted."""
    compat: tuple[Text, ...] = ()
    """Other exporters whose names are on `/metrics` too: `neuron-monitor`, `amazonefa`."""
    allow_probes: bool = False
    """Whether `trntop check` may look at this node and probe from it; `probe_token_file` goes with
    it.
    """
    probe_token_file: str = ""
    """File whose first line a check has to send as `Authorization: Bearer`. Without TLS it can be
    read on the way.
    """
    probe_every: Annotated[float, Meta(ge=0, le=600)] = 0.0
    """Seconds between probes of links from this node to others, one at a time; 0 probes none."""
    probe_peers: str = ""
    """Agents that it may probe, all of which allow it and have the same list: `trn-[001-016]`.
    This node may stand among them.
    """
    probe_provider: Literal["efa", "tcp"] = "efa"
    """Provider of libfabric that these probes use."""
    probe_load: Annotated[float, Meta(ge=0, le=1000)] = 0.5
    """Load average per vCPU above which this node is not probed."""


class Screen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dashboard."""

    theme: Text = "auto"
    """Name of the colour theme, such as `trntop-dark`, `trntop-light`, `trntop-contrast`,
    `trntop-deuteranopia`, `trntop-ansi` (the terminal's own 16 colours) or one of Textual's;
    `auto` is `trntop-dark`, or `trntop-ansi` where the terminal has 16 colours.
    """
    graph: Literal["auto", "block", "braille", "ascii"] = "auto"
    """Characters that graphs are drawn with; `ascii` draws everything in ASCII; `auto` is `block`,
    or `ascii` where the locale is not UTF-8.
    """
    mouse: bool = True
    """Whether the mouse works; without it the terminal selects text as usual."""
    keys: dict[str, Text] = {}
    """Keys of your own, `[screen.keys]`: what they do, by its id, → one key or several, separated
    by commas, such as `"app.quit" = "Q,ctrl+q"`. An unknown id is refused, with the known ones; so
    is a key that would do two things.
    """
    price_per_hour: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    """US dollars that one node costs in an hour, from which the screen of the run works out what
    tokens and pauses cost; 0 means unknown.
    """
    sort: str = ""
    """Column by which the fleet table is sorted at the start, such as `util`; `worst` is the
    standard order; empty means as it was left.
    """
    columns: tuple[Text, ...] = ()
    """Columns of the fleet table, such as `util`, `efa_tx`, `state`; none means as they were left.
    """


class History(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the past is kept in memory."""

    seconds: Annotated[int, Meta(ge=60, le=86400)] = 900
    """Length of the fine history, in ticks: seconds at the default period."""
    coarse: Annotated[int, Meta(ge=1, le=86400)] = 1080
    """Rows of the coarse history, which reaches further back."""
    step: Annotated[int, Meta(ge=2, le=3600)] = 10
    """Ticks averaged into one row of the coarse history."""


class Blackbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of live sources as they gave it, in memory, so that it can be written later."""

    seconds: Annotated[int, Meta(ge=0, le=86400)] = 900
    """How far back it reaches; 0 keeps nothing."""
    megabytes: Annotated[int, Meta(ge=1, le=65536)] = 64
    """Most that it takes, compressed, in MiB; a trn2.48xlarge fills some 8 in 15 minutes."""
    agent: bool = False
    """Whether the exporter keeps one too, for critical incidents while nobody looks."""
    folder: str = ""
    """Folder that recordings and reports are written to by a key; empty means the current one."""
    on_critical: bool = True
    """Whether a critical incident writes it by itself, to `trntop/blackbox` in `$XDG_STATE_HOME`
    (`~/.local/state`): at most every 15 minutes, and the newest five stay.
    """


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other machines: how their agents, and engines, are reached."""

    port: Annotated[int, Meta(ge=1, le=65535)] = 10042
    """Port of agents of which only the host is named."""
    via: Literal["agent", "ssh"] = "agent"
    """How nodes are reached that a list, `slurm:` or `ec2:` only names."""
    connect: Annotated[float, Meta(ge=0.1, le=300)] = 5.0
    """Seconds in which a connection has to be there and its first answer has to come."""
    refresh: Annotated[float, Meta(ge=5, le=86400)] = 30.0
    """Seconds between looks at lists of nodes that may change."""
    ca_file: str = ""
    """File of the certificates that servers are checked with; empty means the system's."""
    cert_file: str = ""
    """Certificate with which trntop shows who it is; `key_file` goes with it."""
    key_file: str = ""
    """Its key."""
    user: str = ""
    """Name for servers that ask for one; `password_file` goes with it."""
    password_file: str = ""
    """File whose first line is the password."""
    token_file: str = ""
    """File whose first line is sent as `Authorization: Bearer`."""
    tenant: str = ""
    """Tenant of a Mimir or Thanos engine, sent as `X-Scope-OrgID`."""
    ssh: Text = "ssh"
    """Command that runs OpenSSH for `ssh://`, with its own options if need be: `ssh -F FILE`."""
    region: str = ""
    """AWS region for `ec2:` and `cloudwatch:`; empty means what the AWS configuration says."""


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trntop check`: when a node is not fit, and what a check may cost."""

    slow: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    """Times the median latency of the nodes above which a pair is slow: a warning."""
    very_slow: Annotated[float, Meta(ge=1, le=1000)] = 2.5
    """Times the median above which it fails."""
    deviations: Annotated[float, Meta(ge=0, le=1000)] = 6.0
    """Deviations of the nodes (their median, scaled as a standard deviation is) that it must be
    above it besides.
    """
    load: Annotated[float, Meta(ge=0.01, le=10_000)] = 1.0
    """Load average per core, of either side of a probe, above which it is not judged for being
    slow: it had to wait for its core.
    """
    baseline: Annotated[float, Meta(ge=1, le=1000)] = 1.5
    """Times what an earlier check found above which a node, or all of them, became slower."""
    retransmits: Share = 0.002
    """Share of a card's packets that were sent again during the check above which that is told."""
    clock_skew: Annotated[float, Meta(ge=0.001, le=86400)] = 1.0
    """Seconds by which a node's clock may differ from the others'."""
    memlock_gib: Annotated[float, Meta(ge=0, le=1_000_000)] = 16.0
    """Least limit of locked memory, in GiB."""
    huge_pages: Annotated[int, Meta(ge=0, le=10_000_000)] = 5128
    """Least number of 2 MiB pages that the kernel has set aside: what EFA's installer asks for."""
    pairs: Annotated[int, Meta(ge=1, le=10_000)] = 128
    """Most pairs that are probed at a time; 1 where the nodes share a machine."""
    inspect_seconds: Annotated[float, Meta(ge=0.5, le=600)] = 20.0
    """Seconds after which a look at a node counts as failed."""
    time_limit: Annotated[float, Meta(ge=1, le=86400)] = 900.0
    """Seconds after which a check ends with what it has."""
    keep: Annotated[int, Meta(ge=0, le=10_000)] = 20
    """Results that are kept in `trntop/checks` in `$XDG_STATE_HOME` (`~/.local/state`), the newest;
    0 keeps none.
    """


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is told of the incidents of live sources."""

    severity: Literal["info", "warning", "critical"] = "warning"
    """The least severity that is told."""
    closed: bool = False
    """Whether the end of an incident is told too."""
    bell: bool = False
    """Whether the dashboard rings the terminal's bell, for recordings too."""
    webhook: str = ""
    """URL to which an incident is posted as JSON. Who knows it may be able to post, so it is shown
    nowhere; `webhook_file` or the environment keep it out of this file.
    """
    webhook_file: str = ""
    """File whose first line is the URL, instead."""
    token_file: str = ""
    """File whose first line is sent along as `Authorization: Bearer`."""


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
    rules: tuple[OwnRule, ...] = ()
    """Rules of the user's own, in the order of the file."""


_RULES = "rules"
_RULE_TYPES: dict[str, Any] = get_type_hints(OwnRule, include_extras=True)
_SECTIONS: dict[str, type[msgspec.Struct]] = {
    name: section for name, section in get_type_hints(Settings).items() if name != _RULES
}
_TYPES: dict[str, Any] = {
    f"{name}.{field}": kind
    for name, section in _SECTIONS.items()
    for field, kind in get_type_hints(section, include_extras=True).items()
}


def load(
    path: Path | None, environ: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from all places; later ones win, setting by setting.

    Args:
        path: the configuration file; None looks where `environ` says.
        environ: the process environment.
        options: values by dotted key, typed or as strings: `{"analysis.comm_share": 0.3}`.

    Raises:
        SettingsError: in one sentence, which place is wrong and what was expected there.
    """
    values: dict[str, Any] = {}
    rules: tuple[OwnRule, ...] = ()
    file = _file(path, environ)
    if file is not None:
        values, rules = _from_file(file)
    values |= _from_environ(environ)
    for key, value in (options or {}).items():
        values[key] = _convert(key, value, "", strict=not isinstance(value, str))
    document: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, field = key.split(".")
        document.setdefault(section, {})[field] = value
    return structs.replace(msgspec.convert(document, Settings), rules=rules)


def _file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The configuration file; None if there is none and none was asked for."""
    if path is not None:
        return path
    if named := environ.get("TRNTOP_CONFIG"):
        return Path(named)
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification has relative paths ignored.
    if not folder.startswith("/"):
        folder = f"{environ['HOME']}/.config" if environ.get("HOME") else ""
    file = Path(folder, "trntop", "config.toml")
    # os.path.exists, unlike Path.exists, takes a folder one may not look into for no file.
    return file if folder and os.path.exists(file) else None  # noqa: PTH110


def _from_file(path: Path) -> tuple[dict[str, Any], tuple[OwnRule, ...]]:
    """Values by dotted key, and rules, from a TOML file."""
    text = _read(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        where = f"{path}, line {line[1]}" if line else str(path)
        reason = str(error)[: line.start()] if line else str(error)
        raise SettingsError(f"{where}: not TOML: {reason}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: not TOML: nested too deeply") from error
    values: dict[str, Any] = {}
    rules = _rules(path, text, document.pop(_RULES, []))
    for section, entries in document.items():
        if section not in _SECTIONS:
            known = (*_SECTIONS, _RULES)
            raise SettingsError(f"{_at(path, text, section)}: {unknown('section', section, known)}")
        if not isinstance(entries, dict):
            raise SettingsError(
                f"{_at(path, text, section)}: {section} must be a table, [{section}]"
            )
        for field, value in entries.items():
            key = f"{section}.{field}"
            values[key] = _convert(key, value, f"{_at(path, text, key)}: ", strict=True)
    return values, rules


def _rules(path: Path, text: str, tables: Any) -> tuple[OwnRule, ...]:
    """The rules of a file, each checked as far as it can be without data."""
    here = _at(path, text, _RULES)
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise SettingsError(f"{here}: rules must be tables, each under [[rules]]")
    if len(tables) > MAX_RULES:
        raise SettingsError(f"{here}: {len(tables)} rules, but at most {MAX_RULES} are looked at")
    rules: dict[str, OwnRule] = {}
    for index, table in enumerate(tables):
        where = partial(_at_rule, path, text, index)
        values: dict[str, Any] = {}
        for field, value in table.items():
            if field not in _RULE_TYPES:
                raise SettingsError(f"{where(field)}: {unknown('rule key', field, _RULE_TYPES)}")
            values[field] = _as(_RULE_TYPES[field], f"{_RULES}.{field}", value, f"{where(field)}: ")
        if missing := [field for field in ("name", "when") if field not in values]:
            raise SettingsError(f"{where()}: the rule has no {' and no '.join(missing)}")
        rule = OwnRule(**values)
        if mistake := rule.mistake():
            raise SettingsError(f"{where(mistake[0])}: {mistake[1]}")
        if rule.name in rules:
            raise SettingsError(f"{where('name')}: a second rule named {rule.name}")
        rules[rule.name] = rule
    return tuple(rules.values())


def _at_rule(path: Path, text: str, index: int, field: str = "") -> str:
    """The file and, where a scan of its lines finds it, the line of a rule or of its field."""
    line, seen = 0, -1
    for number, name in _keys(text):
        if name == _RULES:
            seen += 1
            line = number if seen <= index else line
        elif seen == index and name == f"{_RULES}.{field}":
            line = number
            break
    return f"{path}, line {line}" if line else str(path)


def _read(path: Path) -> str:
    try:
        # Looked at before it is opened: opening a FIFO would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path}: not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SettingsError(f"{path}: a configuration file has at most 1 MiB")
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
            if key not in _TYPES:
                known = [_variable(key) for key in _TYPES]
                raise SettingsError(unknown("environment variable", variable, known, _last))
            values[key] = _convert(key, value, f"environment variable {variable}: ", strict=False)
    return values


def _variable(key: str) -> str:
    return _PREFIX + key.replace(".", "__").upper()


def _convert(key: str, value: Any, where: str, *, strict: bool) -> Any:
    """`value` as the type of the setting `key`; not strict reads strings (lists by commas)."""
    if key not in _TYPES:
        # In a known section, only the last part is compared: all its settings share the first.
        section = [name for name in _TYPES if name.startswith(f"{key.partition('.')[0]}.")]
        if section:
            raise SettingsError(f"{where}{unknown('setting', key, section, _last)}")
        raise SettingsError(f"{where}{unknown('setting', key, list(_TYPES))}")
    kind = _TYPES[key]
    if not strict and isinstance(types.type_info(kind), types.VarTupleType):
        value = [item for part in value.split(",") if (item := part.strip())]
    return _as(kind, key, value, where, strict=strict)


def _as(kind: Any, key: str, value: Any, where: str, *, strict: bool = True) -> Any:
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}{key} must be {_expected(kind)}, not {value!r:.80}") from error


def _last(name: str) -> str:
    return re.split(r"\.|__", name)[-1]


def _at(path: Path, text: str, key: str) -> str:
    """The file and, where a scan of its lines finds it, the line that sets `key`."""
    lines: dict[str, int] = {}
    for number, name in _keys(text):
        lines.setdefault(name, number)
    # An inline table stands at its section, a dotted key below the name that is looked for.
    inside = (number for name, number in lines.items() if name.startswith(f"{key}."))
    line = lines.get(key) or next(inside, None) or lines.get(key.partition(".")[0])
    return f"{path}, line {line}" if line else str(path)


def _keys(text: str) -> Iterator[tuple[int, str]]:
    """Line number and dotted name of each table header and each key, as far as lines tell."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, _ = line.partition("=")
        if line.lstrip().startswith("["):
            table = _bare(line.partition("]")[0])
            yield number, table
        elif equals:
            yield number, f"{table}.{_bare(name)}" if table else _bare(name)


def _bare(name: str) -> str:
    return ".".join(part.strip(" \t[\"'") for part in name.split("."))


def _expected(kind: Any) -> str:
    """What a setting of this type accepts, as a phrase: `a number from 0 to 1`."""
    description = ""
    info = types.type_info(kind)
    if isinstance(info, types.Metadata):
        description = (info.extra_json_schema or {}).get("description", "")
        info = info.type
    if isinstance(info, types.UnionType):  # a type or nothing
        info = next(one for one in info.types if not isinstance(one, types.NoneType))
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
        case types.VarTupleType(item_type=types.Metadata(extra_json_schema={"description": each})):
            return f"a list, each {each}"
        case types.VarTupleType():
            return "a list of names"
        case types.DictType():
            return "a table of texts"
        case _:
            return "text"


def describe() -> str:
    """All settings as a Markdown page: `docs/settings.md`."""
    lines = [
        "# Settings",
        "",
        "<!-- Written by `python -m trntop.core.settings`; change trntop/core/settings.py instead. "
        "-->",
        "",
        "Defaults give way to the configuration file, that to environment variables, those to",
        "command-line options. The file is the one named on the command line, else",
        "`$TRNTOP_CONFIG`, else `trntop/config.toml` in `$XDG_CONFIG_HOME` (`~/.config`). It is",
        "TOML, one table a section:",
        "",
        "```toml",
        "[analysis]",
        "comm_share = 0.3",
        'disabled = ["memory_pressure"]',
        "```",
        "",
        "Lists in environment variables are separated by commas. A setting that is unknown, of",
        "the wrong type or out of range is refused, with the place where it stands.",
    ]
    for name, section in _SECTIONS.items():
        lines += ["", f"## `[{name}]`", "", inspect.getdoc(section) or ""]
        meanings = _field_docs(section)
        for field in section.__struct_fields__:
            key = f"{name}.{field}"
            default = getattr(getattr(Settings(), name), field)
            lines += [
                "",
                f"### `{field}`",
                "",
                meanings[field],
                "",
                f"- Accepts {_expected(_TYPES[key])}.",
                f"- Default: `{_shown(default)}`",
                "- A table of the file; no environment variable."
                if isinstance(types.type_info(_TYPES[key]), types.DictType)
                else f"- Environment: `{_variable(key)}`",
            ]
    return "\n".join([*lines, *_describe_rules()]) + "\n"


def _describe_rules() -> list[str]:
    lines = [
        "",
        "## `[[rules]]`",
        "",
        inspect.getdoc(OwnRule) or "",
        f"In the file only, at most {MAX_RULES}; `trntop rules` lists them beside trntop's own.",
        "",
        "```toml",
        "[[rules]]",
        'name = "hot_host"',
        'when = "node_cpu_busy_ratio > 0.9"',
        "hold = 30",
        "```",
    ]
    meanings = _field_docs(OwnRule)
    for field in structs.fields(OwnRule):
        lines += [
            "",
            f"### `{field.name}`",
            "",
            meanings[field.name],
            "",
            f"- Accepts {_expected(_RULE_TYPES[field.name])}.",
            f"- Default: {_default(field)}.",
        ]
    return lines


def _default(field: structs.FieldInfo) -> str:
    if field.required:
        return "none, it must be there"
    return "none" if field.default is None else f"`{_shown(field.default)}`"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _field_docs(section: type[msgspec.Struct]) -> dict[str, str]:
    """The strings under the fields of a section, from its source."""
    body = ast.parse(inspect.getsource(section)).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


if __name__ == "__main__":
    print(describe(), end="")
