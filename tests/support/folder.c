/* SPDX-License-Identifier: BSD-3-Clause */

/* folder.c -- removes a folder with its content; links are not followed */

#include "support/folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>

enum {
	FDS_MAX = 8
};

static int entry_drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int folder_drop(const char *path)
{
	int rc = nftw(path, entry_drop, FDS_MAX, FTW_DEPTH | FTW_PHYS);

	return rc != 0 && errno == ENOENT ? 0 : rc;
}
