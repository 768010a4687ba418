# The inspection of a node, for any POSIX sh: on this machine, or over ssh where trntop is not
# installed. It follows the functions of trntop/collectors/ssh/node.sh, writes nowhere but in a
# directory of its own, and ends by itself.
#
# Set above, besides the parameters of node.sh: jobs, the directory of a scheduler's mapping; path,
# the directories of programs; and the function `list`, which runs neuron-ls.
#
# Standard output has parts, each after a line `TAG NAME`; those of files are dumps, see node.sh.
# Small files are first, so that a driver that hangs costs only the parts that read it.

part() { printf '\n%s %s\n' "$tag" "$1"; }

read_small_files() {
    cd "$root" 2>/dev/null || return 0
    echo '>'
    for one in sys/module/efa sys/module/ib_uverbs sys/module/ib_core sys/module/neuron \
        dev/infiniband/*; do
        [ -e "$one" ] && echo "$one/"
    done
    set --
    for one in sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages proc/sys/kernel/osrelease \
        proc/self/limits opt/amazon/efa_installed_packages \
        sys/class/dmi/id/sys_vendor sys/class/dmi/id/product_name; do
        [ -f "$one" ] && [ -r "$one" ] && set -- "$@" "$one"
    done
    for one in proc/[0-9]*; do
        name=
        { read -r name <"$one/comm"; } 2>/dev/null
        case $name in slurmd | containerd | dockerd) set -- "$@" "$one/comm" "$one/limits" ;; esac
    done
    lines "$@"
}

# Runs a program that may hang.
limited() { timeout 5 "$@" 2>/dev/null; }

# Installed tools, and what programs print of versions; of packages, those of the host.
versions() {
    command -v fi_pingpong >/dev/null && part tool.fi_pingpong
    command -v fi_info >/dev/null && part output.fi_info && limited fi_info --version
    set -- 'aws-neuronx-*' 'libnccl-ofi*' 'aws-ofi-*'
    command -v dpkg-query >/dev/null && part output.dpkg-query &&
        limited dpkg-query --admindir="$root/var/lib/dpkg" --show \
            --showformat '${Package}\t${Version}\t${db:Status-Status}\n' "$@"
    [ "$root" = / ] && command -v rpm >/dev/null && part output.rpm &&
        limited rpm --query --all --queryformat '%{NAME}\t%{VERSION}-%{RELEASE}\tinstalled\n' "$@"
}

inspect() {
    LC_ALL=C PATH="$PATH:$path" number=0
    export LC_ALL PATH
    umask 077
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    part time; date +%s.%N
    part files; (read_small_files) 2>&1
    [ ! -d "$jobs" ] || { part jobs; cat "$jobs"/all "$jobs"/[0-9]* 2>/dev/null; }
    versions
    part list; list
    part efa; (read_efa) 2>&1
    part devices; (read_neuron_sysfs) 2>&1
    part end
}

inspect </dev/null
