/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_model.c -- what the model wants of the job, and what can be said of its weights
 */
#include <math.h>
#include <stdio.h>

#include "outlast/needs.h"
#include "outlast/train.h"

/* No change may be lost; and a worker has what no other has. */
static int additive_check(struct train *train)
{
	const struct train_set *set = &train->set;
	struct ol_settings *settings = &train->settings;

	if (train_is_sync(train))
		return ol_settings_fail(settings, "consistency",
					"cannot be with this model, whose changes add up in any "
					"order: give async");
	if (set->outage.queue == OL_QUEUE_DROP_OLDEST)
		return ol_settings_fail(
			settings, "queue",
			"loses changes, which this model cannot: give fold or wait");
	if (set->resume)
		return ol_settings_fail(settings, "resume",
					"cannot be with this model: its workers' topics are in no "
					"checkpoint");
	for (uint32_t i = 0; i < train->kills.count; i++) {
		if (train->kills.list[i].target == OL_KILL_WORKER)
			return ol_settings_fail(settings, "kill",
						"takes a worker, and with it what this model keeps "
						"of the worker's documents");
	}
	return 0;
}

/* Plain SGD at the usual learning rate would not move this model. */
static int rate_set(struct train *train)
{
	double lr = train->job->traits->lr * train->set.batch;
	char value[32];

	if (lr <= 0.0 || train->set.rule.optimizer != OL_OPTIMIZER_SGD ||
	    ol_conf_is_set(train->settings.conf, "lr"))
		return 0;
	snprintf(value, sizeof(value), "%g", lr);
	return ol_needs_one(&train->settings, train->set.model.model, "lr", value);
}

int train_model_check(struct train *train)
{
	char err[160] = "";
	size_t documents = train->job->data->train.count;
	int rc;

	if (train->job->shape.kind == LEARN_WORDS && train->set.workers > documents) {
		snprintf(err, sizeof(err), "is more than the %zu documents that they share out",
			 documents);
		return ol_settings_fail(&train->settings, "workers", err);
	}
	if (!train->job->traits->additive)
		return rate_set(train);
	rc = additive_check(train);
	return rc != 0 ? rc : ol_needs_take(&train->settings, train->set.model.model, train->job);
}

void train_model_look(struct train *train, const float *weights)
{
	train->figure_count =
		learn_model_figures(train->job->model, weights, train->job->data, train->figures);
}

void train_model_show(const struct train *train)
{
	char name[32];

	snprintf(name, sizeof(name), "test %s", train->job->traits->score_name);
	printf("%-17s %.4f\n", name, train->accuracy);
	for (size_t i = 0; i < train->figure_count; i++)
		printf("%-17s %.10g\n", train->figures[i].name, train->figures[i].value);
}

static json_t *number_or_null(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

json_t *train_model_json(const struct train *train)
{
	json_t *figures = json_object();

	for (size_t i = 0; i < train->figure_count; i++)
		json_object_set_new(figures, train->figures[i].name,
				    number_or_null(train->figures[i].value));
	return json_pack("{s:s, s:o, s:o}", "score_name", train->job->traits->score_name,
			 "test_score", train->final ? number_or_null(train->accuracy) : json_null(),
			 "figures", figures);
}
