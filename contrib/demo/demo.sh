#!/usr/bin/env bash
# The whole way of the data on one machine: a workload of known size under
# resource-tracker, its spool, a report, and delivery to a receiver on loopback.
# All files are below one temporary directory, which is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:-build/bin}")
cpu=4 memory=200 # seconds, MiB

dir=$(mktemp -d)
receiver=
finish() {
    if [ -n "$receiver" ]; then kill "$receiver" 2>/dev/null && wait "$receiver" 2>/dev/null || :; fi
    rm -rf "$dir"
}
trap finish EXIT
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

say "A workload that uses $cpu s of CPU time and touches $memory MiB, under resource-tracker"
gcc -O2 -o "$dir/workload" e2e/workload/workload.c
mkdir "$dir/spool" "$dir/truth"
export PATH=$bin:$PATH
cd "$dir"
RT_TRUTH=$dir/truth run resource-tracker --spool spool --job-name demo -- ./workload --cpu "$cpu" --touch "$memory" --hold 2
figure() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" truth/*.json; }
user=$(figure user_us) system=$(figure system_us) touched=$(figure touched_bytes)
printf 'The workload reports: CPU %d.%03d s, touched %d MiB.\n' \
    $(((user + system) / 1000000)) $(((user + system) / 1000 % 1000)) $((touched >> 20))

say "What the spool holds"
run rt-spool --spool spool ls
file=$(echo spool/*.db)
run rt-spool --spool spool report "$file"

say "A receiver on loopback, with its own token"
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
(umask 077 && echo "$token" >token)
printf '[serve]\nlisten = "127.0.0.1:0"\ndir = "%s"\ntoken_file = "%s"\n' "$dir/received" "$dir/token" >serve.toml
rt-site --config serve.toml serve >serve.out 2>serve.err &
receiver=$!
for _ in $(seq 100); do
    url=$(sed -n 's/^listening on //p' serve.out)
    [ -z "$url" ] || break
    kill -0 "$receiver" 2>/dev/null || { cat serve.err >&2; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "the receiver did not start within 10 s" >&2; exit 1; }
echo "rt-site serve: listening on $url"

say "Drain"
printf '[spool]\ndir = "%s"\n[sentinel]\nendpoint = "%s"\ns3_endpoint = "%s"\ntoken_file = "%s"\n' \
    "$dir/spool" "$url" "$url" "$dir/token" >rt.toml
run rt-spool --config rt.toml drain --json
echo "... and again, which sends nothing:"
run rt-spool --config rt.toml drain --json | grep -E '"(runs_)?delivered"|"bytes"|"rows"' || :

# The receiver's answer to a GET, with bash alone: the machine may have no curl.
get() {
    local host=${url#http://}
    exec 7<>"/dev/tcp/${host%:*}/${host#*:}"
    printf 'GET %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "$1" "$token" >&7
    sed '1,/^\r*$/d' <&7
    exec 7<&- 7>&-
}
say "What the receiver holds"
echo '$ GET /runs'
get /runs
id=$(get /runs | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | head -n 1)
[ -n "$id" ] || { echo "the receiver holds no run" >&2; exit 1; }
echo "\$ GET /runs/$id/data"
get "/runs/$id/data" | tee data.csv
rows=$(($(wc -l <data.csv) - 1))
[ "$rows" -gt 0 ] || { echo "the receiver holds no rows" >&2; exit 1; }
say "Delivered: 1 run, $rows rows. The same spool opens with sqlite3: view \"sample\"."
