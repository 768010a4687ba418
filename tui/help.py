"""How to read the screens; shown by the help screen."""

READING = """
## Reading the screen

Numbers carry a mark when they were not plainly measured:
**r** reported by the training process, **d** derived by a formula, **~** estimated.
**–** is not known, which is never the same as 0. Units stand in the header.

**Colours.** Busy is calm: the blue-green scale shows utilization, darker is idler. Only amber
and red ask for a person, always with a sign and a word: ▲ warning, ● critical.

**States.** ✓ fresh · ◔ late, still shown · ◌ stale, values gone · ✕ down · ■ ended.

**Columns.** *util* mean over cores, *HBM* the fullest device, *retx* retransmitted packets of
the worst EFA card.

**Communication.** *comm* is the share of a step in which a collective runs, *exposed* the
share in which nothing else does. The tick ┃ on the bar is the limit. Where everybody is slow,
the node that waits least is the one that the others wait for.

## Keys here
"""
