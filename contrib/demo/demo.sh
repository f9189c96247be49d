#!/usr/bin/env bash
# demo.sh [BIN]: eight jobs on a Slurm of one node under the Prolog and Epilog of rt, their
# reports with advice, the delivery to rt-site, and its page.  Without root or without
# cgroups the jobs are commands under resource-tracker.  BIN is where make puts the programs
# (build/bin).
#
# On a terminal the page stays until Ctrl-C; otherwise each page is requested once.  All files
# are in one directory, which is removed at the end.  Packages that this installs stay:
# contrib/lab/need records them, and contrib/lab/clean-system removes them.
#
# Environment
#   DEMO_SLURM     no: commands under resource-tracker, also where a Slurm could run
#   DEMO_SACCT     yes or no: with Slurm's accounting in MariaDB, or without.  By default with it
#                  where the kernel does not report how a process ended (before Linux 6.15)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
cd "$root"
make_bin=${1:-build/bin}
lab=$root/contrib/lab/slurm-lab
dir='' working='' server='' as=()
for part in slurm commands page; do
    # shellcheck source=/dev/null
    . "$root/contrib/demo/$part.bash"
done

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
[ -t 1 ] || step() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; } # COMMAND...: what a user would type
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

# during TEXT COMMAND...: runs a command, and prints a line every 8 s.  TEXT may be a function
# that prints what happens.  What the command prints is in the file log.
during() {
    local text=$1 next=$((SECONDS + 8)) rc=0; shift
    set -m # a process group of its own, so that finish ends all of it
    "$@" >>"$dir/log" 2>&1 </dev/null &
    working=$!
    set +m
    while kill -0 "$working" 2>/dev/null; do
        sleep 0.2
        [ "$SECONDS" -ge "$next" ] || continue
        next=$((SECONDS + 8))
        if [ "$(type -t "$text")" = function ]; then note "$SECONDS s: $("$text")"; else note "$SECONDS s: $text"; fi
    done
    wait "$working" || rc=$?
    working=
    return $rc
}

make_directory() {
    local base
    for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
        may_be_base "$base" || continue
        dir=$(mktemp -d "$base/rt-demo-XXXXXX" 2>/dev/null) || continue
        chmod 755 "$dir"
        # The programs are copied there: a job's user may not reach this checkout.
        cp "$(type -P true)" "$dir/true"
        if "$dir/true" && [[ $dir != *[[:space:]]* ]] && may_be_reached; then return; fi
        rm -rf "$dir"
    done
    die "no directory for programs below ${TMPDIR:-/tmp}, /tmp and /var/tmp"
}
may_be_base() { # an absolute path; for a Slurm each directory is root's, or munged does not start
    local d=$1
    [[ $d == /* && -d $d ]] || return 1
    [ -z "$why" ] || return 0
    while [ "$d" != / ]; do
        [ "$(stat -L -c %u "$d")" = 0 ] || return 1
        d=$(dirname "$d")
    done
}
may_be_reached() { # by other users, where there will be some
    [ -n "$why" ] || setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$dir/true"
}

finish() {
    local rc=$?
    trap '' INT TERM HUP
    set +e
    if [ "$rc" != 0 ] && [ "$rc" != 130 ]; then logs >&2; fi
    [ -z "$dir" ] || { echo; note "Ending what runs and removing $dir ..."; }
    if [ -n "$working" ]; then kill -- "-$working"; wait "$working"; fi 2>/dev/null
    if [ -n "$server" ]; then kill "$server"; wait "$server"; fi 2>/dev/null
    end_commands
    end_slurm
    rm -rf "$dir"
    exit "$rc"
}
logs() {
    local f
    echo "demo: failed. The ends of the logs, if there are any:"
    for f in "$dir"/{log,rt.log,serve.log,lab/log/*.log}; do
        [ -s "$f" ] || continue
        printf -- '-- %s\n' "${f#"$dir"/}"
        tail -n 15 "$f"
    done
}

build() {
    step "Build"
    # rt-lake, the largest program, is not shown.
    contrib/lab/progress 'building six programs' make programs BIN="$make_bin" CGO='rt-tracker rt-spool resource-tracker rt-site' ||
        die "make programs failed"
    mkdir "$dir/bin" "$dir/work"
    cp "$(realpath "$make_bin")"/{rt-prolog,rt-epilog,rt-tracker,rt-spool,rt-site,resource-tracker} "$dir/bin/"
    ln -s rt-spool "$dir/bin/rt-job"
    ${CC:-gcc} -O2 -pthread -o "$dir/work/work" e2e/workload/workload.c
    export PATH=$dir/bin:$PATH
}

introduce() {
    if [ -z "$why" ]; then
        cat <<E
Eight jobs on a real Slurm of one node, with the Prolog and Epilog of rt: this starts the Slurm
on this machine (cgroup $cgroups, 127.0.0.1 only), beside any other, and removes it at the end.
Then: the list of the jobs, two reports with advice, the delivery to rt-site, and its page.
E
    else
        cat <<E
No Slurm can run here: $why.
So the same with eight commands under resource-tracker: the list, a report, the delivery to
rt-site, and its page.
E
    fi
    echo
    note "It takes $([ -z "$why" ] && echo 90 || echo 30) seconds. The first time it also compiles the programs: 3 minutes on two cores."
    [ -n "$why" ] || introduce_packages
    note "Everything else is in $dir and is removed at the end. Ctrl-C ends it at any time."
}

main() {
    why=$("$lab" can) && { cgroups=$why why=''; }
    [ "${DEMO_SLURM:-}" != no ] || why='DEMO_SLURM=no'
    trap finish EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_directory
    introduce
    build
    install -d -m 1777 "$dir/cache" "$dir/state"
    export XDG_CACHE_HOME=$dir/cache XDG_STATE_HOME=$dir/state # after the build: Go's cache is there too
    if [ -z "$why" ]; then install_slurm; fi # sets why if it cannot
    if [ -z "$why" ]; then slurm_jobs; else commands; fi
    deliver
    visit
}
main
