#!/usr/bin/env python3
"""A SIMULATED nccom-test: the interface of AWS's program, with made-up times.

The table follows the nccom-test guide of the Neuron SDK. The environment variable FAKE_NCCOM_TEST
says how it behaves:

    table          a table of one size (the default)
    no-driver      fails as on a machine without a Neuron driver
    fails          fails as when the other node cannot be started
    hang           writes nothing and ends never
"""

import os
import sys
import time

TABLE = """\
size(B)    count(elems)    type    time:avg(us)    time:p50(us)    time:p90(us)    time:p99(us)\
    algbw(GB/s)    busbw(GB/s)
  {size}             16    fp32            21.5              20              25              31\
           0.01           0.02
Avg bus bandwidth:\t0.0200GB/s
"""


def main() -> None:
    arguments = sys.argv[1:]
    match os.environ.get("FAKE_NCCOM_TEST", "table"):
        case "no-driver":
            print("Neuron DKMS Driver is not running!")
            raise SystemExit(1)
        case "fails":
            print("Failure running neuron-bench - log file nccom_test_log_7.log")
            print("1 errors found - test failed")
            raise SystemExit(1)
        case "hang":
            time.sleep(3600)
        case _:
            print(f"hosts: {' '.join(arguments[arguments.index('--hosts') + 1 :])}")
            print(f"root: {os.environ['NEURON_RT_ROOT_COMM_ID']}")
            print(TABLE.format(size=arguments[arguments.index("-b") + 1]))


if __name__ == "__main__":
    main()
