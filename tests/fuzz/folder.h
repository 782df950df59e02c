/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- a folder of files in memory, for code that opens files by their names
 *
 * One a process, until it ends. A failure ends the process.
 */
#ifndef OL_TESTS_FUZZ_FOLDER_H
#define OL_TESTS_FUZZ_FOLDER_H

#include <stddef.h>
#include <stdint.h>

enum {
	FOLDER_FILES_MAX = 4
};

/* folder_make -- the path of a new folder with these empty files; again: the same one */
const char *folder_make(const char *const names[], unsigned count);

/* folder_write -- all that file `which` holds from now on */
void folder_write(unsigned which, const void *data, size_t bytes);

#endif /* OL_TESTS_FUZZ_FOLDER_H */
