"""How to read the screens; shown by the help screen."""

READING = """
## Reading the screen

Values that are not measured have a mark:
**r** reported by the training process, **d** derived by a formula, **~** estimated.
**–** is unknown, never 0. Units are in the header.

**Colors.** The blue-green scale shows utilization; darker is less. Amber and red need attention
and always have a sign and a word: ▲ warning, ● critical.

**States.** ✓ fresh · ◔ late, still shown · ◌ stale, no value · ✕ down · ■ ended.
✕ no data: no Neuron source reports. ✕ 2 down, ◌ 1 stale: the number of sources of the node.

**Columns.** *util* mean over cores, *HBM* memory in use of the fullest device, *HBM bw* share of
the peak HBM bandwidth, *retx* retransmitted packets of the worst EFA device, *peer* traffic of a
device relative to the median of its peers, *pwr* share of the maximum power of a device.

**EFA.** A row is a node, a column a rail: the devices of one name, which exchange traffic.
`m` colors them by traffic vs peers, retransmits or latency; `[` `]` select a device. *near* are the
closest Neuron devices (PCI bus, else NUMA node). Latency is one way, measured by an active probe:
no hardware counter exposes it.

**util and TE.** A core that waits in a collective counts as utilized. *TE* is the share of time in
which the tensor engines multiply matrices or load weights. High util with low TE is waiting, or
work bound by memory. Each cell of *util* is a logical core, each cell of *TE* a physical core. *TE*
and *HBM bw* of devices and nodes are means of 20 s; cells show the newest second.

**HBM bandwidth** has no counter. It is derived: the bytes that one execution of a NEFF reads and
writes, from a profile, times executions per second. The node screen names the NEFFs without a
profile; `trntop profile add FILE` adds one.

**Communication.** *comm* is the share of a step in which a collective runs, *exposed* the
share in which nothing else runs. The tick ┃ on the bar is the limit. When all ranks are slow,
the rank that waits least is the slowest one and blocks the job. If no job reports its steps,
*comm* is an estimated range such as **~3-40**: at least the share of time in which the busiest
EFA device moved bytes at line rate, at most utilization minus TE, both over the last minute. One
bound alone is **~≥ 30** or **~≤ 40**.

**Phases.** *compiling* neuronx-cc runs and no core is busy · *warming up* the first steps ·
*training* · *checkpointing* · *evaluating* · *stalled* no step for long, or busy cores whose
tensor engines idle · *idle* processes without work. Reported phases (**r**) take precedence over
derived ones (**d**).

**Ranks.** One step of each rank on a common scale: ▆ compute, ▅ compute that overlaps
communication, ░ waiting in communication, · not reported. *vs peers* is compute vs the median.

**Phases of a job.** ━ training · c compiling · w warming up · k checkpointing · e evaluating ·
! stalled · . idle; a cell shows the rarest phase in it.

**Time.** ← → about five seconds, with Shift a minute; `,` `.` one recorded tick;
`:` a time such as 14:03 or -5m; `o` the start of the incident; `l` back to live.

**Filter.** `/` filters nodes: `util<30 & node~trn-0` (docs/filter.md) · `f` faults only. Both
apply to all lists of nodes, EFA devices, ranks and incidents. Esc clears the input, then the
filter, then faults only, then goes back. Lists start at the last selected node.
`s`, `S` or a click on a title sorts. `e` explains every value: its formula, inputs
and sources.

**trntop itself** uses {share} of a CPU core. On a slow connection, it skips pictures, never
readings or incidents. *LOADING* shows how much of the history has arrived.
"""
