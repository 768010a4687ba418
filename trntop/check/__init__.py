"""Is the fabric fit? What is looked at, in which order nodes are paired, and who is to blame.

    model      what is asked of a node and what it answers
    plan       what a check is going to do, and how long that takes
    schedule   disjoint rounds of pairs
    course     the conductor: looks, rounds, suspects, looks again
    load       how loaded the hosts of a probe were
    ends       which links are bad, and at which end the cause is
    subjects   what is judged, a module each
    verdict    from what was seen to pass, warn, fail, cannot tell
    result     a whole check, as it is kept
    kept       the newest results, of which one is the next check's baseline
    stage      communication of finished training stages, and a forecast

None of it looks at a node or runs a probe: `trntop.collectors` does, behind the protocol `Host`;
`trntop.exporters` writes reports, `trntop.cli.checking` brings them together.
"""
