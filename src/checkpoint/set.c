/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * set.c -- full checkpoints of all shards of a job, written without a server: ol_checkpoints_open() and
 * what belongs to it
 *
 * Each file is whole and durable under its temporary name before the first one gets its own. So what
 * fails, or is killed, before that leaves no checkpoint of the set: never some of its shards beside
 * older ones of the others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "checkpoint/folder.h"
#include "checkpoint/owner.h"
#include "checkpoint/write.h"
#include "outlast_server.h"
#include "outlast_tensor.h"
#include "store/content.h"
#include "store/kernels.h"
#include "wire/bounds.h"
#include "wire/tensor.h"

struct ol_checkpoints {
	struct ol_ckpt_meta meta; /* but for the shard's place */
	struct ol_ckpt_folder folder;
	struct ol_ckpt_owner owners[OL_SHARDS_MAX];
	char *dir; /* owned */
	char *tensors; /* owned; NULL: none */
	uint32_t owned; /* shards that this process owns the checkpoints of */
	uint32_t drafted; /* shards whose file is there under its temporary name */
	bool is_open; /* the folder */
};

/* Checkpoints that a folder has */
struct found {
	uint64_t job_id;
	uint32_t epoch; /* the highest of this job */
	uint32_t own; /* of this job */
	uint32_t others;
};

static int look(void *arg, const char *text)
{
	struct found *found = arg;
	struct ol_ckpt_name name;

	if (!ol_ckpt_name_parse(text, &name))
		return 0;
	if (name.job_id == found->job_id && name.epoch > found->epoch)
		found->epoch = name.epoch;
	if (name.temporary)
		return 0;
	if (name.job_id == found->job_id)
		found->own++;
	else
		found->others++;
	return 0;
}

static int folder_look(const struct ol_checkpoints *set, struct found *ret_found, char *err,
		       size_t err_bytes)
{
	struct found found = { .job_id = set->meta.job_id };
	int rc = set->folder.ops->list(set->folder.at, look, &found);

	if (rc != 0)
		snprintf(err, err_bytes, "checkpoint folder %s: cannot be read: %s", set->dir,
			 ol_status_str(rc));
	else
		*ret_found = found;
	return rc;
}

/* Another job is one of another length or optimizer: the servers may be about to go on from that one */
static int empty_check(const struct ol_checkpoints *set, bool over, char *err, size_t err_bytes)
{
	struct found found;
	int rc = folder_look(set, &found, err, err_bytes);

	if (rc != 0)
		return rc;
	if (found.others > 0) {
		snprintf(err, err_bytes,
			 "%s has checkpoints of another job, with other parameters or another "
			 "optimizer: give a folder of its own",
			 set->dir);
		return -EINVAL;
	}
	if (found.own == 0 || over)
		return 0;
	snprintf(err, err_bytes, "%s has checkpoints of this job already", set->dir);
	return -EEXIST;
}

/* Servers that run lose the folder before anything is read of it, as to a server that starts. */
static int shards_own(struct ol_checkpoints *set, char *err, size_t err_bytes)
{
	for (; set->owned < set->meta.geo.shard_count; set->owned++) {
		const struct ol_ckpt_name kind = { .job_id = set->meta.job_id,
						   .shard = set->owned };
		int rc = ol_ckpt_owner_take(&set->folder, &kind, &set->owners[set->owned]);

		if (rc == 0)
			continue;
		snprintf(err, err_bytes,
			 "checkpoint folder %s: cannot become the one who writes shard %" PRIu32
			 ": %s%s",
			 set->dir, set->owned, ol_status_str(rc), ol_ckpt_remedy(rc, false));
		return rc;
	}
	return 0;
}

/* Above all that are there: then no restore prefers one of them, whatever the version is */
static int epoch_choose(struct ol_checkpoints *set, char *err, size_t err_bytes)
{
	struct found found;
	int rc = folder_look(set, &found, err, err_bytes);

	if (rc != 0)
		return rc;
	if (found.epoch >= OL_EPOCH_MAX - 1) {
		snprintf(err, err_bytes,
			 "%s has a checkpoint of epoch %" PRIu32
			 ", and none can be later: give another folder",
			 set->dir, found.epoch);
		return -EOVERFLOW;
	}
	set->meta.epoch = found.epoch + 1;
	return 0;
}

static int folder_begin(struct ol_checkpoints *set, bool over, char *err, size_t err_bytes)
{
	char why[OL_CKPT_WHY_MAX];
	int rc = ol_ckpt_folder_make(set->dir, &set->folder, why);

	if (rc != 0) {
		snprintf(err, err_bytes, "checkpoint folder %s: %s%s", set->dir,
			 why[0] != '\0' ? why : ol_status_str(rc),
			 why[0] != '\0' ? "" : ol_ckpt_remedy(rc, false));
		return rc;
	}
	set->is_open = true;
	rc = empty_check(set, over, err, err_bytes);
	if (rc == 0)
		rc = shards_own(set, err, err_bytes);
	return rc != 0 ? rc : epoch_choose(set, err, err_bytes);
}

static int geometry_of(const struct ol_server_opts *opts, uint32_t shard,
		       struct ol_geometry *ret_geo)
{
	struct ol_geometry geo = {
		.param_count = opts->param_count,
		.shard = shard,
		.shard_count = opts->shard_count,
		.workers_max = 1, /* nobody has pushed yet: a server makes room for its own */
		.window = 1,
		.state_vectors = ol_rule_state_vectors(opts->rule.optimizer),
		.consistency = OL_CONSISTENCY_ASYNC,
		.groups = 1,
		.tensors_bytes = ol_tensors_bytes(opts->tensors),
	};
	int rc = ol_shard_span(geo.param_count, geo.shard_count, shard, &geo.shard_first,
			       &geo.shard_len);

	*ret_geo = geo;
	return rc;
}

static int options_check(const struct ol_server_opts *opts, uint64_t version, char *err,
			 size_t err_bytes)
{
	struct ol_geometry geo;
	char why[512];

	if (opts->checkpoint_dir == NULL || ol_rule_name((uint32_t)opts->rule.optimizer) == NULL)
		snprintf(err, err_bytes, "a checkpoint needs checkpoint_dir and rule.optimizer");
	else if (geometry_of(opts, 0, &geo) != 0)
		snprintf(err, err_bytes,
			 "%" PRIu64 " parameters in %" PRIu32
			 " shards: a shard has at least 1024, and there are at most %d",
			 opts->param_count, opts->shard_count, OL_SHARDS_MAX);
	else if (version > OL_VERSION_MAX)
		snprintf(err, err_bytes, "version %" PRIu64 " is above %" PRIu64 ", the highest",
			 version, OL_VERSION_MAX);
	else if (opts->tensors != NULL &&
		 ol_tensor_fault(opts->tensors, opts->param_count, why, sizeof(why)))
		snprintf(err, err_bytes, "%s", why);
	else
		return 0;
	return -EINVAL;
}

static int set_make(const struct ol_server_opts *opts, uint64_t version,
		    struct ol_checkpoints **ret_set)
{
	struct ol_checkpoints *set = calloc(1, sizeof(*set));

	if (set == NULL)
		return -ENOMEM;
	set->dir = strdup(opts->checkpoint_dir);
	if (opts->tensors != NULL)
		set->tensors = strdup(opts->tensors);
	if (set->dir == NULL || (set->tensors == NULL && opts->tensors != NULL)) {
		ol_checkpoints_close(set);
		return -ENOMEM;
	}
	set->meta = (struct ol_ckpt_meta){
		.job_id = opts->job_id,
		.version = version,
		.optimizer = (uint32_t)opts->rule.optimizer,
		.nonfinite = opts->rule.allow_nonfinite != 0,
	};
	(void)geometry_of(opts, 0, &set->meta.geo);
	*ret_set = set;
	return 0;
}

int ol_checkpoints_open(const struct ol_server_opts *opts, uint64_t version, uint32_t over,
			struct ol_checkpoints **ret_set, char *err, size_t err_bytes)
{
	struct ol_server_opts known = { .size = sizeof(known) };
	const char *fault = ol_sized_take(&known, sizeof(known), opts, opts->size);
	struct ol_checkpoints *set = NULL;
	int rc;

	if (fault != NULL) {
		snprintf(err, err_bytes, "server option %s", fault);
		return -EINVAL;
	}
	rc = options_check(&known, version, err, err_bytes);
	if (rc != 0)
		return rc;
	rc = set_make(&known, version, &set);
	if (rc != 0) {
		snprintf(err, err_bytes, "no memory for checkpoints of %s", known.checkpoint_dir);
		return rc;
	}
	rc = folder_begin(set, over != 0, err, err_bytes);
	if (rc != 0) {
		ol_checkpoints_close(set);
		return rc;
	}
	*ret_set = set;
	return 0;
}

/* The identity of one shard's checkpoint */
static struct ol_ckpt_meta meta_of(const struct ol_checkpoints *set, uint32_t shard)
{
	struct ol_ckpt_meta meta = set->meta;

	meta.geo.shard = shard;
	(void)ol_shard_span(meta.geo.param_count, meta.geo.shard_count, shard,
			    &meta.geo.shard_first, &meta.geo.shard_len);
	meta.owner = &set->owners[shard];
	return meta;
}

/*
 * A shard that no worker has pushed to, at this version
 *
 * A server that restores a mirror wants as many gradients as steps in its table. So the steps up to
 * here count as gradients of worker 0, of a process before those to come.
 */
static uint8_t *content_make(const struct ol_checkpoints *set, const struct ol_ckpt_meta *meta,
			     const float *weights)
{
	const struct ol_applied applied = { .grads = meta->version, .earlier = meta->version };
	uint8_t *content = calloc(1, ol_layout_content_bytes(&meta->geo));

	if (content == NULL)
		return NULL;
	memcpy(content + sizeof(struct ol_snapshot_head), &applied, sizeof(applied));
	ol_tensors_put(&meta->geo, content, set->tensors);
	memcpy(content + ol_layout_table_bytes(&meta->geo), weights,
	       meta->geo.shard_len * sizeof(*weights));
	return content;
}

static int draft(const struct ol_checkpoints *set, const struct ol_ckpt_meta *meta,
		 const float *weights, char *why)
{
	const struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	uint8_t *content = content_make(set, meta, weights);
	int rc;

	if (content == NULL)
		return ol_ckpt_failed(why, -ENOMEM, "cannot put it together");
	if (ol_content_fault(&meta->geo, content,
			     (struct ol_content_ask){ .nonfinite = meta->nonfinite }, why,
			     OL_CKPT_WHY_MAX))
		rc = -EBADMSG;
	else
		rc = ol_ckpt_draft(&set->folder, &name, meta, content, why);
	free(content);
	return rc;
}

int ol_checkpoints_add(struct ol_checkpoints *set, const float *weights, char *err,
		       size_t err_bytes)
{
	char why[OL_CKPT_WHY_MAX];
	struct ol_ckpt_meta meta;
	struct ol_ckpt_name name;
	int rc;

	if (set->drafted == set->meta.geo.shard_count) {
		snprintf(err, err_bytes, "all %" PRIu32 " shards are there", set->drafted);
		return -EINVAL;
	}
	meta = meta_of(set, set->drafted);
	name = ol_ckpt_name_of(&meta);
	rc = draft(set, &meta, weights, why);
	if (rc == -EBADMSG)
		snprintf(err, err_bytes, "shard %" PRIu32 ": %s", set->drafted, why);
	else if (rc != 0)
		ol_ckpt_write_say(set->dir, &name, rc, why, err, err_bytes);
	else
		set->drafted++;
	return rc;
}

/* Checkpoints that have their names already, when a later one gets none */
static void names_take_back(const struct ol_checkpoints *set, uint32_t count)
{
	char text[OL_CKPT_NAME_MAX];

	for (uint32_t shard = 0; shard < count; shard++) {
		const struct ol_ckpt_meta meta = meta_of(set, shard);
		const struct ol_ckpt_name name = ol_ckpt_name_of(&meta);

		if (ol_ckpt_owner_enter(meta.owner, &set->folder) != 0)
			continue;
		ol_ckpt_name_format(&name, text);
		(void)set->folder.ops->remove(set->folder.at, text);
		ol_ckpt_owner_leave(meta.owner);
	}
}

int ol_checkpoints_commit(struct ol_checkpoints *set, char *err, size_t err_bytes)
{
	char why[OL_CKPT_WHY_MAX];

	if (set->drafted != set->meta.geo.shard_count) {
		snprintf(err, err_bytes, "%" PRIu32 " of %" PRIu32 " shards are there",
			 set->drafted, set->meta.geo.shard_count);
		return -EINVAL;
	}
	for (uint32_t shard = 0; shard < set->meta.geo.shard_count; shard++) {
		const struct ol_ckpt_meta meta = meta_of(set, shard);
		const struct ol_ckpt_name name = ol_ckpt_name_of(&meta);
		int rc = ol_ckpt_temporary_end(&set->folder, &name, meta.owner, UINT32_MAX, 0, why);

		if (rc == 0)
			continue;
		ol_ckpt_write_say(set->dir, &name, rc, why, err, err_bytes);
		names_take_back(set, shard + 1);
		return rc;
	}
	set->drafted = 0;
	return 0;
}

void ol_checkpoints_close(struct ol_checkpoints *set)
{
	char why[OL_CKPT_WHY_MAX];

	if (set == NULL)
		return;
	for (uint32_t shard = 0; shard < set->drafted; shard++) {
		const struct ol_ckpt_meta meta = meta_of(set, shard);
		const struct ol_ckpt_name name = ol_ckpt_name_of(&meta);

		(void)ol_ckpt_temporary_end(&set->folder, &name, meta.owner, 0, -ECANCELED, why);
	}
	for (uint32_t shard = 0; shard < set->owned; shard++)
		ol_ckpt_owner_drop(&set->owners[shard]);
	if (set->is_open)
		ol_ckpt_folder_close(&set->folder);
	free(set->tensors);
	free(set->dir);
	free(set);
}
