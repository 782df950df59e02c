/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * save.c -- a file of weights, written: under its name it is whole or not there
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensors/form.h"

enum {
	PART_MAX = 1 << 30, /* bytes of one call of the system */
	TRIES_MAX = 100 /* names that may be taken by what killed processes left */
};

/* A file in the making */
struct making {
	const struct tensors_line *err;
	int folder;
	int fd; /* -1: none */
	const char *name; /* in the folder */
	char temporary[NAME_MAX + 1];
};

/* The folder of a path, opened, and the name in it */
static int folder_open(const struct tensors_line *err, struct making *ret_making)
{
	const char *slash = strrchr(err->path, '/');
	const char *name = slash != NULL ? slash + 1 : err->path;
	char folder[PATH_MAX] = ".";
	int fd;

	if (slash != NULL)
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - err->path + 1), err->path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return tensors_err(err, -errno, "its folder cannot be opened: %s", strerror(errno));
	*ret_making = (struct making){ .err = err, .folder = fd, .fd = -1, .name = name };
	return 0;
}

/* What is there under the name may be replaced, or nothing is there. */
static int place_check(const struct making *making, bool force)
{
	const struct tensors_line *err = making->err;
	struct stat st;

	if (fstatat(making->folder, making->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno == ENOENT)
			return 0;
		return tensors_err(err, -errno, "cannot be looked at: %s", strerror(errno));
	}
	if (!S_ISREG(st.st_mode))
		return tensors_err(err, -EINVAL,
				   "is there, and no regular file: give another name");
	if (!force)
		return tensors_err(err, -EEXIST, "is there: give another name, or --force");
	return 0;
}

static int temporary_make(struct making *making)
{
	for (unsigned i = 0; i < TRIES_MAX; i++) {
		int len = snprintf(making->temporary, sizeof(making->temporary), ".%s.%ld-%u",
				   making->name, (long)getpid(), i);

		if (len < 0 || (size_t)len >= sizeof(making->temporary))
			return tensors_err(making->err, -ENAMETOOLONG,
					   "its name is too long: give a shorter one");
		making->fd = openat(making->folder, making->temporary,
				    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (making->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return tensors_err(making->err, -errno, "no file can be made beside it: %s",
			   strerror(errno));
}

static int write_all(const struct making *making, const void *bytes, uint64_t count)
{
	const char *from = bytes;

	while (count > 0) {
		ssize_t put = write(making->fd, from, count < PART_MAX ? count : PART_MAX);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return tensors_err(making->err, -errno, "cannot be written: %s",
					   strerror(errno));
		from += put;
		count -= (uint64_t)put;
	}
	return 0;
}

static int fill(const struct making *making, const struct tensors_form *form, const float *floats,
		uint64_t count, const struct ol_tensors_about *about)
{
	char *header;
	size_t bytes;
	int rc = form->header(count, about, &header, &bytes);

	if (rc != 0)
		return tensors_err(making->err, rc, "no memory for its header");
	rc = write_all(making, header, bytes);
	free(header);
	if (rc == 0)
		rc = write_all(making, floats, count * sizeof(*floats));
	if (rc == 0 && fsync(making->fd) != 0)
		rc = tensors_err(making->err, -errno, "cannot be made durable: %s",
				 strerror(errno));
	return rc;
}

/* Without `force` a file that came meanwhile stays: a link is made, which replaces none. */
static int name_give(struct making *making, bool force)
{
	int rc = force ? renameat(making->folder, making->temporary, making->folder, making->name)
		       : linkat(making->folder, making->temporary, making->folder, making->name, 0);

	if (rc != 0 && !force && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)) {
		/* a file system without links */
		rc = place_check(making, false);
		if (rc != 0)
			return rc;
		rc = renameat(making->folder, making->temporary, making->folder, making->name);
	}
	if (rc != 0)
		return tensors_err(making->err, -errno, "cannot be given its name: %s",
				   strerror(errno));
	(void)unlinkat(making->folder, making->temporary, 0); /* after a rename it is gone */
	if (fsync(making->folder) != 0)
		return tensors_err(making->err, -errno, "its folder cannot be made durable: %s",
				   strerror(errno));
	return 0;
}

int ol_tensors_may_save(const char *path, bool force, char *err, size_t err_bytes)
{
	const struct tensors_line line = { .path = path, .text = err, .len = err_bytes };
	struct making making;
	int rc;

	if (tensors_form_of(&line) == NULL)
		return -EINVAL;
	rc = folder_open(&line, &making);
	if (rc != 0)
		return rc;
	rc = place_check(&making, force);
	if (rc == 0 && faccessat(making.folder, ".", W_OK | X_OK, AT_EACCESS) != 0)
		rc = tensors_err(&line, -errno, "its folder cannot be written: %s",
				 strerror(errno));
	close(making.folder);
	return rc;
}

int ol_tensors_save(const char *path, bool force, const float *floats, uint64_t count,
		    const struct ol_tensors_about *about, char *err, size_t err_bytes)
{
	const struct tensors_line line = { .path = path, .text = err, .len = err_bytes };
	const struct tensors_form *form = tensors_form_of(&line);
	struct making making;
	int rc;

	if (form == NULL)
		return -EINVAL;
	rc = folder_open(&line, &making);
	if (rc != 0)
		return rc;
	rc = place_check(&making, force);
	if (rc == 0)
		rc = temporary_make(&making);
	if (rc == 0)
		rc = fill(&making, form, floats, count, about);
	if (making.fd >= 0 && close(making.fd) != 0 && rc == 0)
		rc = tensors_err(&line, -errno, "cannot be written: %s", strerror(errno));
	if (rc == 0)
		rc = name_give(&making, force);
	if (rc != 0 && making.fd >= 0)
		(void)unlinkat(making.folder, making.temporary, 0);
	close(making.folder);
	return rc;
}
