/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_again.c -- connecting, working and ending 200 times leaks no descriptor and no memory; nor
 * do rejected and failed connects, and whole transports
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	RSS_GROWTH_MAX = 4 << 20, /* bytes; an allocator's habits, not a leak a round */
};

static unsigned fds_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	check(dir != NULL);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static unsigned maps_count(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned count = 0;
	int c;

	check(file != NULL);
	while ((c = fgetc(file)) != EOF)
		count += c == '\n';
	fclose(file);
	return count;
}

static uint64_t rss_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	check(file != NULL);
	check_eq(fscanf(file, "%*u %lu", &pages), 1);
	fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void work(struct xp_pair *pair, unsigned round)
{
	struct ol_xport_write write;
	struct xp_mem src;
	struct xp_mem dst;

	xp_connect(&pair->a, &pair->b, &pair->a_conn, &pair->b_conn);
	xp_mem_open(&src, &pair->b, pair->b_conn, 4096, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair->a, pair->a_conn, 4096, OL_XPORT_ACCESS_PEER_WRITE);
	xp_fill(src.p, 4096, round);
	write = xp_write(&src, 0, 4096, dst.key, 0);
	write.flags = OL_XPORT_DOORBELL | OL_XPORT_SIGNALED;
	write.imm = round;
	write.cookie = round;
	xp_post_write(pair->b_conn, &write);
	xp_wait_bell(&pair->a, pair->a_conn, round);
	xp_wait_done(&pair->b, pair->b_conn, round);
	xp_check_fill(dst.p, 4096, round, "what was written");
	if (round % 3 == 0) {
		pair->b.ops->disconnect(pair->b_conn);
		check_eq(xp_wait_down(&pair->a, pair->a_conn), 0);
	}
	if (round % 2 == 0) {
		xp_conn_free(&pair->a, pair->a_conn);
		xp_mem_close(&dst);
		xp_conn_free(&pair->b, pair->b_conn);
		xp_mem_close(&src);
	} else {
		xp_mem_close(&src);
		xp_conn_free(&pair->b, pair->b_conn);
		xp_mem_close(&dst);
		xp_conn_free(&pair->a, pair->a_conn);
	}
}

static void rejected(struct xp_pair *pair)
{
	struct xp_event event;

	check_ok(pair->b.ops->connect(pair->b.xport, pair->a.addr, "x", 1, NULL, &pair->b_conn));
	event = xp_wait(&pair->a, OL_XPORT_CONN_REQUEST, NULL);
	xp_reject(&pair->a, event.ev.conn, "no", 2);
	xp_wait_down(&pair->b, pair->b_conn);
	xp_conn_free(&pair->b, pair->b_conn);
}

static void abandoned(struct xp_pair *pair)
{
	struct xp_event event;

	check_ok(pair->b.ops->connect(pair->b.xport, pair->a.addr, "x", 1, NULL, &pair->b_conn));
	event = xp_wait(&pair->a, OL_XPORT_CONN_REQUEST, NULL);
	xp_conn_free(&pair->a, event.ev.conn);
	xp_wait_down(&pair->b, pair->b_conn);
	xp_conn_free(&pair->b, pair->b_conn);
}

static void again_and_again(void)
{
	unsigned rounds = xp_is_shm() ? xp_rounds(200) : 200;
	struct xp_pair pair = { 0 };
	unsigned fds = 0;
	unsigned maps = 0;
	uint64_t rss = 0;

	xp_end_open(&pair.a, NULL);
	xp_end_open(&pair.b, NULL);
	xp_end_listen(&pair.a);
	for (unsigned round = 0; round < 20 + rounds; round++) {
		if (round == 20) {
			xp_quiet(&pair.a, NULL, 20);
			fds = fds_count();
			maps = maps_count();
			rss = rss_bytes();
		}
		work(&pair, round);
		if (round % 4 == 0)
			rejected(&pair);
		if (round % 4 == 2)
			abandoned(&pair);
	}
	xp_quiet(&pair.a, NULL, 20);
	check_eq(fds_count(), fds);
	check_msg(maps_count() <= maps + 16, "mappings grew from %u to %u", maps, maps_count());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	check_msg(rss_bytes() < rss + RSS_GROWTH_MAX, "resident memory grew from %ju to %ju",
		  (uintmax_t)rss, (uintmax_t)rss_bytes());
#endif
	xp_note("%u rounds: resident memory grew by %jd KiB", rounds,
		((intmax_t)rss_bytes() - (intmax_t)rss) / 1024);
	xp_end_close(&pair.b);
	xp_end_close(&pair.a);
}

static void transports_again(void)
{
	unsigned rounds = xp_rounds(50);
	unsigned fds = 0;

	for (unsigned round = 0; round < 3 + rounds; round++) {
		struct xp_pair pair = { 0 };

		if (round == 3)
			fds = fds_count();
		xp_end_open(&pair.a, NULL);
		xp_end_open(&pair.b, NULL);
		xp_end_listen(&pair.a);
		work(&pair, round);
		xp_end_close(&pair.a);
		xp_end_close(&pair.b);
	}
	check_eq(fds_count(), fds);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("connecting and ending 200 times over leaves nothing behind", again_and_again);
	xp_run1("opening and closing transports over and over leaves nothing behind",
		transports_again);
	return xp_result();
}
