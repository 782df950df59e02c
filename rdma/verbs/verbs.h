/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs.h -- what the registry of transports asks of verbs beyond its table
 */
#ifndef OL_RDMA_VERBS_VERBS_H
#define OL_RDMA_VERBS_VERBS_H

#include <stddef.h>

/*
 * ol_verbs_present -- 0 if device (NULL: any) is there, has an active port and can be connected
 *
 * why: what was found or what is missing, one line.
 * Errors: -ENODEV
 */
int ol_verbs_present(const char *device, char *why, size_t why_bytes);

#endif /* OL_RDMA_VERBS_VERBS_H */
