/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * import.c -- `outlast import`: a file of weights becomes checkpoints, with which a job's servers begin
 *
 * The other direction of `outlast export --checkpoint`: between the two the weights may be changed, or
 * merged, and the job may get another number of servers.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/durable.h"
#include "cmd/settings.h"
#include "outlast/first.h"
#include "outlast_server.h"
#include "tensors/tensors.h"

#define MAX_VERSION (UINT64_MAX >> 8) /* ol_checkpoints_open()'s */

struct import_set {
	const char *checkpoint;
	uint64_t version;
	uint32_t servers;
	int optimizer;
	int nonfinite;
	bool force;
	int log;
};

static const struct ol_conf_choice nonfinites[] = { { "reject", 0 }, { "apply", 1 }, { NULL, 0 } };

static const struct ol_conf_field import_fields[] = {
	OL_ROW_GROUP("the job that goes on from it"),
	OL_ROW_STR(import_set, checkpoint, NULL,
		   "folder for the checkpoints, one of each shard; it is made if need be"),
	OL_ROW_U32(import_set, servers, "1", 1, 64, "how many shards, hence servers, it has"),
	OL_ROW_CHOICE(import_set, optimizer, "sgd", ol_optimizers,
		      "its update rule; the state of momentum and Adam begins at zero"),
	OL_ROW_U64(import_set, version, "0", 0, MAX_VERSION,
		   "that the weights are of; where it is not given, the one that a .safetensors "
		   "file of outlast export says, else 0"),
	OL_ROW_GROUP("how"),
	OL_ROW_BOOL(import_set, force, "false",
		    "write beside checkpoints of this job that are there: servers take the new "
		    "ones, whatever their version"),
	OL_ROW_CHOICE(import_set, nonfinite, "reject", nonfinites,
		      "a file with a NaN or an infinity is refused, or taken, for servers with "
		      "the same word"),
	OL_ROW_CHOICE(import_set, log, "error", ol_log_levels,
		      "least important messages that are shown"),
};

static const struct ol_rows import_rows = OL_ROWS(import_fields);

static const char examples[] =
	"  outlast import merged.safetensors --checkpoint ckpt --servers 3 --optimizer adam\n"
	"  outlast serve --params 109386 --servers 3 --shard 0 --optimizer adam --durability "
	"checkpoint --checkpoint dir=ckpt --restore checkpoint --listen 10.0.0.1:7471\n";

/* One run */
struct import {
	struct ol_settings settings;
	struct import_set set;
	struct ol_first_file file;
	struct ol_server_opts opts; /* of the job's servers */
	uint64_t version;
	struct ol_checkpoints *out;
};

/* Exit code of a failure of the checkpoints, which err tells */
static int out_error(int rc, const char *err)
{
	if (rc == -EEXIST)
		return ol_cmd_error(OL_EXIT_USAGE, "import", "--checkpoint", err,
				    "give another folder, or --force");
	return ol_cmd_error(rc == -ENOMEM    ? OL_EXIT_RESOURCES
			    : rc == -EINVAL  ? OL_EXIT_USAGE
			    : rc == -EBADMSG ? OL_EXIT_DATA
					     : OL_EXIT_FAILED,
			    "import", "--checkpoint", err, NULL);
}

static int settings_check(struct import *import)
{
	import->file.path = ol_conf_argument(import->settings.conf, 0);
	if (import->file.path == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "import", "name a file of weights", NULL, NULL);
	if (import->set.checkpoint == NULL)
		return ol_cmd_error(OL_EXIT_USAGE, "import", "give --checkpoint", NULL, NULL);
	import->file.nonfinite = import->set.nonfinite != 0;
	return 0;
}

/* Of --version, or of the file */
static int version_find(struct import *import)
{
	uint64_t said = 0;

	import->version = import->set.version;
	if (ol_conf_is_set(import->settings.conf, "version") ||
	    !ol_tensors_version(import->file.tensors, &said))
		return 0;
	if (said > MAX_VERSION)
		return ol_cmd_error(OL_EXIT_DATA, "import", import->file.what, import->file.path,
				    "its __metadata__ say no version that can be: give --version");
	import->version = said;
	return 0;
}

static int job_make(struct import *import)
{
	const struct import_set *set = &import->set;
	struct ol_server_opts *opts = &import->opts;
	uint64_t first, count;

	ol_server_opts_init(opts);
	opts->checkpoint_dir = set->checkpoint;
	opts->param_count = ol_tensors_count(import->file.tensors);
	opts->tensors = ol_tensors_table(import->file.tensors);
	opts->shard_count = set->servers;
	opts->rule.optimizer = (enum ol_optimizer)set->optimizer;
	opts->rule.allow_nonfinite = set->nonfinite != 0;
	opts->job_id = ol_job_id_vector(opts->param_count, set->optimizer);
	if (ol_shard_span(opts->param_count, set->servers, 0, &first, &count) != 0)
		return ol_settings_fail(&import->settings, "servers",
					"is too many: a server holds at least 1024 parameters");
	return version_find(import);
}

/* The next shard: read, checked, and written under a name that no server reads */
static int shard_add(struct import *import, uint32_t shard)
{
	char err[512] = "";
	uint64_t first, count;
	float *weights;
	int rc, status;

	(void)ol_shard_span(import->opts.param_count, import->opts.shard_count, shard, &first,
			    &count);
	weights = malloc(count * sizeof(*weights));
	if (weights == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "import", "no memory for the weights", NULL,
				    ol_cmd_remedy(-ENOMEM));
	rc = ol_first_file_read(&import->file, first, count, weights);
	if (rc == 0) {
		status = ol_checkpoints_add(import->out, weights, err, sizeof(err));
		rc = status != 0 ? out_error(status, err) : 0;
	}
	free(weights);
	return rc;
}

/* A signal asks to end; it waits until nothing that was begun is left */
static bool is_asked(const sigset_t *asking)
{
	sigset_t pending;

	sigemptyset(&pending);
	(void)sigpending(&pending);
	(void)sigandset(&pending, &pending, asking);
	return !sigisemptyset(&pending);
}

static int shards_write(struct import *import, const sigset_t *asking)
{
	char err[512] = "";
	int rc = ol_checkpoints_open(&import->opts, import->version, import->set.force,
				     &import->out, err, sizeof(err));

	if (rc != 0)
		return out_error(rc, err);
	for (uint32_t shard = 0; shard < import->opts.shard_count; shard++) {
		rc = is_asked(asking) ? OL_EXIT_FAILED : shard_add(import, shard);
		if (rc != 0)
			return rc;
	}
	if (is_asked(asking))
		return OL_EXIT_FAILED;
	rc = ol_checkpoints_commit(import->out, err, sizeof(err));
	return rc != 0 ? out_error(rc, err) : 0;
}

static int checkpoints_write(struct import *import)
{
	sigset_t asking, was;
	int rc;

	ol_cmd_signals_asking(&asking);
	(void)sigprocmask(SIG_BLOCK, &asking, &was);
	rc = shards_write(import, &asking);
	ol_checkpoints_close(import->out);
	import->out = NULL;
	(void)sigprocmask(SIG_SETMASK, &was, NULL); /* here a signal that came ends the process */
	return rc;
}

static void done_say(const struct import *import)
{
	const struct ol_server_opts *opts = &import->opts;
	char optimizer[16];

	ol_settings_text(&import->settings, "optimizer", optimizer, sizeof(optimizer));
	fprintf(stderr,
		"%" PRIu64 " parameters of version %" PRIu64 " are in %s%s. Servers begin with:\n"
		"outlast serve --params %" PRIu64 " --servers %" PRIu32
		" --shard K --optimizer %s%s --durability checkpoint --checkpoint dir=%s "
		"--restore checkpoint\n",
		opts->param_count, import->version, opts->checkpoint_dir,
		opts->rule.optimizer != OL_OPTIMIZER_SGD ? "; the optimizer's state begins at zero"
							 : "",
		opts->param_count, opts->shard_count, optimizer,
		import->set.nonfinite != 0 ? " --nonfinite apply" : "", opts->checkpoint_dir);
}

static int import_start(struct import *import)
{
	int rc = settings_check(import);

	ol_log_level_set((enum ol_log_level)import->set.log);
	if (rc == 0)
		rc = ol_first_file_open(&import->file);
	if (rc == 0)
		rc = job_make(import);
	if (rc == 0)
		rc = checkpoints_write(import);
	if (rc == 0)
		done_say(import);
	return rc;
}

int cmd_import(int argc, char **argv)
{
	struct import import = {
		.settings = { .cmd = "import",
			      .spec = { .program = "outlast import",
					.purpose =
						"Makes checkpoints of a file of weights, .npy or "
						".safetensors, of type float32: one of each shard, "
						"with which outlast serve --restore checkpoint "
						"begins. So a job's weights can be changed or "
						"merged between two runs, and cut for another "
						"number of servers.",
					.arguments = "FILE",
					.arguments_max = 1,
					.examples = examples } },
		.file = { .cmd = "import", .what = "FILE" },
	};
	struct ol_settings *settings = &import.settings;
	int rc;

	ol_settings_add(settings, import_rows, 0);
	if (ol_settings_load(settings, &import.set, argc, argv, &rc))
		rc = import_start(&import);
	ol_tensors_close(import.file.tensors);
	ol_settings_fini(settings);
	return rc;
}
