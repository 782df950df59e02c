/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * transport.c -- an opening's defaults, and what transports share, and stubs for what one has not
 */
#include "rdma/transport.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void ol_xport_opts_init(struct ol_xport_opts *opts)
{
	*opts = (struct ol_xport_opts){
		.inflight_max = 256,
		.doorbells_max = 64,
		.conns_max = 128,
		.retry_timeout_ms = 8000,
		.connect_timeout_ms = 3000,
	};
}

void ol_xport_log(const struct ol_xport_opts *opts, enum ol_xport_log_level level,
		  const char *format, ...)
{
	char text[512];
	va_list args;

	if (opts->log == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	opts->log(opts->log_arg, level, text);
}

unsigned ol_xport_slab_flags(const struct ol_xport_opts *opts, bool apart)
{
	const unsigned flags = apart ? OL_SLAB_APART : 0;

	if (opts->huge_pages == OL_XPORT_OFF)
		return flags;
	if (opts->huge_pages == OL_XPORT_ON && !ol_slab_huge_any(apart))
		ol_xport_log(opts, OL_XPORT_LOG_WARN,
			     "huge pages: none are reserved, and transparent ones are off: sysctl "
			     "vm.nr_hugepages=N, or echo %s",
			     apart ? "madvise > /sys/kernel/mm/transparent_hugepage/enabled"
				   : "advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
	return flags | OL_SLAB_HUGE;
}

bool ol_xport_reg_valid(const struct ol_slab *slab, size_t off, size_t bytes, unsigned access)
{
	const unsigned peer = OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE;

	return bytes != 0 && off <= slab->bytes && bytes <= slab->bytes - off &&
	       (access & ~(peer | OL_XPORT_ACCESS_RELAXED)) == 0 &&
	       !(ol_slab_is_foreign(slab) && (access & peer) != 0);
}

uint64_t ol_xport_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void ol_xport_no_counts(const struct ol_xport *xport, struct ol_xport_counts *ret_counts)
{
	(void)xport;
	*ret_counts = (struct ol_xport_counts){ 0 };
}

int ol_xport_no_acceptor(struct ol_xport_conn *conn, struct ol_xport_ident *ret_ident)
{
	(void)conn;
	*ret_ident = (struct ol_xport_ident){ 0 };
	return 0;
}

int ol_xport_no_map(struct ol_xport_conn *conn, struct ol_xport_rkey src, uint64_t off,
		    size_t bytes, void *at)
{
	(void)conn;
	(void)src;
	(void)off;
	(void)bytes;
	(void)at;
	return -EOPNOTSUPP;
}

int ol_xport_no_reg_begin(struct ol_xport *xport, unsigned access,
			  struct ol_xport_later **ret_later)
{
	(void)xport;
	(void)access;
	(void)ret_later;
	return -EOPNOTSUPP;
}

int ol_xport_no_reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off,
			size_t bytes)
{
	(void)later;
	(void)slab;
	(void)off;
	(void)bytes;
	return -EOPNOTSUPP;
}

int ol_xport_no_reg_end(struct ol_xport_later *later, struct ol_xport_conn *conn,
			struct ol_xport_region **ret_region)
{
	(void)later;
	(void)conn;
	(void)ret_region;
	return -EOPNOTSUPP;
}

struct ol_xport_later *ol_xport_no_strip(struct ol_xport_conn *conn, struct ol_xport_region *region,
					 int kept)
{
	(void)conn;
	(void)region;
	(void)kept;
	return NULL;
}

void ol_xport_no_drop(struct ol_xport_later *later)
{
	(void)later;
}
