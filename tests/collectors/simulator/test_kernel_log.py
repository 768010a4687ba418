from tests.collectors.simulator.playing import play


def test_a_healthy_kernel_log_only_sends_heartbeats() -> None:
    events = play("sim:healthy?nodes=2&type=trn1.2xlarge&minutes=1", "kernel-log")
    assert len(events) == 13
    for event in events:
        assert event.data == {"period": 10, "via": "/dev/kmsg", "lines": []}


def test_a_line_comes_at_once() -> None:
    events = play("sim:ecc?nodes=1&type=trn1.2xlarge&minutes=3", "kernel-log")
    ((second, line),) = [(e.second, line) for e in events for line in e.data["lines"]]
    assert 120.0 < second < 120.1
    assert line["text"].startswith("kernel: NEURON_HW_ERR=")
