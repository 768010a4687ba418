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
    size = len(circle)
    rounds = []
    for _ in range(size - 1):
        drawn = ((circle[place], circle[size - 1 - place]) for place in range(size // 2))
        rounds.append(
            tuple((one, two) for one, two in drawn if one is not None and two is not None)
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
    left = Counter({one: wanted[one] for one in suspects})
    load: Counter[int] = Counter()
    rounds: list[Round] = []
    while True:
        taken: set[int] = set()
        drawn: list[Pair] = []
        # The suspect that lacks most partners first, with the least used good node.
        for one in sorted(left, key=lambda each: -left[each]):
            free = [two for two in good if two not in taken and frozenset((one, two)) not in known]
            if left[one] > 0 and free:
                two = min(free, key=load.__getitem__)
                known.add(frozenset((one, two)))
                taken.add(two)
                load[two] += 1
                left[one] -= 1
                drawn.append((one, two))
        if not drawn:
            return rounds
        rounds.append(tuple(drawn))


def apart(pairs: Iterable[Pair]) -> list[Round]:
    """Given pairs in disjoint rounds: each goes into the first round with room."""
    rounds: list[list[Pair]] = []
    busy: list[set[int]] = []
    for pair in pairs:
        place = next((at for at, taken in enumerate(busy) if taken.isdisjoint(pair)), len(busy))
        if place == len(busy):
            rounds.append([])
            busy.append(set())
        rounds[place].append(pair)
        busy[place].update(pair)
    return [tuple(drawn) for drawn in rounds]
