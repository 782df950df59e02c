/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * model.c -- the model's demands on the job, and figures about its weights
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/parts.h"

/* Limits below which the truth of generated data counts as found: tools/README.md, Ratings and
 * topics */
static const struct planted {
	const char *figure;
	double found; /* at most */
	double nearly; /* all but one pair of topics; 0: not used */
} planted[] = {
	{ "planted_error", 0.2, 0.0 },
	{ "planted_distance", 0.1, 0.25 },
};

/* The figure that decides, with its limits; NULL: the data was not generated, or there are no
 * figures */
static const struct learn_figure *planted_figure(const struct train *train,
						 const struct planted **ret_planted)
{
	for (size_t i = 0; i < train->last.figure_count; i++) {
		for (size_t j = 0; j < sizeof(planted) / sizeof(planted[0]); j++) {
			if (strcmp(train->last.figures[i].name, planted[j].figure) != 0)
				continue;
			*ret_planted = &planted[j];
			return &train->last.figures[i];
		}
	}
	return NULL;
}

static void planted_show(const struct train *train)
{
	const struct planted *p;
	const struct learn_figure *figure = planted_figure(train, &p);

	if (figure == NULL)
		return;
	if (figure->value <= p->found)
		printf("%-17s found: %s is at most %g\n", "planted structure", p->figure, p->found);
	else if (figure->value <= p->nearly)
		printf("%-17s not found: %s is above %g; all but a pair, as it is at most %g\n",
		       "planted structure", p->figure, p->found, p->nearly);
	else
		printf("%-17s not found: %s is above %g\n", "planted structure", p->figure,
		       p->found);
}

/* An additive model: no change may be lost, and each worker has state that no other has. */
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
	train->last.figure_count = learn_model_figures(train->job->model, weights, train->job->data,
						       train->last.figures);
}

static void number_show(const char *name, double value, int decimals)
{
	if (isfinite(value))
		printf("%-17s %.*f\n", name, decimals, value);
	else
		printf("%-17s not finite: the training diverged\n", name);
}

void train_model_show(const struct train *train)
{
	char name[32];

	snprintf(name, sizeof(name), "test %s", train->job->traits->score_name);
	number_show(name, train->evals.accuracy, 4);
	for (size_t i = 0; i < train->last.figure_count; i++) {
		double value = train->last.figures[i].value;

		number_show(train->last.figures[i].name, value, value == floor(value) ? 0 : 6);
	}
	planted_show(train);
}

static json_t *planted_json(const struct train *train)
{
	const struct planted *p;
	const struct learn_figure *figure = planted_figure(train, &p);

	if (figure == NULL)
		return json_null();
	return json_pack("{s:b, s:s, s:o, s:f, s:b}", "found", (int)(figure->value <= p->found),
			 "figure", p->figure, "value", train_number(true, figure->value),
			 "threshold", p->found, "all_but_a_pair",
			 (int)(figure->value > p->found && figure->value <= p->nearly));
}

json_t *train_model_json(const struct train *train)
{
	json_t *figures = json_object();

	for (size_t i = 0; i < train->last.figure_count; i++)
		json_object_set_new(figures, train->last.figures[i].name,
				    train_number(true, train->last.figures[i].value));
	return json_pack(
		"{s:s, s:o, s:o, s:o}", "score_name", train->job->traits->score_name, "test_score",
		train->last.known ? train_number(true, train->evals.accuracy) : json_null(),
		"figures", figures, "planted", planted_json(train));
}
