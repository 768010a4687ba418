"""Whose the name of a node is."""

from trntop.remote.names import NodeNames

AGENT, PAGE, OTHER_PAGE = "agent", "neuron-exporter", "efa-exporter"


def test_the_first_keeps_a_name() -> None:
    names = NodeNames()
    assert names.register("a", "http://a.east:1", AGENT) == "http://a.east:1"
    for other in ("http://a.west:1", "ssh://a.west", "http://relay:1"):
        assert names.register("a", other, PAGE) == "http://a.east:1"
        assert names.register("a", other) == "http://a.east:1"
    assert names.register("b", "http://a.west:1", AGENT) == "http://a.west:1"


def test_what_one_host_brings_goes_together() -> None:
    names = NodeNames()
    for owner, source in (
        ("http://a:1", AGENT), ("http://A:8000/metrics", PAGE), ("http://a:9100", OTHER_PAGE),
        ("ssh://ada@a:22", "ssh"),
    ):  # fmt: skip
        assert names.register("a", owner, source) == owner
    # Two of a kind may be two machines behind one host.
    assert names.register("a", "http://a:8001/metrics", PAGE) == "http://A:8000/metrics"
    assert names.register("a", "ssh://a:2222", "ssh") == "ssh://ada@a:22"


def test_a_registration_replaces_the_previous_one() -> None:
    names = NodeNames()
    names.register("a", "http://a:1", AGENT)
    names.register("a", "http://a:1", PAGE)
    assert names.register("a", "http://a:2", AGENT) == "http://a:2"
    # Refused, it brings nothing any more.
    assert names.register("a", "http://a:1", AGENT) == "http://a:2"
    assert names.register("a", "http://a:3", PAGE) == "http://a:3"


def test_a_name_is_free_without_an_owner() -> None:
    names = NodeNames()
    names.register("a", "http://a:1", AGENT)
    names.register("a", "http://a:2", PAGE)
    assert names.drop("a", "http://b:1") == frozenset()
    assert names.drop("a", "http://a:1") == {AGENT}
    assert names.register("a", "http://b:1", AGENT) == "http://a:2"
    assert names.drop("a", "http://a:2") is None
    assert names.register("a", "http://b:1", AGENT) == "http://b:1"
    assert names.drop("never", "") is None


def test_what_is_behind_two_paths_of_a_proxy_are_two() -> None:
    names = NodeNames()
    first = "http://proxy/rack-1"
    assert names.register("proxy", first, AGENT) == first
    assert names.register("proxy", "http://proxy/rack-2/metrics", PAGE) == first
    assert names.register("proxy", "http://proxy/metrics", PAGE) == first
    for same in ("http://proxy/rack-1/metrics", "http://proxy:8000/rack-1/"):
        assert names.register("proxy", same, PAGE) == same
        names.drop("proxy", same)


def test_an_owner_that_leaves_removes_its_exclusive_sources() -> None:
    names = NodeNames()
    names.register("a", "http://a:1", AGENT)
    names.register("a", "http://a:2", PAGE)
    names.register("a", "http://a:1")  # it has spoken, and is silent now
    names.register("a", "http://a:3", AGENT)
    assert names.drop("a", "http://a:1") == frozenset()
    # One that is refused may have brought something before.
    assert names.register("a", "http://a:2", AGENT) == "http://a:3"
    assert names.drop("a", "http://a:2") == {PAGE}
    assert names.drop("a", "http://a:3") is None
