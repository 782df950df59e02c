/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * write.h -- writing files, shared by both kinds of checkpoints
 *
 * why: at least OL_CKPT_WHY_MAX; the failure, for people.
 */
#ifndef OL_CHECKPOINT_WRITE_H
#define OL_CHECKPOINT_WRITE_H

#include "checkpoint/format.h"
#include "checkpoint/owner.h"

/*
 * As in struct ol_ckpt_backend. ol_ckpt_sync_data: only for bytes that the file has room for already;
 * time stamps are not synced
 */
int ol_ckpt_write_at(const struct ol_ckpt_file *file, const void *bytes, size_t count,
		     uint64_t off);
int ol_ckpt_sync_data(const struct ol_ckpt_file *file);

/* ol_ckpt_failed -- describe the failure; returns rc */
int ol_ckpt_failed(char *why, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ol_ckpt_folder_reach -- as ol_ckpt_folder_open(), with why for the line of a failed write */
int ol_ckpt_folder_reach(const char *dir, struct ol_ckpt_folder *ret_folder, char *why);

/* ol_ckpt_remedy -- the remedy: "; make room, …", or "". A running checkpoint is one file. */
const char *ol_ckpt_remedy(int rc, bool is_running);

/* ol_ckpt_enter -- ol_ckpt_owner_enter(), with the failure in why */
int ol_ckpt_enter(const struct ol_ckpt_owner *owner, const struct ol_ckpt_folder *folder,
		  char *why);

/*
 * ol_ckpt_temporary_make -- an empty file under the temporary form of a name; -errno
 *
 * ol_ckpt_temporary_end -- rc 0: give it its name, durably, and sweep all but `keep`. Otherwise, or
 * if that fails, remove it. Returns rc, or the error of naming it.
 *
 * OL_E_FENCED: the folder is another server's, and was not touched.
 */
int ol_ckpt_temporary_make(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			   const struct ol_ckpt_owner *owner, struct ol_ckpt_file *ret_file,
			   char *why);
int ol_ckpt_temporary_end(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
			  const struct ol_ckpt_owner *owner, uint32_t keep, int rc, char *why);

/* ol_ckpt_draft -- a whole file under the temporary form of its name, durable; after an error none is left */
int ol_ckpt_draft(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		  const struct ol_ckpt_meta *meta, const void *content, char *why);

/* ol_ckpt_write_say -- the line about a checkpoint that was not written, with why and the remedy */
void ol_ckpt_write_say(const char *dir, const struct ol_ckpt_name *name, int rc, const char *why,
		       char *err, size_t err_bytes);

#endif /* OL_CHECKPOINT_WRITE_H */
