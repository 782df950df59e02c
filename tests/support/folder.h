/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * folder.h -- folders that tests make for the product's files
 */
#ifndef OL_TESTS_SUPPORT_FOLDER_H
#define OL_TESTS_SUPPORT_FOLDER_H

/* folder_drop -- remove a folder, if it is there, with all that is in it; 0, or -1 with errno */
int folder_drop(const char *path);

#endif /* OL_TESTS_SUPPORT_FOLDER_H */
