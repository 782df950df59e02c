/* SPDX-License-Identifier: BSD-3-Clause */

/* warm.c -- opens a transport once, before all runs */

#include "nth/frame/warm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/transport.h"
#include "support/check.h"
#include "support/job.h"

void warm_transport(void)
{
	const struct ol_xport_ops *ops = ol_xport_find(job_transport());
	char addr[OL_XPORT_ADDR_MAX], listen[OL_XPORT_ADDR_MAX];
	const char *host = getenv("OL_ADDR");
	struct ol_xport_opts opts;
	struct ol_xport *xport;

	if (strcmp(ops->name, "verbs") != 0)
		return;
	snprintf(listen, sizeof(listen), "%s:0", host != NULL ? host : "0.0.0.0");
	ol_xport_opts_init(&opts);
	check_ok(ops->open(&opts, &xport));
	check_ok(ops->listen(xport, listen, addr));
	ops->close(xport);
}
