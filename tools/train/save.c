/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * save.c -- the final weights of `outlast train` as a file
 */
#include <errno.h>

#include "cmd/cmd.h"
#include "outlast_tensor.h"
#include "tensors/tensors.h"
#include "train/parts.h"

int train_save_check(struct train *train)
{
	const struct train_set *set = &train->set;
	char err[512] = "";
	int rc;

	if (set->save == NULL)
		return 0;
	rc = ol_tensors_may_save(set->save, set->force, err, sizeof(err));
	if (rc == 0)
		return 0;
	return ol_cmd_error(rc == -EINVAL || rc == -EEXIST ? OL_EXIT_USAGE : OL_EXIT_FAILED,
			    "train", "--save", err, NULL);
}

void train_save(struct train *train, const float *weights)
{
	struct ol_tensors_about about = { .version = train->last.version };
	struct ol_job_info info;
	char err[512] = "";
	int rc;

	if (train->set.save == NULL)
		return;
	ol_worker_info(train->observer, &info);
	about.epoch = info.epoch;
	about.job = train->chain != NULL ? train->chain->job : NULL;
	about.table = ol_worker_tensors(train->observer);
	rc = ol_tensors_save(train->set.save, train->set.force, weights, info.param_count, &about,
			     err, sizeof(err));
	if (rc != 0)
		train_fail(train, ol_cmd_error(rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_FAILED,
					       "train", "--save", err, NULL));
}
