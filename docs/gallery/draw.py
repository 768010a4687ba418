"""Draws the gallery: `python docs/gallery/draw.py [SHOT…]`, in a checkout.

Each shot is a moment of a simulation and the keys that open a screen: in all sizes in the first
theme, and in all themes in the first size. The page with the shots is written too.
"""

import argparse
import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widgets import Input

from tools.picture import painted, screenshot, svg
from trntop.collectors.simulator import parse, simulate
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.pipeline.history import History
from trntop.session.monitor import Monitor, play
from trntop.session.runner import Session
from trntop.tui.app import TrntopApp
from trntop.tui.themes import CONTRAST, DARK, DEUTERANOPIA, LIGHT

HERE = Path(__file__).parent
START = 1763650000.0
SIZES = ((120, 36), (80, 24), (200, 60))
THEMES = (DARK, LIGHT, CONTRAST, DEUTERANOPIA)
KEPT = 130
"""Views of the history before the moment."""


@dataclass(frozen=True)
class Moment:
    """A simulation, and how many seconds it has run."""

    source: str
    seconds: float


@dataclass(frozen=True)
class Shot:
    """A screen."""

    moment: Moment
    keys: tuple[str, ...]
    """From the screen of the cluster."""
    title: str
    caption: str


CALM = Moment("sim:healthy?nodes=16&seed=7", 200)
SICK = Moment("sim:demo?seed=7", 170)
SLOW = Moment("sim:slow-node?nodes=8&seed=7", 200)
LINKS = Moment("sim:latency-regression?nodes=8&seed=7", 300)
LARGE = Moment("sim:slow-node?nodes=64&seed=7", 200)
LONG = Moment("sim:recompile?nodes=4&checkpoints=150&seed=7", 600)

SHOTS = {
    "calm": Shot(CALM, (), "A healthy fleet", "Quiet cells are as their peers; amber and "
        "red would need attention."),
    "cluster": Shot(SICK, (), "An EFA device slows down sixteen nodes", "The alert names the "
        "device and the node, the node is first in the table, and the charts show the start."),
    "node": Shot(SICK, ("enter",), "The node", "`Enter`: devices and cores, HBM, and the EFA "
        "device compared with its peers."),
    "efa": Shot(SICK, ("4",), "All EFA devices", "`4`: a row is a node, a column is a rail. Below: "
        "the counters of the selected device, and the slowest links."),
    "incidents": Shot(SICK, ("5",), "Incidents", "`5`: evidence, its values before and after the "
        "start, and the runbook."),
    "onset": Shot(SICK, ("5", "o"), "The start of an incident", "`o` goes back to it, and all "
        "screens show that second until `l`."),
    "explain": Shot(SICK, ("e",), "A value explained", "`e`: its formula, inputs, sources and "
        "rules."),
    "filter": Shot(SICK, ("slash", *"efa_tx<125 & node~trn-0"), "Filter", "`/`: table and map "
        "follow while the filter is typed."),
    "comm": Shot(SLOW, ("3",), "The slowest rank", "`3`: one step of each rank on a common scale. "
        "Seven nodes wait for the eighth."),
    "run": Shot(LONG, ("6",), "Training progress", "`6`: phases, step time, loss and pauses."),
    "latency": Shot(LINKS, ("4", "m", "m"), "Latency between nodes", "`m` switches the map "
        "of EFA devices to the latency of probes; the slowest links are listed."),
    "fleet": Shot(LARGE, ("m",), "Larger fleets", "A cell is a node; `m` switches the map to "
        "another quantity."),
    "help": Shot(SICK, ("question_mark",), "Help", "`?`: how to read the screen, and every key."),
}  # fmt: skip

STORY = (
    ("healthy: every cell is as its peers", 72, ()),
    ("an EFA device of one node degrades: the step takes longer, for all nodes", 84, ()),
    ("the culprit is named, with what it costs", 120, ()),
    ("g: the device among its peers", 120, ("g",)),
    ("5: evidence and next step", 120, ("5",)),
)
"""The frames of `story.svg`: caption, seconds of the demo, keys."""
NAMED = 2
"""The frame that is shown where nothing may move."""


class Still(Session):
    """Shows the history up to a moment, then stops."""

    def __init__(self, moment: Moment) -> None:
        super().__init__(Monitor(Settings()), description=moment.source)
        self.past, self._ended = played(moment)

    @property
    def history(self) -> History:
        return self._ended

    def start(self) -> None:
        self._publish(self.past[-1])

    def stop(self) -> None:
        """Without a thread."""


@cache
def played(moment: Moment) -> tuple[tuple[View, ...], History]:
    """The last views up to a moment, and the history behind it."""
    monitor = Monitor(Settings())
    views: deque[View] = deque(maxlen=KEPT)
    for view in play(simulate(parse(moment.source), START), monitor):
        views.append(view)
        if view.time >= START + moment.seconds:
            break
    return tuple(views), monitor.history


async def story() -> str:
    """A fault from its start to its evidence, as an animation."""
    frames: list[list[Iterable[Strip]]] = []
    size, ground = SIZES[0], ""
    for number, (caption, seconds, keys) in enumerate(STORY, 1):
        app = TrntopApp(Still(Moment(SICK.source, seconds)), settings=Settings(), utc=True)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause(0.1)
            ground = app.theme_variables["background"]
            style = Style(color=app.theme_variables["accent"], bold=True)
            head = Strip([Segment(f" {number}/{len(STORY)}  {caption}", style)])
            frames.append([[head], [], *painted(app)])
    return svg(frames, size[0], ground, "From a healthy run to the evidence of a fault", NAMED)


async def draw(shot: Shot, size: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Names of themes and their pictures; all themes in the first size only."""
    session = Still(shot.moment)
    app = TrntopApp(session, settings=Settings(), utc=True)
    pictures = []
    async with app.run_test(size=size) as pilot:
        if "o" in shot.keys:
            for view in session.past:
                session._publish(view)
                await pilot.pause()
        await pilot.pause()
        await pilot.press(*shot.keys)
        for field in app.screen.query(Input):
            field.cursor_blink = False
        for theme in THEMES if size == SIZES[0] else THEMES[:1]:
            app.theme = theme.name
            await pilot.pause(0.1)
            pictures.append((theme.name, screenshot(app, shot.title)))
    return iter(pictures)


def name_of(shot: str, size: tuple[int, int], theme: str) -> str:
    """The file of a picture."""
    look = "" if theme == THEMES[0].name else f"-{theme.removeprefix('trntop-')}"
    return f"{shot}-{size[0]}x{size[1]}{look}.svg"


def page() -> str:
    """The page that shows the pictures."""
    text = (
        "# Gallery\n\nEvery screen, drawn from seeded simulations (the header says `SIMULATED`) by "
        "`python docs/gallery/draw.py`. `x` saves your own screen.\n"
    )
    for name, shot in SHOTS.items():
        sizes = [
            f"[{size[0]} × {size[1]}]({name_of(name, size, THEMES[0].name)})" for size in SIZES[1:]
        ]
        themes = [
            f"[{theme.name.removeprefix('trntop-')}]({name_of(name, SIZES[0], theme.name)})"
            for theme in THEMES[1:]
        ]
        text += (
            f"\n## {shot.title}\n\n{shot.caption}\n\n"
            f"![{shot.title}]({name_of(name, SIZES[0], THEMES[0].name)})\n\n"
            f"`{shot.moment.source}` · {' · '.join([*sizes, *themes])}\n"
        )
    return text


def main() -> None:
    """Draws what is asked for, else everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shots", nargs="*", metavar="SHOT", help=f"of story, {', '.join(SHOTS)}")
    wanted = parser.parse_args().shots or ["story", *SHOTS]
    if "story" in wanted:
        wanted.remove("story")
        (HERE / "story.svg").write_text(asyncio.run(story()), encoding="utf-8", newline="\n")
    for name in wanted:
        for size in SIZES:
            for theme, picture in asyncio.run(draw(SHOTS[name], size)):
                path = HERE / name_of(name, size, theme)
                path.write_text(picture, encoding="utf-8", newline="\n")
    (HERE / "README.md").write_text(page(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
