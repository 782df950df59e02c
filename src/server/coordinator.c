/* SPDX-License-Identifier: BSD-3-Clause */

/* coordinator.c -- what people ask of a coordinator, as holders of a job's key */

#include "server/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/key.h"
#include "wire/auth.h"

/* The question with the proofs of a key that it copies, as the macs' argument is not const; 0 or -EINVAL with a
 * line */
static int ask_make(const struct ol_coordinator *coordinator, char key[OL_JOB_KEY_MAX],
		    struct ol_coord_ask *ret_ask, char *err, size_t err_bytes)
{
	static char none[] = "";
	const char *fault = ol_key_fault(coordinator->job_key);

	if (fault != NULL) {
		snprintf(err, err_bytes, "%s", fault);
		return -EINVAL;
	}
	snprintf(key, OL_JOB_KEY_MAX, "%s",
		 coordinator->job_key != NULL ? coordinator->job_key : "");
	*ret_ask = (struct ol_coord_ask){ .addr = coordinator->addr,
					  .job = coordinator->job,
					  .timeout_ms = coordinator->timeout_ms,
					  .mac = ol_auth_coord_mac, /* an empty key is a key too */
					  .owner_mac = ol_auth_coord_owner_mac,
					  .mac_arg = key,
					  .keyless_arg = none };
	return 0;
}

int ol_coordinator_list(const struct ol_coordinator *coordinator, ol_kept_fn *tell, void *arg,
			char *err, size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	if (rc == 0)
		rc = ol_coord_list(&ask, tell, arg, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int ol_coordinator_remove(const struct ol_coordinator *coordinator, char *err, size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	if (rc == 0)
		rc = ol_coord_remove(&ask, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int ol_coordinator_make_root(const struct ol_coordinator *coordinator, char *err, size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	ask.job = NULL;
	if (rc == 0)
		rc = ol_coord_make_root(&ask, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int ol_coordinator_examine(const struct ol_coordinator *coordinator, uint32_t lease_ms,
			   uint32_t rounds, ol_coord_finding_fn *tell, void *arg, char *err,
			   size_t err_bytes)
{
	char key[OL_JOB_KEY_MAX];
	struct ol_coord_ask ask;
	int rc = ask_make(coordinator, key, &ask, err, err_bytes);

	if (rc == 0)
		rc = ol_coord_examine(&ask, lease_ms, rounds, tell, arg, err, err_bytes);
	explicit_bzero(key, sizeof(key));
	return rc;
}
