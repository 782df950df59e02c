/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * keygen.c -- `outlast keygen`: a new key for a job
 *
 * 256 bits of the system's randomness as 64 hexadecimal digits: to standard output, or into a new
 * file that is its owner's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "cmd/cmd.h"
#include "cmd/settings.h"

enum {
	KEY_BYTES = 32,
	LINE_BYTES = 2 * KEY_BYTES + 1 /* with the line's end */
};

struct keygen_set {
	const char *out;
};

static const struct ol_conf_field fields[] = {
	OL_ROW_STR(keygen_set, out, NULL,
		   "write the key into this file, which must not be there yet; nobody else may "
		   "read it (mode 600). Without it, to standard output"),
};

/* One line of hexadecimal digits; 0, or an exit code after an error line */
static int line_draw(char ret_line[LINE_BYTES])
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
	ret_line[LINE_BYTES - 1] = '\n';
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

/* A new file, whole and durable, or none. O_EXCL: no key is written over, no link is followed */
static int file_write(const char *path, const char line[LINE_BYTES])
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;

	if (fd < 0)
		return ol_cmd_error(OL_EXIT_USAGE, "keygen", "cannot make the key's file", path,
				    errno == EEXIST ? "it is there already, and no key is written "
						      "over: give another name"
						    : strerror(errno));
	errno = EIO; /* of a write that takes a part only */
	if (fchmod(fd, 0600) != 0 || write(fd, line, LINE_BYTES) != LINE_BYTES || fsync(fd) != 0)
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
	char line[LINE_BYTES];
	int rc = line_draw(line);

	if (rc == 0 && set->out != NULL)
		rc = file_write(set->out, line);
	else if (rc == 0)
		(void)fwrite(line, 1, sizeof(line), stdout); /* main() looks for errors */
	explicit_bzero(line, sizeof(line));
	return rc;
}

int cmd_keygen(int argc, char **argv)
{
	struct ol_settings settings = {
		.cmd = "keygen",
		.spec = { .program = "outlast keygen",
			  .purpose = "Makes a key for a job: 256 random bits, as 64 hexadecimal "
				     "digits. Every process of the job is to have the same one; "
				     "whoever has it can join.",
			  .examples =
				  "  outlast keygen --out job.key\n"
				  "  outlast serve --listen 10.0.0.1:7471 --job-key-file job.key\n"
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
