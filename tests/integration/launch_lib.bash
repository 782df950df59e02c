# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# launch_lib.bash -- sourced by the tests of outlast launch, behind train_lib.bash: jobs in the background, what they said
#
# job: the settings of a synchronous job, whose weights are a function of its seed.
job=(--model mlp:16 --dataset synthetic:train=500,test=100 --consistency sync)
report=$tmp/report.json

# launched NAME WORD... -- a job in the background: its process in $launcher, files as of background()
launched() {
	local name=$1

	shift
	background "$name" launch --json "$report" "$@"
	launcher=$pid
}

# said NAME PATTERN [COUNT] -- the launcher, or a process of it, has said so, COUNT times or more
said() {
	[ "$(grep -cE "$2" "$tmp/$1.err")" -ge "${3-1}" ]
}

# wait_said NAME PATTERN [COUNT]
wait_said() {
	until_true said "$@" || { fail "$1: never said $2: $(cat "$tmp/$1.err")"; verdict; }
}

# process_of NAME PROCESS -- the number of its last start
process_of() {
	sed -n "s/^\[launch\] $2 .* process \([0-9]*\)\$/\1/p" "$tmp/$1.err" | tail -n 1
}

# sha_of FILE -- the weights that all workers ended with; "differ" if they do
sha_of() {
	sed -n 's/.*weights sha256 \([0-9a-f]*\)$/\1/p' "$1" | sort -u | awk '{ sha = $0 } END { print NR == 1 ? sha : "differ" }'
}

# same WHAT NAME -- the weights are those of the undisturbed run
same() {
	[ "$(sha_of "$tmp/$2.out")" = "$whole" ] ||
		fail "$1: other weights: $(cat "$tmp/$2.out"), not $whole; $(cat "$tmp/$2.err")"
}

# truth WHAT EXPRESSION -- of the report
truth() {
	[ "$(json "$report" "$2")" = True ] || fail "$1: not $2: $(cat "$report")"
}
