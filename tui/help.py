"""How to read the screens; shown by the help screen."""

READING = """
## Reading the screen

Numbers that are not measured carry a mark:
**r** reported by the training process, **d** derived by a formula, **~** estimated.
**–** is unknown, which is never the same as 0. Units are in the header.

**Colors.** The blue-green scale shows utilization; darker is idler. Amber and red need attention
and always come with a sign and a word: ▲ warning, ● critical.

**States.** ✓ fresh · ◔ late, still shown · ◌ stale, no value · ✕ down · ■ ended.
✕ no data: no Neuron source reports. ✕ 2 down, ◌ 1 stale: that many sources of the node.

**Columns.** *util* mean over cores, *HBM* the fullest device's memory in use, *HBM bw* the share of
the peak HBM bandwidth, *retx* retransmitted packets of the worst EFA device, *peer* a device's
traffic relative to the median of its peers, *pwr* power as a share of the most a device may take.

**EFA.** A row is a node, a column a rail: the devices of one name, which exchange traffic.
`m` colors them by share of line rate, retransmits, traffic vs peers or latency; `[` `]`
select a device. *near* are the closest Neuron devices (PCI bus, else NUMA node). Latency is one
way, measured by an active probe: no hardware counter exposes it.

**util and TE.** A core that waits in a collective counts as utilized: *util* says busy, and no
more. *TE* is the share of time in which the tensor engines really multiplied matrices or loaded
weights. High util with low TE is waiting, or work bound by memory. Each cell of a device's *util*
is a logical core, each of its *TE* a physical one. *TE* and *HBM bw* of devices and nodes are means
of 20 s, since a second is shorter than a step; cells show their second.

**HBM bandwidth** has no counter. It is derived: the bytes that one execution of a NEFF reads and
writes, from a profile of it, times executions per second. Without a profile it is –, and the
node's screen names the NEFF that lacks one; `trntop profile add FILE` takes it.

**Communication.** *comm* is the share of a step in which a collective runs, *exposed* the
share in which nothing else does. The tick ┃ on the bar is the limit. When all ranks are slow,
the rank that waits least is the slowest one and blocks the job. Where no job reports its steps,
*comm* is an estimated range such as **~3-40**: at least the share of time in which the busiest
EFA card moved bytes at line rate, at most utilization minus TE, both over the last minute. One
bound alone is **~≥ 30** or **~≤ 40**.

**Phases.** *compiling* neuronx-cc runs and no core is busy · *warming up* the first steps ·
*training* · *checkpointing* · *evaluating* · *stalled* no step for long, or busy cores whose
tensor engines idle · *idle* processes without work. Reported values (**r**) take precedence over
derived ones (**d**).

**Ranks.** One step of each rank on a common scale: ▆ compute, ▅ compute that overlaps
communication, ░ waiting in communication, · not reported. *vs peers* is compute vs the median.

**The run's strip.** ━ training · c compiling · w warming up · k checkpointing · e evaluating ·
! stalled · . idle; a cell shows the rarest phase in it.

**Time.** ← → about five seconds, with Shift a minute; `,` `.` one recorded tick;
`o` the start of the incident; `l` back to live. A
recording also goes to a time typed after `:`. `b` marks a baseline: columns then show the change
since.

**Finding.** `/` filters nodes: `util<30 & node~trn-0` (docs/filter.md) · `f` faults only. Both
apply to all lists of nodes, EFA devices or ranks, and to incidents. Esc clears the input, then the
filter, then faults only, then goes back. The cursor follows: lists start at the last selected node.
`s`, `S` or a click on a title sorts · `c` columns. `e` explains every number: its formula, inputs
and sources.

**trntop itself** uses {share} of one CPU core and sends {rate} to the terminal. On a slow
connection it skips pictures (**1 of 4 ticks**), never readings or incidents. *LOADING* shows how
much of the history has arrived.
"""
