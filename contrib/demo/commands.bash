# The demo without Slurm: commands under resource-tracker.

pids=()
# track NAME CORES COMMAND...: the variables of Slurm that resource-tracker records are set by hand, because the page
# of a site lists jobs.
track() {
    local name=$1 cores=$2; shift 2
    number=$((number + 1))
    printf '$ resource-tracker --spool spool -- %s   # %s\n' "$*" "$name"
    SLURM_JOB_ID=$number SLURM_CLUSTER_NAME=demo SLURM_JOB_NAME=$name SLURM_JOB_USER=$(id -un) SLURM_JOB_NUM_NODES=1 \
        SLURM_CPUS_ON_NODE=$cores SLURM_JOB_PARTITION=none resource-tracker --spool "$dir/spool" -- "$@" >>"$dir/log" 2>&1 &
    pids+=($!)
}
number=0

track_all() {
    track well-sized 1 work --touch 200 --cpu 10
    track wasteful 8 work --touch 60 --cpu 1 --hold 15
    track killed 1 bash -c 'work --touch 100 --hold 3; kill -KILL $$'
    track many-processes 1 work --forks 500
    track fails 1 work --cpu 2 --exit 7
    track two-threads 2 work --threads 2 --cpu 3
    track four-cores 4 work --touch 40 --cpu 6
    track still-running 1 work --touch 30 --cpu 4 --hold 3600
}
commands_now() { echo "$(running | wc -l) of 8 commands run"; }
running() {
    local p
    for p in "${pids[@]}"; do ! kill -0 "$p" 2>/dev/null || echo "$p"; done
}
wait_for_commands() { while [ "$(running | wc -l)" -gt 1 ]; do sleep 0.3; done; }

end_commands() {
    local p
    for p in "${pids[@]}"; do kill "$p"; done 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
}

commands() {
    mkdir -p "$dir/spool"
    export PATH=$dir/work:$PATH
    write_configuration
    step "Eight commands under resource-tracker"
    note "The variables of Slurm that it records are set by hand, because the page of a site lists jobs."
    track_all
    during commands_now wait_for_commands
    step "The jobs"
    show rt-job --config "$dir/rt.toml" --allusers
    step "The one that uses one of four cores"
    show rt-job --config "$dir/rt.toml" --verbose 7
}
