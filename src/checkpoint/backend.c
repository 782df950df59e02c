/* SPDX-License-Identifier: BSD-3-Clause */

/* backend.c -- which back ends there are */

#include "checkpoint/backend.h"

#include <string.h>

static const struct ol_ckpt_backend *const backends[] = {
	&ol_ckpt_files, /* the last: it takes every name */
};

const struct ol_ckpt_backend *ol_ckpt_backend_of(const char *dir)
{
	size_t i = 0;

	while (strncmp(dir, backends[i]->scheme, strlen(backends[i]->scheme)) != 0)
		i++;
	return backends[i];
}
