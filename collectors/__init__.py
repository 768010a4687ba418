"""Where readings come from: each module one source, or one part that sources share.

The live sources are `neuron_monitor.NeuronMonitor` and `stdin.StandardInput`; `simulator` makes
readings up.
"""

from trntop.collection import Finding


def examine_all(command: str = "neuron-monitor") -> list[Finding]:
    """What can be read on this machine, source by source; takes about ten seconds at most.

    Args:
        command: neuron-monitor's name or path.
    """
    from . import efa, neuron_examination

    return [neuron_examination.examine(command), efa.examine()]
