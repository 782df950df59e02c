/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * status.h -- texts for status codes
 */
#ifndef OL_BASE_STATUS_H
#define OL_BASE_STATUS_H

/*
 * ol_status_str -- a constant string for a negated errno value or an OL_E_* code; never NULL
 *
 * 0 and counts (positive) are "success"; other numbers are "unknown status code".
 * Threading: any
 */
const char *ol_status_str(int code);

enum {
	OL_STATUS_TEXT_MAX = 192
};

/*
 * ol_status_text -- ol_status_str(), and the limit of this process that may be behind the code
 *
 * "Too many open files (this process may open 64: ulimit -n)". Returns text.
 */
const char *ol_status_text(int code, char text[OL_STATUS_TEXT_MAX]);

#endif /* OL_BASE_STATUS_H */
