/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- a folder of this process alone, in memory where the machine has room for it there
 *
 * $XDG_RUNTIME_DIR, /dev/shm, $TMPDIR, /tmp: the first that can be written into. The folder is
 * locked for as long as the process lives. What a process left behind that was killed is removed by
 * the next one that makes a folder of the same prefix.
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
/* ol_folder_drop -- with all that is in it; nothing if there is none */
void ol_folder_drop(struct ol_folder *folder);

#endif /* OL_BASE_FOLDER_H */
