"""Hard but ordinary training runs, and how well the detection copes with them.

    python -m benchmarks.hardening [--tune] [--kind KIND] [--seeds A-B] [--hours N] [--verbose]

A second opinion on `benchmarks.detection`: a generator that shares no model with the simulator of
the product. `physics` computes what each node does, `telemetry` what its sources report of it,
`kinds` draws the runs and knows the truth, `score` compares it with the incidents. The readings of
neuron-monitor and EFA are made as decoded samples, since decoding is tested elsewhere and would
take most of the time; everything behind the decoders is the pipeline and analyzer of the product.

Healthy kinds are ordinary runs: any incident there is a false alarm. In faulty kinds an incident is
right if it has a kind that the truth accepts, and comes from 2 s before the onset to 60 s after the
end. Delays are from the onset to `detected_at`. An incident whose node or summary names a node that
is not faulty names an innocent. Where no source shows which node it is (a hang in which all cores
spin), an incident without a node is right. Detectors are tuned with `--tune`, whose seeds are not
those of the report.
"""
