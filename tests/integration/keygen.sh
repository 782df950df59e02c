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
outlast work --connect "$at" "${tiny[@]}" --steps 3 --job-key-file "$tmp/key077"
expect_error "another key" 5 "outlast work:*job key*"
kill "$server"
ended "$server" 0 "serve"
verdict
