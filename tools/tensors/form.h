/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * form.h -- inside the room: what a form of file does, the error line
 */
#ifndef TENSORS_FORM_H
#define TENSORS_FORM_H

#include <stddef.h>
#include <stdint.h>

#include "tensors/tensors.h"

/* Where the error line goes, and which file it names */
struct tensors_line {
	const char *path;
	char *text;
	size_t len;
};

/* An open regular file */
struct tensors_file {
	int fd;
	uint64_t bytes; /* when it was opened */
};

/* Where the floats are in a file, and what they are */
struct tensors_place {
	uint64_t at; /* bytes before them */
	uint64_t count;
	char *table; /* of tensors (outlast_tensor.h), the caller's to free; NULL: the file names none */
	bool says_version;
	uint64_t version; /* UINT64_MAX: no number */
};

struct tensors_form {
	const char *ending; /* of the file's name */
	int (*parse)(const struct tensors_file *file, struct tensors_place *ret_place,
		     const struct tensors_line *err);
	/* The bytes before the floats of a file of one vector; the caller frees them. -ENOMEM */
	int (*header)(uint64_t count, const struct ol_tensors_about *about, char **ret_bytes,
		      size_t *ret_count);
};

extern const struct tensors_form tensors_npy;
extern const struct tensors_form tensors_safetensors;

/* tensors_form_of -- by the end of the path's name; NULL, with a line, if it is none */
const struct tensors_form *tensors_form_of(const struct tensors_line *err);

/* tensors_err -- "path: what" in one line, whatever is in them; returns code */
int tensors_err(const struct tensors_line *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* tensors_read_at -- all of them, or an error: -EBADMSG if the file ends before */
int tensors_read_at(int fd, void *bytes, uint64_t count, uint64_t at,
		    const struct tensors_line *err);

#endif /* TENSORS_FORM_H */
