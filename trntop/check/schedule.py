"""Pairs nodes in disjoint rounds, in which each node has at most one partner.

Two probes at a time on one host disturb each other more than any fault does (a ping-pong polls a
full core on each side), so a round never contains a host twice, and all of its pairs can run at
once. Nodes are indices of a list here.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

Pair = tuple[int, int]
Round = tuple[Pair, ...]


def tournament(count: int) -> list[Round]:
    """Each pair of `count` nodes once, in the fewest rounds.

    The circle method: one node stays, the others move on by one place each round. An even number
    takes `count - 1` rounds; an odd one takes `count`, and in each one node rests.
    """
    if count < 2:
        return []
    circle: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    half = len(circle) // 2
    rounds = []
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle), strict=False)
        rounds.append(
            tuple(
                (first, second)
                for first, second in pairs
                if first is not None and second is not None
            )
        )
        circle.insert(1, circle.pop())
    return rounds


def quick(count: int) -> list[Round]:
    """Two partners for each node: its neighbor, and the node half the list away.

    Neighbors often share a rack; half the list away is another. An odd number takes a third
    round, for the two that each rested once. Two nodes have each other only.
    """
    if count < 2:
        return []
    neighbors = tuple((place, place + 1) for place in range(0, count - 1, 2))
    if count == 2:
        return [neighbors]
    half = (count + 1) // 2
    rounds = [neighbors, tuple((place, place + half) for place in range(count - half))]
    if count % 2:
        rounds.append(((count // 2, count - 1),))
    return rounds


def against(
    suspects: Sequence[int],
    good: Sequence[int],
    met: Collection[Pair],
    wanted: Mapping[int, int],
) -> list[Round]:
    """Rounds of suspects with good nodes that they were not probed with.

    Args:
        suspects: nodes not known to be good.
        good: their partners, preferred first.
        met: pairs already probed, in either order.
        wanted: suspect → number of partners.
    """
    known = {frozenset(pair) for pair in met}
    missing = Counter({suspect: wanted[suspect] for suspect in suspects})
    uses: Counter[int] = Counter()
    rounds: list[Round] = []
    while True:
        pairs: dict[int, Pair] = {}
        # The suspect that lacks most partners first, with the least used good node.
        for suspect in sorted(missing, key=lambda each: -missing[each]):
            free = [
                node for node in good
                if node not in pairs and frozenset((suspect, node)) not in known
            ]  # fmt: skip
            if missing[suspect] > 0 and free:
                partner = min(free, key=uses.__getitem__)
                known.add(frozenset((suspect, partner)))
                pairs[partner] = (suspect, partner)
                uses[partner] += 1
                missing[suspect] -= 1
        if not pairs:
            return rounds
        rounds.append(tuple(pairs.values()))


def apart(pairs: Iterable[Pair]) -> list[Round]:
    """Given pairs in disjoint rounds: each goes into the first round with room."""
    rounds: list[list[Pair]] = []
    for pair in pairs:
        free = (own for own in rounds if all(set(pair).isdisjoint(other) for other in own))
        if (first := next(free, None)) is None:
            rounds.append(first := [])
        first.append(pair)
    return [tuple(own) for own in rounds]
