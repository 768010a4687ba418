"""Every budget of the design beside its figure: `python -m benchmarks [--quick] [NAME…]`."""
