/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * map.c -- a transport that can map places peer memory at the given address; both sides see the same
 * bytes, rights hold, and the mapping outlives the connection; other transports say -EOPNOTSUPP
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	PAGE = 4096,
	BYTES = 16 * PAGE,
	PLACE = BYTES + 2 * PAGE,
};

static void the_same_bytes(void)
{
	struct xp_pair pair;
	struct xp_mem mem;
	uint8_t *place;
	int rc;

	xp_pair_open(&pair, NULL);
	xp_mem_open(&mem, &pair.a, pair.a_conn, BYTES,
		    OL_XPORT_ACCESS_PEER_WRITE | OL_XPORT_ACCESS_PEER_READ);
	place = mmap(NULL, PLACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(place != MAP_FAILED);
	rc = pair.b.ops->map(pair.b_conn, mem.key, 4 * PAGE, 8 * PAGE, place + PAGE);
	if (!xp_is_shm()) {
		check_eq(rc, -EOPNOTSUPP);
	} else {
		check_ok(rc);
		xp_fill(mem.p, BYTES, 1);
		check(memcmp(place + PAGE, mem.p + 4 * PAGE, 8 * PAGE) == 0);
		xp_fill(place + PAGE, 8 * PAGE, 2);
		xp_check_fill(mem.p + 4 * PAGE, 8 * PAGE, 2, "written through the mapping");
		check(pair.b.ops->map(pair.b_conn, mem.key, 4 * PAGE, BYTES, place + PAGE) < 0);
		check(pair.b.ops->map(pair.b_conn, mem.key, (uint64_t)-PAGE, PAGE, place) < 0);
		check(memcmp(place + PAGE, mem.p + 4 * PAGE, 8 * PAGE) == 0);
		xp_conn_free(&pair.b, pair.b_conn);
		pair.b_conn = NULL;
		mem.p[5 * PAGE] ^= 0xff;
		check_eq(place[2 * PAGE], mem.p[5 * PAGE]);
	}
	munmap(place, PLACE);
	xp_mem_close(&mem);
	xp_pair_close(&pair);
}

/* A key of another connection, or of memory without a right, maps nothing. */
static void rights(void)
{
	struct ol_xport_conn *a_other;
	struct ol_xport_conn *b_other;
	struct xp_pair pair;
	struct xp_mem mem;
	struct xp_mem local;
	uint8_t *place;

	xp_pair_open(&pair, NULL);
	xp_connect(&pair.a, &pair.b, &a_other, &b_other);
	xp_mem_open(&mem, &pair.a, pair.a_conn, BYTES, OL_XPORT_ACCESS_PEER_WRITE);
	xp_mem_open(&local, &pair.a, pair.a_conn, BYTES, OL_XPORT_ACCESS_LOCAL);
	place = mmap(NULL, PLACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(place != MAP_FAILED);
	check(pair.b.ops->map(b_other, mem.key, 0, PAGE, place) < 0);
	check(pair.b.ops->map(pair.b_conn, local.key, 0, PAGE, place) < 0);
	munmap(place, PLACE);
	xp_mem_close(&mem);
	xp_mem_close(&local);
	xp_conn_free(&pair.b, b_other);
	xp_conn_free(&pair.a, a_other);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("mapped memory has the same bytes both ways", the_same_bytes);
	xp_run1("a key of another connection, or without the right, maps nothing", rights);
	return xp_result();
}
