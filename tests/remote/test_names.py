"""Whose the name of a node is."""

from trntop.remote.names import NodeNames

AGENT, PAGE, OTHER_PAGE = "agent", "neuron-exporter", "efa-exporter"


def test_the_first_keeps_a_name() -> None:
    claims = NodeNames()
    assert claims.register("a", "http://a.east:1", AGENT) == "http://a.east:1"
    for other in ("http://a.west:1", "ssh://a.west", "http://relay:1"):
        assert claims.register("a", other, PAGE) == "http://a.east:1"
        assert claims.register("a", other) == "http://a.east:1"
    assert claims.register("b", "http://a.west:1", AGENT) == "http://a.west:1"


def test_what_one_host_brings_goes_together() -> None:
    claims = NodeNames()
    for owner, source in (
        ("http://a:1", AGENT), ("http://A:8000/metrics", PAGE), ("http://a:9100", OTHER_PAGE),
        ("ssh://ada@a:22", "ssh"),
    ):  # fmt: skip
        assert claims.register("a", owner, source) == owner
    # Two of a kind may be two machines behind one host.
    assert claims.register("a", "http://a:8001/metrics", PAGE) == "http://A:8000/metrics"
    assert claims.register("a", "ssh://a:2222", "ssh") == "ssh://ada@a:22"


def test_a_claim_takes_the_place_of_the_one_before() -> None:
    claims = NodeNames()
    claims.register("a", "http://a:1", AGENT)
    claims.register("a", "http://a:1", PAGE)
    assert claims.register("a", "http://a:2", AGENT) == "http://a:2"
    # Refused, it brings nothing any more.
    assert claims.register("a", "http://a:1", AGENT) == "http://a:2"
    assert claims.register("a", "http://a:3", PAGE) == "http://a:3"


def test_a_name_is_free_when_nobody_speaks_for_it() -> None:
    claims = NodeNames()
    claims.register("a", "http://a:1", AGENT)
    claims.register("a", "http://a:2", PAGE)
    assert claims.drop("a", "http://b:1") == frozenset()
    assert claims.drop("a", "http://a:1") == {AGENT}
    assert claims.register("a", "http://b:1", AGENT) == "http://a:2"
    assert claims.drop("a", "http://a:2") is None
    assert claims.register("a", "http://b:1", AGENT) == "http://b:1"
    assert claims.drop("never", "") is None


def test_what_is_behind_two_paths_of_a_proxy_are_two() -> None:
    claims = NodeNames()
    first = "http://proxy/rack-1"
    assert claims.register("proxy", first, AGENT) == first
    assert claims.register("proxy", "http://proxy/rack-2/metrics", PAGE) == first
    assert claims.register("proxy", "http://proxy/metrics", PAGE) == first
    for same in ("http://proxy/rack-1/metrics", "http://proxy:8000/rack-1/"):
        assert claims.register("proxy", same, PAGE) == same
        claims.drop("proxy", same)


def test_who_leaves_takes_along_what_nobody_else_brings() -> None:
    claims = NodeNames()
    claims.register("a", "http://a:1", AGENT)
    claims.register("a", "http://a:2", PAGE)
    claims.register("a", "http://a:1")  # it has spoken, and is silent now
    claims.register("a", "http://a:3", AGENT)
    assert claims.drop("a", "http://a:1") == frozenset()
    # One that is refused may have brought something before.
    assert claims.register("a", "http://a:2", AGENT) == "http://a:3"
    assert claims.drop("a", "http://a:2") == {PAGE}
    assert claims.drop("a", "http://a:3") is None
