/* SPDX-License-Identifier: BSD-3-Clause */

/* folder.c -- find, order and remove the checkpoints of a folder */

#include "checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

int ol_ckpt_folder_open(const char *dir)
{
	int fd;

	if (strlen(dir) >= OL_CKPT_DIR_MAX)
		return -ENAMETOOLONG;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
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

static int append(struct ol_ckpt_name **names, size_t *count, const struct ol_ckpt_name *name)
{
	if ((*count & (*count - 1)) == 0) { /* full at every power of two, and at the start */
		size_t room = *count > 0 ? *count * 2 : 1;
		struct ol_ckpt_name *more = reallocarray(*names, room, sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		*names = more;
	}
	(*names)[(*count)++] = *name;
	return 0;
}

int ol_ckpt_folder_list(int dir_fd, uint64_t job_id, uint32_t shard, bool running,
			struct ol_ckpt_name **ret_names, size_t *ret_count)
{
	/* a descriptor of its own: closedir() closes it, and it begins at the folder's start */
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct ol_ckpt_name *names = NULL, name;
	struct dirent *entry;
	size_t count = 0;
	int rc = 0;

	if (stream == NULL) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	for (;;) {
		errno = 0;
		entry = readdir(stream);
		if (entry == NULL) {
			rc = -errno;
			break;
		}
		if (!ol_ckpt_name_parse(entry->d_name, &name) || name.shard != shard ||
		    name.running != running)
			continue;
		rc = append(&names, &count, &name);
		if (rc != 0)
			break;
	}
	closedir(stream);
	if (rc != 0) {
		free(names);
		return rc;
	}
	if (count > 1)
		qsort_r(names, count, sizeof(*names), compare, &job_id);
	*ret_names = names;
	*ret_count = count;
	return 0;
}

static void drop(int dir_fd, const struct ol_ckpt_name *name)
{
	char text[OL_CKPT_NAME_MAX];

	ol_ckpt_name_format(name, text);
	if (unlinkat(dir_fd, text, 0) != 0 && errno != ENOENT)
		ol_log(OL_LOG_WARN, "checkpoint %s: cannot be removed: %s", text,
		       ol_status_str(-errno));
	else
		ol_log(OL_LOG_DEBUG, "checkpoint %s: removed", text);
}

void ol_ckpt_folder_sweep(int dir_fd, const struct ol_ckpt_name *last, uint32_t keep)
{
	struct ol_ckpt_name *names = NULL;
	uint32_t others = 0;
	size_t count = 0;
	int rc = ol_ckpt_folder_list(dir_fd, last->job_id, last->shard, last->running, &names,
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
			drop(dir_fd, &names[i]);
		else if (names[i].epoch == last->epoch && names[i].version == last->version)
			continue;
		else if (others + 1 < keep)
			others++;
		else
			drop(dir_fd, &names[i]);
	}
	free(names);
}
