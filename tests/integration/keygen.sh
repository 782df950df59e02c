#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# keygen.sh -- `outlast keygen` makes keys that a job takes, each another, in files that are the user's alone, and writes
# over none
#
# not under tsan: one thread
. "$(dirname "$0")/train_lib.bash"

outlast keygen
expect "keygen" 0
[[ $out =~ ^[0-9a-f]{64}$ ]] || fail "not 64 hexadecimal digits: $out"
first=$out
outlast keygen
[ "$out" != "$first" ] || fail "the same key twice"

# a new file has mode 600, whatever the umask
for mask in 000 022 077 777; do
	(umask $mask && exec "$OUTLAST_BIN" keygen --out "$tmp/key$mask") || fail "keygen, umask $mask: exit status $?"
	[ "$(stat -c '%a %s' "$tmp/key$mask")" = "600 65" ] || fail "umask $mask: $(stat -c '%a %s' "$tmp/key$mask")"
done

# a file, or a link, in its place stays as it is
before=$(cat "$tmp/key022")
outlast keygen --out "$tmp/key022"
expect_error "a file that is there" 2 "outlast keygen:*$tmp/key022*there already*"
[ "$(cat "$tmp/key022")" = "$before" ] || fail "a key is written over"
ln -s "$tmp/elsewhere" "$tmp/link"
outlast keygen --out "$tmp/link"
expect_error "a link" 2 "outlast keygen:*$tmp/link*there already*"
[ ! -e "$tmp/elsewhere" ] || fail "a link is followed"
outlast keygen --out /nowhere/key
expect_error "no folder" 2 "outlast keygen:*/nowhere/key*No such file*"
err=$( (ulimit -f 0 && exec "$OUTLAST_BIN" keygen --out "$tmp/cut") 2>&1)
rc=$?
expect_error "a key that cannot be written" 1 "outlast keygen:*$tmp/cut*too large*"
[ ! -e "$tmp/cut" ] || fail "half a key is left"

# both ends of a job take it
at=$(address)
unset OUTLAST_JOB_KEY
serve s "$at" --job-key-file "$tmp/key022"
server=$pid
outlast work --connect "$at" "${tiny[@]}" --steps 3 --job-key-file "$tmp/key022"
expect "the key of both" 0
outlast work --connect "$at" "${tiny[@]}" --steps 3 --job-key-file "$tmp/key077" --connect-timeout-ms 500
expect_error "another key" 5 "*outlast work:*job key*"

# credentials: a worker's is good for that worker, and to look; an observer's is good to look
credential() {
	"$OUTLAST_BIN" keygen --from "$1" --out "$tmp/$2" "${@:3}" || fail "keygen for $2: exit status $?"
}
credential "$tmp/key022" server --server
credential "$tmp/server" worker0 --worker 0
credential "$tmp/server" worker1 --worker 1
credential "$tmp/key022" observer --observer
outlast work --connect "$at" "${tiny[@]}" --steps 6 --job-key-file "$tmp/worker0"
expect "a worker's credential" 0
for who in worker0 observer server; do
	outlast stat --servers "$at" --job-key-file "$tmp/$who" --once
	expect "stat with the credential of $who" 0
done
outlast work --connect "$at" "${tiny[@]}" --steps 9 --job-key-file "$tmp/worker1"
expect_error "another worker's credential" 2 "*outlast work:*worker with another id*"
outlast work --connect "$at" "${tiny[@]}" --steps 9 --job-key-file "$tmp/observer"
expect_error "an observer that trains" 2 "*outlast work:*observer's credential*"
outlast serve --listen "$at.b" "${tiny[@]}" --job-key-file "$tmp/worker0"
expect_error "a worker that serves" 2 "*outlast serve:*a server needs the job key*"
outlast keygen --from "$tmp/worker0" --worker 0
expect_error "a credential out of a worker's" 2 "outlast keygen:*worker's or an observer's credential*"
outlast keygen --from "$tmp/key022"
expect_error "nobody's credential" 2 "outlast keygen:*--worker ID, --observer and --server*"
outlast keygen --worker 3
expect_error "a credential out of nothing" 2 "outlast keygen:*--from FILE*"
sed 's/.$/x/' "$tmp/worker0" >"$tmp/damaged"
chmod 600 "$tmp/damaged"
outlast work --connect "$at" "${tiny[@]}" --steps 9 --job-key-file "$tmp/damaged"
expect_error "a damaged credential" 2 "*outlast work:*as if cut off*"

# one worker's credential does not take every observer's place
for look in 1 2 3 4; do
	background "look$look" stat --servers "$at" --job-key-file "$tmp/worker0" --interval 60
	until_true grep -q . "$tmp/look$look.out"
done
outlast stat --servers "$at" --job-key-file "$tmp/worker0" --once
expect "a fifth look with a worker's credential" 4
grep -q "no more than 4 observers with one worker's credential" "$tmp/s.err" || fail "the server does not say why"
outlast stat --servers "$at" --job-key-file "$tmp/observer" --once
expect "an observer beside them" 0
kill "$server"
ended "$server" 0 "serve"
verdict
