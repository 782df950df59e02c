/* SPDX-License-Identifier: BSD-3-Clause */

/* files.h -- the files of this back end among themselves: whose a name is, by a lock file */

#ifndef OL_CHECKPOINT_FILES_FILES_H
#define OL_CHECKPOINT_FILES_FILES_H

/* As in struct ol_ckpt_backend */
int ol_ckpt_files_take(int dir_fd, const char *text);
int ol_ckpt_files_enter(int dir_fd, const char *text, int fd);
void ol_ckpt_files_leave(int fd);

#endif /* OL_CHECKPOINT_FILES_FILES_H */
