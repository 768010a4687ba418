import pytest

from tests.collectors.simulator.playing import play


@pytest.mark.parametrize(
    ("instance_type", "share"),
    [("trn2.48xlarge", 2.9e12 / 4), ("trn1.32xlarge", 820e9 / 2)],
)
def test_the_loaded_program_moves_two_fifths_of_the_peak(instance_type: str, share: float) -> None:
    events = play(f"sim:healthy?nodes=1&type={instance_type}", end=30.0)
    ((profile,),) = [e.data["profiles"] for e in events if e.source == "profiles"]
    reports = [
        event.data["neuron_runtime_data"][0]["report"]
        for event in events
        if event.source == "neuron-monitor"
    ]
    model = reports[0]["memory_used"]["loaded_models"][0]
    assert model["uuid"] == profile["uuid"]
    assert model["name"].endswith(f"/{profile['name']}")
    moved = profile["hbm_read_bytes"] + profile["hbm_write_bytes"]
    latencies = [report["execution_stats"]["latency_stats"]["device_latency"] for report in reports]
    typical = [latency["p50"] for latency in latencies if latency]
    for seconds in typical:
        assert 0.35 < moved / seconds / share < 0.45
    assert profile["seconds"] == pytest.approx(sum(typical) / len(typical), rel=0.01)
    assert 0.0 < profile["comm_seconds"] < profile["seconds"]
