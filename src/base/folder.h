/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- a private folder of this process, in memory if possible
 *
 * It lies in the first of $XDG_RUNTIME_DIR, /dev/shm, $TMPDIR, /tmp that is writable. It is locked
 * while the process lives. A killed process leaves its folder behind; the next process that makes a
 * folder with the same prefix removes it.
 */
#ifndef OL_BASE_FOLDER_H
#define OL_BASE_FOLDER_H

enum {
	OL_FOLDER_MAX = 96, /* of a path, with its end */
};

struct ol_folder {
	char path[OL_FOLDER_MAX];
	int fd; /* the lock; -1: there is no folder */
};

/* ol_folder_make -- PREFIX and some letters; 0 or -errno */
int ol_folder_make(struct ol_folder *folder, const char *prefix);
/* ol_folder_drop -- remove it with its content; no effect if there is none */
void ol_folder_drop(struct ol_folder *folder);

#endif /* OL_BASE_FOLDER_H */
