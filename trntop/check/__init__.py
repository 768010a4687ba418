"""The EFA check of a cluster: what to inspect and probe, and which node, device or link is faulty.

    model      probes, inspections, and the host that runs both
    plan       the options of a check, and its duration
    schedule   disjoint rounds of pairs
    runner     inspections, rounds, suspects, inspections again
    load       the load of the hosts of a probe
    links      slow and failed links, and their faulty endpoints
    subjects   the tests, one subject per module
    faults     the table of all faults
    verdict    from evidence to pass, warn, fail, inconclusive
    result     a whole check
    readings   its probes as a recording

Nothing here reads a node or runs a probe: `trntop.collectors` does, behind the protocol `Host`;
`trntop.exporters` writes reports, `trntop.cli.checking` connects them.
"""
