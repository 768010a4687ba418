#!/bin/sh
# Which job has this node's Neuron devices, for trntop: a file for each device index, or `all`,
# with a job id a line, as dcgm-exporter's --hpc-job-mapping-dir has it. Prolog and epilog at
# once, in slurm.conf:
#
#   Prolog=/etc/slurm/prolog.d/*
#   Epilog=/etc/slurm/epilog.d/*
#   PrologFlags=Alloc
#
# with this file in both folders. It needs flock (util-linux), takes no longer than its lock, and
# always succeeds: Slurm drains a node whose prolog fails, and no number is worth a node.

# slurmd sets no search path; the folder is root's alone.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022

folder=${TRNTOP_JOB_MAPPING:-/run/trntop-jobs}
# What a job has that was given no devices by number: `all` where jobs get whole nodes, `none`
# where devices are a GRES and such a job has none of them.
without_devices=${TRNTOP_WITHOUT_DEVICES:-all}
lock_seconds=5

complain() {
    echo "trntop job mapping: $1" >&2
    exit 0
}

# As Slurm writes them: with a zero in front the shell would take it for octal.
number() {
    case $1 in
        '' | *[!0-9]* | 0?* | ????????????*) return 1 ;;
    esac
}

# `0,2-3` → `0 2 3`; what is no number is left out.
indices() {
    echo "$1" | tr ',' '\n' | while IFS=- read -r first last; do
        if ! { number "$first" && number "${last:=$first}" && [ "$last" -lt 256 ]; }; then
            continue
        fi
        while [ "$first" -le "$last" ]; do
            echo "$first"
            first=$((first + 1))
        done
    done
}

# The file appears whole or not at all: the agent may read at any time.
put() {
    cat >"$folder/.new" && mv -f "$folder/.new" "$1"
}

# Adds the job to a file.
enter() {
    { cat "$1" 2>/dev/null; echo "$job"; } | sort -un | put "$1"
}

# Removes the job from a file, and the file when it was the last.
leave() {
    if grep -qvx "$job" "$1"; then
        grep -vx "$job" "$1" | put "$1"
    else
        rm -f "$1"
    fi
}

job=${SLURM_JOB_ID:-}
number "$job" || complain "no job id in SLURM_JOB_ID"

case ${SLURM_SCRIPT_CONTEXT:-} in
    prolog_slurmd) act=enter ;;
    epilog_slurmd) act=leave ;;
    *) complain "'${SLURM_SCRIPT_CONTEXT:-}' is neither prolog_slurmd nor epilog_slurmd" ;;
esac

mkdir -p "$folder" 2>/dev/null
if [ ! -d "$folder" ] || [ -L "$folder" ] || [ ! -O "$folder" ]; then
    complain "$folder is no folder of $(id -un)"
fi
exec 9>"$folder/.lock" || complain "$folder cannot be written"
flock -w "$lock_seconds" 9 || complain "$folder is locked"

if [ "$act" = enter ]; then
    # AutoDetect=nrt makes Neuron devices the GRES `gpu`, numbered as in /dev/neuronN.
    devices=$(indices "${SLURM_JOB_GPUS:-}")
    if [ -z "$devices" ] && [ "$without_devices" = all ]; then
        devices=all
    fi
    for device in $devices; do
        enter "$folder/$device"
    done
else
    # In any file: an epilog has fewer variables than a prolog.
    for file in "$folder"/*; do
        [ -f "$file" ] && leave "$file"
    done
fi
exit 0
