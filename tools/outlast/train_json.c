/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * train_json.c -- the report of `outlast train` as JSON
 */
#include <math.h>
#include <signal.h>

#include "base/clock.h"
#include "outlast/train.h"

static json_t *number_or_null(bool known, double value)
{
	return known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *workers_json(const struct train *train)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];
		json_t *one = worker->done != NULL ? json_deep_copy(worker->done) : json_object();

		json_object_del(one, "event");
		json_object_set_new(one, "id", json_integer(i));
		json_object_set_new(one, "computed",
				    count(worker->past.computed + worker->now.computed));
		json_object_set_new(one, "died", json_boolean(worker->died));
		json_array_append_new(list, one);
	}
	return list;
}

/* What became of each worker's gradients: as it says, and as the final weights say */
static json_t *accounting_json(const struct train *train)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];
		const struct train_count *now = &worker->now;
		json_t *contained = json_array();

		for (uint32_t s = 0; train->final && s < train->set.servers; s++)
			json_array_append_new(contained, count(train->contained[s][i]));
		json_array_append_new(list,
				      json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:O*}",
						"worker", (int)i, "pushed", count(now->pushed),
						"applied", count(now->applied), "dropped",
						count(now->dropped_nonfinite + now->dropped_late +
						      now->queue_dropped),
						"lost", count(now->lost), "pending",
						count(now->pending), "in_final_weights", contained,
						"links", json_object_get(worker->done, "links")));
	}
	return json_pack("{s:b, s:o}", "agree", (int)train->accounted, "workers", list);
}

static double seconds(const struct train *train, uint64_t at_ns)
{
	if (at_ns == 0)
		return (double)NAN;
	return ((double)at_ns - (double)train->go_ns) / 1e9;
}

static json_t *outages_json(const struct train *train)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *o = &train->outages[i];
		json_t *one = json_pack(
			"{s:s, s:s?, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "target",
			o->target, "kill", o->kill != NULL ? o->kill->text : NULL, "version",
			count(o->version), "restored_version",
			o->from[0] != '\0' ? count(o->restored_version) : json_null(), "killed_s",
			seconds(train, o->killed_ns), "detected_s",
			number_or_null(true, seconds(train, o->detected_ns)), "ready_s",
			number_or_null(true, seconds(train, o->ready_ns)), "first_applied_s",
			number_or_null(true, seconds(train, o->first_applied_ns)), "loss_before",
			number_or_null(o->server, o->loss_before), "accuracy_before",
			number_or_null(o->server, o->accuracy_before), "loss_after",
			number_or_null(o->server, o->loss_after), "accuracy_after",
			number_or_null(o->server, o->accuracy_after));

		json_object_set_new(one, "restored_from",
				    o->from[0] != '\0' ? json_string(o->from) : json_null());
		json_object_set_new(one, "lost", count(o->lost));
		json_object_set_new(one, "recovered", json_boolean(o->over && !o->survived));
		json_object_set_new(one, "survived", json_boolean(o->survived));
		json_object_set_new(one, "fenced", json_boolean(o->fenced));
		json_array_append_new(list, one);
	}
	return list;
}

/* Milliseconds from the signal to the first worker that knew, of each server killed */
static json_t *detect_json(const struct train *train)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *o = &train->outages[i];

		if (o->server && o->kill != NULL && o->detected_ns >= o->killed_ns)
			json_array_append_new(
				list, json_real((double)(o->detected_ns - o->killed_ns) / 1e6));
	}
	return list;
}

/* Milliseconds from a server's having its weights to its first gradient */
static json_t *recover_json(const struct train *train)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *o = &train->outages[i];

		if (o->server && o->ready_ns != 0 && o->first_applied_ns >= o->ready_ns)
			json_array_append_new(
				list, json_real((double)(o->first_applied_ns - o->ready_ns) / 1e6));
	}
	return list;
}

static json_t *checkpoints_json(const struct train *train)
{
	struct train_past sum = train_checkpoints(train);

	return json_pack("{s:o, s:o, s:o, s:o}", "written", count(sum.checkpoints), "failed",
			 count(sum.checkpoints_failed), "skipped", count(sum.checkpoints_skipped),
			 "bytes", count(sum.checkpoint_bytes));
}

static json_t *not_fired_json(const struct train *train)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < train->kills.count; i++) {
		if (!train->fired[i])
			json_array_append_new(list, json_string(train->kills.list[i].text));
	}
	return list;
}

/* The settings in force, as text: they have the names that the options have. */
static json_t *settings_json(const struct train *train)
{
	json_t *object = json_object();
	char value[OL_VALUE_MAX];

	for (size_t i = 0; i < train->settings.count; i++) {
		if (train->settings.fields[i].name == NULL)
			continue;
		ol_conf_format(train->settings.conf, i, value, sizeof(value));
		json_object_set_new(object, train->settings.fields[i].name, json_string(value));
	}
	return object;
}

static json_t *results_json(const struct train *train, const struct train_figures *f)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:O, s:o}",
			 "ended", train_ended_str(train), "test_accuracy",
			 number_or_null(train->final && train->job->shape.kind == LEARN_SAMPLES,
					train->accuracy),
			 "test_loss", number_or_null(train->final, train->loss), "steps",
			 count(f->version), "version", count(f->version), "wall_s", f->wall_s,
			 "total_s", (double)(ol_clock_ns() - train->begin_ns) / 1e9,
			 "gradients_per_s", f->rate, "gradients_applied_per_s", f->rate_applied,
			 "staleness_mean", f->staleness, "weights_sha256",
			 train->final ? json_string(train->sha256) : json_null(), "workers_died",
			 count(train->died), "evals", train->evals, "per_worker",
			 workers_json(train));
}

static json_t *gradients_json(const struct train *train, const struct train_figures *f)
{
	const struct train_count *c = &f->count;

	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o}",
		"k_mean", number_or_null(true, f->k_mean), "k_now", count(train->stat.wait_for),
		"gradients_interrupted", count(c->interrupted), "gradients_computed",
		count(f->computed), "gradients_pushed", count(c->pushed), "gradients_applied",
		count(f->applied), "gradients_dropped", count(f->dropped), "gradients_nonfinite",
		count(c->dropped_nonfinite), "gradients_late", count(c->dropped_late),
		"gradients_queue_dropped", count(c->queue_dropped), "gradients_lost",
		count(c->lost), "gradients_queued", count(c->queued_total), "gradients_replayed",
		count(f->replayed), "gradients_resent", count(c->resent), "queue_bytes_max",
		count(c->queue_bytes_max));
}

static json_t *failures_json(const struct train *train, const struct train_figures *f)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "kills",
			 count(f->kills), "kills_not_fired", not_fired_json(train), "recoveries",
			 count(f->recoveries), "restarts", count(train->restarts), "detect_ms",
			 detect_json(train), "recover_ms", recover_json(train), "outages",
			 outages_json(train), "workers_rate_before",
			 number_or_null(true, f->rate_before), "workers_rate_outage",
			 number_or_null(true, f->rate_outage), "checkpoints",
			 checkpoints_json(train), "accounting", accounting_json(train),
			 "moments_anew", (int)f->anew);
}

static json_t *job_json(const struct train *train)
{
	const struct train_set *set = &train->set;
	const struct ol_settings *settings = &train->settings;
	json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:f, s:o, s:o, s:o}", "transport",
				 ol_transport_name(set->transport), "servers", count(set->servers),
				 "workers", count(set->workers), "seed", count(set->model.seed),
				 "model", set->model.model, "dataset", set->model.dataset, "lr",
				 set->rule.lr, "batch", count(set->batch), "param_count",
				 count(train->job->param_count), "settings", settings_json(train));
	static const char *const names[] = { "consistency", "optimizer", "durability",
					     "outage",      "restore",   "replay" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char text[32];

		json_object_set_new(
			json, names[i],
			json_string(ol_settings_text(settings, names[i], text, sizeof(text))));
	}
	return json;
}

json_t *train_json(const struct train *train, const struct train_figures *figures)
{
	json_t *parts[] = { gradients_json(train, figures), failures_json(train, figures),
			    job_json(train), train_chain_json(train), train_model_json(train) };
	json_t *json = results_json(train, figures);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (json == NULL || parts[i] == NULL || json_object_update(json, parts[i]) != 0) {
			json_decref(json);
			json = NULL;
		}
		json_decref(parts[i]);
	}
	return json;
}
