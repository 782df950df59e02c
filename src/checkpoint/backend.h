/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * backend.h -- a table of file operations for one kind of storage of checkpoints
 *
 * A back end is a folder below this one, and a line in OL_CKPT_BACKEND_MAP. Nothing else in the room calls
 * the system on a file. Folders, files and locks are numbers of the back end, not below 0. Every
 * call returns 0, its result, or -errno; none is interrupted by a signal.
 */
#ifndef OL_CHECKPOINT_BACKEND_H
#define OL_CHECKPOINT_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called for each name of a folder. A result other than 0 ends the list, and is returned */
typedef int ol_ckpt_each_fn(void *arg, const char *name);

struct ol_ckpt_backend {
	const char *scheme; /* the beginning of its folders' names; "": any name */

	/* A folder */
	int (*folder_open)(const char *dir);
	int (*folder_make)(const char *dir); /* it may be there already; a new one is this user's
						alone. It is durable, and can be written as far as
						one can tell */
	int (*list)(int folder, ol_ckpt_each_fn *each, void *arg);
	int (*rename)(int folder, const char *from, const char *to); /* in place of what has it */
	int (*remove)(int folder, const char *name); /* -ENOENT */

	/* A file, given out by number. What is made is this user's alone to read and to write */
	int (*create)(int folder, const char *name); /* to write; -EEXIST */
	int (*open)(int folder, const char *name); /* to read; never waits for another process;
						      -ELOOP: a link, which is not followed */
	int (*size)(int file, uint64_t *ret_bytes); /* -ENODEV: it is none that holds bytes */
	int (*read_at)(int file, void *bytes, size_t count, uint64_t off); /* all of them;
									      -ENODATA: it ends
									      before */
	int (*write_at)(int file, const void *bytes, size_t count, uint64_t off); /* all */
	int (*reserve)(int file, uint64_t bytes); /* room for so many: no later write lacks it */
	bool (*is_there)(int file, uint64_t bytes); /* so many of them; it was not cut, removed, or
						       replaced by another */
	int (*sync_data)(int file); /* of a file whose places and length stay */

	/* Either */
	int (*trust)(int folder_or_file, char *why, size_t why_bytes); /* -EPERM, with the reason
									  and the remedy: another
									  user can change it */
	int (*sync)(int folder_or_file);
	int (*close)(int folder_or_file);

	/* Whose a name is, as owner.h has it. take: returns a lock, which close() gives back */
	int (*take)(int folder, const char *name);
	int (*enter)(int folder, const char *name, int lock); /* OL_E_FENCED */
	void (*leave)(int lock);
};

/* ol_ckpt_backend_of -- of a folder by its name; never NULL */
const struct ol_ckpt_backend *ol_ckpt_backend_of(const char *dir);

/* One line each, once. The first whose scheme fits has the folder; the last takes every name. */
#define OL_CKPT_BACKEND_MAP(X) X(ol_ckpt_files) /* files/: a file system */

#define X(backend) extern const struct ol_ckpt_backend backend;
OL_CKPT_BACKEND_MAP(X)
#undef X

struct ol_ckpt_folder {
	const struct ol_ckpt_backend *ops;
	int at;
};

struct ol_ckpt_file {
	const struct ol_ckpt_backend *ops;
	int at; /* -1: none */
};

#endif /* OL_CHECKPOINT_BACKEND_H */
