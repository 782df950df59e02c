/* SPDX-License-Identifier: BSD-3-Clause */

/* find.c -- which transports there are */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rdma/transport.h"
#include "rdma/verbs/verbs.h"

static const struct ol_xport_ops *const all[] = { &ol_xport_shm, &ol_xport_verbs };

const struct ol_xport_ops *ol_xport_find(const char *name)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
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

	if (ops == &ol_xport_verbs)
		return ol_verbs_present(device, why, why_bytes);
	if (ops == &ol_xport_shm)
		snprintf(why, why_bytes, "shared memory, always there");
	else
		snprintf(why, why_bytes, "no transport \"%s\": there is %s and %s", name,
			 ol_xport_shm.name, ol_xport_verbs.name);
	return ops != NULL ? 0 : -ENODEV;
}
