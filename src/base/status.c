/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * status.c -- texts for status codes
 */
#include "base/status.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "outlast.h"

#define X(name, value, text) \
	_Static_assert((value) < -1000 && (value) > -2000, "a code of ours is below every -errno");
OL_STATUS_MAP(X)
#undef X

static const char *own_text(int code)
{
	switch (code) {
#define X(name, value, text) \
	case (value): \
		return text;
		OL_STATUS_MAP(X)
#undef X
	default:
		return NULL;
	}
}

const char *ol_status_str(int code)
{
	const char *text;

	if (code >= 0)
		return "success";
	if (code == INT_MIN)
		return "unknown status code";

	text = own_text(code);
	if (text == NULL)
		text = strerrordesc_np(-code);
	return text != NULL ? text : "unknown status code";
}

const char *ol_strerror(int code)
{
	return ol_status_str(code);
}

static bool limit_read(__rlimit_resource_t resource, double *ret_limit)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return false;
	*ret_limit = (double)limit.rlim_cur;
	return true;
}

const char *ol_status_text(int code, char text[OL_STATUS_TEXT_MAX])
{
	int len = snprintf(text, OL_STATUS_TEXT_MAX, "%s", ol_status_str(code));
	size_t left = OL_STATUS_TEXT_MAX - (size_t)len;
	double limit;

	if (code == -EMFILE && limit_read(RLIMIT_NOFILE, &limit))
		snprintf(text + len, left, " (this process may open %.0f: ulimit -n)", limit);
	if (code == -EFBIG && limit_read(RLIMIT_FSIZE, &limit))
		snprintf(text + len, left,
			 " (this process may make files of %.3f MB, and shared memory counts as "
			 "one: ulimit -f)",
			 limit / 1e6);
	if (code == -ENOMEM && limit_read(RLIMIT_AS, &limit))
		snprintf(text + len, left,
			 " (this process may have %.1f MB of addresses: ulimit -v)", limit / 1e6);
	return text;
}
