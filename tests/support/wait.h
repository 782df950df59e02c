/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * wait.h -- wait for a condition, not for a while
 */
#ifndef OL_TESTS_WAIT_H
#define OL_TESTS_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * ol_wait_until -- ask cond again and again until it is true or deadline_ms have passed
 *
 * Returns what cond said last: false is a deadline missed. The deadline is stretched under a
 * sanitizer. cond may do the work that makes it true (poll a transport, say).
 */
bool ol_wait_until(bool (*cond)(void *arg), void *arg, unsigned deadline_ms);

/* ol_deadline_ns -- monotonic time deadline_ms from now, stretched likewise: for loops of one's own
 */
uint64_t ol_deadline_ns(unsigned deadline_ms);

#endif /* OL_TESTS_WAIT_H */
