/* SPDX-License-Identifier: BSD-3-Clause */

/* find.c -- which transports there are */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rdma/transport.h"

static const struct ol_xport_ops *const all[] = {
#define X(ops) &ops,
	OL_XPORT_MAP(X)
#undef X
};

enum {
	COUNT = sizeof(all) / sizeof(all[0])
};

const struct ol_xport_ops *ol_xport_find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++) {
		if (strcmp(name, all[i]->name) == 0)
			return all[i];
	}
	return NULL;
}

const char *ol_xport_name(const char *name, const char *addr)
{
	if (name != NULL)
		return name;
	return addr[0] == '/' || addr[0] == '@' ? ol_xport_shm.name : ol_xport_verbs.name;
}

int ol_xport_present(const char *name, const char *device, char *why, size_t why_bytes)
{
	const struct ol_xport_ops *ops = ol_xport_find(name);
	int at;

	if (ops != NULL)
		return ops->present(device, why, why_bytes);
	at = snprintf(why, why_bytes, "no transport \"%s\": there is", name);
	for (size_t i = 0; i < COUNT && at >= 0 && (size_t)at < why_bytes; i++)
		at += snprintf(why + at, why_bytes - (size_t)at, "%s %s", i > 0 ? " and" : "",
			       all[i]->name);
	return -ENODEV;
}
