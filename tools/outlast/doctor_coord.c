/* SPDX-License-Identifier: BSD-3-Clause */

/* doctor_coord.c -- `outlast doctor --coordinator`: can jobs keep their views there */

#include <errno.h>
#include <string.h>

#include "cmd/cmd.h"
#include "outlast/doctor.h"
#include "server/coordinator.h"

enum {
	TIMEOUT_MS = 3000, /* for each server */
};

struct asked {
	struct doctor *doctor;
	uint32_t bad, warned;
	char first[DOCTOR_TEXT_MAX]; /* of the worst */
};

static void on_finding(void *arg, const struct ol_coord_finding *finding)
{
	static const enum doctor_verdict verdicts[] = { [OL_COORD_FINE] = DOCTOR_OK,
							[OL_COORD_WARN] = DOCTOR_WARN,
							[OL_COORD_BAD] = DOCTOR_BAD };
	struct asked *asked = arg;
	json_t *figures, *last;

	asked->bad += finding->verdict == OL_COORD_BAD;
	asked->warned += finding->verdict == OL_COORD_WARN;
	doctor_find(asked->doctor, verdicts[finding->verdict], finding->subject, finding->remedy,
		    "%s", finding->text);
	last = json_array_get(asked->doctor->findings,
			      json_array_size(asked->doctor->findings) - 1);
	figures = json_object();
	for (uint32_t i = 0; i < finding->figure_count; i++)
		json_object_set_new(figures, finding->figures[i].name,
				    json_real(finding->figures[i].value));
	if (finding->figure_count > 0)
		json_object_set(last, "figures", figures);
	json_object_set_new(last, "coordinator", json_true());
	json_decref(figures);
}

int doctor_coordinator(struct doctor *doctor, const char *addr, const char *key, uint32_t lease_ms,
		       uint32_t rounds)
{
	const struct ol_coordinator coordinator = { .addr = addr,
						    .job_key = key,
						    .timeout_ms = TIMEOUT_MS };
	struct asked asked = { .doctor = doctor };
	char err[256] = "";
	int rc = ol_coordinator_examine(&coordinator, lease_ms, rounds, on_finding, &asked, err,
					sizeof(err));

	if (rc != 0) {
		const bool folder = strncmp(addr, "dir:", strlen("dir:")) == 0;

		doctor_find(
			doctor, DOCTOR_BAD, "coordinator",
			asked.bad > 0 ? "see above"
			: folder ? "give a folder of this machine that belongs to the job's user, "
				   "and that nobody else may write into"
				 : "start ZooKeeper, and see that nothing is in between",
			"%s", err);
		return rc;
	}
	doctor_find(doctor, asked.warned > 0 ? DOCTOR_WARN : DOCTOR_OK, "coordinator",
		    asked.warned > 0 ? "see above" : NULL, "jobs can use %s%s", addr,
		    asked.warned > 0 ? ", with warnings" : "");
	return 0;
}
