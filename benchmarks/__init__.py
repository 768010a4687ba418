"""Every budget of the design with its figure: `python -m benchmarks [--quick] [NAME…]`."""
