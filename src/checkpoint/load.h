/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * load.h -- one checkpoint file, read and checked
 */
#ifndef OL_CHECKPOINT_LOAD_H
#define OL_CHECKPOINT_LOAD_H

#include "checkpoint/backend.h"
#include "checkpoint/format.h"

/* ol_ckpt_read_at -- all of count bytes; -ENODATA: the file ends before */
int ol_ckpt_read_at(const struct ol_ckpt_file *file, void *bytes, size_t count, uint64_t off);

/*
 * ol_ckpt_unread -- the meaning of rc, the error of a call on a file
 *
 * OL_E_NO_CHECKPOINT: it is gone, ends too early, or cannot be read as a file. Else rc, an error of
 * the system (-EIO, -EACCES, -EMFILE, -ENOMEM …): the file may be whole.
 */
int ol_ckpt_unread(int rc);

/*
 * ol_ckpt_load_open -- Errors, with why: as ol_ckpt_unread(); -ELOOP (a link); -EPERM (another user
 * can change it). The last two may be whole, so they end a search
 */
int ol_ckpt_load_open(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *name,
		      struct ol_ckpt_file *ret_file, char *why);

/*
 * ol_ckpt_load_raw -- the unchecked header of a regular file, and the file's length
 *
 * Errors: OL_E_NO_CHECKPOINT (it is not one, or too short), or as ol_ckpt_unread(), with why
 */
int ol_ckpt_load_raw(const struct ol_ckpt_file *file, struct ol_ckpt_header *ret_header,
		     uint64_t *ret_file_bytes, char *why);

/*
 * Both: why as in format.h. Errors: OL_E_NO_CHECKPOINT (it is not whole), -ENOMEM, or as
 * ol_ckpt_unread()
 *
 * ol_ckpt_load_header -- a checked header, whose sizes are those of the file
 * ol_ckpt_load_content -- ol_ckpt_padded_bytes() of content, every block checked; the caller frees it
 */
int ol_ckpt_load_header(const struct ol_ckpt_file *file, struct ol_ckpt_header *ret_header,
			char *why);
int ol_ckpt_load_content(const struct ol_ckpt_file *file, const struct ol_ckpt_header *header,
			 uint8_t **ret_content, char *why);

/*
 * ol_ckpt_content_sound -- false, with why: its checksums may be right, but no server had this
 * content (store/content.h)
 */
bool ol_ckpt_content_sound(const struct ol_geometry *geo, const struct ol_ckpt_meta *meta,
			   const uint8_t *content, char *why);

/*
 * ol_ckpt_fit -- convert content of geometry `from` to one that differs at most in what comes before
 * the weights: workers_max, groups, tensors_bytes
 *
 * tensors: the table of tensors that the content gets; NULL: none. false, with why: a worker that
 * has pushed would be forgotten, its rule has too many groups, or its own table is another; then
 * nothing is written: ret_content may be what readers see
 */
bool ol_ckpt_fit(const struct ol_geometry *from, const uint8_t *content,
		 const struct ol_geometry *to, const char *tensors, uint8_t *ret_content,
		 char *why);

/* ol_ckpt_say_unused -- log which file is not used, why, and the remedy */
void ol_ckpt_say_unused(const char *what, const char *name, const char *dir, int rc,
			const char *why);

#endif /* OL_CHECKPOINT_LOAD_H */
