/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * keygen.c -- `outlast keygen`: a new key for a job, or a credential out of one
 *
 * 256 bits of the system's randomness as 64 hexadecimal digits, or what ol_credential() derives: to
 * standard output, or into a new file that is its owner's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/key.h"
#include "cmd/cmd.h"
#include "cmd/key.h"
#include "cmd/settings.h"
#include "outlast.h"

enum {
	KEY_BYTES = 32,
	LINE_MAX_BYTES = OL_CREDENTIAL_MAX + 1, /* with the line's end */
	NO_WORKER = 1024, /* one more than the largest id of a job */
};

struct keygen_set {
	const char *from;
	uint32_t worker;
	bool server;
	bool observer;
	const char *out;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_STR(keygen_set, from, NULL,
		   "derive a credential from the key in this file: say whose, by one of the next "
		   "three"),
	OL_ROW_U32(keygen_set, worker, "1024", 0, NO_WORKER,
		   "id of a worker, which can push, pull and look with it, as that worker alone; "
		   "1024: none"),
	OL_ROW_BOOL(keygen_set, observer, "false", "an observer, which can look (outlast stat)"),
	OL_ROW_BOOL(keygen_set, server, "false",
		    "the servers, which can do all, but from which the job's key cannot be found"),
	OL_ROW_STR(keygen_set, out, NULL,
		   "write the key into this file, which must not be there yet; nobody else may "
		   "read it (mode 600). Without it, to standard output"),
};

/* Hexadecimal digits; 0, or an exit code after an error line */
static int key_draw(char ret_line[LINE_MAX_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bytes[KEY_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return ol_cmd_error(OL_EXIT_RESOURCES, "keygen", "no random bytes", NULL,
				    strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		ret_line[2 * i] = digits[bytes[i] >> 4];
		ret_line[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_line[2 * sizeof(bytes)] = '\0';
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

/* A credential of whom the settings name; 0, or an exit code after an error line */
static int credential_derive(const struct keygen_set *set, char ret_line[LINE_MAX_BYTES])
{
	const enum ol_holder holder = set->server     ? OL_HOLDER_JOB
				      : set->observer ? OL_HOLDER_OBSERVER
						      : OL_HOLDER_WORKER;
	const uint32_t worker = holder == OL_HOLDER_WORKER ? set->worker : 0;
	const struct ol_set_key from = { .job_key_file = set->from };
	char key[OL_JOB_KEY_MAX];
	int rc = ol_job_key_read("keygen", &from, key);

	if (rc != 0)
		return rc;
	rc = ol_credential(key, holder, worker, ret_line);
	explicit_bzero(key, sizeof(key));
	if (rc == 0)
		return 0;
	return ol_cmd_error(OL_EXIT_USAGE, "keygen", "no credential can be derived from", set->from,
			    rc == -EPERM ? "it is a worker's or an observer's credential: give the "
					   "job's key or the servers' credential"
					 : ol_strerror(rc));
}

/* Exactly one holder goes with --from, and none without it. */
static int whose_check(const struct keygen_set *set)
{
	const int holders = (set->worker != NO_WORKER) + set->observer + set->server;

	if (holders == (set->from != NULL))
		return 0;
	return ol_cmd_error(OL_EXIT_USAGE, "keygen", "whose credential?", NULL,
			    set->from != NULL
				    ? "give one of --worker ID, --observer and --server"
				    : "--worker, --observer and --server go with --from FILE, the "
				      "key that it is derived from");
}

/* A new file, whole and durable, or none. O_EXCL: no key is written over, no link is followed */
static int file_write(const char *path, const char *line)
{
	const ssize_t bytes = (ssize_t)strlen(line);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;

	if (fd < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "keygen", "cannot make the key's file", path,
				    errno == EEXIST ? "it is there already, and no key is written "
						      "over: give another name"
						    : strerror(errno));
	errno = EIO; /* of a write that takes a part only */
	if (fchmod(fd, 0600) != 0 || write(fd, line, (size_t)bytes) != bytes || fsync(fd) != 0)
		rc = errno;
	if (close(fd) != 0 && rc == 0)
		rc = errno;
	if (rc == 0)
		return 0;
	(void)unlink(path);
	return ol_cmd_error(OL_EXIT_FAILED, "keygen", "cannot write the key's file", path,
			    strerror(rc));
}

static int keygen(const struct keygen_set *set)
{
	char line[LINE_MAX_BYTES];
	int rc = whose_check(set);

	if (rc == 0)
		rc = set->from != NULL ? credential_derive(set, line) : key_draw(line);
	if (rc == 0)
		memcpy(line + strlen(line), "\n", 2);
	if (rc == 0 && set->out != NULL)
		rc = file_write(set->out, line);
	else if (rc == 0)
		(void)fputs(line, stdout); /* main() looks for errors */
	explicit_bzero(line, sizeof(line));
	return rc;
}

int cmd_keygen(int argc, char **argv)
{
	struct ol_settings settings = {
		.cmd = "keygen",
		.spec = { .program = "outlast keygen",
			  .purpose = "Makes a key for a job: 256 random bits, as 64 hexadecimal "
				     "digits. Whoever has it can be anything in the job. Or "
				     "derives a credential from it, which goes wherever a key "
				     "goes, for a process that is to be less.",
			  .examples =
				  "  outlast keygen --out job.key\n"
				  "  outlast serve --listen 10.0.0.1:7471 --job-key-file job.key\n"
				  "  outlast keygen --from job.key --worker 3 --out worker3.key\n"
				  "  outlast work --id 3 --connect 10.0.0.1:7471 --job-key-file "
				  "worker3.key\n"
				  "  OUTLAST_JOB_KEY=$(outlast keygen) outlast train --durability "
				  "chain\n" }
	};
	struct keygen_set set;
	int rc;

	ol_settings_add(&settings, (struct ol_rows)OL_ROWS(fields), 0);
	if (ol_settings_load(&settings, &set, argc, argv, &rc))
		rc = keygen(&set);
	ol_settings_fini(&settings);
	return rc;
}
