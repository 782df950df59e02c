#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# elastic.sh -- workers may join and leave an asynchronous job at any time, and all their gradients are in the weights
. "$(dirname "$0")/train_lib.bash"

work() {
	background "$1" work --connect "$at" "${tiny[@]}" --id "$2" --json "$tmp/$1.json" "${@:3}"
}

at=$(address)
serve s "$at" --workers-max 3 --json "$tmp/s.json"
server=$pid
work stays 0 --steps 0
stays=$pid
until_true grep -q "^worker 0 at" "$tmp/stays.err" || fail "worker 0 does not come in: $(cat "$tmp/stays.err")"

# one joins, computes its share and leaves; another is told to leave; its id comes back
outlast work --connect "$at" "${tiny[@]}" --id 1 --steps 50 --json "$tmp/joins.json"
expect "a worker that joins" 0
work told 2 --steps 0
told=$pid
until_true grep -q "^worker 2 at" "$tmp/told.err" || fail "worker 2 does not come in: $(cat "$tmp/told.err")"
kill -TERM "$told"
ended "$told" 143 "a worker that is told to leave"
outlast work --connect "$at" "${tiny[@]}" --id 2 --steps 30 --json "$tmp/again.json"
expect "the same id again" 0
kill -TERM "$stays"
ended "$stays" 143 "the worker that stayed"
kill -TERM "$server"
ended "$server" 0 "the server"

sum=0
for name in stays joins told again; do
	applied=$(json "$tmp/$name.json" 'r["applied"]')
	sum=$((sum + applied))
done
[ "$(json "$tmp/s.json" 'r["applied"]')" = "$sum" ] ||
	fail "the server applied $(json "$tmp/s.json" 'r["applied"]') gradients, its workers know of $sum"
[ "$(json "$tmp/joins.json" 'r["applied"]') $(json "$tmp/again.json" 'r["applied"]')" = "50 30" ] ||
	fail "shares: $(cat "$tmp/joins.json" "$tmp/again.json")"
verdict
