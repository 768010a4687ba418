"""Lines of logs, as the libraries write them."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.catalog import CATALOG, LOG, Entity
from trntop.core.errors import DecodeError
from trntop.sources.log import FIELDS, FORMS, MAX_TEXT, decode, number, parse, recognize

TITAN = (
    "[titan] 2025-11-20 14:03:42,123 - root - INFO - \x1b[31mstep: 12  \x1b[32mloss:  2.5000  "
    "\x1b[38;2;180;60;0mgrad_norm:  1.2500  \x1b[38;2;54;234;195mmemory: 20.00GiB(83.33%)  "
    "\x1b[34mtps: 7,012  \x1b[36mtflops: 1,123.45  \x1b[35mmfu: 39.30%\x1b[39m"
)
NEMO = (
    "Epoch 0:   0%|          | 189/301501 [59:12<1573:03:24, 18.79s/it, loss=7.75, v_num=3-16, "
    "reduced_train_loss=7.560, global_step=188.0, consumed_samples=24064.0]"
)
NEMO_2 = (
    "Epoch 0:   3%|▎         | 3/91 [16:05<7:52:06, 321.89s/it, loss=6.7, v_num=2, "
    "reduced_train_loss=13.40, lr=7.5e-9, parameter_norm=5536.0, global_step=1.000, "
    "consumed_samples=2048.0]"
)
HUGGING_FACE = (
    "{'loss': 2.6031, 'grad_norm': 1.88, 'learning_rate': 5e-07, 'epoch': 2.24, "
    "'num_input_tokens_seen': 19660800, 'train_tokens_per_second': 2737.98}"
)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (
            TITAN,
            {
                "step": 12, "loss": 2.5, "grad_norm": 1.25, "mfu": 39.3,
                "tokens_per_second_per_device": 7012,
            },
        ),
        ("step:  1  loss:     nan  grad_norm:     inf  tps: 5", {
            "step": 1, "tokens_per_second_per_device": 5,
        }),
        ("step:  1  loss: -0.5000  memory:  1.00GiB(2.00%)", {"step": 1, "loss": -0.5}),
        (
            "step 12 step_time 1.5s throughput 102.4 seq/s step loss 9.187 grad norm 1.25",
            {"step": 12, "step_seconds": 1.5, "samples_per_second": 102.4, "loss": 9.187,
             "grad_norm": 1.25},
        ),
        (
            "step 12 step_time 1.5s throughput 102.4 seq/s loss 9.187 grad norm None",
            {"step": 12, "step_seconds": 1.5, "samples_per_second": 102.4, "loss": 9.187},
        ),
        (
            "LOG Thu Sep 29 22:30:10 2022 - (0, 78) step_loss : 9.1875  learning_rate : 1.56e-05 "
            " throughput : 2873.14",
            {"step": 78, "loss": 9.1875, "samples_per_second": 2873.14},
        ),
        (
            "LOG Thu Sep 29 22:30:10 2022 - (3, 1078) step_loss : 2.5  learning_rate : 1.56e-05 "
            " throughput : 28.14 seq/s grad-norm : 0.75",
            {"step": 1078, "loss": 2.5, "samples_per_second": 28.14, "grad_norm": 0.75},
        ),
        (
            "step 120 loss is 3.5, lr is 0.0003, throughput 12.25 seq/s,  input_ids 17, "
            "norm 0.5, global rank 0",
            {"step": 120, "loss": 3.5, "samples_per_second": 12.25, "grad_norm": 0.5},
        ),
        (NEMO, {"step": 188, "loss": 7.56, "step_seconds": 18.79, "epoch": 189 / 301501}),
        (NEMO_2, {"step": 1, "loss": 13.4, "step_seconds": 321.89, "epoch": 3 / 91}),
        (
            "Epoch 0: 1%|1| 10/991 [00:05<08:52, 4.00it/s, loss=6.7, throughput=512.5, "
            "throughput_peak=600.0, gradient_norm=0.25, global_step=9.000]",
            {"step": 9, "loss": 6.7, "step_seconds": 0.25, "samples_per_second": 512.5,
             "grad_norm": 0.25, "epoch": 10 / 991},
        ),
        ("Train throughput (iter/sec): 250.0", {"step_seconds": 0.004}),
        ("Train throughput (iter/sec): 0", {}),
        (
            HUGGING_FACE,
            {"loss": 2.6031, "grad_norm": 1.88, "tokens_per_second": 2737.98, "epoch": 2.24},
        ),
        ("{'loss': '2.6', 'grad_norm': '1.9', 'learning_rate': '5e-07'}",
         {"loss": 2.6, "grad_norm": 1.9}),
        (
            "{'train/global_tokens_per_sec': 5000.5, 'train/local_step_time': 1.5, "
            "'train/mfu': 12.5}",
            {"tokens_per_second": 5000.5, "step_seconds": 1.5, "mfu": 12.5},
        ),
    ],
)  # fmt: skip
def test_forms(line: str, values: dict[str, float]) -> None:
    assert parse(line) == values
    assert recognize(line)[0] in {form.name for form in FORMS}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step",
        "validate step: 10  loss: 2.3456  memory: 20.00GiB(83.33%)  tps: 7,012",
        "Namespace(loss=0.5, global_step=3)",
        "Downloading: 3/91 [00:01<00:02, 3.20it/s]",
        "Validation: 3/91 [00:01<00:02, 3.20it/s, loss_scale=1]",
        "{'eval_loss': 2.5, 'epoch': 1.0}",
        "{'train_runtime': 100.0, 'train_loss': 2.5, 'epoch': 1.0}",
        "my_step: 3  loss: 2",
    ],
)
def test_other_lines_are_ignored(line: str) -> None:
    assert recognize(line) == ("", {})


def test_numbers() -> None:
    texts = ["1,234", "7.5e-9", "-3", "+.5", "12.", "1E3"]
    assert [number(text) for text in texts] == [1234, 7.5e-9, -3, 0.5, 12, 1000]
    assert [number(text) for text in ("nan", "inf", "1e999", "", ",", "x")] == [None] * 6


@given(st.text() | st.text(alphabet="step:los =0123456789.,e-+[]<>|/()it{}'\x1b"))
def test_no_line_breaks_it(text: str) -> None:
    assert all(math.isfinite(value) for value in parse(text).values())


@pytest.mark.parametrize(
    "line",
    [
        "1" * MAX_TEXT,
        "1," * MAX_TEXT,
        " " * MAX_TEXT,
        "step: " * MAX_TEXT,
        "step: 1 loss" * MAX_TEXT,
        "step: " + " " * MAX_TEXT,
        "step:" + "1" * MAX_TEXT,
        "step: 1" + " " * MAX_TEXT,
        "step 1 step_time " * MAX_TEXT,
        "(1, " * MAX_TEXT,
        "/1 [" * MAX_TEXT,
        "/1 [1:1:1:1<1:1:1, " * MAX_TEXT,
        "loss=" * MAX_TEXT + "/1 [00:00<00:00, ",
        ", 1" * MAX_TEXT,
        "{'loss': '" * MAX_TEXT,
        "\x1b[" * MAX_TEXT,
        "\x1b[" + "1;" * MAX_TEXT,
        "\x1b[" + " " * MAX_TEXT,
    ],
)
def test_no_line_takes_long(line: str) -> None:
    """Of several tries the quickest, on a machine that may be busy."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        parse(line)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.01


def payload(*lines: Any, **extra: Any) -> bytes:
    entries = [line if isinstance(line, dict) else {"text": line} for line in lines]
    return json.dumps({"file": "train.log", "job": "pretrain", "lines": entries} | extra).encode()


def values(data: bytes) -> dict[str, float]:
    return {name: column.item() for name, column in decode(data).columns.items()}


def test_columns() -> None:
    sample = decode(payload(TITAN))
    assert sample.keys == {Entity.JOB: ("pretrain",)}
    assert sample.part == "pretrain/train.log"
    assert sample.period is None, "how often a loop logs is its own affair"
    assert sample.problems == ()
    assert values(payload(TITAN)) == {
        "job_step": 12, "job_logged_step_total": 12, "job_loss": 2.5, "job_grad_norm": 1.25,
        "job_mfu_ratio": pytest.approx(0.393), "job_tokens_per_second_per_device": 7012,
    }  # fmt: skip


def test_every_field_has_its_quantity() -> None:
    columns = {column for field in FIELDS.values() for column in field.columns}
    for column in columns:
        quantity = CATALOG[column]
        assert quantity.entity is Entity.JOB
        assert LOG in (quantity.source, quantity.fallback) or column == "job_tokens_per_second"


def test_the_newest_line_counts_as_a_whole() -> None:
    first = "step:  1  loss:  3.0  grad_norm:  1.0"
    second = "step:  2  loss:  nan"
    assert values(payload(first, second)) == {"job_step": 2, "job_logged_step_total": 2}
    # Lines of different forms complete each other.
    both = payload(HUGGING_FACE, second, HUGGING_FACE.replace("2.6031", "2.5"))
    assert values(both)["job_loss"] == 2.5
    assert values(both)["job_step"] == 2


def test_values_of_a_users_pattern() -> None:
    line = {"text": "it 5 l 2.5 ppl nan", "values": {"step": 5, "loss": 2.5, "mfu": 50, "x": 1}}
    newer = {"text": "g", "values": {"grad_norm": None}}
    older = {"text": "g", "values": {"grad_norm": 3.0}}
    assert values(payload(older, line, newer)) == {
        "job_step": 5, "job_logged_step_total": 5, "job_loss": 2.5, "job_mfu_ratio": 0.5,
    }  # fmt: skip


def test_nonsense_is_absent() -> None:
    invalid = {"step": -1, "mfu": 120, "grad_norm": -1, "step_seconds": 1e9, "loss": -2}
    assert values(payload({"text": "", "values": invalid})) == {"job_loss": -2}


def test_names_are_cleaned_and_may_be_missing() -> None:
    sample = decode(payload(TITAN, file="a\x1b.log", job=""))
    assert sample.keys[Entity.JOB] == ("job",)
    assert sample.part == "job/a\ufffd.log"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'"x"', payload(), payload("nothing"), payload({"text": "", "values": {}})],
)
def test_nothing_usable(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


def test_one_bad_line_spares_the_rest() -> None:
    sample = decode(payload(TITAN, {"text": 5, "values": {"loss": [1]}}))
    assert sample.columns["job_loss"].tolist() == [2.5]
    assert sample.problems


@given(st.binary() | st.builds(lambda tree: json.dumps(tree).encode(), st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["file", "job", "period", "lines", "text", "values", "loss"]), inner),
)))  # fmt: skip
def test_it_decodes_or_refuses(data: bytes) -> None:
    try:
        sample = decode(data)
    except DecodeError:
        return
    assert all(math.isfinite(column.item()) for column in sample.columns.values())
