#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# metrics.sh -- `outlast stat --listen` serves every counter of a server as metrics for Prometheus: values move with
# pushes, histograms have each push once, a server that is gone is outlast_up 0 and comes back by itself, and a silent client holds up nobody;
# a worker's own file has how long its pushes and pulls took, and training goes on where that cannot be written
# not under tsan: its programs have one thread each, but for the servers, which other tests have
. "$(dirname "$0")/train_lib.bash"

root=${OUTLAST_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}

# listens NAME -- its page's address in $url
listens() {
	until_true grep -q '^serves http' "$tmp/$1.err" || fail "$1 does not listen: $(cat "$tmp/$1.err")"
	url=$(sed -n 's/^serves //p' "$tmp/$1.err")
}

# request METHOD URL [BODY] -- status in line 1 of $tmp/page.head, the rest of the head below it, the body in $tmp/page
request() {
	"$python" - "$tmp/page" "$@" <<'END'
import sys, urllib.error, urllib.request
page, method, url, *body = sys.argv[1:]
ask = urllib.request.Request(url, method=method, data=body[0].encode() if body else None)
try:
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(ask, timeout=30)
except urllib.error.HTTPError as e:
    answer = e
open(page + ".head", "w").write(f"{answer.status}\n{answer.headers}")
open(page, "wb").write(answer.read())
END
}

status() { # WANT METHOD URL [BODY]
	local want=$1

	shift
	request "$@" || fail "$*: no answer"
	[ "$(head -n 1 "$tmp/page.head")" = "$want" ] || fail "$*: $(head -n 1 "$tmp/page.head"), not $want"
}

# value NAME LABELS -- of the page read last, in a series that has these labels; nothing if there is none
value() {
	awk -v name="$1{" -v labels="$2" 'index($0, name) == 1 && index($0, labels) { print $NF; exit }' "$tmp/page"
}

# reads NAME LABELS WANT -- a new scrape has this value
reads() {
	request GET "$url" && [ "$(value "$1" "$2")" = "$3" ]
}

# becomes NAME LABELS WANT
becomes() {
	until_true reads "$@" || fail "$1{$2} is \"$(value "$1" "$2")\", not $3"
}

# histogram NAME LABELS -- of the page read last: its count, once it is one that adds up
histogram() {
	"$python" - "$tmp/page" "$@" <<'END'
import math, re, sys
page, name, labels = sys.argv[1:]
buckets, rest = [], {}
for line in open(page):
    match = re.fullmatch(r"(\w+)\{(.*)\} (\S+)\n", line)
    if not match or labels not in match[2] or not match[1].startswith(name + "_"):
        continue
    if match[1] == name + "_bucket":
        buckets.append((float(re.search(r',le="([^"]*)"', match[2])[1]), int(match[3])))
    else:
        rest[match[1].removeprefix(name + "_")] = float(match[3])
bounds = [bound for bound, _ in buckets]
assert len(bounds) > 50 and bounds[0] < 2e-6 and 60 < bounds[-2] < 70 and bounds[-1] == math.inf, bounds
assert bounds == sorted(set(bounds)) and all(b <= 1.51 * a for a, b in zip(bounds, bounds[1:-1])), bounds
counts = [count for _, count in buckets]
assert counts == sorted(counts), f"not cumulative: {counts}"
assert counts[-1] == rest["count"], rest
low = sum((b - a) * bound for (_, a), (_, b), bound in zip(buckets, buckets[1:], bounds))
high = sum((b - a) * bound for a, (bound, b) in zip([0] + counts, buckets) if b > a)
assert low <= rest["sum"] * 1.000001 and rest["sum"] <= high, (low, rest, high)
print(int(rest["count"]))
END
}

one=$(address)
never=$(address)
serve s "$one" --workers 1
server=$pid
background m stat --servers "$one,$never" --listen '127.0.0.1:0' --timeout-ms 300 --connections-max 4
metrics=$pid
listens m
page=$url

# one server, and an address at which there is none
status 200 GET "$page"
grep -qi '^content-type: text/plain; version=0.0.4' "$tmp/page.head" || fail "its type: $(cat "$tmp/page.head")"
[ "$(value outlast_up "\"$one\"") $(value outlast_up "\"$never\"")" = "1 0" ] || fail "up: $(grep ^outlast_up "$tmp/page")"
[ "$(value outlast_gradients_applied_total "\"$one\"")" = 0 ] || fail "applied before a push"
[ -z "$(value outlast_gradients_applied_total "\"$never\"")" ] || fail "counters of a server that is not there"
cp "$tmp/page" "$tmp/all"
outlast work --connect "$one" "${tiny[@]}" --id 0 --steps 20 --metrics "$tmp/w.prom" --pace 500
expect "20 pushes" 0
cp "$tmp/w.prom" "$tmp/page"
[ "$(value outlast_worker_gradients_pushed_total 'job="outlast",worker="0",shard="0"')" = 20 ] ||
	fail "the worker's file: $(grep -v _bucket "$tmp/w.prom")"
for of in push pull; do
	count=$(histogram outlast_worker_${of}_seconds 'job="outlast",worker="0",shard="0"') ||
		fail "the worker's histogram of each $of does not add up"
	# fast ones are timed in part
	[ "$count" -ge 2 ] && [ "$count" -le 21 ] || fail "after 20 steps the worker has times of $count ${of}es"
done
cat "$tmp/w.prom" >>"$tmp/all"
[ ! -e "$tmp/w.prom.new" ] || fail "what the worker wrote beside its file is still there"
status 200 GET "$page"
[ "$(value outlast_gradients_applied_total "\"$one\"") $(value outlast_weights_version "\"$one\"")" = "20 20" ] ||
	fail "after 20 pushes: $(grep -E '^outlast_(gradients_applied|weights)' "$tmp/page")"
[ "$(value outlast_received_bytes_total "\"$one\"")" -gt 0 ] || fail "no bytes came in"
count=$(histogram outlast_push_applied_seconds "\"$one\"") || fail "a histogram of 20 pushes does not add up"
[ "$count" = 20 ] || fail "20 pushes, and times of $count"
grep '^outlast_checkpoint_age_seconds' "$tmp/page" && fail "an age of no checkpoint"

# each member of the board has its metric, or is in a label
sed -n '/^struct ol_server_stat {/,/^};/p' "$root/src/include/outlast_counters.h" |
	sed -n 's/^\t*\(uint[0-9]*_t\|float\|struct ol_latency\)* *\t*\([a-z_]*\);.*/\2/p' >"$tmp/members"
[ "$(wc -l <"$tmp/members")" -gt 50 ] || fail "members of struct ol_server_stat: $(cat "$tmp/members")"
while read -r member; do
	grep -q "ROW($member, \|stat\(\.\|->\)$member\>\|ol_server_stat, $member)" "$root/tools/outlast/metrics.c" || fail "no metric of \"$member\""
done <"$tmp/members"

# who asks for OpenMetrics gets it, and the times of pushes have an example
"$python" - "$page" "$tmp/open" <<'END' || fail "OpenMetrics: $(tail -n 5 "$tmp/open")"
import re, sys, urllib.request
url, path = sys.argv[1:]
accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
ask = urllib.request.Request(url, headers={"Accept": accept})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(ask, timeout=30) as page:
    kind, text = page.headers["Content-Type"], page.read().decode()
open(path, "w").write(text)
assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", kind
assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
assert "# TYPE outlast_gradients_applied counter\n" in text and "\noutlast_gradients_applied_total{" in text
assert "# UNIT outlast_push_applied_seconds seconds\n" in text
examples = re.findall(r'_bucket\{[^}]*le="([^"]*)"\} \d+ # \{worker="0",push="(\d+)"\} (\S+) (\S+)\n', text)
assert len(examples) == 1, examples
bound, push, seconds, when = examples[0]
assert 1 <= int(push) <= 20 and 0 < float(seconds) < float(bound) and float(when) > 1.7e9, examples
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    print("python3-prometheus-client is not here: OpenMetrics is not read by it")
    sys.exit()
families = {family.name: family for family in text_string_to_metric_families(text)}
assert families["outlast_gradients_applied"].type == "counter"
assert families["outlast_push_applied_seconds"].unit == "seconds"
assert any(sample.exemplar for sample in families["outlast_push_applied_seconds"].samples)
END

# other pages, other methods
status 404 GET "${page%metrics}"
status 404 GET "${page}x"
status 405 POST "$page" nothing
status 200 HEAD "$page"
[ -s "$tmp/page" ] && fail "HEAD has a body"
grep -qi '^content-length: [1-9]' "$tmp/page.head" || fail "HEAD has no length"

# clients that say nothing, or half of something, as many as one address may have but one
exec 4<>"/dev/tcp/127.0.0.1/$(sed 's/.*:\([0-9]*\)\/.*/\1/' <<<"$page")"
printf 'GET /metrics HT' >&4
begin=$EPOCHREALTIME
status 200 GET "$page"
took=$((${EPOCHREALTIME/./} - ${begin/./}))
[ "$took" -lt 10000000 ] || fail "beside a silent client a scrape took $took us"
exec 4>&-

# gone, and back by itself; then it counts from 0
kill -9 "$server"
becomes outlast_up "\"$one\"" 0
[ -z "$(value outlast_gradients_applied_total "\"$one\"")" ] || fail "counters of a server that is gone"
serve s "$one" --workers 1
becomes outlast_up "\"$one\"" 1
[ "$(value outlast_gradients_applied_total "\"$one\"")" = 0 ] || fail "counters of the new server"
grep -qF "$one: cannot be read: " "$tmp/m.err" || fail "who is gone is not said: $(cat "$tmp/m.err")"

# many that are gone: one scrape has its limit, and the live one is in it
background n stat --servers "$(for _ in {1..12}; do echo -n "$(address),"; done)$one" --listen '[::1]:0' --timeout-ms 200 \
	--scrape-timeout-ms 600
if until_true grep -q -e '^serves http' -e '^outlast' "$tmp/n.err" && grep -q '^outlast' "$tmp/n.err"; then
	echo "no IPv6 here: $(cat "$tmp/n.err")"
else
	listens n
	becomes outlast_up "\"$one\"" 1
	reads outlast_up "\"$one\"" 1 || fail "once it is connected it is read in each scrape"
	awk -v s="$(value outlast_scrape_duration_seconds job)" 'BEGIN { exit !(s > 0 && s < 3) }' ||
		fail "12 that are gone: a scrape of $(value outlast_scrape_duration_seconds job) s"
fi

# where its file cannot be written a worker says so once, and goes on
outlast work --connect "$one" "${tiny[@]}" --id 0 --steps 5 --metrics "$tmp/nowhere/w.prom"
expect "5 pushes without a file" 0
[ "$(grep -c 'metrics cannot be written to .*/nowhere/w.prom: .*; training goes on' <<<"$err")" = 1 ] || fail "no file, and it says: $err"
ln -s /dev/full "$tmp/full.prom.new"
outlast work --connect "$one" "${tiny[@]}" --id 0 --steps 5 --metrics "$tmp/full.prom"
expect "5 pushes with a full disk" 0
[[ $err == *"metrics cannot be written to"*"No space left"* ]] || fail "a full disk, and it says: $err"
grep -q '^outlast_worker_push_seconds_count' "$tmp/full.prom" || fail "there is room again, and no file"

# a checkpoint has an age, of a running one too, and grows old
for kind in keep=2 priority,r=1/4; do
	kept=$(address)
	serve "k${kind%%,*}" "$kept" --workers 1 --durability checkpoint --checkpoint "every=8steps,dir=$tmp/k${kind%%[=,]*},$kind"
	background "a${kind%%,*}" stat --servers "$kept" --listen 127.0.0.1:0
	listens "a${kind%%,*}"
	outlast work --connect "$kept" "${tiny[@]}" --id 0 --steps 20
	expect "20 pushes to be checkpointed" 0
	ages() {
		request GET "$url" && [ -n "$(value outlast_checkpoint_age_seconds "\"$kept\"")" ] &&
			awk -v s="$(value outlast_checkpoint_age_seconds "\"$kept\"")" -v more="$1" 'BEGIN { exit !(s > more && s < 100) }'
	}
	until_true ages 0 || fail "a checkpoint with $kind has no age: $(grep checkpoint "$tmp/page")"
	until_true ages 1 || fail "a checkpoint with $kind does not grow old: $(grep checkpoint "$tmp/page")"
	cat "$tmp/page" >>"$tmp/all"
done

# all places taken, and free again: it listens again
background f stat --servers "$one" --listen 127.0.0.1:0 --connections-max 1
listens f
"$python" - "$url" <<'END' || fail "places that were taken stay so"
import socket, sys, time, urllib.parse, urllib.request
url = urllib.parse.urlsplit(sys.argv[1])
for turn in range(3):
    silent = []
    for number in range(4):
        one = socket.socket()
        one.bind((f"127.0.0.{3 + number % 2}", 0))
        one.connect((url.hostname, url.port))
        silent.append(one)
    time.sleep(0.2)
    for one in silent:
        one.close()
    with urllib.request.urlopen(sys.argv[1], timeout=50) as page:
        assert page.status == 200 and b"outlast_up" in page.read()
END
kill "$pid"
ended "$pid" 0 "an exporter with one place"

# wrong words, and a signal
port=$(sed 's/.*:\([0-9]*\)\/.*/\1/' <<<"$page")
outlast stat --servers "$one" --listen "127.0.0.1:$port"
expect_error "a port in use" 7 "outlast stat: cannot listen at: 127.0.0.1:$port: *in use*"
for wrong in 9470 :9470 ::1:9470 127.0.0.1: 127.0.0.1:65536 127.0.0.1:http '[::1]'; do
	outlast stat --servers "$one" --listen "$wrong"
	expect_error "--listen $wrong" 2 "outlast stat: --listen: ${wrong//[/\\[}: give ADDRESS:PORT*"
done
outlast stat --servers "$one" --listen 192.0.2.1:9470
expect_error "an address of another machine" 6 "outlast stat: cannot listen at: 192.0.2.1:9470: not an address of this machine"
outlast stat --servers "$one" --listen 127.0.0.1:0 --once
expect_error "--listen and --once" 2 "outlast stat: --listen*--once*"
kill -TERM "$metrics"
ended "$metrics" 0 "the exporter, by SIGTERM"

# a chain of two, in which the head is killed; the exporter begins before the job does
coord=dir:$tmp/views
mkdir "$tmp/views"
member() { # NAME RANK
	chain_address=$(address)
	serve "$1" "$chain_address" --coordinator "$coord" --job 'pair' --replicas 2 --rank "$2" --lease-ms 1000
}
background c stat --coordinator "$coord" --job pair --listen 127.0.0.1:0 --timeout-ms 300
metrics=$pid
listens c
status 200 GET "$url"
[ "$(value outlast_coordinator_up pair) $(value outlast_view_epoch 'shard="0"')" = "1 0" ] || fail "before the job: $(cat "$tmp/page")"
member a 0
a=$pid
head=$chain_address
member b 1
becomes outlast_chain_replicas 'job="pair",shard="0"' 2
becomes outlast_replica_info "\"$head\",role=\"head\"" 1
becomes outlast_replica_info "\"$chain_address\",role=\"tail\"" 1
epoch=$(value outlast_view_epoch 'shard="0"')
background w work --coordinator "$coord" --job pair "${tiny[@]}" --id 0 --steps 0 --pace 100
moves() {
	request GET "$url" && [ "$(value outlast_entries_forwarded_total "\"$head\"")" -gt 20 ]
}
until_true moves || fail "the head forwards nothing: $(grep forwarded "$tmp/page")"
[[ $(value outlast_chain_lag_entries "\"$head\"") =~ ^[0-9]+$ ]] || fail "the head has no lag"
count=$(histogram outlast_push_applied_seconds "\"$head\"") || fail "the head's histogram does not add up"
# what is under way counts elsewhere first
[ "$((count + 2))" -ge "$(value outlast_gradients_applied_total "\"$head\"")" ] ||
	fail "the head has times of $count pushes: $(grep outlast_gradients_applied "$tmp/page")"
count=$(histogram outlast_push_applied_seconds "\"$chain_address\"") || fail "the tail's histogram does not add up"
[ "$count" = 0 ] || fail "the tail has times of $count pushes that it did not see land"
cat "$tmp/page" >>"$tmp/all"
kill -9 "$a"
becomes outlast_replica_info "\"$chain_address\",role=\"only\"" 1
applies() {
	request GET "$url" && [ "$(histogram outlast_push_applied_seconds "\"$chain_address\"")" -gt 5 ]
}
until_true applies || fail "the last replica has no times"
[ "$(value outlast_chain_replicas 'shard="0"') $(value outlast_chain_replicas_wanted 'shard="0"')" = "1 2" ] ||
	fail "without its head: $(grep ^outlast_chain "$tmp/page")"
[ "$(value outlast_view_epoch 'shard="0"')" -gt "$epoch" ] || fail "no new epoch"
member d 0
becomes outlast_chain_replicas 'shard="0"' 2
becomes outlast_up "\"$chain_address\"" 1
kill -TERM "$metrics"
ended "$metrics" 0 "the chain's exporter, by SIGTERM"

# a job of two shards: that it has two is known only once it has begun
background t stat --coordinator "$coord" --job two --listen 127.0.0.1:0 --timeout-ms 300
metrics=$pid
listens t
becomes outlast_view_epoch 'shard="0"' 0
for shard in 0 1; do
	chain_address=$(address)
	background "two$shard" serve --listen "$chain_address" --params 5000 --coordinator "$coord" --job two --replicas 1 \
		--shard $shard --servers 2
done
becomes outlast_chain_replicas 'job="two",shard="1"' 1
becomes outlast_up "shard=\"1\",address=\"$chain_address\"" 1
becomes outlast_up 'shard="0"' 1
kill -TERM "$metrics"
ended "$metrics" 0 "the exporter of two shards, by SIGTERM"

# alerts, the dashboard and their README name what is served, and nothing else
sed -n 's/^# TYPE \(outlast_[a-z_]*\) .*/\1/p; s/^\(outlast_[a-z_]*_\(bucket\|sum\|count\)\){.*/\1/p' "$tmp/all" >"$tmp/names"
# this machine may have no ports
sed -n 's/.*"\(outlast_port_[a-z_]*_total\)".*/\1/p' "$root/tools/cmd/port.c" >>"$tmp/names"
sort -u "$tmp/names" >"$tmp/served"
sed -e '/^ *#/d' "$root"/tools/metrics/{alerts.yml,dashboard.json,README.md} |
	grep -oE '\boutlast_[a-z_]+' | sort -u >"$tmp/named"
[ "$(wc -l <"$tmp/named")" -gt 15 ] || fail "alerts and the dashboard name only: $(cat "$tmp/named")"
for alert in $(sed -n 's/^ *- alert: //p' "$root/tools/metrics/alerts.yml"); do
	grep -q "^| \`$alert\` |" "$root/tools/metrics/README.md" || fail "README.md does not say what to do about $alert"
	grep -q "alertname: $alert$" "$root/tools/metrics/alerts_test.yml" || fail "alerts_test.yml does not try $alert"
done
unknown=$(comm -23 "$tmp/named" "$tmp/served")
[ -z "$unknown" ] || fail "alerts, the dashboard or the README name what is not served: $unknown"
"$python" -m json.tool "$root/tools/metrics/dashboard.json" >"$tmp/dashboard" || fail "dashboard.json is no JSON"
if ! command -v promtool >"$tmp/where"; then
	echo "promtool is not here (Debian's package prometheus): names and alerts are not checked by it"
	verdict
fi
promtool check metrics <"$tmp/page" >"$tmp/said" 2>&1 || fail "promtool check metrics: $(cat "$tmp/said")"
[ -s "$tmp/said" ] && fail "promtool check metrics: $(cat "$tmp/said")"
promtool check rules "$root/tools/metrics/alerts.yml" >"$tmp/said" 2>&1 || fail "promtool check rules: $(cat "$tmp/said")"
promtool test rules "$root/tools/metrics/alerts_test.yml" >"$tmp/said" 2>&1 || fail "promtool test rules: $(cat "$tmp/said")"
verdict
