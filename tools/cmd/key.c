/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * key.c -- the job's key: read, checked, and wiped where it was read from memory
 */
#include "cmd/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"

static const struct ol_conf_field key_fields[] = {
	OL_ROW_STR(
		ol_set_key, job_key_file, NULL,
		"file with the job's key, or with this process's credential (outlast keygen makes "
		"both); without it the variable OUTLAST_JOB_KEY, without that no secret"),
	OL_ROW_BOOL(ol_set_key, job_key_file_shared, "false",
		    "that file may belong to another user, and others may read it: for secrets "
		    "that a container's host mounts"),
};

const struct ol_rows ol_rows_key = OL_ROWS(key_fields);

/* Who else has the key in this open file; 0, or an exit code after an error line */
static int owner_check(const char *cmd, const char *file, int fd)
{
	struct stat stat;
	char why[160];

	if (fstat(fd, &stat) != 0)
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "cannot read the job key", file,
				    strerror(errno));
	if (S_ISDIR(stat.st_mode))
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "cannot read the job key", file,
				    strerror(EISDIR));
	if (stat.st_uid != geteuid() && stat.st_uid != 0)
		snprintf(why, sizeof(why),
			 "it belongs to user %u, who knows the key: give a file of your own, or "
			 "--job-key-file-shared",
			 (unsigned)stat.st_uid);
	else if ((stat.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0)
		snprintf(why, sizeof(why),
			 "other users can %s it (mode %03o): chmod 600, or --job-key-file-shared",
			 (stat.st_mode & (S_IRGRP | S_IROTH)) != 0 ? "read" : "write",
			 (unsigned)stat.st_mode & 0777);
	else
		return 0;
	return ol_cmd_error(OL_EXIT_USAGE, cmd, "the job key is no secret", file, why);
}

/* At most OL_JOB_KEY_MAX bytes; how many, or -1 with errno */
static ssize_t key_fill(int fd, char ret_key[OL_JOB_KEY_MAX])
{
	size_t got = 0;

	while (got < OL_JOB_KEY_MAX) {
		ssize_t more = read(fd, ret_key + got, OL_JOB_KEY_MAX - got);

		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return -1;
		if (more == 0)
			break;
		got += (size_t)more;
	}
	return (ssize_t)got;
}

static int file_read(const char *cmd, const struct ol_set_key *set, char ret_key[OL_JOB_KEY_MAX])
{
	const char *file = set->job_key_file, *fault = NULL;
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY), rc;
	ssize_t got;

	if (fd < 0)
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "cannot read the job key", file,
				    strerror(errno));
	rc = set->job_key_file_shared ? 0 : owner_check(cmd, file, fd);
	if (rc != 0)
		goto out;
	got = key_fill(fd, ret_key);
	if (got < 0) {
		rc = ol_cmd_error(OL_EXIT_USAGE, cmd, "cannot read the job key", file,
				  strerror(errno));
		goto out;
	}
	while (got > 0 && (ret_key[got - 1] == '\n' || ret_key[got - 1] == '\r'))
		got--;
	if (got == 0 || got >= OL_JOB_KEY_MAX || memchr(ret_key, '\0', (size_t)got) != NULL) {
		fault = "it is to hold 1 to 255 bytes of text";
	} else {
		ret_key[got] = '\0';
		fault = ol_key_fault(ret_key);
	}
	if (fault != NULL)
		rc = ol_cmd_error(OL_EXIT_USAGE, cmd, "not a job key", file, fault);
out:
	(void)close(fd);
	return rc;
}

static int variable_read(const char *cmd, char ret_key[OL_JOB_KEY_MAX])
{
	const char *key = getenv(OL_JOB_KEY_VARIABLE), *fault = ol_key_fault(key);

	if (fault != NULL)
		return ol_cmd_error(OL_EXIT_USAGE, cmd, "not a job key", OL_JOB_KEY_VARIABLE,
				    fault);
	snprintf(ret_key, OL_JOB_KEY_MAX, "%s", key != NULL ? key : "");
	return 0;
}

int ol_job_key_read(const char *cmd, const struct ol_set_key *set, char ret_key[OL_JOB_KEY_MAX])
{
	int rc;

	ret_key[0] = '\0';
	rc = set != NULL && set->job_key_file != NULL ? file_read(cmd, set, ret_key)
						      : variable_read(cmd, ret_key);
	ol_key_env_wipe(OL_JOB_KEY_VARIABLE);
	if (rc != 0)
		explicit_bzero(ret_key, OL_JOB_KEY_MAX);
	return rc;
}
