#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# layers.sh ROOT -- the include law: every #include of ours is one that the table below allows
#
# Offenders are printed as "file:line: what"; exit 1 if there are any.
set -eu
cd "$1"
. tests/lint/files

# A room may include itself and the rooms after it; "public" is outlast.h, outlast_counters.h, outlast_rule.h,
# outlast_span.h, outlast_tensor.h, outlast_server.h and outlast_policy.h.
table='
rdma
replication
src/include public
src/base public
src/wire public base replication
src/store public base wire rdma
src/policy public base
src/checkpoint public base wire store rdma
src/link public base wire rdma
src/worker public base wire link rdma replication
src/replica public base wire link replication rdma
src/server public base wire link store policy checkpoint replica replication rdma
src/relay public base worker server
tools/learn public base
tools/tensors public base
tools/cmd public base learn
tools/bench public base learn cmd
tools/train public base server learn tensors cmd
tools/launch public base learn cmd
tools/drill public base learn cmd
tools/outlast public base server learn tensors cmd bench train launch drill
tools/examples public
tools/lab
'
# Of another pillar a room sees only the headers that are its interface. The program looks into coordinators for
# its operator, as the library's interface does not.
faces='rdma: rdma/transport.h rdma/order.h rdma/slab.h
store: rdma/order.h
checkpoint: rdma/fds.h
wire: replication/entry.h replication/view.h
link: rdma/transport.h rdma/order.h rdma/slab.h
worker: rdma/transport.h rdma/order.h rdma/slab.h replication/coord/coord.h replication/coord/lease.h replication/view.h
outlast: server/coordinator.h
train: server/coordinator.h'

list_files '*.[ch]' '*.inc' | { grep -E '^(rdma|replication|src|tools)/' || true; } |
	xargs -r awk -v table="$table" -v faces="$faces" '
function no(what) {
	print FILENAME ":" FNR ": " what
	bad = 1
}
BEGIN {
	n = split(table, rows, "\n")
	for (i = 1; i <= n; i++) {
		m = split(rows[i], words, " ")
		if (m > 0)
			allowed[words[1]] = " " rows[i] " "
	}
	n = split(faces, rows, "\n")
	for (i = 1; i <= n; i++) {
		at = index(rows[i], ":")
		face[substr(rows[i], 1, at - 1)] = substr(rows[i], at + 1) " "
	}
}
FNR == 1 {
	split(FILENAME, part, "/")
	room = FILENAME ~ /^(src|tools)\// ? part[1] "/" part[2] : part[1]
	name = room
	sub(/^.*\//, "", name)
	if (!(room in allowed))
		no("room " room " is not in the table of tests/lint/layers.sh")
}
!/^[ \t]*#[ \t]*include[ \t]/ { next }
/[<"](infiniband|rdma\/rdma_)/ && room != "rdma" && room != "tools/outlast" {
	no("only rdma speaks to libibverbs and librdmacm")
}
/[<"]outlast(_counters|_server|_policy|_rule|_span|_tensor)?\.h[>"]/ {
	if (allowed[room] !~ / public /)
		no("must not include the public headers")
	next
}
!/"/ { next }
{
	split($0, quoted, "\"")
	path = quoted[2]
	to = path
	sub(/\/.*$/, "", to)
	if (path !~ /\//)
		no("\"" path "\" does not name its room")
	else if (to == name)
		next
	else if (index(allowed[room], " " to " ") == 0)
		no("must not include \"" path "\"")
	else if (to == "rdma" || (to == "replication" && name !~ /^(server|replica)$/) || room " " to == "tools/outlast server") {
		list = name in face ? face[name] : face["rdma"]
		if (index(list, " " path " ") == 0)
			no("sees of " to " only" list "- not \"" path "\"")
	}
}
END { exit bad }
' || exit 1
