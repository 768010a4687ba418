"""Keys that work on every screen."""

from textual.binding import BindingType

from .keys import hidden_key, key

BINDINGS: list[BindingType] = [
    key("1", "cluster", "Cluster", "All nodes"),
    key("2", "node", "Node", "The node under the cursor"),
    key("3", "comm", "Comm", "Communication share of a step, and the slowest rank"),
    key("4", "efa", "EFA", "All EFA devices"),
    key("5,i", "incidents", "Incidents", "Open and closed incidents"),
    key("6", "run", "Run", "Training progress: steps, tokens, loss, pauses"),
    hidden_key("g", "go_there", "Go to node", "The node of the incident in the alert"),
    key("space", "pause", "Pause", "Pause the screen; live collection continues"),
    hidden_key("left", "travel(-5)", "Back", "Back by about 5 s; with Shift by 1 min"),
    hidden_key("right", "travel(5)", "Forward", "Forward by about 5 s; with Shift by 1 min"),
    hidden_key("shift+left", "travel(-60)", "-1 min", "Back by 1 min"),
    hidden_key("shift+right", "travel(60)", "+1 min", "Forward by 1 min"),
    hidden_key(
        "comma",
        "step(-1)",
        "Previous tick",
        "The previous tick in the history; older history has fewer ticks",
    ),
    hidden_key(
        "full_stop",
        "step(1)",
        "Next tick",
        "The next tick in the history; a paused recording advances one tick",
    ),
    key("colon,ctrl+g", "time_code", "Time", "Go to a time, such as 14:03:12 or -5m"),
    hidden_key("o", "onset", "Onset", "Go to the start of the incident"),
    hidden_key("l", "live", "Live", "Return to live data"),
    hidden_key("plus,equals_sign", "speed(1)", "Faster", "Replay faster"),
    hidden_key("minus", "speed(-1)", "Slower", "Replay slower"),
    hidden_key(
        "y", "copy", "Copy", "Copy the node name, or the incident as Markdown, to the clipboard"
    ),
    hidden_key(
        "a", "acknowledge", "Acknowledge", "Quiet the incident until it changes; `r` reports it"
    ),
    hidden_key("x", "picture", "Screenshot", "Save the screen as SVG in the pictures folder"),
    hidden_key("ctrl+z", "suspend_process", "Suspend", "Suspend; type fg in the shell to resume"),
    hidden_key("w", "write", "Record", "Write the last minutes of raw readings to a recording"),
    hidden_key("r", "report", "Report", "Write report: the shift as Markdown"),
    hidden_key("t", "theme", "Theme", "The next theme"),
    key("ctrl+p", "command_palette", "Commands", "All commands, nodes and themes"),
    key("question_mark", "help", "Help", "How to read the screen, and all keys"),
    key("q,ctrl+c", "quit", "Quit", "Quit trntop"),
]
