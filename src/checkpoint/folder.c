/* SPDX-License-Identifier: BSD-3-Clause */

/* folder.c -- find, order and remove the checkpoints of a folder */

#include "checkpoint/folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"

/* An open folder, or the error in its place. It is closed again if others can change what is in it */
static int folder_take(const struct ol_ckpt_backend *ops, int at, struct ol_ckpt_folder *ret_folder,
		       char *why)
{
	int rc;

	why[0] = '\0';
	if (at < 0)
		return at;
	rc = ops->trust(at, why, OL_CKPT_WHY_MAX);
	if (rc != 0) {
		(void)ops->close(at);
		return rc;
	}
	*ret_folder = (struct ol_ckpt_folder){ .ops = ops, .at = at };
	return 0;
}

int ol_ckpt_folder_open(const char *dir, struct ol_ckpt_folder *ret_folder, char *why)
{
	const struct ol_ckpt_backend *ops = ol_ckpt_backend_of(dir);
	int at = strlen(dir) < OL_CKPT_DIR_MAX ? ops->folder_open(dir) : -ENAMETOOLONG;

	return folder_take(ops, at, ret_folder, why);
}

int ol_ckpt_folder_make(const char *dir, struct ol_ckpt_folder *ret_folder, char *why)
{
	const struct ol_ckpt_backend *ops = ol_ckpt_backend_of(dir);
	int at = strlen(dir) < OL_CKPT_DIR_MAX ? ops->folder_make(dir) : -ENAMETOOLONG;

	return folder_take(ops, at, ret_folder, why);
}

void ol_ckpt_folder_close(const struct ol_ckpt_folder *folder)
{
	(void)folder->ops->close(folder->at);
}

/* qsort_r(): the job's own first, then the newest first. */
static int compare(const void *left, const void *right, void *arg)
{
	const struct ol_ckpt_name *a = left, *b = right;
	const uint64_t *job_id = arg;

	if ((a->job_id == *job_id) != (b->job_id == *job_id))
		return a->job_id == *job_id ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch > b->epoch ? -1 : 1;
	if (a->version != b->version)
		return a->version > b->version ? -1 : 1;
	return (a->job_id > b->job_id) - (a->job_id < b->job_id);
}

/* A search, and its findings so far */
struct search {
	uint32_t shard;
	bool running;
	struct ol_ckpt_name *names;
	size_t count;
};

static int append(struct search *search, const struct ol_ckpt_name *name)
{
	size_t count = search->count;

	if ((count & (count - 1)) == 0) { /* full at every power of two, and at the start */
		size_t room = count > 0 ? count * 2 : 1;
		struct ol_ckpt_name *more = reallocarray(search->names, room, sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		search->names = more;
	}
	search->names[search->count++] = *name;
	return 0;
}

static int look(void *arg, const char *text)
{
	struct search *search = arg;
	struct ol_ckpt_name name;

	if (!ol_ckpt_name_parse(text, &name) || name.shard != search->shard ||
	    name.running != search->running)
		return 0;
	return append(search, &name);
}

int ol_ckpt_folder_list(const struct ol_ckpt_folder *folder, uint64_t job_id, uint32_t shard,
			bool running, struct ol_ckpt_name **ret_names, size_t *ret_count)
{
	struct search search = { .shard = shard, .running = running };
	int rc = folder->ops->list(folder->at, look, &search);

	if (rc != 0) {
		free(search.names);
		return rc;
	}
	if (search.count > 1)
		qsort_r(search.names, search.count, sizeof(*search.names), compare, &job_id);
	*ret_names = search.names;
	*ret_count = search.count;
	return 0;
}

static void drop(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name)
{
	char text[OL_CKPT_NAME_MAX];
	int rc;

	ol_ckpt_name_format(name, text);
	rc = folder->ops->remove(folder->at, text);
	if (rc != 0 && rc != -ENOENT)
		ol_log(OL_LOG_WARN, "checkpoint %s: cannot be removed: %s", text,
		       ol_status_str(rc));
	else
		ol_log(OL_LOG_DEBUG, "checkpoint %s: removed", text);
}

void ol_ckpt_folder_sweep(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *last,
			  uint32_t keep)
{
	struct ol_ckpt_name *names = NULL;
	uint32_t others = 0;
	size_t count = 0;
	int rc = ol_ckpt_folder_list(folder, last->job_id, last->shard, last->running, &names,
				     &count);

	if (rc != 0) {
		ol_log(OL_LOG_WARN, "checkpoints of shard %u: old ones stay: %s", last->shard,
		       ol_status_str(rc));
		return;
	}
	for (size_t i = 0; i < count && names[i].job_id == last->job_id; i++) {
		if (names[i].epoch > last->epoch)
			continue;
		if (names[i].temporary)
			drop(folder, &names[i]);
		else if (names[i].epoch == last->epoch && names[i].version == last->version)
			continue;
		else if (others + 1 < keep)
			others++;
		else
			drop(folder, &names[i]);
	}
	free(names);
}
