/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * bad_said.c -- a connection that an error ends says which request failed, with what status, and to
 * whom; once, and not when the peer only leaves
 */
#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BYTES = 4096,
	POSTS = 4,
};

static struct {
	unsigned said; /* lines about a failed request */
	char line[256];
} seen;

static void log_keep(void *log_arg, enum ol_xport_log_level level, const char *text)
{
	(void)log_arg;
	if (level > OL_XPORT_LOG_WARN || strstr(text, "failed:") == NULL)
		return;
	seen.said++;
	snprintf(seen.line, sizeof(seen.line), "%s", text);
}

static void pair_open(struct xp_pair *pair)
{
	struct ol_xport_opts opts = xp_opts();

	opts.log = log_keep;
	xp_pair_open(pair, &opts);
}

/* Each of several posts is refused or flushed: the first one gives the line. */
static void refused(bool read)
{
	struct ol_xport_write write;
	struct ol_xport_read rd;
	struct xp_pair pair;
	struct xp_mem src, dst;

	pair_open(&pair);
	xp_mem_open(&src, &pair.b, NULL, BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&dst, &pair.a, pair.a_conn, BYTES, OL_XPORT_ACCESS_LOCAL);
	write = xp_write(&src, 0, 64, dst.key, 0);
	rd = xp_read(&src, 0, 64, dst.key, 0);
	write.flags = rd.flags = OL_XPORT_SIGNALED;
	for (unsigned i = 0; i < POSTS; i++) {
		if (read)
			check_ok(pair.b.ops->post_read(pair.b_conn, &rd));
		else
			check_ok(pair.b.ops->post_write(pair.b_conn, &write));
	}
	check(xp_wait_down(&pair.b, pair.b_conn) != 0);
	xp_note("%s", seen.line);
	check_eq(seen.said, 1);
	check(strstr(seen.line, read ? "a read failed" : "a write failed") != NULL);
	check(strstr(seen.line, "remote ") != NULL);
	check(strstr(seen.line, "vendor_err 0x") != NULL);
	check(strstr(seen.line, pair.a.addr) != NULL);
	xp_mem_close(&src);
	xp_mem_close(&dst);
	xp_pair_close(&pair);
}

static void refused_write(void)
{
	refused(false);
}

static void refused_read(void)
{
	refused(true);
}

static void left(void)
{
	struct xp_pair pair;

	pair_open(&pair);
	for (uint32_t i = 0; i < POSTS; i++)
		xp_bell(pair.b_conn, i);
	pair.a.ops->disconnect(pair.a_conn);
	check_eq(xp_wait_down(&pair.b, pair.b_conn), 0);
	check_eq(xp_wait_down(&pair.a, pair.a_conn), 0);
	check_eq(seen.said, 0);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	if (xp_is_shm()) {
		printf("skip: shm has no completions that can be bad\n");
		return CHECK_SKIP;
	}
	xp_run1("a refused write is told once, with status, vendor's code and peer", refused_write);
	xp_run1("a refused read as well", refused_read);
	xp_run1("a peer that leaves is no failed request", left);
	return xp_result();
}
