# What a check runs on a node that has nothing of trntop: for any POSIX sh. It follows the functions
# of trntop/collectors/ssh/node.sh, writes nowhere but in a folder of its own, and ends by itself.
#
# Set above, besides what node.sh wants: jobs, the folder of a scheduler's mapping; path, where
# programs are; variables, what begins the names of those that matter; and the functions `programs`,
# which asks for versions, and `list`, which runs neuron-ls in the forms that versions of it know.
#
# Standard output has parts, each after a line `TAG NAME`; those of files are dumps, see node.sh.

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
        proc/self/limits etc/environment opt/amazon/efa_installed_packages \
        sys/class/dmi/id/sys_vendor sys/class/dmi/id/product_name sys/class/dmi/id/board_asset_tag \
        "${jobs#/}"/*; do
        [ -f "$one" ] && [ -r "$one" ] && set -- "$@" "$one"
    done
    for one in proc/[0-9]*; do
        name=
        { read -r name <"$one/comm"; } 2>/dev/null
        case $name in slurmd | containerd | dockerd) set -- "$@" "$one/comm" "$one/limits" ;; esac
    done
    lines "$@"
    # Not the whole of a login script, which may hold what is private.
    for one in etc/profile.d/*.sh; do
        [ -r "$one" ] && grep -aHE "^[[:blank:]]*(export[[:blank:]]+)?($variables)_" "$one"
    done
}

look() {
    LC_ALL=C PATH="$PATH:$path" number=0
    export LC_ALL PATH
    umask 077
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    part time; date +%s.%N
    part cards; (read_efa) 2>&1
    part devices; (read_neuron_sysfs) 2>&1
    part files; (read_small_files) 2>&1
    part environment; env | grep -E "^($variables)_"
    programs
    part list; list
    part end
}

look </dev/null
