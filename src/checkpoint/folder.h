/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- which checkpoints lie in a folder
 */
#ifndef OL_CHECKPOINT_FOLDER_H
#define OL_CHECKPOINT_FOLDER_H

#include "checkpoint/backend.h"
#include "checkpoint/name.h"

/*
 * ol_ckpt_folder_open -- -errno, -ENAMETOOLONG (OL_CKPT_DIR_MAX); -EPERM: another user can change
 * what is in it
 * ol_ckpt_folder_make -- the same, for writing; the folder is made if need be (one level)
 *
 * why: OL_CKPT_WHY_MAX; after an error the reason and its remedy, or "" where the code says it all
 */
int ol_ckpt_folder_open(const char *dir, struct ol_ckpt_folder *ret_folder, char *why);
int ol_ckpt_folder_make(const char *dir, struct ol_ckpt_folder *ret_folder, char *why);
void ol_ckpt_folder_close(const struct ol_ckpt_folder *folder);

/*
 * ol_ckpt_folder_list -- every name of this shard and kind, of any job, temporary ones too
 *
 * Order: those of job_id first, the newest first by (epoch, version). The caller frees the list.
 * Errors: -errno of the folder, -ENOMEM
 */
int ol_ckpt_folder_list(const struct ol_ckpt_folder *folder, uint64_t job_id, uint32_t shard,
			bool running, struct ol_ckpt_name **ret_names, size_t *ret_count);

/*
 * ol_ckpt_folder_sweep -- remove the temporary files of this shard, job and kind, and all but
 * `keep` of its checkpoints; `last` always stays, the others that stay are the newest
 *
 * Files of a later epoch belong to the server that took over: they are not touched and not counted.
 * A file that cannot be removed is logged.
 */
void ol_ckpt_folder_sweep(const struct ol_ckpt_folder *folder, const struct ol_ckpt_name *last,
			  uint32_t keep);

#endif /* OL_CHECKPOINT_FOLDER_H */
