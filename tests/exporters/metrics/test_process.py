import time
from pathlib import Path

from trntop.exporters.metrics.process import ProcessUsage


def test_reads_this_process() -> None:
    values = ProcessUsage().read()
    assert list(values) == [name for name, *_ in ProcessUsage.FAMILIES]
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert 0 < values["process_start_time_seconds"] <= time.time() + 2
    assert values["process_open_fds"] >= 3


def test_is_silent_where_there_is_no_proc(tmp_path: Path) -> None:
    assert ProcessUsage(tmp_path).read() == {}


def test_takes_any_name_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    (tmp_path / "self" / "fd").mkdir(parents=True)
    fields = ["S", *("0" for _ in range(10)), "150", "50", *("0" for _ in range(6)), "300"]
    fields += ["0", "7"]
    (tmp_path / "self" / "stat").write_text(f"12 (a) b) {' '.join(fields)}\n")
    values = ProcessUsage(tmp_path).read()
    ticks = ProcessUsage()._ticks
    assert values["process_cpu_seconds_total"] == 200 / ticks
    assert values["process_start_time_seconds"] == 1000 + 300 / ticks
