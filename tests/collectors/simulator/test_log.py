import re
import time

import pytest

from tests.collectors.simulator.playing import START, play, steps

COLOUR = re.compile(r"\x1b\[[\d;]*m")
LINE = re.compile(
    r"\[titan\] (?P<stamp>[\d :-]+),\d{3} - root - INFO - step: (?P<step>\d+)  "
    r"loss: +(?P<loss>[\d.]+)  grad_norm: +(?P<grad_norm>[\d.]+)  "
    r"memory: 67\.20GiB\(70\.00%\)  tps: (?P<tps>[\d,]+)  tflops: (?P<tflops>[\d.]+)  "
    r"mfu: (?P<mfu>[\d.]+)%"
)


def test_rank_0_prints_a_line_of_torchtitan_at_each_step() -> None:
    events = play("sim:healthy?nodes=2&job=run-7", end=30.0)
    records = {event.data["step"]: event.data for event in steps(events) if event.data["rank"] == 0}
    logged = [event for event in events if event.source == "log"]
    assert {event.node for event in logged} == {"trn-000"}
    texts = []
    for event in logged:
        assert (event.data["file"], event.data["job"]) == ("train.log", "run-7")
        (line,) = event.data["lines"]
        assert len(COLOUR.findall(line["text"])) == 8
        found = LINE.fullmatch(COLOUR.sub("", line["text"]))
        assert found is not None
        record = records[int(found["step"])]
        texts.append(int(found["step"]))
        assert float(found["loss"]) == record["loss"]
        assert float(found["mfu"]) == pytest.approx(100 * record["mfu"], abs=0.01)
        assert float(found["tflops"]) == pytest.approx(record["mfu"] * 667, rel=1e-3)
        per_device = record["tokens"] / 32 / record["step_seconds"]
        assert int(found["tps"].replace(",", "")) == round(per_device)
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(START + event.second))
        assert found["stamp"] == stamp
    assert texts == sorted(records)
