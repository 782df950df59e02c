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
 * ol_ckpt_sync -- fsync; 0 or -errno
 * ol_ckpt_sync_data -- the same without what only says when: of bytes whose places a file has
 * already
 */
int ol_ckpt_sync(int fd);
int ol_ckpt_sync_data(int fd);

/* ol_ckpt_failed -- say what failed; returns rc */
int ol_ckpt_failed(char *why, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ol_ckpt_remedy -- what to do about it: "; make room, …", or "". A running checkpoint is one
 * file. */
const char *ol_ckpt_remedy(int rc, bool is_running);

/* ol_ckpt_enter -- ol_ckpt_owner_enter(), with what is wrong */
int ol_ckpt_enter(const struct ol_ckpt_owner *owner, int dir_fd, char *why);

/*
 * ol_ckpt_temporary_make -- an empty file under the temporary form of a name; a descriptor or
 * -errno
 *
 * ol_ckpt_temporary_end -- rc 0: it gets its name, durably, and all but `keep` are swept; else, or
 * if that fails, it is removed. Returns rc, or why it has not got it.
 *
 * OL_E_FENCED: the folder is another's, and was left alone.
 */
int ol_ckpt_temporary_make(int dir_fd, const struct ol_ckpt_name *name,
			   const struct ol_ckpt_owner *owner, char *why);
int ol_ckpt_temporary_end(int dir_fd, const struct ol_ckpt_name *name,
			  const struct ol_ckpt_owner *owner, uint32_t keep, int rc, char *why);

#endif /* OL_CHECKPOINT_WRITE_H */
