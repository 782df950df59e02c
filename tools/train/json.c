/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * json.c -- the report of `outlast train` as JSON
 */
#include <math.h>
#include <signal.h>

#include "base/clock.h"
#include "train/parts.h"

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
		json_object_set_new(one, "computed", count(train_computed(train, i)));
		json_object_set_new(one, "died", json_boolean(worker->state == TRAIN_WORKER_DIED));
		json_array_append_new(list, one);
	}
	return list;
}

/* Each worker's gradients, by its own counts and by the final weights */
static json_t *accounting_json(const struct train *train)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < train->set.workers; i++) {
		const struct train_worker *worker = &train->workers[i];
		const struct train_count *now = &worker->now;
		json_t *contained = json_array();

		for (uint32_t s = 0; train->last.known && s < train->set.servers; s++)
			json_array_append_new(contained, count(train->last.contained[s][i]));
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
	return json_pack("{s:b, s:o}", "agree", (int)train->last.accounted, "workers", list);
}

static double seconds(const struct train *train, uint64_t at_ns)
{
	if (at_ns == 0)
		return (double)NAN;
	return ((double)at_ns - (double)train->go_ns) / 1e9;
}

static json_t *outage_json(const struct train *train, const struct train_outage *o)
{
	bool restored = o->from[0] != '\0';

	return json_pack(
		"{s:s, s:s?, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:o, s:o, s:o, "
		"s:b, s:b, s:b}",
		"target", o->target, "kill", o->kill != NULL ? o->kill->text : NULL, "version",
		count(o->version), "restored_version",
		restored ? count(o->restored_version) : json_null(), "killed_s",
		seconds(train, o->killed_ns), "detected_s",
		train_number(true, seconds(train, o->detected_ns)), "ready_s",
		train_number(true, seconds(train, o->ready_ns)), "first_applied_s",
		train_number(true, seconds(train, o->first_applied_ns)), "loss_before",
		train_number(o->server, o->loss_before), "accuracy_before",
		train_number(o->server, o->accuracy_before), "loss_after",
		train_number(o->server, o->loss_after), "accuracy_after",
		train_number(o->server, o->accuracy_after), "restored_from",
		restored ? o->from : NULL, "lost", count(o->lost), "expected_lost",
		o->expects ? count(o->expected) : json_null(), "expected_s",
		train_number(true, train_expected_s(train, o)), "recovered",
		(int)(o->state == TRAIN_OUTAGE_OVER), "survived",
		(int)(o->state == TRAIN_OUTAGE_SURVIVED), "fenced", (int)o->fenced);
}

static json_t *outages_json(const struct train *train)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < train->outage_count; i++)
		json_array_append_new(list, outage_json(train, &train->outages[i]));
	return list;
}

/*
 * Milliseconds of each server: from the kill until the first worker detected it; or from having its
 * weights until its first gradient
 */
static json_t *delays_json(const struct train *train, bool detected)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < train->outage_count; i++) {
		const struct train_outage *o = &train->outages[i];
		bool known = detected ? o->kill != NULL : o->ready_ns != 0;
		uint64_t from_ns = detected ? o->killed_ns : o->ready_ns;
		uint64_t to_ns = detected ? o->detected_ns : o->first_applied_ns;

		if (o->server && known && to_ns >= from_ns)
			json_array_append_new(list, json_real((double)(to_ns - from_ns) / 1e6));
	}
	return list;
}

static json_t *checkpoints_json(const struct train *train)
{
	struct ol_server_stat sum = train_totals(train);

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

/* The settings in force, as text, under their options' names. */
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
			 train_number(train->last.known && train->job->shape.kind == LEARN_SAMPLES,
				      train->evals.accuracy),
			 "test_loss", train_number(train->last.known, train->evals.loss), "steps",
			 count(f->version), "version", count(f->version), "wall_s", f->wall_s,
			 "total_s", (double)(ol_clock_ns() - train->begin_ns) / 1e9,
			 "gradients_per_s", f->rate, "gradients_applied_per_s", f->rate_applied,
			 "staleness_mean", f->staleness, "weights_sha256",
			 train->last.known ? json_string(train->last.sha256) : json_null(),
			 "workers_died", count(train->died), "evals", train->evals.list,
			 "per_worker", workers_json(train));
}

static json_t *gradients_json(const struct train *train, const struct train_figures *f)
{
	const struct train_count *c = &f->count;
	struct ol_server_stat sum = train_totals(train);

	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:o, s:o, s:o, s:b}",
		"gradients_carried", count(train->stat.carried), "k_mean",
		train_number(true, f->k_mean), "k_now", count(train->stat.wait_for),
		"gradients_interrupted", count(c->interrupted), "gradients_computed",
		count(f->computed), "gradients_pushed", count(c->pushed), "gradients_applied",
		count(f->applied), "gradients_dropped", count(f->dropped), "gradients_nonfinite",
		count(c->dropped_nonfinite), "gradients_late", count(c->dropped_late),
		"gradients_queue_dropped", count(c->queue_dropped), "gradients_lost",
		count(c->lost), "gradients_queued", count(c->queued_total), "gradients_replayed",
		count(f->replayed), "gradients_resent", count(c->resent), "queue_bytes_max",
		count(c->queue_bytes_max), "early_bytes", count(sum.early_bytes),
		"early_void_bytes", count(sum.early_void_bytes), "gradients_given_up",
		count(f->given_up), "gradients_lost_or_more", f->more_lost);
}

static json_t *failures_json(const struct train *train, const struct train_figures *f)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "kills",
			 count(f->kills), "kills_not_fired", not_fired_json(train), "recoveries",
			 count(f->recoveries), "restarts", count(train->restarts), "detect_ms",
			 delays_json(train, true), "recover_ms", delays_json(train, false),
			 "outages", outages_json(train), "workers_rate_before",
			 train_number(true, f->rate_before), "workers_rate_outage",
			 train_number(true, f->rate_outage), "checkpoints", checkpoints_json(train),
			 "accounting", accounting_json(train), "moments_anew", (int)f->anew);
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
