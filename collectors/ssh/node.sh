# The script that trntop runs on a node over ssh: for any POSIX sh, with the find, grep, xargs, head,
# tail and mktemp of coreutils or busybox. It writes only in a directory of its own.
#
# Set above: tag, which begins every line that is not part of a dump; root, the parent of sys and
# proc; monitor and lister, the commands of neuron-monitor and neuron-ls; config, the configuration of
# neuron-monitor; texts, the names of files of Neuron devices, as a regular expression; limit, the
# seconds without a flush after which the script ends.
#
# Standard input has one request per line; everything ends with it:
#   read SOURCE NUMBER [WORD…]   starts to read a source, unless it is still being read
#   start, stop, kill            neuron-monitor; `stop NAME` ends the program of a name
#   flush                        prints the answers that are ready
# Standard output is only for neuron-monitor. Standard error has the answers, written by this shell
# alone, so that the lines of a dump are never interrupted.

report() { printf '%s\n' "$tag $*" >&2; }

# Dumps: `>FOLDER/` before paths below it, `PATH:LINE` for each line of a file, `PATH/` for a
# directory, and the errors of grep and find.

lines() { [ $# -eq 0 ] || grep -aH '' "$@"; }

# The first line of a file, without starting a program for it.
line() {
    text=
    { read -r text <"$1"; } 2>/dev/null && echo "$1:$text"
}

read_efa() {
    cd "$root/sys/module/efa" 2>/dev/null && echo '>sys/module/efa/' && line version
    cd "$root/sys/class/infiniband" 2>/dev/null || return 0
    echo '>sys/class/infiniband/'
    files=''
    for card in *; do
        case $card in *[!A-Za-z0-9_.-]*) continue ;; esac
        vendor='' model=''
        { read -r vendor <"$card/device/vendor"; read -r model <"$card/device/device"; } 2>/dev/null
        case "$vendor $model" in '0x1d0f 0xefa'*)
            echo "$card/"
            # The errors of patterns without a match are ignored.
            files="$files $card/device/vendor $card/device/device $card/device/numa_node \
                $card/device/uevent $card/device/[pg][2d][pr] $card/ports/*/rate \
                $card/ports/*/state $card/ports/*/hw_counters/* $card/hw_counters/*" ;;
        esac
    done
    lines $files
}

devices() {
    cd "$root/sys/module/neuron" 2>/dev/null && echo '>sys/module/neuron/' && line version
    cd "$root/sys/devices/virtual/neuron_device" 2>/dev/null || return 1
    echo '>sys/devices/virtual/neuron_device/'
    for one in neuron[0-9]*; do [ -d "$one" ] && echo "$one/"; done
}

# Directories of cores, and files of these names.
find_files() {
    find neuron[0-9]* -maxdepth 10 \( -type f -o -type d -name 'neuron_core[0-9]*' \) |
        grep -E "^[A-Za-z0-9_/]+/($1|neuron_core[0-9]+)\$|: " | head -n 100000
}

read_tensor_engine() {
    devices || return 0
    set -- neuron[0-9]*
    case "$*" in *[!a-z0-9\ ]*) return 0 ;; esac
    seen='' cores='' engines=''
    [ ! -e "$dir/engines" ] || . "$dir/engines"
    # Searched again at times: a driver that was just loaded may not show all of them yet.
    if [ "$seen" != "$*" ] || [ $((number % 60)) -eq 0 ]; then
        find_files pe_cntrs >"$dir/cores" 2>/dev/null
        cores=$(grep '/neuron_core[0-9]*$' "$dir/cores" | sed 's|$|/|')
        engines=$(grep '/pe_cntrs$' "$dir/cores")
        printf "seen='%s' cores='%s' engines='%s'" "$*" "$cores" "$engines" >"$dir/engines"
    fi
    echo "$cores"
    lines $engines
}

read_neuron_sysfs() {
    devices || return 0
    find_files "$texts" >"$dir/files" 2>&1
    grep '/neuron_core[0-9]*$' "$dir/files" | sed 's|$|/|'
    grep ': ' "$dir/files"
    grep -Ev '/neuron_core[0-9]*$|: ' "$dir/files" | xargs grep -aH ''
    cd "$root/sys/class/neuron_device" 2>/dev/null || return 0
    echo '>sys/class/neuron_device/'
    set --
    for file in ultraserver_mode node_id_* server_id_*; do
        [ -f "$file" ] && set -- "$@" "$file"
    done
    lines "$@"
}

read_host() {
    cd "$root" || return 0
    echo '>'
    echo "proc/cpus:$(grep -c '^cpu[0-9]' proc/stat)"
    grep -aH '^cpu ' proc/stat
    grep -aHE '^Mem(Total|Available):' proc/meminfo
    set -- proc/loadavg
    for one in sys/class/net/* sys/block/*; do
        hidden=
        { read -r hidden <"$one/hidden"; } 2>/dev/null
        if [ -e "$one/device" ] && [ "$hidden" != 1 ]; then
            case $one in
                sys/block/*) set -- "$@" "$one/stat" ;;
                *) set -- "$@" "$one/statistics/rx_bytes" "$one/statistics/tx_bytes" ;;
            esac
        fi
    done
    for file in sys/class/dmi/id/sys_vendor sys/class/dmi/id/product_name \
        sys/class/dmi/id/board_asset_tag; do
        [ -r "$file" ] && set -- "$@" "$file"
    done
    lines "$@"
}

# neuron-ls: its output, then its exit code and the last line of its errors.
read_neuron_ls() {
    program=$(command -v "$lister") || { printf '\n#%s absent' "$tag"; return 0; }
    [ -x "$program" ] || { printf '\n#%s forbidden' "$tag"; return 0; }
    : >"$dir/words"
    {
        { (run neuron-ls "$program" "$@" 2>&1 >&4 4>&-); echo "$?" >"$dir/code"; } |
            tail -n 1 >"$dir/words"
    } 4>&1 2>/dev/null | head -c 4194305
    forget neuron-ls
    printf '\n#%s exited %s %s' "$tag" "$(cat "$dir/code")" "$(cat "$dir/words")"
}

# Becomes a program, in a session of its own where there is setsid, so that all of it can be ended.
run() {
    name=$1
    shift
    exec $apart sh -c 'echo "$$" >"$0"; exec "$@"' "$dir/$name.pid" "$@"
}

end() {
    pid=
    { read -r pid <"$dir/$2.pid"; } 2>/dev/null
    [ -z "$pid" ] || kill -s "$1" -- "-$pid" 2>/dev/null || kill -s "$1" "$pid" 2>/dev/null
}

forget() { : >"$dir/$1.pid"; }

# Reads one source in the background: a read that hangs in the kernel delays no other.
start_read() {
    source=$1 number=$2
    case "$pending " in *" $source:"*) return ;; esac
    pending="$pending $source:$number"
    shift 2
    {
        echo "$tag begin $source $number"
        case $source in
            efa) read_efa ;;
            tensor-engine) read_tensor_engine ;;
            neuron-sysfs) read_neuron_sysfs ;;
            host) read_host ;;
            neuron-ls) read_neuron_ls "$@" ;;
        esac
        printf '\n%s\n' "$tag end $source $number"
        echo "$number" >"$dir/$source.done"
    } </dev/null >"$dir/$source.out" 2>&1 &
}

start() {
    [ "$state" = none ] || { report monitor busy; return 0; }
    program=$(command -v "$monitor") || { report monitor absent; return 0; }
    [ -x "$program" ] || { report monitor forbidden; return 0; }
    printf '%s\n' "$config" >"$dir/monitor.json"
    : >"$dir/monitor.code"
    : >"$dir/monitor.words"
    state=running
    {
        {
            (run monitor "$program" -c "$dir/monitor.json" 2>&1 >&4 4>&-)
            echo "$?" >"$dir/monitor.code"
        } | tail -n 3 >"$dir/monitor.words"
    } </dev/null 4>&1 >/dev/null 2>&1 &
    report monitor started
}

# Reports the end of neuron-monitor, after the rest of its group was killed.
update_monitor() {
    code=
    read -r code <"$dir/monitor.code"
    case $state${code:+ended} in
        runningended) end KILL monitor; forget monitor; state=ending ;;
        endingended)
            state=none
            report "monitor ended $code $(tail -n 1 "$dir/monitor.words")" ;;
    esac
}

flush() {
    left=
    set --
    for one in $pending; do
        finished=
        { read -r finished <"$dir/${one%%:*}.done"; } 2>/dev/null
        if [ "$finished" = "${one#*:}" ]; then
            set -- "$@" "$dir/${one%%:*}.out"
        else
            left="$left $one"
        fi
    done
    pending=$left
    flushes=$((flushes + 1))
    echo "$flushes" >"$dir/heartbeat" 2>/dev/null
    [ $# -eq 0 ] || cat "$@" >&2
    [ "$state" = none ] || update_monitor
    report idle
}

clear_away() {
    end KILL neuron-ls
    end TERM monitor
    if [ "$state" != none ] && ! [ -s "$dir/monitor.code" ]; then sleep 1; fi
    end KILL monitor
    rm -rf "$dir"
}

finish() {
    trap '' HUP INT TERM PIPE
    kill "$guard"
    end KILL sleep
    clear_away
    exit 0
}

# Ends everything if the other machine disappeared without notice: TCP would take a quarter of an hour
# to notice, and until then its answers block this shell.
guard() {
    before='' state=running
    while :; do
        sleep "$limit" &
        echo "$!" >"$dir/sleep.pid"
        wait
        heartbeat=
        { read -r heartbeat <"$dir/heartbeat"; } 2>/dev/null
        [ -z "$heartbeat" ] || [ "$heartbeat" != "$before" ] || break
        before=$heartbeat
    done
    clear_away
    kill -s KILL -- "-$$" || kill -s KILL "$$"
}

main() {
    LC_ALL=C PATH="$PATH:/opt/aws/neuron/bin" dir='' pending='' state=none apart='' flushes=0
    export LC_ALL PATH
    umask 077
    for place in /dev/shm "${TMPDIR:-/tmp}" /tmp /var/tmp "$HOME"; do
        dir=$(mktemp -d "$place/trntop.XXXXXX" 2>/dev/null) && break
    done
    if [ -z "$dir" ]; then
        report failed cannot create a directory in /dev/shm, /tmp, /var/tmp or at home
        exit 1
    fi
    echo 0 >"$dir/heartbeat"
    guard </dev/null >/dev/null 2>&1 &
    guard=$!
    trap finish HUP INT TERM PIPE
    command -v setsid >/dev/null && apart=setsid
    report ready
    while read -r request rest; do
        case $request in
            read) start_read $rest ;;
            flush) flush ;;
            start) start ;;
            stop) end TERM $rest ;;
            kill) end KILL $rest ;;
        esac
    done
    finish
}

main
