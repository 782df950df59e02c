/* SPDX-License-Identifier: BSD-3-Clause */

/* rails.c -- the names of a list of devices */
#include "base/rails.h"

#include <errno.h>
#include <string.h>

static int name_add(struct ol_rails *rails, const char *name, size_t bytes)
{
	char *into;

	if (bytes == 0 || bytes >= OL_RAIL_NAME_MAX || rails->count == OL_RAILS_MAX ||
	    strcspn(name, " \t") < bytes)
		return -EINVAL;
	into = rails->names[rails->count];
	memcpy(into, name, bytes);
	for (uint32_t i = 0; i < rails->count; i++) {
		if (strcmp(rails->names[i], into) == 0)
			return -EINVAL;
	}
	rails->count++;
	return 0;
}

int ol_rails_parse(const char *list, struct ol_rails *ret_rails)
{
	memset(ret_rails, 0, sizeof(*ret_rails));
	for (const char *at = list; at != NULL;) {
		size_t bytes = strcspn(at, ",");

		if (name_add(ret_rails, at, bytes) != 0) {
			ret_rails->count = 0;
			return -EINVAL;
		}
		at = at[bytes] == ',' ? at + bytes + 1 : NULL;
	}
	return 0;
}
