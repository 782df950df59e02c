/* SPDX-License-Identifier: BSD-3-Clause */

/* even.h -- pulls of one version of several shards (even.c) */
#ifndef OL_WORKER_EVEN_H
#define OL_WORKER_EVEN_H

#include <stdbool.h>

struct ol_link;
struct ol_worker;

/* A pull that reads one version of all shards */
enum ol_even {
	OL_EVEN_NOT, /* each shard's newest version */
	OL_EVEN_ASKS, /* for the newest version of each shard */
	OL_EVEN_READS, /* the oldest of these, of all shards */
};

/* ol_even_begin -- decide whether the pull that begins is even; asked: its caller wants it so */
void ol_even_begin(struct ol_worker *worker, bool asked);
/* ol_even_give_up -- a shard's last weights do, as its server is gone: the others' newest */
void ol_even_give_up(struct ol_worker *worker);
/* ol_even_waits -- a gradient is on its way to this shard, and may make the others' step there; or the shard is
 * not to be asked again yet */
bool ol_even_waits(struct ol_link *link);
/* ol_even_known -- the newest version of a shard was asked for, and has come */
void ol_even_known(struct ol_link *link);
/* ol_even_answered -- a shard has answered, or is given up: if it was the last one, read */
void ol_even_answered(struct ol_worker *worker);
/* ol_even_miss -- a shard has its version no more */
void ol_even_miss(struct ol_link *link);
/* ol_even_again -- all shards are done, and one has missed: true if all are asked again */
bool ol_even_again(struct ol_worker *worker);

#endif /* OL_WORKER_EVEN_H */
