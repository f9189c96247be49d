# Delivery to a receiver on loopback, and its page.

serve() {
    [ -z "$server" ] || return 0
    (umask 077; od -An -N8 -tx1 /dev/urandom | tr -d ' \n' >"$dir/write-token"; od -An -N8 -tx1 /dev/urandom | tr -d ' \n' >"$dir/read-token")
    printf '[serve]\nlisten = "127.0.0.1:0"\ndir = "%s"\ntoken_file = "%s"\nread_token_file = "%s"\n' \
        "$dir/site" "$dir/write-token" "$dir/read-token" >"$dir/site.toml"
    token=$(cat "$dir/read-token")
    mkdir "$dir/site"
    [ ${#as[@]} = 0 ] || chown rt:rt "$dir"/{site,write-token,read-token}
    "${as[@]}" rt-site --config "$dir/site.toml" serve >"$dir/serve.log" 2>&1 </dev/null &
    server=$!
    during "rt-site starts" listening || die "rt-site did not start"
    url=$(sed -n 's/^listening on //p' "$dir/serve.log")
    printf '[sentinel]\nendpoint = "%s"\ns3_endpoint = "%s"\ntoken_file = "%s"\n' "$url" "$url" "$dir/write-token" >>"$dir/rt.toml"
}
listening() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! grep -q '^listening on ' "$dir/serve.log" || return 0
        sleep 0.1
    done
    return 1
}
# --live: also the job that still runs.
drain() { during "drain delivers" "${as[@]}" rt-spool --config "$dir/rt.toml" drain --live || die "drain failed"; }

deliver() {
    step "Deliver the runs to rt-site with SQLite"
    serve
    note "rt-site listens on $url"
    drain
    show rt-spool --config "$dir/rt.toml" ls
}

# ------------------------------------------------------------------------- page
visit() {
    if [ -t 1 ]; then stay; else request_each; fi
}
stay() {
    step "The page: Ctrl-C ends it"
    note "$url   user name: demo   password: $token"
    note "or         http://demo:$token@${url#http://}/"
    note "On another machine: ssh -L ${url##*:}:${url#http://} $(hostname)"
    trap 'exit 0' INT
    wait "$server" || die "rt-site has ended"
}

request_each() {
    local path link
    step "The pages, each once"
    for path in /jobs /users /accounts /nodes /style.css /v1/jobs /metrics; do request "$path"; done
    request "/jobs?sort=waste"
    link=$(sed -n 's/.*href="\(job?[^"]*\)".*/\1/p' "$dir/body" | head -n 1 | sed 's/&amp;/\&/g')
    [ -z "$link" ] || request "/$link"
}
# request PATH: the machine may have no curl.
request() {
    local host=${url#http://} status
    exec 7<>"/dev/tcp/${host%:*}/${host#*:}"
    printf 'GET %s HTTP/1.0\r\nHost: %s\r\nAuthorization: Basic %s\r\n\r\n' "$1" "$host" "$(printf 'demo:%s' "$token" | base64 -w 0)" >&7
    cat <&7 >"$dir/answer"
    exec 7<&- 7>&-
    status=$(sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p' "$dir/answer")
    sed '1,/^\r*$/d' "$dir/answer" >"$dir/body"
    printf '%s %8d bytes  %s\n' "$status" "$(wc -c <"$dir/body")" "$1"
    [ "$status" = 200 ] || die "$1 was answered with ${status:-nothing}"
}
