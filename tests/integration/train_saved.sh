#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# train_saved.sh -- checkpoints beside a chain of outlast train: the job goes on from them when all of its processes are
# killed at once, and when it is begun again; its weights are those of an undisturbed run
#
# not under asan, tsan: chain_checkpoint and chain_hand run the same code there
. "$(dirname "$0")/kill_lib.bash"

chain=(--durability chain --replicas 2 --lease-ms 1500 --consistency sync --workers 2)

train "${chain[@]}" --steps 240
whole=$(sha)

# Everything is killed: no mirror is left, and the chain is founded anew
saves=(--checkpoint "every=20steps,dir=$tmp/ckpt,keep=2")
at=76steps:down=1s
train "${chain[@]}" "${saves[@]}" --steps 160 --pace 30 --kill "head0@$at,tail0@$at,worker0@$at,worker1@$at"
truth "kills" "r['kills'] == 4 and r['kills_not_fired'] == [] and r['recoveries'] == 4"
truth "accounts agree" 'r["accounting"]["agree"]'
truth "from a checkpoint" 'any(60 <= o.get("restored_version", 0) <= 100 for o in r["outages"])'
truth "those who knew have died" 'r["gradients_lost_or_more"] ==
	any(o.get("restored_version") is not None and o["restored_version"] < o["version"] for o in r["outages"])'
[[ $err == *"shard 0 has lost all its replicas: it waits for one that is started again"*"shard 0 had lost all its replicas, and began anew at version "*", of a checkpoint: epoch "* ]] ||
	fail "$ran: what the chain began anew with is not said: $err"
truth "all were lost, and what it began with" 'r["failovers"][1]["all_lost"] and r["outages"][1]["target"] == "tail0" and
	r["outages"][1]["restored_from"] == "checkpoint"'
truth "checkpoints are reported" 'r["checkpoints"]["written"] >= 5'

# Without checkpoints it begins with the first weights, and says so
train "${chain[@]}" --steps 60 --pace 30 --kill "head0@${at/76/40},tail0@${at/76/40},worker0@${at/76/40},worker1@${at/76/40}"
[[ $err == *"shard 0 had lost all its replicas, and began anew at version 0, first weights: epoch "* ]] ||
	fail "$ran: what the chain began anew with is not said: $err"
truth "first weights" 'r["failovers"][1]["all_lost"] and r["outages"][1]["restored_from"] == "none" and
	r["outages"][1]["restored_version"] == 0 and r["outages"][1]["expected_lost"] >= 80 and r["version"] == 60'

# The job is over, and is begun again
outlast train "${mlp[@]}" "${chain[@]}" "${saves[@]}" --steps 240
expect_error "a folder of this job" 2 "outlast train: --checkpoint: *give --resume, or another folder"
train "${chain[@]}" "${saves[@]}" --steps 240 --resume
[ "$(sha)" = "$whole" ] || fail "after everything was killed, and begun again: $(sha), not $whole"
# by a server alone, and the other way round
train --consistency sync --workers 2 --durability checkpoint "${saves[@]}" --steps 300 --resume
alone=$(sha)
train "${chain[@]}" --steps 300
[ "$(sha)" = "$alone" ] || fail "a chain's checkpoint under a server alone: $alone, not $(sha)"
train "${chain[@]}" "${saves[@]}" --steps 320 --resume
chained=$(sha)
train "${chain[@]}" --steps 320
[ "$(sha)" = "$chained" ] || fail "a server's checkpoint under a chain: $chained, not $(sha)"

# versions SHARD -- that it has a checkpoint of; a turn that is due while another is written is skipped
versions() {
	printf '%s\n' "$tmp"/two/ckpt-*-s"$1"-*.olc | sed 's/.*-v0*\([0-9]*\)\.olc$/\1/' | sort -u
}

# Two servers, of which one's newest file is gone, or cut short: both begin at the newest version that both still have
for damage in gone cut; do
	for durable in "--durability checkpoint" "${chain[*]}"; do
		# shellcheck disable=SC2206  # words
		two=($durable --consistency sync --workers 2 --servers 2 --checkpoint "every=20steps,dir=$tmp/two,keep=6")
		rm -rf "$tmp/two"
		train "${two[@]}" --steps 100 --pace 200
		newest=$(printf '%s\n' "$tmp"/two/ckpt-*-s1-*v*100.olc)
		both=$(comm -12 <(versions 0) <(versions 1) | grep -v '^100$' | sort -n | tail -n 1)
		if [ $damage = cut ]; then truncate -s 5000 "$newest"; else rm "$newest"; fi
		train "${two[@]}" --steps 240 --resume
		[ "$(sha)" = "$whole" ] || fail "$damage: $ran: $(sha), not $whole"
		[[ $err == *"all servers begin at version ${both:-?}, the newest"* ]] || fail "$damage: $ran: $err"
	done
done

# A shard that is lost with all workers goes back by itself: what the others have already comes late, and is counted
train --consistency sync --workers 2 --servers 2 --durability checkpoint --checkpoint "every=20steps,dir=$tmp/one" --steps 200 --pace 100 \
	--kill "server0@70steps:down=500ms,worker0@70steps,worker1@70steps"
truth "accounts agree" 'r["accounting"]["agree"]'
# two workers at 100 a second, and a little more where one catches up
truth "what is lost is so much work, though workers were killed" 'r["workers_rate_before"] is None and
	r["outages"][0]["expected_lost"] / 300 <= r["outages"][0]["expected_s"]'

# A folder that nobody named goes with the job
TMPDIR=$tmp/own
export TMPDIR
mkdir "$TMPDIR"
train "${chain[@]}" --checkpoint every=20steps --steps 60
[ -z "$(ls -A "$TMPDIR")" ] || fail "it leaves $(ls "$TMPDIR")"
verdict
