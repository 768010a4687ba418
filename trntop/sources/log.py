"""Lines of training logs: `{"file", "job", "lines": [{"text", "values"?}, …]}`.

`"timeouts": {"count", "lines"}` and `"compilations": {"hits", "misses", "seconds"}` count what the
log has reported since the payload before, `"interruptions": [text]` are its lines on restarts; see
`trntop.sources.log_events`.

The forms are those that the training libraries for Trainium print: TorchTitan
(`MetricsProcessor.log`), the pretraining examples of NeuronX Distributed, the progress bar of
NeuronX Distributed Training and NeMo, the MLP tutorial of torch-neuronx, and the dictionaries of
Hugging Face's Trainer as optimum-neuron uses it. `values` are there where a pattern of the user's
has matched, by the names in `FIELDS`; such patterns are not known here.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from trntop.catalog import LOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import log_events, tolerant
from trntop.sources.source import Role, Source

MAX_TEXT = 4096
"""Characters of a line that are read."""
MAX_TIMEOUTS = 8
MAX_EVENTS = 1e9
COMPILATIONS = {
    "hits": "node_compile_cache_hits_total",
    "misses": "node_compile_cache_misses_total",
    "seconds": "node_compile_seconds_total",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a line."""

    columns: tuple[str, ...]
    scale: float = 1.0
    least: float = 0.0
    most: float = 1e18


FIELDS = {
    "step": Field(("job_step", "job_logged_step_total")),
    "step_seconds": Field(("job_logged_step_seconds",), most=1e6),
    "loss": Field(("job_loss",), least=-math.inf, most=math.inf),
    "grad_norm": Field(("job_grad_norm",), most=math.inf),
    "mfu": Field(("job_mfu_ratio",), scale=0.01, most=100.0),
    "tokens_per_second": Field(("job_tokens_per_second",)),
    "tokens_per_second_per_device": Field(("job_tokens_per_second_per_device",)),
    "samples_per_second": Field(("job_samples_per_second",)),
    "epoch": Field(("job_epoch",), most=1e9),
}
"""By the names of groups; `mfu` is in percent."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a library writes its line, as expressions with the names in `FIELDS` for groups."""

    name: str
    signs: tuple[str, ...]
    """All of them are found in a line of this form."""
    details: tuple[str, ...]
    """Its values; of two that give the same, the first one found counts."""


# No expression takes more than a few steps per character, whatever the line: each begins with
# something that is not repeated, and gives nothing back once it has it.
_NUMBER = r"[-+]?(?:\d[\d,]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"


def _form(name: str, signs: tuple[str, ...], *details: str) -> Form:
    """A form from expressions in which `#` is a number."""
    return Form(
        name,
        tuple(sign.replace("#", _NUMBER) for sign in signs),
        tuple(detail.replace("#", _NUMBER) for detail in details),
    )


FORMS = (
    _form(
        "TorchTitan",
        # The line of a validation is the same but for its first word.
        (r"(?<!validate )\bstep:\s*+#\s++loss:",),
        r"\bstep:\s*+(?P<step>#)",
        r"\bloss:\s*+(?P<loss>#)",
        r"\bgrad_norm:\s*+(?P<grad_norm>#)",
        r"\btps:\s*+(?P<tokens_per_second_per_device>#)",
        r"\bmfu:\s*+(?P<mfu>#)%",
    ),
    _form(
        "NxD, tensor and pipeline parallel",
        (r"\bstep # step_time #s",),
        r"\bstep (?P<step>#) step_time",
        r"\bstep_time (?P<step_seconds>#)s",
        r"\bthroughput (?P<samples_per_second>#)",
        r"\bseq/s (?:step )?loss (?P<loss>#)",
        r"\bgrad norm (?P<grad_norm>#)",
    ),
    _form(
        "NxD, ZeRO-1",
        (r"\(\d{1,9}, \d{1,12}\) step_loss :",),
        r"\(\d{1,9}, (?P<step>\d{1,12})\) step_loss",
        r"\bstep_loss : (?P<loss>#)",
        r"\bthroughput : (?P<samples_per_second>#)",
        r"\bgrad-norm : (?P<grad_norm>#)",
    ),
    _form(
        "NxD, Lightning",
        (r"\bstep # loss is ",),
        r"\bstep (?P<step>#) loss is",
        r"\bloss is (?P<loss>#)",
        r"\bthroughput (?P<samples_per_second>#)",
        r"\bnorm (?P<grad_norm>#)",
    ),
    _form(
        "progress bar of NxD Training and NeMo",
        (
            r"/\d{1,12} \[[\d:]{4,16}<[\d:?]{1,16}, ",
            r"\b(?:reduced_train_loss|loss|global_step)=",
        ),
        r"\bglobal_step=(?P<step>#)",
        r"\bEpoch (?P<epoch>\d{1,9}):",
        r"\b(?P<epoch_steps>\d{1,12}/\d{1,12}) \[",
        r", (?P<step_seconds>#)s/it",
        r", (?P<steps_per_second>#)it/s",
        r"\breduced_train_loss=(?P<loss>#)",
        r"\bloss=(?P<loss>#)",
        r"\bgradient_norm=(?P<grad_norm>#)",
        r"\bthroughput=(?P<samples_per_second>#)",
    ),
    _form(
        "torch-neuronx, MLP",
        (r"Train throughput \(iter/sec\):",),
        r"Train throughput \(iter/sec\): (?P<steps_per_second>#)",
    ),
    _form(
        "Hugging Face Trainer, optimum-neuron",
        (r"\{'(?:loss|train/)",),
        r"'loss': '?(?P<loss>#)",
        r"'epoch': '?(?P<epoch>#)",
        r"'grad_norm': '?(?P<grad_norm>#)",
        r"'train_tokens_per_second': '?(?P<tokens_per_second>#)",
        r"'train/(?:global_)?tokens_per_sec': '?(?P<tokens_per_second>#)",
        r"'train/(?:local_)?step_time': '?(?P<step_seconds>#)",
        r"'train/mfu': '?(?P<mfu>#)",
    ),
)

_ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]")


class _Line(msgspec.Struct, gc=False):
    text: str = ""
    values: dict[str, float | None] | None = None


class _Timeouts(msgspec.Struct):
    count: int = 0
    lines: list[str] = []


class _Lines(msgspec.Struct):
    file: str = ""
    job: str = ""
    lines: list[_Line] = []
    timeouts: _Timeouts | None = None
    interruptions: list[str] = []
    compilations: dict[str, float] | None = None


_decoder = msgspec.json.Decoder(_Lines)


def plain(text: str) -> str:
    """The beginning of a line, without the terminal's colours."""
    return _ESCAPE.sub("", text[:MAX_TEXT])


def recognize(text: str) -> tuple[str, dict[str, float]]:
    """The name of a line's form and its values, by the names in `FIELDS`.

    Both are empty for a line of no known form. What is not a number, like a loss of `nan`, is left
    out.
    """
    text = plain(text)
    for form in FORMS:
        if all(re.search(sign, text) for sign in form.signs):
            found = [match for detail in form.details if (match := re.search(detail, text))]
            values: dict[str, float] = {}
            for match in found:
                ((name, digits),) = match.groupdict().items()
                if name == "epoch_steps":
                    done, steps = map(int, digits.split("/"))
                    if "epoch" in values and 0 < done <= steps:
                        values["epoch"] += done / steps
                    continue
                value = number(digits)
                if name == "steps_per_second":
                    name, value = "step_seconds", 1.0 / value if value else None
                if value is not None:
                    values.setdefault(name, value)
            return form.name, values
    return "", {}


def parse(text: str) -> dict[str, float]:
    """The values of a line, by the names in `FIELDS`; none when it has no known form."""
    return recognize(text)[1]


def number(digits: str) -> float | None:
    """A finite number as logs write it, such as `1,234` or `7.5e-9`, else None."""
    try:
        value = float(digits.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def decode(data: bytes) -> Sample:
    """The newest values of the lines.

    Raises:
        DecodeError: no JSON object of this kind, or without a line of a known form.
    """
    record, problems = tolerant.decode(data, _decoder)
    # A newer line replaces the older one of its form as a whole: what it lacks is absent.
    newest: dict[object, Mapping[str, float | None]] = {}
    for line in record.lines:
        form: object
        found: Mapping[str, float | None]
        if line.values is not None:
            form, found = frozenset(line.values), line.values
        else:
            form, found = recognize(line.text)
        if form:
            newest.pop(form, None)
            newest[form] = found
    deltas = _deltas(record)
    events = _events(record)
    if not newest and not deltas and not events:
        raise DecodeError("no line of a known form")
    values = {name: value for found in newest.values() for name, value in found.items()}
    columns = {
        column: np.array([value * field.scale])
        for name, field in FIELDS.items()
        if (value := values.get(name)) is not None and field.least <= value <= field.most
        if math.isfinite(value)
        for column in field.columns
    }
    job = clean(record.job, 128) or "job"
    return Sample(
        keys={Entity.JOB: (job,)} if newest else {},
        columns=columns,
        deltas=deltas,
        problems=(*events, *problems),
        part=f"{job}/{clean(record.file)}",
    )


def _events(record: _Lines) -> list[str]:
    """What the log reports that explains why a run stalls."""
    lines = record.timeouts.lines[:MAX_TIMEOUTS] if record.timeouts else []
    found = [log_events.collective_timeout(line[:MAX_TEXT]) for line in lines]
    newest = reversed(record.interruptions[-MAX_TIMEOUTS:])
    found += [log_events.interruption(line[:MAX_TEXT]) for line in newest]
    return [*filter(None, found)]


def _deltas(record: _Lines) -> dict[str, float]:
    """What the log has counted, where it has reported such events."""
    deltas = {}
    if record.timeouts and 0 < record.timeouts.count < MAX_EVENTS:
        deltas["node_collective_timeouts_total"] = float(record.timeouts.count)
    counts = record.compilations or {}
    if any(counts.values()):
        for name, quantity in COMPILATIONS.items():
            if 0 <= (count := counts.get(name, 0.0)) < MAX_EVENTS:
                deltas[quantity] = count
    return deltas


SOURCE = Source(
    name=LOG,
    decode=decode,
    role=Role.TRAINING,
    collector="trntop.collectors.training_log",
    stale_after=60.0,  # a log may print each tenth step only
    gives="step, loss, tokens/s, MFU and step time from the lines a training run prints; compile "
    "time, lookups in the compile cache, collectives that timed out, restarts by HyperPod",
    origin="the files named in the setting `collect.logs`",
    needs="a log of TorchTitan, NxD, NeMo, optimum-neuron, or a pattern in `collect.log_patterns`",
    without="these values, unless step telemetry reports them",
)
