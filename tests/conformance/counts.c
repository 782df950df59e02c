/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * counts.c -- a transport counts its connections and regions, and what was posted, heard and refused
 */
#include <errno.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BYTES = 8192,
	PART = 4096,
};

static struct ol_xport_counts counts_of(const struct xp_end *end)
{
	struct ol_xport_counts counts;

	memset(&counts, 0xff, sizeof(counts));
	end->ops->counts(end->xport, &counts);
	return counts;
}

static void count(void)
{
	struct ol_xport_counts before, now;
	struct ol_xport_write write;
	struct ol_xport_read read;
	struct xp_mem from, to;
	struct xp_pair pair;
	uint64_t busy = 0;
	int rc;

	xp_pair_open(&pair, NULL);
	check_eq(counts_of(&pair.a).conns, 1);
	before = counts_of(&pair.b);
	check_eq(before.conns, 1);
	xp_mem_open(&to, &pair.a, pair.a_conn, BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	xp_mem_open(&from, &pair.b, pair.b_conn, BYTES, OL_XPORT_ACCESS_LOCAL);
	now = counts_of(&pair.b);
	check_eq(now.regions, before.regions + 1);
	check_eq(now.region_bytes, before.region_bytes + BYTES);

	write = xp_write(&from, 0, PART, to.key, 0);
	xp_post_write(pair.b_conn, &write);
	write.flags = OL_XPORT_DOORBELL;
	write.imm = 7;
	xp_post_write(pair.b_conn, &write);
	xp_wait_bell(&pair.a, pair.a_conn, 7);
	read = xp_read(&from, 0, PART, to.key, 0);
	read.flags = OL_XPORT_SIGNALED;
	read.cookie = 1;
	xp_post_read(pair.b_conn, &read);
	xp_wait_done(&pair.b, pair.b_conn, 1);
	now = counts_of(&pair.b);
	check_eq(now.writes, before.writes + 2);
	check_eq(now.write_bytes, before.write_bytes + UINT64_C(2) * PART);
	check_eq(now.doorbells, before.doorbells + 1);
	check_eq(now.reads, before.reads + 1);
	check_eq(now.read_bytes, before.read_bytes + PART);
	check_eq(counts_of(&pair.a).rung, 1);

	/* what is refused is counted, and nothing else for it: a full ring of doorbells, or queue */
	before = now;
	write.flags = xp_is_shm() ? OL_XPORT_DOORBELL : 0;
	for (unsigned i = 0; busy == 0; i++) {
		check(i < 100000);
		rc = pair.b.ops->post_write(pair.b_conn, &write);
		check(rc == 0 || rc == -EAGAIN);
		busy += rc == -EAGAIN;
	}
	now = counts_of(&pair.b);
	check_eq(now.busy, before.busy + 1);
	check_eq(now.write_bytes - before.write_bytes, (now.writes - before.writes) * PART);
	xp_mem_close(&from);
	check_eq(counts_of(&pair.b).region_bytes, before.region_bytes - BYTES);
	xp_mem_close(&to);
	xp_conn_free(&pair.b, pair.b_conn);
	pair.b_conn = NULL;
	check_eq(counts_of(&pair.b).conns, 0);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("what is held, posted, heard and refused is counted", count);
	return xp_result();
}
