#!/usr/bin/env python3
"""A SIMULATED kubelet: a real gRPC server with one method, and an answer from a file.

    kubelet.py SOCKET ANSWER [--delay SECONDS]

`List` of `v1.PodResourcesLister` answers with what is in ANSWER; without the file it refuses.
Prints a line once it listens.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("socket", type=Path)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        time.sleep(options.delay)
        if request or not options.answer.exists():
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet: 50% of \x1b pods")
        return options.answer.read_bytes()

    server = grpc.server(ThreadPoolExecutor(2))
    methods = {"List": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods),)
    )
    server.add_insecure_port(f"unix:{options.socket}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
