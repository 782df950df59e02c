#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh -- every promise holds in every state of the models, and leaving out any rule breaks one
set -u

here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}

# verdict (ends: no run goes on for ever; bounded: holds, as far as it was searched), memory in MB, model, name: what is defined
quick='holds  1500 chain failover: -DFAULTS=2
holds  1500 chain steps:    -DFAULTS=1 -DSTEPS
holds  1500 chain join:     -DFAULTS=1 -DSERVERS=2 -DFULL=1 -DWANTED=2
ends   1500 chain ends:     -DFAULTS=1 -DCYCLES
broken 1500 chain no-fence:       -DNO_FENCE -DFAULTS=1 -DSTEPS -DSAFETY_ALONE
broken 1500 chain head-acks:      -DHEAD_ACKS -DFAULTS=1
broken 1500 chain no-handoff:     -DNO_HANDOFF -DFAULTS=1 -DFULL=2
broken 1500 chain no-dedup:       -DNO_DEDUP -DFAULTS=1
holds  1500 lease refound:        -DABSENCE=7
holds  1500 lease folder:         -DFOLDER
holds  1500 lease forgets:        -DFORGETS
broken 1500 lease no-margin:      -DABSENCE=6
broken 1500 lease folder-at-once: -DFOLDER -DABSENCE=3
broken 1500 lease no-self-fence:  -DNO_SELF_FENCE
broken 1500 lease session-again:  -DSESSION_AGAIN
broken 1500 lease spare-suspects: -DSPARE_SUSPECTS
broken 1500 lease equal-epochs:   -DFORGETS -DEQUAL_EPOCHS
broken 1500 lease number-alone:   -DFORGETS -DNUMBER_ALONE
broken 1500 lease worker-number:  -DFORGETS -DWORKER_NUMBER_ALONE'

# what is left out is named in handshake.pml
one='-DREADER_DIALS=0'
handshake="holds  900 handshake dials:           $one
holds  900 handshake roles:           -DWORKER_DIALS=1
holds  900 handshake guests:          -DWORKER_DIALS=1 -DGUESTS
holds  900 handshake insider:         $one -DWORKER_DIALS=1 -DINSIDER
holds  900 handshake declared:        $one -DDECLARED
broken 900 handshake lets-in:         -DWORKER_DIALS=1 -DLETS_IN
broken 900 handshake one-end:         $one -DDECLARED -DONE_END
broken 900 handshake no-end:          $one -DNO_END
broken 900 handshake no-cookie:       $one -DNO_M
broken 900 handshake one-secret:      $one -DONE_SECRET
broken 900 handshake no-role:         $one -DNO_ROLE
broken 900 handshake no-id:           $one -DWORKER_DIALS=1 -DINSIDER -DNO_ID
broken 900 handshake no-label:        $one -DNO_LABEL
broken 900 handshake no-question:     $one -DNO_N
broken 900 handshake no-code:         $one -DNO_CODE
broken 900 handshake no-content:      $one -DNO_SHARD
broken 900 handshake no-mark:         $one -DNO_MARK
broken 900 handshake no-proof:        $one -DNO_PROOF
broken 900 handshake forged-is-final: $one -DFORGED_IS_FINAL"

more='broken 1500 lease head-alone:         -DREPLICAS=2 -DV=1 -DS=4 -DHEAD_ALONE
broken 1500 lease no-standstill:      -DNO_STANDSTILL
broken 1500 lease short-session:      -DGRANTED=10
broken 1500 lease lease-from-answer:  -DLEASE_FROM_ANSWER
holds  1500 chain join-third:        -DFAULTS=1 -DFULL=2
ends   1500 chain steps-end:         -DFAULTS=1 -DSTEPS -DCYCLES
ends   1500 chain join-ends:         -DFAULTS=1 -DSERVERS=2 -DFULL=1 -DWANTED=2 -DCYCLES
broken 1500 chain forget-applied:     -DFORGET_APPLIED -DFAULTS=1 -DSERVERS=2 -DFULL=1 -DWANTED=2 -DSAFETY_ALONE
broken 1500 chain readers-stay:      -DREADERS_STAY -DFAULTS=0 -DFULL=2
broken 1500 chain no-floor:          -DNO_FLOOR -DFAULTS=1 -DSTEPS
broken 1500 chain early-welcome:     -DEARLY_WELCOME -DFAULTS=1 -DSTEPS
broken 1500 chain old-welcome:       -DOLD_WELCOME -DFAULTS=1 -DFULL=2
broken 1500 chain handoff-by-link:   -DHANDOFF_BY_LINK -DFAULTS=1 -DFULL=2
broken 1500 chain caught-up-by-link: -DCAUGHT_UP_BY_LINK -DHAVE_AS_ACK -DFAULTS=1 -DFULL=2
broken 1500 chain forget-acked:      -DFORGET_ACKED -DFAULTS=0 -DFULL=2 -DSTEPS
broken 1500 chain have-as-ack:       -DHAVE_AS_ACK -DFAULTS=1 -DFULL=1'

long='bounded 5500 lease refound-two:      -DREPLICAS=2 -DV=1 -DS=4
bounded 5500 handshake peers:        -DCLOCK=3
bounded 5500 chain failover-rejoin:  -DFAULTS=2 -DREJOIN
bounded 5500 chain failover-2-1:     -DFAULTS=2 -DP0=2
bounded 5500 chain failover-1-2:     -DFAULTS=2 -DP1=2
bounded 5500 chain failover-2-2:     -DFAULTS=2 -DP0=2 -DP1=2
bounded 5500 chain failover-2-slots: -DFAULTS=2 -DP0=2 -DSLOTS=2
bounded 5500 chain failover-steps:   -DFAULTS=2 -DSTEPS
bounded 5500 chain join-steps:       -DFAULTS=1 -DFULL=2 -DSTEPS
bounded 5500 chain join-twice:       -DFAULTS=1 -DFULL=1
bounded 5500 chain spare:            -DFAULTS=1 -DSERVERS=4
bounded 5500 chain join-2-faults:    -DFAULTS=2 -DFULL=2'

usage() {
	cat <<END
usage: tests/model/run.sh [--handshake | --all | --long [MINUTES] | --only NAME | --trace NAME]

Runs Spin over chain.pml and lease.pml, or handshake.pml: the protocol as it is must hold in every state, and
each variant that leaves a rule out must be found broken. README.md beside this script says what is modelled.

  --handshake   how an end is let in, on one core
  --all         all variants
  --long [MINUTES]
                these, and larger bounds, each for so long at most (30) and with 5.5 GB: one that is
                not searched to its end then is "bounded"
  --only NAME   one of them
  --trace NAME  one variant that is broken, step by step

Exit status: 0 all as it should be, 1 not, 2 wrong usage, 77 there is no Spin.

Example:
  tests/model/run.sh --trace no-fence
END
}

wrong() {
	printf 'model: %s; --help lists what there is\n' "$1" >&2
	exit 2
}

# The line for a name
pick() {
	printf '%s\n%s\n%s\n%s\n' "$quick" "$handshake" "$more" "$long" | grep -E "^[a-z]+ +[0-9]+ [a-z]+ $1: "
}

trace=false
minutes=30
jobs=2
list=$quick
case ${1-} in
'') ;;
--handshake)
	jobs=1
	list=$handshake
	;;
--all) list=$quick$'\n'$handshake$'\n'$more ;;
--long)
	list=$quick$'\n'$handshake$'\n'$more$'\n'$long
	minutes=${2-30}
	[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || wrong "\"$minutes\" is no number of minutes"
	;;
--only | --trace)
	[ $# -eq 2 ] || wrong "$1 needs one name"
	[ "$1" = --only ] || trace=true
	list=$(pick "$2") || wrong "\"$2\" is no variant"
	;;
--help | -h)
	usage
	exit 0
	;;
*) wrong "$1: no such option" ;;
esac

for program in spin "$cc"; do
	if ! command -v "$program" >/dev/null; then
		echo "skip: $program is not installed: tools/packages install test"
		exit 77
	fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# search WANT DIR MEGABYTES MODEL DEFINES... -- Spin's search in DIR, its words in DIR/out
search() {
	local want=$1 dir=$2 megabytes=$3 model=$4 table=22 optimize=-O1 kind=-DSAFETY cycles='' limit=''
	# what is soon found is not worth a compiler's time
	[ "$want" != broken ] || optimize=-O0
	[ "$want" != ends ] || kind=-DNP cycles=-l
	if [ "$want" = bounded ]; then
		table=26
		optimize='-O2 -DCOLLAPSE'
		limit="timeout -s INT $((minutes * 60))"
	fi
	shift 4

	mkdir -p "$dir" && cd "$dir" || return
	spin "$@" -a "$here/$model.pml" >spin.out 2>&1 || return
	# shellcheck disable=SC2086  # lists of words
	"$cc" $optimize -w $kind -DMEMLIM="$megabytes" -o pan pan.c >cc.out 2>&1 || return
	# shellcheck disable=SC2086
	$limit ./pan $cycles -n -m100000 -w$table >out 2>&1
}

# judge WANT NAME DIR -- a line of the table; true if it is as it should be
judge() {
	local found=failed what good=$1

	[ "$1" != broken ] || good=holds
	[ "$1" != bounded ] || good=holds
	what=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth .*/\1/p' "$3/out" 2>/dev/null | head -n 1)
	if [ -n "$what" ]; then
		found=broken
	elif grep -q 'errors: 0$' "$3/out" 2>/dev/null && ! grep -qE 'not completed|max search depth too small' "$3/out"; then
		found=$good
	elif [ "$1" = bounded ] && grep -q 'errors: 0$' "$3/out" 2>/dev/null; then
		found=bounded
	fi
	awk -v name="$2" -v found="$found" -v what="$what" '
		/depth reached/ { depth = $6 + 0 }
		/states, stored/ { states = $1 }
		/total actual memory usage/ { megabytes = $1 }
		/elapsed time/ { seconds = $4 }
		END { printf "%-18s %-7s %10d states  depth %3d  %6d MB  %6.1f s  %s\n", name, found, states,
			depth, megabytes, seconds, what }' "$3/out"
	[ "$found" = "$1" ] && return
	[ "$1 $found" = 'bounded holds' ] && return
	echo "model: $2: should be \"$1\", is \"$found\""
	tail -n 5 "$3"/spin.out "$3"/cc.out 2>/dev/null
	return 1
}

# one WANT MEGABYTES MODEL NAME: DEFINES...
one() {
	local want=$1 megabytes=$2 model=$3 name=${4%:}
	shift 4

	(search "$want" "$work/$name" "$megabytes" "$model" "$@")
	judge "$want" "$name" "$work/$name" || touch "$work/bad"
	if $trace; then
		(cd "$work/$name" && spin "$@" -k "$model.pml.trail" -t -T "$here/$model.pml" | sed '/^#processes/,$d')
	fi
	rm -rf "${work:?}/$name"
}

# As many at a time, but for those that take much memory
while read -r want megabytes model name defines; do
	# shellcheck disable=SC2086  # a list of words
	one "$want" "$megabytes" "$model" "$name" $defines &
	while [ "$(jobs -rp | wc -l)" -ge $((megabytes > 2000 ? 1 : jobs)) ]; do
		wait -n
	done
done <<<"$list"
wait
[ ! -e "$work/bad" ]
