"""Keys that work on every screen."""

from textual.binding import Binding, BindingType

BINDINGS: list[BindingType] = [
    Binding("1", "cluster", "Cluster", id="app.cluster", tooltip="All nodes"),
    Binding("2", "node", "Node", id="app.node", tooltip="The node under the cursor"),
    Binding(
        "3", "comm", "Comm", id="app.comm",
        tooltip="Communication share of a step, and the slowest rank",
    ),
    Binding("4", "efa", "EFA", id="app.efa", tooltip="All EFA devices"),
    Binding(
        "5,i", "incidents", "Incidents", id="app.incidents", key_display="5",
        tooltip="Open and closed incidents",
    ),
    Binding(
        "6", "run", "Run", id="app.run",
        tooltip="Training progress: steps, tokens, loss, pauses",
    ),
    Binding(
        "g", "go_there", "Go to node", show=False, id="app.go_there",
        tooltip="The node of the incident in the alert",
    ),
    Binding(
        "space", "pause", "Pause", id="app.pause",
        tooltip="Pause the screen; live collection continues",
    ),
    Binding(
        "left", "travel(-5)", "Back", show=False, id="app.back",
        tooltip="Back by about 5 s; with Shift by 1 min",
    ),
    Binding(
        "right", "travel(5)", "Forward", show=False, id="app.on",
        tooltip="Forward by about 5 s; with Shift by 1 min",
    ),
    Binding(
        "shift+left", "travel(-60)", "-1 min", show=False, id="app.minute_back",
        tooltip="Back by 1 min",
    ),
    Binding(
        "shift+right", "travel(60)", "+1 min", show=False, id="app.minute_on",
        tooltip="Forward by 1 min",
    ),
    Binding(
        "comma", "step(-1)", "Previous tick", show=False, key_display=",",
        id="app.tick_back",
        tooltip="The previous tick in the history; older history has fewer ticks",
    ),
    Binding(
        "full_stop", "step(1)", "Next tick", show=False, key_display=".",
        id="app.tick_on",
        tooltip="The next tick in the history; a paused recording advances one tick",
    ),
    Binding(
        "ctrl+g,colon", "time_code", "Go to", show=False, key_display=":",
        id="app.time_code", tooltip="Go to a time, such as 14:03:12 or -5m",
    ),
    Binding(
        "o", "onset", "Onset", show=False, id="app.onset",
        tooltip="Go to the start of the incident",
    ),
    Binding(
        "l", "live", "Live", show=False, id="app.live", tooltip="Return to live data",
    ),
    Binding(
        "plus,equals_sign", "speed(1)", "Faster", show=False, id="app.faster",
        tooltip="Replay faster",
    ),
    Binding(
        "minus", "speed(-1)", "Slower", show=False, id="app.slower",
        tooltip="Replay slower",
    ),
    Binding(
        "y", "copy", "Copy", show=False, id="app.copy",
        tooltip="Copy the node name, or the incident summary, to the clipboard",
    ),
    Binding(
        "x", "picture", "Screenshot", show=False, id="app.picture",
        tooltip="Save the screen as SVG",
    ),
    Binding(
        "ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend",
        tooltip="Suspend; type fg in the shell to resume",
    ),
    Binding(
        "w", "write", "Write", show=False, id="app.write",
        tooltip="Save the last minutes of raw readings as a recording",
    ),
    Binding(
        "r", "report", "Report", show=False, id="app.report",
        tooltip="Save the shift report as Markdown",
    ),
    Binding("t", "theme", "Theme", show=False, id="app.theme", tooltip="The next theme"),
    Binding(
        "question_mark", "help", "Help", key_display="?", id="app.help",
        tooltip="How to read the screen, and all keys",
    ),
    Binding(
        "q,ctrl+c", "quit", "Quit", key_display="q", id="app.quit", tooltip="Quit trntop"
    ),
]  # fmt: skip
