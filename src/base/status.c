/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * status.c -- texts for status codes
 */
#include "base/status.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

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
