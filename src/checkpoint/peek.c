/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peek.c -- a checkpoint read without a server: ol_checkpoint_open() and what belongs to it
 *
 * A server knows its job and its shard's size. Here the file says both, and what it says must fit itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sized.h"
#include "base/status.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "outlast_server.h"
#include "wire/tensor.h"

struct ol_checkpoint {
	struct ol_checkpoint_info info;
	uint8_t *content; /* owned */
	const float *weights; /* in it */
	const char *tensors; /* in it; NULL: none */
};

/* A search in a folder */
struct peek {
	const char *dir;
	struct ol_ckpt_folder folder;
	struct ol_ckpt_name *names; /* owned */
	size_t count;
	char *err;
	size_t err_bytes;
};

static int file_take(const struct ol_ckpt_file *file, const struct ol_ckpt_name *name,
		     struct ol_checkpoint *checkpoint, char *why)
{
	/* whether the job allows values that are not finite, its servers know */
	struct ol_ckpt_meta meta = { .nonfinite = true };
	struct ol_ckpt_header header;
	int rc = ol_ckpt_load_header(file, &header, why);

	if (rc != 0)
		return rc;
	if (header.job_id != name->job_id || header.epoch != name->epoch ||
	    header.version != name->version || header.shard != name->shard) {
		snprintf(why, OL_CKPT_WHY_MAX, "header: it is not what its name says");
		return OL_E_NO_CHECKPOINT;
	}
	meta.geo = ol_ckpt_header_geo(&header);
	rc = ol_ckpt_load_content(file, &header, &checkpoint->content, why);
	if (rc != 0)
		return rc;
	if (!ol_ckpt_content_sound(&meta.geo, &meta, checkpoint->content, why)) {
		free(checkpoint->content);
		checkpoint->content = NULL;
		return OL_E_NO_CHECKPOINT;
	}
	checkpoint->weights = (const float *)(const void *)(checkpoint->content +
							    ol_layout_table_bytes(&meta.geo));
	checkpoint->tensors = ol_tensors_of(&meta.geo, checkpoint->content);
	checkpoint->info = (struct ol_checkpoint_info){ .job_id = header.job_id,
							.version = header.version,
							.param_count = header.param_count,
							.shard_first = header.shard_first,
							.shard_len = header.shard_len,
							.epoch = header.epoch,
							.shard_count = header.shard_count };
	return 0;
}

/* The newest that is whole; each that is passed over is logged */
static int newest_take(struct peek *peek, struct ol_checkpoint *checkpoint)
{
	char text[OL_CKPT_NAME_MAX], why[OL_CKPT_WHY_MAX] = "";
	int rc = OL_E_NO_CHECKPOINT;

	for (size_t i = 0; i < peek->count && rc == OL_E_NO_CHECKPOINT; i++) {
		struct ol_ckpt_file file;

		rc = ol_ckpt_load_open(&peek->folder, &peek->names[i], &file, why);
		if (rc == 0) {
			rc = file_take(&file, &peek->names[i], checkpoint, why);
			(void)file.ops->close(file.at);
		}
		if (rc == 0)
			return 0;
		ol_ckpt_name_format(&peek->names[i], text);
		ol_ckpt_say_unused("checkpoint", text, peek->dir, rc, why);
		snprintf(peek->err, peek->err_bytes, "%s in %s: %s", text, peek->dir, why);
	}
	return rc;
}

/* Keep the names of whole checkpoints of the job; with job_id 0 that is the only one there. */
static int names_choose(struct peek *peek, uint64_t job_id, uint32_t shard)
{
	size_t kept = 0;

	for (size_t i = 0; i < peek->count; i++) {
		const struct ol_ckpt_name *name = &peek->names[i];

		if (name->temporary || (job_id != 0 && name->job_id != job_id))
			continue;
		if (kept > 0 && name->job_id != peek->names[0].job_id) {
			snprintf(peek->err, peek->err_bytes,
				 "%s has checkpoints of several jobs, such as %016" PRIx64
				 " and %016" PRIx64 ": move those of one to a folder of their own",
				 peek->dir, peek->names[0].job_id, name->job_id);
			return -EINVAL;
		}
		peek->names[kept++] = *name;
	}
	peek->count = kept;
	if (kept > 0)
		return 0;
	snprintf(peek->err, peek->err_bytes,
		 "%s has no full checkpoint of shard %" PRIu32
		 "; a running one (run-...) is put together by a server that restores it",
		 peek->dir, shard);
	return -ENOENT;
}

static int peek_run(struct peek *peek, uint64_t job_id, uint32_t shard,
		    struct ol_checkpoint *checkpoint)
{
	char why[OL_CKPT_WHY_MAX] = "";
	int rc = ol_ckpt_folder_open(peek->dir, &peek->folder, why);

	if (rc != 0) {
		snprintf(peek->err, peek->err_bytes, "checkpoint folder %s: %s", peek->dir,
			 why[0] != '\0' ? why : ol_status_str(rc));
		return rc;
	}
	rc = ol_ckpt_folder_list(&peek->folder, job_id, shard, false, &peek->names, &peek->count);
	if (rc != 0)
		snprintf(peek->err, peek->err_bytes, "checkpoint folder %s: cannot be read: %s",
			 peek->dir, ol_status_str(rc));
	if (rc == 0)
		rc = names_choose(peek, job_id, shard);
	if (rc == 0)
		rc = newest_take(peek, checkpoint);
	free(peek->names);
	ol_ckpt_folder_close(&peek->folder);
	return rc;
}

int ol_checkpoint_open(const char *dir, uint64_t job_id, uint32_t shard,
		       struct ol_checkpoint **ret_checkpoint, char *err, size_t err_bytes)
{
	struct ol_checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));
	struct peek peek = { .dir = dir, .err = err, .err_bytes = err_bytes };
	int rc;

	if (checkpoint == NULL) {
		snprintf(err, err_bytes, "no memory for a checkpoint of %s", dir);
		return -ENOMEM;
	}
	rc = peek_run(&peek, job_id, shard, checkpoint);
	if (rc != 0) {
		free(checkpoint);
		return rc;
	}
	*ret_checkpoint = checkpoint;
	return 0;
}

void ol_checkpoint_info_sized(const struct ol_checkpoint *checkpoint,
			      struct ol_checkpoint_info *ret_info, size_t info_bytes)
{
	ol_sized_give(ret_info, info_bytes, &checkpoint->info, sizeof(checkpoint->info));
}

const float *ol_checkpoint_weights(const struct ol_checkpoint *checkpoint)
{
	return checkpoint->weights;
}

const char *ol_checkpoint_tensors(const struct ol_checkpoint *checkpoint)
{
	return checkpoint->tensors;
}

void ol_checkpoint_close(struct ol_checkpoint *checkpoint)
{
	if (checkpoint == NULL)
		return;
	free(checkpoint->content);
	free(checkpoint);
}
