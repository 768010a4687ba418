#!/usr/bin/env python3
"""A SIMULATED scontrol: its output on one job, in the form of Slurm 23.11.

The environment variable FAKE_SCONTROL sets its behavior:

    running      a job on NODES (the default)
    pending      a job that waits for resources
    array        two tasks of a job array, each on nodes of its own
    forgotten    no such job: exits with code 1 and the reason on standard error
    hostile      a name with control characters, and a list of nodes that is none
    hang         writes nothing, and holds on through SIGTERM
    huge         writes without end

FAKE_SCONTROL_NODES names a file whose text is the list of nodes.
"""

import os
import signal
import sys
import time
from pathlib import Path

FORM = """\
JobId={job} {array}JobName={name}
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=4294901734 Nice=0 Account=research QOS=normal
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   SubmitTime=2026-11-21T08:00:00 EligibleTime=2026-11-21T08:00:00
   Partition=trn2 AllocNode:Sid=login-1:4711
   ReqNodeList=(null) ExcNodeList=trn-[090-099]
   NodeList={nodes}
   BatchHost=trn-001
   NumNodes=16 NumCPUs=3072 NumTasks=16 CPUs/Task=192 ReqB:S:C:T=0:0:*:*
   Command=/home/ada/NodeList=evil/train.sh
"""


def main() -> int:
    mode = os.environ.get("FAKE_SCONTROL", "running")
    if sys.argv[1:3] != ["show", "job"] or len(sys.argv) != 4:
        print(f"invalid entity: {sys.argv[1:]}", file=sys.stderr)
        return 1
    job = sys.argv[3]
    listed = os.environ.get("FAKE_SCONTROL_NODES")
    nodes = Path(listed).read_text().strip() if listed else "trn-[001-003,007]"
    fields = {"job": job, "array": "", "name": "pretrain", "state": "RUNNING", "reason": "None"}
    if mode == "forgotten":
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    if mode == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    while mode == "huge":
        sys.stdout.write("x" * 65536)
    if mode == "pending":
        print(FORM.format(**fields | {"state": "PENDING", "reason": "Resources"}, nodes="(null)"))
    elif mode == "array":
        for task, host in enumerate(("trn-[001-002]", "trn-010")):
            array = f"ArrayJobId={job} ArrayTaskId={task} "
            print(FORM.format(**fields | {"array": array}, nodes=host))
    elif mode == "hostile":
        print(FORM.format(**fields | {"name": "a\x1b[31mb"}, nodes="trn-[1-"))
    else:
        print(FORM.format(**fields, nodes=nodes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
