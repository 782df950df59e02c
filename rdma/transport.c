/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * transport.c -- an opening's defaults, and stubs for what a transport has not
 */
#include "rdma/transport.h"

#include <errno.h>

void ol_xport_opts_init(struct ol_xport_opts *opts)
{
	*opts = (struct ol_xport_opts){
		.inflight_max = 256,
		.doorbells_max = 64,
		.conns_max = 128,
		.retry_timeout_ms = 500,
		.connect_timeout_ms = 3000,
	};
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
