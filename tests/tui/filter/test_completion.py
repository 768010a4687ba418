import pytest

from trntop.tui.filter.completion import candidates, complete


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("ut", "util"),
        ("util<30 & hbm_", "util<30 & hbm_bw"),
        ("!inc", "!incident"),
        ("util<3 | sta", "util<3 | state"),
        ("state=st", "state=starting"),
        ("phase=wa", "phase=warming-up"),
        ("kind!=efa_d", "kind!=efa_degraded"),
        ("node_cpu_b", "node_cpu_busy_ratio"),
        ("", None),
        ("util<3", None),
        ("util<30 & ", None),
        ("zzz", None),
        ("state=zzz", None),
        ("job=p", None),
        ("node~tr", None),
        ("'ut", None),
    ],
)
def test_the_last_word_is_completed(text: str, completed: str | None) -> None:
    assert complete(text) == completed


def test_short_names_come_first_and_all_are_offered_at_the_beginning() -> None:
    assert candidates("")[1][:3] == ["node", "state", "job"]
    assert "node_cpu_busy_ratio" not in candidates("no")[1]
    assert next(iter(candidates("node")[1])) == "node_memory_total_bytes"
