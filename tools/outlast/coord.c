/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord.c -- `outlast coord`: changes what a coordinator keeps, by hand: removes a job that is over, makes the
 * place where jobs are kept
 *
 * What is kept is shown by `outlast stat --views`.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/key.h"
#include "cmd/settings.h"
#include "server/coordinator.h"

struct coord_set {
	const char *coordinator;
	const char *remove;
	bool make_root;
	uint32_t timeout_ms;
	struct ol_set_key key;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_STR(coord_set, coordinator, NULL,
		   "dir:PATH, or zk:HOST:PORT,...[/CHROOT][?auth=FILE], FILE with a line "
		   "user:password"),
	OL_ROW_STR(
		coord_set, remove, NULL,
		"a job that is over: its views are removed, all or none; refused while a server of "
		"it is registered, in a folder while any process has it open"),
	OL_ROW_BOOL(
		coord_set, make_root, "false",
		"make the folder, or CHROOT, and those above it; with ?auth=FILE only its user can "
		"begin jobs there"),
	OL_ROW_U32(coord_set, timeout_ms, "5000", 10, 600000, "until the coordinator is given up"),
};

static int coord_do(const struct coord_set *set, const char *key)
{
	const struct ol_coordinator coordinator = { .addr = set->coordinator,
						    .job = set->remove,
						    .job_key = key,
						    .timeout_ms = set->timeout_ms };
	char err[256] = "";
	int rc;

	if (set->make_root)
		rc = ol_coordinator_make_root(&coordinator, err, sizeof(err));
	else
		rc = ol_coordinator_remove(&coordinator, err, sizeof(err));
	if (rc == -EBUSY || rc == -EEXIST)
		return ol_cmd_error(OL_EXIT_REFUSED, "coord", err, NULL, NULL);
	if (rc == -EAGAIN)
		return ol_cmd_error(OL_EXIT_FAILED, "coord", err, NULL, NULL);
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of_coord(rc), "coord", err, NULL, NULL);
	if (set->make_root)
		printf("%s: jobs can be kept there\n", set->coordinator);
	else
		printf("job %s is removed from %s\n", set->remove, set->coordinator);
	return OL_EXIT_OK;
}

static int coord_run(const struct coord_set *set)
{
	char key[OL_JOB_KEY_MAX];
	int rc;

	if (set->coordinator == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "coord", "give --coordinator", NULL, NULL);
	if ((set->remove != NULL) == set->make_root)
		return ol_cmd_error(OL_EXIT_USAGE, "coord", "give --remove JOB or --make-root",
				    NULL, "outlast stat --views shows what is kept");
	rc = ol_job_key_read("coord", &set->key, key);
	if (rc == 0)
		rc = coord_do(set, key);
	explicit_bzero(key, sizeof(key));
	return rc;
}

int cmd_coord(int argc, char **argv)
{
	struct ol_settings settings = {
		.cmd = "coord",
		.spec = { .program = "outlast coord",
			  .purpose =
				  "Changes what a coordinator keeps: removes a job that is over, with "
				  "its key or as the user who began it; or makes the place where "
				  "jobs are kept. outlast stat --views shows what there is.",
			  .examples =
				  "  outlast coord --coordinator zk:10.0.0.9:2181 --remove cnn7\n"
				  "  outlast coord --coordinator 'zk:10.0.0.9:2181/ml?auth=zk.user' "
				  "--make-root\n" }
	};
	struct coord_set set;
	int rc;

	ol_settings_add(&settings, (struct ol_rows)OL_ROWS(fields), 0);
	ol_settings_add(&settings, ol_rows_key, offsetof(struct coord_set, key));
	if (ol_settings_load(&settings, &set, argc, argv, &rc))
		rc = coord_run(&set);
	ol_settings_fini(&settings);
	return rc;
}
