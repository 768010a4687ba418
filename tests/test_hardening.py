from itertools import islice

from benchmarks.hardening.kinds import Run, draw
from benchmarks.hardening.score import Alarm, alarms, outcome
from benchmarks.hardening.telemetry import START, Decoded, readings


def beginning(run: Run) -> list[tuple[object, ...]]:
    first = islice(readings(run.world), 300)
    return [
        (reading.node, reading.source, reading.time, reading.data)
        + (
            tuple(map(tuple, reading.sample.columns.values()))
            if isinstance(reading, Decoded)
            else ()
        )
        for reading in first
    ]


def test_a_seed_gives_the_same_run_each_time() -> None:
    assert str(beginning(draw("slow-node", 2))) == str(beginning(draw("slow-node", 2)))
    assert str(beginning(draw("slow-node", 2))) != str(beginning(draw("slow-node", 3)))


def test_a_healthy_run_begins_without_an_incident() -> None:
    run = draw("plain", 1)
    stream = (reading for reading in readings(run.world) if reading.time < START + 30)
    assert outcome(run, alarms(stream)).false == ()


def test_a_faulty_run_is_found_where_it_is() -> None:
    run = draw("ecc", 5)
    (truth,) = run.truths
    window = START + truth.onset - 20, START + truth.onset + 20
    stream = (reading for reading in readings(run.world) if window[0] < reading.time < window[1])
    result = outcome(run, alarms(stream))
    ((_, alarm),) = result.found
    assert alarm.right_node(truth)
    assert alarm.right_part(truth)
    assert (result.missed, result.false) == ((), ())


def test_an_incident_that_names_another_node_is_wrong_and_a_second_one_is_false() -> None:
    run = draw("slow-node", 1)
    (truth,) = run.truths
    (culprit,) = truth.culprits
    innocent = next(name for name in run.world.names if name != culprit)
    right = Alarm("straggler", truth.onset + 9, culprit, None, f"{culprit} is slower")
    wrong = Alarm("straggler", truth.onset + 9, culprit, None, f"{culprit}; {innocent} waits")
    late = Alarm("straggler", truth.end + 61, culprit, None, "")
    assert outcome(run, [right, wrong]).found == ((truth, right),)
    assert outcome(run, [right, wrong]).false == (wrong,)
    assert not wrong.right_node(truth)
    assert outcome(run, [late]).missed == (truth,)
