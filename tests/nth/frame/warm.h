/* SPDX-License-Identifier: BSD-3-Clause */

/* warm.h -- takes resources that a process takes once and keeps, before they are counted */
#ifndef OL_TESTS_NTH_FRAME_WARM_H
#define OL_TESTS_NTH_FRAME_WARM_H

/*
 * warm_transport -- open OL_TRANSPORT, listen, close: librdmacm keeps every device open from the
 * first address on. Fork before.
 */
void warm_transport(void);

#endif /* OL_TESTS_NTH_FRAME_WARM_H */
