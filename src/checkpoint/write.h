/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * write.h -- what writing a file takes, whichever kind of checkpoint it is
 *
 * why: at least OL_CKPT_WHY_MAX; what failed, for people.
 */
#ifndef OL_CHECKPOINT_WRITE_H
#define OL_CHECKPOINT_WRITE_H

#include "checkpoint/format.h"
#include "checkpoint/owner.h"

/*
 * As in struct ol_ckpt_backend. ol_ckpt_sync_data: without what only says when; of bytes whose
 * places a file has already
 */
int ol_ckpt_write_at(const struct ol_ckpt_file *file, const void *bytes, size_t count,
		     uint64_t off);
int ol_ckpt_sync_data(const struct ol_ckpt_file *file);

/* ol_ckpt_failed -- say what failed; returns rc */
int ol_ckpt_failed(char *why, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ol_ckpt_remedy -- what to do about it: "; make room, …", or "". A running checkpoint is one
 * file. */
const char *ol_ckpt_remedy(int rc, bool is_running);

/* ol_ckpt_enter -- ol_ckpt_owner_enter(), with what is wrong */
int ol_ckpt_enter(const struct ol_ckpt_owner *owner, const struct ol_ckpt_folder *folder,
		  char *why);

/*
 * ol_ckpt_temporary_make -- an empty file under the temporary form of a name; -errno
 *
 * ol_ckpt_temporary_end -- rc 0: it gets its name, durably, and all but `keep` are swept; else, or
 * if that fails, it is removed. Returns rc, or why it has not got it.
 *
 * OL_E_FENCED: the folder is another's, and was left alone.
 */
int ol_ckpt_temporary_make(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			   const struct ol_ckpt_owner *owner, struct ol_ckpt_file *ret_file,
			   char *why);
int ol_ckpt_temporary_end(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			  const struct ol_ckpt_owner *owner, uint32_t keep, int rc, char *why);

#endif /* OL_CHECKPOINT_WRITE_H */
