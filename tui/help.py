"""How to read the screens; shown by the help screen."""

READING = """
## Reading the screen

Numbers carry a mark when they were not plainly measured:
**r** reported by the training process, **d** derived by a formula, **~** estimated.
**–** is not known, which is never the same as 0. Units stand in the header.

**Colours.** Busy is calm: the blue-green scale shows utilization, darker is idler. Only amber
and red ask for a person, always with a sign and a word: ▲ warning, ● critical.

**States.** ✓ fresh · ◔ late, still shown · ◌ stale, no value · ✕ down · ■ ended.
✕ no data: no Neuron source reports. ✕ 2 down, ◌ 1 stale: that many sources of the node.

**Columns.** *util* mean over cores, *HBM* the fullest device's memory in use, *HBM bw* the share
of the peak HBM bandwidth, *retx* retransmitted packets of the worst EFA card, *sib* a card's
traffic beside the median of its siblings, *pwr* power as a share of the most a device may take.

**EFA.** A row is a node, a column a rail: the cards of one name, which talk to one another.
`m` colours them by share of line rate, retransmits, traffic beside siblings or latency; `[` `]`
choose a card. *near* are the devices on its PCI bus, else on its NUMA node. Latency is what a
prober measured one way: cards count none.

**util and TE.** A core that waits in a collective counts as utilized: *util* says busy, and no
more. *TE* is the share of time in which the tensor engines really multiplied matrices or loaded
weights. High util with low TE is waiting, or work bound by memory. Each cell of a device's *util*
is a logical core, each of its *TE* a physical one. *TE* and *HBM bw* of devices and nodes are means
of 20 s, since a second is shorter than a step; cells show their second.

**HBM bandwidth** has no counter. It is derived: the bytes that one execution of a NEFF reads and
writes, from a profile of it, times executions per second. Without a profile it is –, and the
node's screen names the NEFF that lacks one; `trntop profile add FILE` takes it.

**Communication.** *comm* is the share of a step in which a collective runs, *exposed* the
share in which nothing else does. The tick ┃ on the bar is the limit. Where everybody is slow,
the node that waits least is the one that the others wait for. Where no job reports its steps,
*comm* is an estimated range such as **~3-40**: at least the share of time in which the busiest
EFA card moved bytes at line rate, at most utilization minus TE, both over the last minute. One
bound alone is **~≥ 30** or **~≤ 40**.

**Phases.** *compiling* neuronx-cc runs and no core is busy · *warming up* the first steps ·
*training* · *checkpointing* · *evaluating* · *stalled* no step for long, or busy cores whose
tensor engines idle · *idle* processes without work. Telemetry's own word (**r**) counts before
what is concluded (**d**).

**Ranks.** One step of each rank on a common scale: ▆ compute, ▅ compute that covers
communication, ░ waiting in communication, · not told. *vs peers* is compute beside the median.

**The run's strip.** ━ training · c compiling · w warming up · k checkpointing · e evaluating ·
! stalled · . idle; a cell shows the rarest stage in it.

**Time.** ← → about five seconds, with Shift a minute; `,` `.` one tick: where the past is kept less
densely, to the next that is kept; `o` the moment at which the incident began; `l` the present. A
recording also goes to a time typed after `:`. `b` marks a baseline: columns then show the change
since.

**Finding.** `/` filters nodes: `util<30 & node~trn-0` (docs/filter.md) · `f` faults only. Both hold
on all screens with lists of nodes, cards or ranks; incidents follow the filter. Esc takes back what
is typed, then the filter, then faults only, then leads back. The cursor goes along: lists begin at
the node last looked at. `s`, `S` or a click on a title sorts · `c` columns. `e` explains every
number: its formula, inputs and sources.

**trntop itself** uses {share} of one CPU core and sends {rate} to the terminal. On a slow
connection it skips pictures (**1 of 4 ticks**), never readings or incidents. *LOADING* shows how
much of the history has arrived.
"""
