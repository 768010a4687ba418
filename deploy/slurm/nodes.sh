#!/bin/sh
# PrologSlurmctld and EpilogSlurmctld of Slurm: writes the nodes of all running jobs to a file, which
# an aggregator on the same machine reads as @FILE, again each 30 s. It never fails: Slurm would
# requeue the job.

FILE=${TRNTOP_NODES_FILE:-/run/trntop-nodes}

# A job that begins or ends is in one of these states.
nodes=$(squeue --noheader --states=RUNNING,CONFIGURING --format=%N 2>/dev/null) || exit 0
nodes=$(printf '%s\n' "$nodes" | grep -v '^$' | sort -u)
# Without jobs the file stays: an aggregator needs a node to watch.
[ -n "$nodes" ] || exit 0
umask 022
temporary=$FILE.$$
if printf '%s\n' "$nodes" >"$temporary" 2>/dev/null; then
    mv -f "$temporary" "$FILE"
else
    rm -f "$temporary"
    echo "trntop: cannot write $FILE" >&2
fi
exit 0
