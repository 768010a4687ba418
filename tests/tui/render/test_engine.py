"""What there is to say of an engine behind the screen."""

import dataclasses

from tests.builders import make_view
from tests.tui.render.pens import PEN
from trntop.core.model import Whole
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.render import engine
from trntop.tui.scene import Scene


def of(whole: Whole) -> Scene:
    made = make_view(2)
    cluster = dataclasses.replace(made.cluster, whole=whole)
    return Scene(dataclasses.replace(made, cluster=cluster), History(10), Analysis())


def test_long_words_end_with_an_ellipsis() -> None:
    whole = Whole(nodes=2, problem="why " * 40, notes=("what " * 40, "more"))
    problem, note = (
        "".join(text for text, _ in parts) for _, parts in engine.groups(of(whole), PEN)
    )
    assert problem.endswith("…")
    assert len(problem) == engine.LONGEST
    assert note.endswith("… +1")


def test_sums_over_some_say_so() -> None:
    assert engine.partial(of(Whole(nodes=2))) == ""
    assert engine.partial(of(Whole(nodes=900, chosen=True))) == "of the 2 nodes shown"
