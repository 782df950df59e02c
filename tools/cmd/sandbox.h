/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sandbox.h -- give up, for good, what a server never needs once it is set up
 *
 * A fault that lets a peer run code in the process then finds no way to start programs, to look into
 * other processes, to change the system, or to write files other than those of the named folders.
 * Reading files stays as it is.
 */
#ifndef CMD_SANDBOX_H
#define CMD_SANDBOX_H

#include <stdbool.h>

enum {
	OL_SANDBOX_FOLDERS = 8
};

/* What of it holds now */
struct ol_sandbox {
	bool calls; /* seccomp: system calls that are refused */
	int landlock; /* its version: files are written in the folders alone. 0: the kernel has none, or the
			 first, which lets no file be linked from one folder to another */
};

/*
 * ol_sandbox_enter -- of this process, with all its threads as far as calls go; files: of this thread and
 * those that it makes from now on, so enter before any is made that writes files
 *
 * folders: NULL behind the last; one that is not there is left out. A kernel without
 * landlock is no error.
 *
 * Errors: -errno, and then nothing is promised: the caller ends
 */
int ol_sandbox_enter(const char *const folders[OL_SANDBOX_FOLDERS], struct ol_sandbox *ret_sandbox);

#endif /* CMD_SANDBOX_H */
