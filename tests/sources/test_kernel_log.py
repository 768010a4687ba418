import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.core.errors import DecodeError
from trntop.sources.kernel_log import MAX_LINES, decode, relevant

HBM = (
    "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id=i-0 nd-id=3 nc-id=1 serial-num=19fc action=X"
)
STUCK = (
    "efa 0000:a0:1a.0 rdmap160s26: The device didn't send any completion for admin cmd"
    " CREATE_QP(1) status 1 (ctx 0x1, sq producer: 2, sq consumer: 1, cq consumer: 0)"
)
BENIGN = (
    "efa 0000:a0:1a.0 rdmap160s26: Failed to process command DEREG_MR (opcode 8)"
    " comp_status 7 err -22"
)


def payload(*texts: str, **more: Any) -> bytes:
    return json.dumps({"lines": [{"time": 1.0, "text": text} for text in texts]} | more).encode()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (HBM, "neuron"),
        ("kernel: NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR affecting neuron devices", "neuron"),
        ("neuron:nd3 NEURON_HW_ERR=NC_UNCORRECTABLE_ERROR", "neuron"),
        ("NEURON_HW_ERR=DMA_ERROR", "neuron"),
        ("NEURON_HW_ERR=SOME_LATER_ERROR", "neuron"),
        ("neuron:npid_detach: neuron:npid_detach: pid=90193, slot=0", None),
        (STUCK, "efa"),
        ("rdmap16s27: Wait for completion (polling) timeout", "efa"),
        ("efa 0000:00:1e.0 efa_0: Failed to process command REG_MR (opcode 7)", "efa"),
        ("efa 0000:00:1e.0: Device isn't ready, abort com init", "efa"),
        ("efa 0000:00:1e.0 efa_0: Reading register timed out. expected: req id[1]", "efa"),
        (BENIGN, None),
        ("ena 0000:00:05.0 eth0: Wait for completion (polling) timeout", None),
        ("efa 0000:00:1e.0: enabling device (0000 -> 0002)", None),
        ("", None),
    ],
)  # fmt: skip
def test_which_lines_matter(text: str, kind: str | None) -> None:
    assert relevant(text) == kind


def test_lines_are_counted_and_shown_newest_first() -> None:
    sample = decode(payload(STUCK, "something else", HBM + "\x1b", period=5))
    assert sample.deltas == {
        "node_kernel_neuron_errors_total": 1.0,
        "node_kernel_efa_errors_total": 1.0,
    }
    assert sample.problems == (HBM + "\ufffd", STUCK)
    assert sample.period == 5
    assert sample.columns == {}


def test_a_heartbeat_reports_zero_events() -> None:
    sample = decode(payload(period=10, via="/dev/kmsg", counts={"neuron": 0, "efa": 0}, lost=0))
    assert set(sample.deltas.values()) == {0.0}
    assert len(sample.deltas) == 2
    assert sample.problems == ()


def test_lines_that_are_left_out_count() -> None:
    sample = decode(payload(*[HBM] * 64, counts={"neuron": 900, "efa": 2}, lost=7))
    assert sample.deltas["node_kernel_neuron_errors_total"] == 900.0
    assert sample.deltas["node_kernel_efa_errors_total"] == 2.0
    assert sample.problems[-2:] == (
        "838 more such lines",
        "7 kernel messages were lost",
    )


@pytest.mark.parametrize("counts", [{"neuron": -5}, {"neuron": "x"}, {"neuron": None}, {}, 3])
def test_counts_that_are_none(counts: object) -> None:
    assert decode(payload(HBM, counts=counts)).deltas["node_kernel_neuron_errors_total"] == 1.0


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"{", b"\xff"])
def test_garbage(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@given(
    st.lists(st.sampled_from([HBM, STUCK, BENIGN, ""]) | st.text(max_size=20), max_size=100),
    st.dictionaries(st.sampled_from(["neuron", "efa", "x"]), st.integers(-(2**70), 2**70)),
    st.integers(-3, 2**70) | st.none(),
    st.floats() | st.none() | st.text(max_size=3),
)
def test_any_payload_counts_what_it_shows(
    texts: list[str], counts: dict[str, int], lost: object, period: object
) -> None:
    sample = decode(payload(*texts, counts=counts, lost=lost, period=period))
    shown = [text for text in texts if relevant(text)][-MAX_LINES:]
    for kind in ("neuron", "efa"):
        least = sum(relevant(text) == kind for text in shown)
        assert sample.deltas[f"node_kernel_{kind}_errors_total"] >= least
    assert len(sample.problems) <= MAX_LINES + 2 + 8
    assert sample.period is not None
    assert 0 < sample.period < float("inf")
