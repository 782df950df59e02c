/* SPDX-License-Identifier: BSD-3-Clause */

/* thread.h -- threads of the library's own */
#ifndef OL_BASE_THREAD_H
#define OL_BASE_THREAD_H

#include <pthread.h>

/*
 * ol_thread_start -- run(arg) on a thread that blocks signals
 *
 * Signals are for the program's threads. Only those for faults of this thread stay unblocked. With
 * SIGXFSZ blocked, a limit on file sizes gives -EFBIG. Errors: -EAGAIN
 */
int ol_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread);

#endif /* OL_BASE_THREAD_H */
