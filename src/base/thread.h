/* SPDX-License-Identifier: BSD-3-Clause */

/* thread.h -- threads of the library's own */
#ifndef OL_BASE_THREAD_H
#define OL_BASE_THREAD_H

#include <pthread.h>

/*
 * ol_thread_start -- run(arg) on a thread that takes no signals
 *
 * Signals are for the program's threads. Those that say that this one has done wrong stay. That
 * SIGXFSZ is held back turns a limit on file sizes into -EFBIG. Errors: -EAGAIN
 */
int ol_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread);

#endif /* OL_BASE_THREAD_H */
