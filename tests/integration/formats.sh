#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# formats.sh -- gradients of bf16, fp16 and int8: a synchronous run whose servers die ends at the weights of an
# undisturbed one of its format, bit for bit, with one server, two, or a chain; no gradient is lost in an outage
#
# not under asan, tsan: it is about bits; sim-system and unit-wire-format run the same code there
. "$(dirname "$0")/kill_lib.bash"

sync=(--consistency sync --workers 2 --steps 120)
slow=("${sync[@]}" --pace 200)
declare -A whole=()

same() {
	[ "$(sha)" = "${whole[$1]}" ] || fail "$ran: other weights: $(sha), not ${whole[$1]}"
}

for format in fp32 bf16 fp16 int8; do
	train "${sync[@]}" --gradient-format $format
	whole[$format]=$(sha)
done
for format in bf16 int8; do
	f=("${slow[@]}" --gradient-format $format)
	train "${f[@]}" --kill server0@40steps,server0@80steps:down=150ms
	killed 2
	truth "nothing lost" 'r["gradients_lost"] == 0 and r["gradients_computed"] == 240 == r["gradients_applied"]'
	same $format
	train "${f[@]}" --servers 2 --kill server0@40steps,server1@80steps
	killed 2
	same $format
	train "${f[@]}" --durability chain --replicas 2 --kill head@40steps
	same $format
done
[ "$(printf '%s\n' "${whole[@]}" | sort -u | wc -l)" = 4 ] || fail "two formats give the same weights: ${whole[*]}"

train --workers 2 --steps 200 --pace 100 --gradient-format int8 --outage continue --kill server0@60steps:down=500ms
killed 1
truth "nothing lost in an outage" 'r["gradients_lost"] == 0 and r["gradients_applied"] == r["gradients_computed"]'

outlast train "${mlp[@]}" --gradient-format int4
expect "a format that there is not" 2
[[ $err == *"gradient-format"*"int4"*"fp32, bf16, fp16, int8"* ]] || fail "does not say which there are: $err"
verdict
