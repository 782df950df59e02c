/* SPDX-License-Identifier: BSD-3-Clause */

/* doctor_port.c -- a finding of what a port has counted since its driver was loaded */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/port.h"
#include "outlast/doctor.h"

enum {
	LIST_BYTES = 384,
};

struct seen {
	json_t *all;
	char list[LIST_BYTES]; /* those that are not 0 */
	size_t used;
	bool broken;
};

static void counter_see(void *arg, const struct ol_port_counter *counter, uint64_t value)
{
	struct seen *seen = arg;

	json_object_set_new(seen->all, counter->name, json_integer((json_int_t)value));
	if (value == 0)
		return;
	seen->broken = seen->broken || counter->kind == OL_PORT_BROKEN;
	if (seen->used < sizeof(seen->list))
		seen->used += (size_t)snprintf(seen->list + seen->used,
					       sizeof(seen->list) - seen->used, "%s%s %" PRIu64,
					       seen->used > 0 ? ", " : "", counter->name, value);
}

void doctor_port_counters(struct doctor *doctor, const char *device, uint32_t port, json_t *ret_all)
{
	struct seen seen = { .all = ret_all };
	char subject[96];

	ol_port_read(OL_PORT_ROOT, device, port, counter_see, &seen);
	if (json_object_size(ret_all) == 0)
		return;
	snprintf(subject, sizeof(subject), "%.64s/%u", device, port);
	if (seen.used == 0)
		doctor_find(doctor, DOCTOR_OK, subject, NULL,
			    "nothing was sent again, refused or lost since its driver was loaded");
	else
		doctor_find(doctor, seen.broken ? DOCTOR_WARN : DOCTOR_OK, subject,
			    seen.broken
				    ? "if they grow while a job runs: check cable, switch (pause "
				      "frames, MTU) and whether peers died"
				    : NULL,
			    "since its driver was loaded: %s", seen.list);
}
