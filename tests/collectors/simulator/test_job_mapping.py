from tests.collectors.simulator.playing import Event, play, scripted


def jobs(events: list[Event]) -> dict[str, list[list[str]]]:
    """Node → what its files contained, one after another."""
    found: dict[str, list[list[str]]] = {}
    for event in events:
        found.setdefault(event.node, []).append(event.data["files"].get("all", []))
    return found


def test_each_job_has_its_nodes() -> None:
    contents = jobs(play("sim:healthy?nodes=4&jobs=2&type=trn1.2xlarge", "job-mapping", end=30.0))
    ids = [contents[node][0][0] for node in sorted(contents)]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert all(word == words[0] for words in contents.values() for word in words)


def test_an_idle_node_is_allocated() -> None:
    spec = "sim:idle-allocation?nodes=3&type=trn1.2xlarge&onset=20&duration=30"
    (truth,) = scripted(spec)
    assert truth.node is not None
    contents = jobs(play(spec, "job-mapping", end=80.0))
    words = contents.pop(truth.node)
    (others,) = {word[0] for words in contents.values() for word in words}
    assert (words[0], words[-1]) == ([], [])
    (mine,) = {word[0] for word in words if word}
    assert mine != others
