# The Slurm of the demo, and its eight jobs.

export SLURM_LAB_PORT=${SLURM_LAB_PORT:-15800} SLURM_LAB_PREFIX=${SLURM_LAB_PREFIX:-}demo

# Before Linux 6.15 a tracker cannot know how a job ended: Slurm's Epilog has the same exit code for finished,
# cancelled and timed out jobs.  Then drain asks Slurm's accounting, which needs MariaDB.
sacct=yes
case ${DEMO_SACCT:-} in
yes | no) sacct=$DEMO_SACCT ;;
*) [ "$(printf '%s\n' 6.15 "$(uname -r)" | sort -V | head -n 1)" != 6.15 ] || sacct=no ;;
esac

introduce_packages() {
    local what='Slurm (100 MB, a minute)'
    if [ "$sacct" = yes ] && ! command -v slurmdbd >/dev/null; then
        what='Slurm and MariaDB (350 MB, two minutes)'
    elif command -v slurmctld >/dev/null; then
        return 0
    fi
    note "It installs $what with apt-get, and makes users for the jobs and the trackers."
    note "contrib/lab/clean-system removes these packages and users."
}

no_dbd() { [ "$sacct" = yes ] || echo --no-dbd; }
# shellcheck disable=SC2046
install_slurm() {
    command -v slurmctld >/dev/null || step "Install Slurm"
    if ! during "apt-get installs packages" "$lab" install $(no_dbd) && [ "$sacct" = yes ]; then
        sacct=no
        note "Slurm's accounting could not be installed: some jobs end with the outcome unknown, and without advice."
    fi
    if during "apt-get installs packages" "$lab" install $(no_dbd); then
        cgroups=$("$lab" can 2>&1) && return # what the installed Slurm can do
        why=$cgroups
    else
        why=$(grep -v '^slurm-lab' "$dir/log" | tail -n 1)
        why=${why:-apt-get cannot install it}
    fi
    note "No Slurm can run here: $why."
    note "So the demo goes on with eight commands under resource-tracker."
}

# ------------------------------------------------------------------------ start
write_hooks() {
    local hook
    for hook in prolog epilog; do
        sed "s|^/usr/local/libexec/rt/rt-$hook|& --config $dir/rt.toml|; s|/usr/local/libexec/rt|$dir/bin|" "contrib/slurm/hooks/$hook" >"$dir/$hook"
        chmod 755 "$dir/$hook"
    done
}
write_configuration() {
    cat >"$dir/rt.toml" <<E
[spool]
dir = "$dir/spool"
commit_interval = "1s"
[tracker]
path = "$dir/bin/rt-tracker"
state_dir = "$dir/run"
interval = "2s"
first_for = "0s"
budget_cpu = 0.0 # on a slow machine the trackers would leave out readings, and then a report has no advice
host_cache = ""
[hooks]
ready_timeout = "5s" # a slow machine
stop_timeout = "20s"
disable_file = ""
[log]
target = "$dir/rt.log"
[drain]
sacct = "$([ "$sacct" = yes ] && echo auto || echo off)"
sacct_wait = "5s"
E
}
start_slurm() {
    write_hooks
    write_configuration
    touch "$dir/rt.log"
    chmod 666 "$dir/rt.log"
    # More CPUs than most machines have: with fewer, jobs are not bound to cores.
    # shellcheck disable=SC2046
    "$lab" up --fresh --cpus 16 $(no_dbd) --prolog "$dir/prolog" --epilog "$dir/epilog" || return
    install -d -o rt -g rt "$dir/spool"
    install -d -m 1777 "$dir/out"
}
end_slurm() {
    [ -d "$dir/lab" ] || return 0
    "$lab" down --reap --purge >"$dir/down" 2>&1 || cat "$dir/down" >&2
}

# ------------------------------------------------------------------------- jobs
# submit NAME SCRIPT OPTION...
submit() {
    local name=$1 script=$2; shift 2
    printf '$ sbatch --job-name=%s %s   # %s\n' "$name" "$*" "$script"
    printf '#!/bin/bash\nexport PATH=%q:$PATH XDG_STATE_HOME=%q\n%s\n' "$dir/bin:$dir/work" "$dir/state" "$script" >"$dir/$name.sh"
    id[$name]=$("$lab" run sbatch --parsable --job-name="$name" --output="$dir/out/%j" "$@" "$dir/$name.sh")
}
submit_all() {
    declare -gA id=()
    # The longest one first: there is advice after a minute.
    submit wasteful 'work --touch 40 --cpu 2 --hold 60' --cpus-per-task=2 --mem=300M --time=10
    submit well-sized 'work --touch 110 --cpu 25' --mem=150M --time=5
    submit oom 'for i in {1..60}; do head -c 3M /dev/zero || break; sleep 0.5; done | tail' --mem=64M --time=5
    submit array 'work --touch 10 --cpu $SLURM_ARRAY_TASK_ID' --array=1-3 --mem=40M --time=5
    submit fails 'work --cpu 1 --exit 7' --mem=40M --time=5
    submit still-running 'work --touch 30 --cpu 4 --hold 3600' --mem=60M --time=60
    submit by-srun 'srun resource-tracker -- work --touch 50 --cpu 2' --mem=100M --time=5
    submit four-cores 'work --touch 40 --cpu 8' --cpus-per-task=4 --mem=80M --time=5
    note "work is e2e/workload/workload.c: --touch MiB of memory, --cpu seconds of one core, --hold seconds of sleep"
}

job_states() { # NAME STATE, one line a job or task
    timeout 5 "$lab" root squeue -h -t all -o '%j %T' 2>/dev/null | sort
}
jobs_now() {
    local states; states=$(job_states)
    echo "run: $(sed -n 's/ RUNNING$//p' <<<"$states" | uniq | paste -sd ' '); over: $(grep -cvE ' (PENDING|CONFIGURING|RUNNING|COMPLETING)$' <<<"$states")"
}
# The trackers close their files: a file that is open has one with the ending -wal beside it.
wait_for_jobs() {
    local states failures=0 deadline=$((SECONDS + 600))
    while [ "$SECONDS" -lt "$deadline" ]; do
        if states=$(job_states); then failures=0; else failures=$((failures + 1)); fi
        [ "$failures" -lt 10 ] || { echo "Slurm does not answer"; return 1; }
        states=$(grep -E ' (PENDING|CONFIGURING|RUNNING|COMPLETING)$' <<<"$states" || :)
        if [ "$states" = 'still-running RUNNING' ] && [ "$(compgen -G "$dir/spool/*-wal" | wc -l)" -le 1 ]; then return; fi
        sleep 0.5
    done
    echo "the jobs have not ended after 10 minutes"
    return 1
}

slurm_jobs() {
    step "Start Slurm: slurm-lab up"
    export SLURM_LAB_DIR=$dir/lab SLURM_CONF=$dir/lab/etc/slurm.conf
    as=(setpriv --reuid rt --regid rt --init-groups --)
    during "Slurm starts" start_slurm || die "no Slurm"
    note "$(sed -n 's/^slurm-lab: up //p' "$dir/log" | tail -n 1)"
    step "Eight jobs"
    submit_all
    step "Wait until they have ended: the wasteful one takes a minute, because shorter jobs get no advice"
    during jobs_now wait_for_jobs || die "jobs have not ended"
    if [ "$sacct" = yes ]; then
        step "A first drain: Slurm's accounting knows how the jobs ended, a kernel before Linux 6.15 does not"
        serve
        drain
    fi
    step "The jobs"
    show rt-job --config "$dir/rt.toml" --allusers
    step "The job that was killed for memory"
    show rt-job --config "$dir/rt.toml" "${id[oom]}" | tee "$dir/oom"
    grep -q '^Job .*killed: memory' "$dir/oom" || die "the report does not say that the job ran out of memory"
    step "The wasteful job: the whole report, with advice"
    show rt-job --config "$dir/rt.toml" --verbose "${id[wasteful]}"
    step "What resource-tracker recorded in the job by-srun, without root"
    show rt-spool --spool "$dir/state/rt" report --format oneline "${id[by-srun]}"
}
