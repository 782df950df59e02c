/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- which checkpoints lie in a folder
 */
#ifndef OL_CHECKPOINT_FOLDER_H
#define OL_CHECKPOINT_FOLDER_H

#include "checkpoint/format.h"

/* ol_ckpt_folder_open -- a descriptor; -errno, -ENAMETOOLONG (OL_CKPT_DIR_MAX) */
int ol_ckpt_folder_open(const char *dir);

/*
 * ol_ckpt_folder_list -- every name of this shard and kind, of any job, temporary ones too
 *
 * Order: those of job_id first, the newest first by (epoch, version). The caller frees the list.
 * Errors: -errno of the folder, -ENOMEM
 */
int ol_ckpt_folder_list(int dir_fd, uint64_t job_id, uint32_t shard, bool running,
			struct ol_ckpt_name **ret_names, size_t *ret_count);

/*
 * ol_ckpt_folder_sweep -- remove the temporary files of this shard, job and kind, and all but
 * `keep` of its checkpoints; `last` is always one of those that stay, the others are the newest
 *
 * What is of a later epoch belongs to the server that took over: it is left alone and not counted.
 * What cannot be removed is logged.
 */
void ol_ckpt_folder_sweep(int dir_fd, const struct ol_ckpt_name *last, uint32_t keep);

#endif /* OL_CHECKPOINT_FOLDER_H */
