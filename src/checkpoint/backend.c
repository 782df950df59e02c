/* SPDX-License-Identifier: BSD-3-Clause */

/* backend.c -- finds the back end of a folder */

#include "checkpoint/backend.h"

#include <string.h>

static const struct ol_ckpt_backend *const backends[] = {
#define X(backend) &backend,
	OL_CKPT_BACKEND_MAP(X)
#undef X
};

const struct ol_ckpt_backend *ol_ckpt_backend_of(const char *dir)
{
	size_t i = 0;

	while (strncmp(dir, backends[i]->scheme, strlen(backends[i]->scheme)) != 0)
		i++;
	return backends[i];
}
