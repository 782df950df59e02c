/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * export.c -- `outlast export`: a job's weights into a file that other programs read
 *
 * An observer reads them out of the servers' memory, while the job goes on; or they are those of a folder
 * of checkpoints, and nothing runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/key.h"
#include "cmd/settings.h"
#include "outlast.h"
#include "outlast_server.h"
#include "outlast_tensor.h"
#include "tensors/tensors.h"

struct export_set {
	const char *connect;
	const char *checkpoint;
	const char *out;
	const char *device;
	uint32_t timeout_ms;
	bool force;
	int log;
	struct ol_set_coord coord;
	struct ol_set_transport transport;
	struct ol_set_key key;
};

static const struct ol_conf_field export_fields[] = {
	OL_ROW_GROUP("what is exported"),
	OL_ROW_STR(export_set, connect, NULL,
		   "addresses of the job's servers, shard 0 first, with commas between; instead of "
		   "--coordinator"),
	OL_ROW_STR(export_set, checkpoint, NULL,
		   "a folder of full checkpoints of all shards; instead of --coordinator"),
	OL_ROW_GROUP("how"),
	OL_ROW_STR(export_set, out, NULL,
		   "file to write, .npy or .safetensors; there it is whole or not at all"),
	OL_ROW_BOOL(export_set, force, "false", "replace a file that is there"),
	OL_ROW_U32(export_set, timeout_ms, "10000", 10, 3600000,
		   "until servers that do not answer, or have no weights yet, are given up"),
	OL_ROW_STR(export_set, device, NULL, "RDMA device; without it the one that has the route"),
	OL_ROW_CHOICE(export_set, log, "error", ol_log_levels,
		      "least important messages that are shown"),
};

static const struct ol_rows export_rows = OL_ROWS(export_fields);

static const char examples[] =
	"  outlast export --connect 10.0.0.1:7471,10.0.0.2:7471 --out weights.npy\n"
	"  outlast export --coordinator zk:10.0.0.9:2181 --job cnn7 --out cnn7.safetensors\n"
	"  outlast export --checkpoint ckpt --out weights.safetensors --force\n";

/* One run */
struct export
{
	struct ol_settings settings;
	struct export_set set;
	struct ol_worker *observer;
	char key[OL_JOB_KEY_MAX];
};

static int settings_check(struct export *export)
{
	const struct export_set *set = &export->set;
	int sources = (set->connect != NULL) + (set->checkpoint != NULL) +
		      (set->coord.coordinator != NULL);
	char err[512] = "";
	int rc;

	if (sources != 1)
		return ol_cmd_error(OL_EXIT_USAGE, "export",
				    "give one of --coordinator, --connect and --checkpoint", NULL,
				    NULL);
	if (set->out == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "export", "give --out", NULL, NULL);
	rc = ol_tensors_may_save(set->out, set->force, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(rc == -EINVAL || rc == -EEXIST ? OL_EXIT_USAGE : OL_EXIT_FAILED,
				    "export", "--out", err, NULL);
	return 0;
}

static int observer_open(struct export *export)
{
	const struct export_set *set = &export->set;
	struct ol_worker_opts opts;
	char err[256] = "";
	int rc;

	ol_worker_opts_init(&opts);
	opts.servers = set->connect;
	opts.coordinator = set->coord.coordinator;
	opts.job = set->coord.job;
	opts.transport = ol_transport_name(set->transport.transport);
	opts.device = set->device;
	opts.job_key = export->key;
	opts.observer = OL_OBSERVER_READS;
	opts.connect_timeout_ms = set->timeout_ms;
	opts.op_timeout_ms = set->timeout_ms;
	opts.outage = set->coord.coordinator != NULL ? OL_OUTAGE_WAIT : OL_OUTAGE_END;
	opts.outage_timeout_ms = set->timeout_ms;
	opts.spin_us = 0;
	rc = ol_worker_open(&opts, &export->observer, err, sizeof(err));
	if (rc != 0)
		return ol_cmd_error(opts.coordinator != NULL ? ol_cmd_exit_of_coord(rc)
							     : ol_cmd_exit_of(rc),
				    "export", err, NULL, ol_cmd_remedy(rc));
	return 0;
}

/* A signal that asks to end waits until the file has its name, so that none is left under another one. */
static int save(const struct export *export, const float *weights, uint64_t count,
		const struct ol_tensors_about *about)
{
	const struct export_set *set = &export->set;
	sigset_t asking, was;
	struct ol_tensors_about sound = *about;
	char err[512] = "";
	int rc;

	if (about->table != NULL && ol_tensor_fault(about->table, count, err, sizeof(err))) {
		fprintf(stderr, "outlast export: the job's table of tensors is not used: %s\n",
			err);
		sound.table = NULL;
	}
	ol_cmd_signals_asking(&asking);
	(void)sigprocmask(SIG_BLOCK, &asking, &was);
	rc = ol_tensors_save(set->out, set->force, weights, count, &sound, err, sizeof(err));
	(void)sigprocmask(SIG_SETMASK, &was, NULL);
	if (rc != 0)
		return ol_cmd_error(rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_FAILED, "export",
				    "--out", err, NULL);
	fprintf(stderr, "%" PRIu64 " parameters of version %" PRIu64 " are in %s\n", count,
		about->version, set->out);
	return 0;
}

static int weights_pull(struct export *export)
{
	struct ol_tensors_about about = { 0 };
	struct ol_op op = { 0 };
	struct ol_job_info info;
	const float *weights;
	int rc = ol_pull(export->observer, OL_PULL_NEWEST, &op);

	if (rc == 0)
		rc = ol_worker_wait(export->observer, &op);
	if (rc == 0)
		rc = op.status;
	if (rc != 0)
		return ol_cmd_error(ol_cmd_exit_of(rc), "export", "the weights cannot be read",
				    NULL, ol_strerror(rc));
	weights = ol_weights(export->observer, &about.version);
	ol_worker_info(export->observer, &info);
	about.epoch = info.epoch;
	about.job = export->set.coord.coordinator != NULL ? export->set.coord.job : NULL;
	about.table = ol_worker_tensors(export->observer);
	return save(export, weights, info.param_count, &about);
}

/* The job's vector, put together from its shards' checkpoints */
struct saved {
	float *weights; /* owned */
	char *table; /* owned, of shard 0; NULL: none */
	struct ol_checkpoint_info first; /* of shard 0 */
	struct ol_tensors_about about; /* the oldest version */
	uint64_t newest; /* version */
};

static int shard_take(struct saved *saved, const struct ol_checkpoint *checkpoint, const char *dir)
{
	struct ol_checkpoint_info info;

	ol_checkpoint_info(checkpoint, &info);
	if (saved->weights == NULL) { /* shard 0 */
		saved->first = info;
		saved->about = (struct ol_tensors_about){ .version = info.version };
		saved->weights = calloc(info.param_count, sizeof(*saved->weights));
		if (ol_checkpoint_tensors(checkpoint) != NULL)
			saved->table = strdup(ol_checkpoint_tensors(checkpoint));
		if (saved->weights == NULL ||
		    (saved->table == NULL && ol_checkpoint_tensors(checkpoint) != NULL))
			return ol_cmd_error(OL_EXIT_RESOURCES, "export",
					    "no memory for the weights", NULL,
					    ol_cmd_remedy(-ENOMEM));
	}
	if (info.param_count != saved->first.param_count ||
	    info.shard_count != saved->first.shard_count)
		return ol_cmd_error(OL_EXIT_FAILED, "export", "--checkpoint", dir,
				    "its shards are of different jobs");
	memcpy(saved->weights + info.shard_first, ol_checkpoint_weights(checkpoint),
	       info.shard_len * sizeof(*saved->weights));
	if (info.version < saved->about.version)
		saved->about.version = info.version;
	if (info.version > saved->newest)
		saved->newest = info.version;
	if (info.epoch > saved->about.epoch)
		saved->about.epoch = info.epoch;
	return 0;
}

static int shards_take(const struct export *export, struct saved *saved)
{
	const char *dir = export->set.checkpoint;
	uint32_t shard = 0;

	do {
		struct ol_checkpoint *checkpoint;
		char err[512] = "";
		int rc = ol_checkpoint_open(dir, saved->first.job_id, shard, &checkpoint, err,
					    sizeof(err));

		if (rc != 0)
			return ol_cmd_error(rc == -ENOMEM ? OL_EXIT_RESOURCES : OL_EXIT_FAILED,
					    "export", "--checkpoint", err, NULL);
		rc = shard_take(saved, checkpoint, dir);
		ol_checkpoint_close(checkpoint);
		if (rc != 0)
			return rc;
	} while (++shard < saved->first.shard_count);
	return 0;
}

static int checkpoints_read(const struct export *export)
{
	struct saved saved = { .weights = NULL };
	int rc = shards_take(export, &saved);

	if (rc == 0 && saved.newest != saved.about.version)
		fprintf(stderr,
			"the shards' newest checkpoints are of versions %" PRIu64 " to %" PRIu64
			"\n",
			saved.about.version, saved.newest);
	saved.about.table = saved.table;
	if (rc == 0)
		rc = save(export, saved.weights, saved.first.param_count, &saved.about);
	free(saved.table);
	free(saved.weights);
	return rc;
}

static int export_start(struct export *export)
{
	int rc;

	ol_log_level_set((enum ol_log_level) export->set.log);
	rc = settings_check(export);
	if (rc == 0 && export->set.checkpoint != NULL)
		return checkpoints_read(export);
	if (rc == 0)
		rc = ol_job_key_read("export", &export->set.key, export->key);
	if (rc == 0)
		rc = observer_open(export);
	return rc != 0 ? rc : weights_pull(export);
}

int cmd_export(int argc, char **argv)
{
	struct export export = {
		.settings = { .cmd = "export",
			      .addresses = "connect",
			      .spec = { .program = "outlast export",
					.purpose =
						"Writes the weights of a job into a file of float32: "
						"one vector, as NumPy's .npy, or the tensors that "
						"the job was begun with (else one, \"weights\"), "
						"as .safetensors. They are read out "
						"of the servers' memory, and the job goes on; or they are those "
						"of its newest checkpoints.",
					.examples = examples } },
	};
	struct ol_settings *settings = &export.settings;
	int rc;

	ol_settings_add(settings, export_rows, 0);
	ol_settings_add(settings, ol_rows_transport, offsetof(struct export_set, transport));
	ol_settings_add(settings, ol_rows_key, offsetof(struct export_set, key));
	ol_settings_add(settings, ol_rows_coord, offsetof(struct export_set, coord));
	if (ol_settings_load(settings, &export.set, argc, argv, &rc))
		rc = export_start(&export);
	ol_worker_close(export.observer);
	ol_settings_fini(settings);
	explicit_bzero(export.key, sizeof(export.key));
	return rc;
}
