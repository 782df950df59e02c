# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# train_lib.bash -- sourced by the tests of the program: running it, waiting for conditions, verdicts
#
# Every process started by background() is killed at the end, every file lies in $tmp.
set -u
umask 022 # folders that others can write are refused

: "${OUTLAST_BIN:?is the program to test}"
unset "${!OUTLAST_JOB@}"
export OUTLAST_JOB_KEY=0123456789abcdef0123456789abcdef
DEADLINE_S=${OUTLAST_TEST_DEADLINE_S:-60}
tiny=(--model softmax --dataset synthetic:train=500,test=200)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/outlast-test.XXXXXX") || exit 1
python=/usr/bin/python3 # the one that tools/packages installs for; another in PATH may be a wrapper that starts slowly
[ -x "$python" ] || python=python3
background_pids=()
failures=0
rc=0
out='' err=''

# shellcheck disable=SC2317  # called by the trap
cleanup() {
	local pid

	for pid in ${background_pids+"${background_pids[@]}"}; do
		kill -9 "$pid" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$tmp"
	[ "$failures" = 0 ] || exit 1 # also where nobody asked for a verdict
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAIL: $*" >&2
	failures=$((failures + 1))
}

verdict() {
	[ "$failures" = 0 ] || exit 1
	exit 0
}

# outlast WORD... -- run it to its end: exit status in $rc, output in $out and $err. At the deadline it is asked to end;
# who waits for something that never comes may not
outlast() {
	timeout -k 10 "$DEADLINE_S" "$OUTLAST_BIN" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	rc=$?
	out=$(cat "$tmp/out")
	err=$(cat "$tmp/err")
	case $err in
	*AddressSanitizer* | *LeakSanitizer* | *"runtime error:"* | *ThreadSanitizer*)
		fail "outlast $*: sanitizer: $err"
		;;
	esac
}

# expect WHAT STATUS -- the last run ended so
expect() {
	[ "$rc" = "$2" ] || fail "$1: exit status $rc, not $2; it said: $out $err"
}

# expect_error WHAT STATUS PATTERN -- and said so in one line
expect_error() {
	local lines said

	expect "$1" "$2"
	# on a busy machine a start takes long, and says so
	said=$(grep -vE '^(worker [0-9]+ waits for its servers at |waits for .* to be ready$)' <<<"$err" || true)
	# shellcheck disable=SC2053  # a pattern is what is wanted
	[[ $said == $3 ]] || fail "$1: said \"$err\", not something like \"$3\""
	lines=$(printf '%s\n' "$err" | grep -c '^outlast')
	[ "$lines" = 1 ] || fail "$1: $lines error lines: $err"
}

# until_true COMMAND... -- wait for a condition; false once the deadline is over
until_true() {
	local end=$((SECONDS + DEADLINE_S))

	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		read -r -t 0.02 <>"$tmp/never" || :
	done
}

# background NAME WORD... -- start it; process id in $pid, output in $tmp/NAME.out and .err
background() {
	local name=$1

	shift
	rm -f "$tmp/$name".*
	: >"$tmp/$name.err"
	mkfifo "$tmp/never" 2>/dev/null
	"$OUTLAST_BIN" "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" 3>"$tmp/$name.ready" </dev/null &
	pid=$!
	background_pids+=("$pid")
}

# serve NAME ADDRESS WORD... -- a server that listens; process id in $pid
serve() {
	local name=$1 address=$2

	shift 2
	background "$name" serve --listen "$address" --ready-fd 3 "${tiny[@]}" "$@"
	until_true test -s "$tmp/$name.ready" ||
		{ fail "server $name did not come up: $(cat "$tmp/$name.err")"; verdict; }
}

# ended PID STATUS WHAT -- a background process ends, and so
ended() {
	local status

	until_true gone "$1" || { fail "$3: still running"; return; }
	wait "$1"
	status=$?
	[ "$status" = "$2" ] || fail "$3: exit status $status, not $2"
}

gone() {
	case $(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null) in
	'' | Z) return 0 ;;
	esac
	return 1
}

# json FILE EXPRESSION -- a value of a report, by python
json() {
	"$python" -c 'import json, sys
r = json.load(open(sys.argv[1]))
print(eval("(" + sys.argv[2] + ")"))' "$1" "$2"
}

address() {
	echo "@outlast-test-$$-$RANDOM$RANDOM"
}

mkfifo "$tmp/never"
