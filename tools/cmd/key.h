/* SPDX-License-Identifier: BSD-3-Clause */

/* key.h -- where a subcommand has the job's key from: a file, or OUTLAST_JOB_KEY */
#ifndef CMD_KEY_H
#define CMD_KEY_H

#include <stdbool.h>

#include "base/key.h"
#include "cmd/settings.h"

#define OL_JOB_KEY_VARIABLE "OUTLAST_JOB_KEY"

/* For programs started by hand; processes of `train` get the key in their environment. */
struct ol_set_key {
	const char *job_key_file;
	bool job_key_file_shared;
};

extern const struct ol_rows ol_rows_key;

/*
 * ol_job_key_read -- the key in the file, or else in OUTLAST_JOB_KEY; "" if there is neither
 *
 * The file must be the user's or root's, and nobody else's to read or write, unless it is a shared
 * one. The variable is wiped out of the environment, whether it is used or not. set NULL: no file.
 *
 * Returns 0, or an exit code after an error line; then ret_key is "".
 */
int ol_job_key_read(const char *cmd, const struct ol_set_key *set, char ret_key[OL_JOB_KEY_MAX]);

#endif /* CMD_KEY_H */
