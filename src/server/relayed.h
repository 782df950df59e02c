/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * relayed.h -- a server of readers: it orders nothing, and publishes what its owner reads elsewhere
 *
 * To an observer it is the shard's server: the same handshake, the same memory, the same versions.
 * A change of epoch or history ends its sessions, so that readers connect anew and learn of it.
 */
#ifndef OL_SERVER_RELAYED_H
#define OL_SERVER_RELAYED_H

#include "server/serve.h"

/*
 * ol_relayed_open -- a server at opts->listen that has this version
 *
 * opts: what concerns listening, readers and memory; the geometry is the shard's. The key may be an
 * observer's credential. Nobody is let in before ol_server_run(). Errors: as ol_server_open()
 */
int ol_relayed_open(const struct ol_server_opts *opts, const struct ol_geometry *geo,
		    const struct ol_relayed *first, int taken_fd, struct ol_server **ret_server,
		    char *err, size_t err_bytes);

/*
 * ol_relayed_offer -- another thread than the loop's gives it a later version to publish
 *
 * Its memory stays as it is until ol_relayed_is_taken(). That may take pin_timeout_ms, if readers
 * hold the snapshots; ol_relayed_wake() has the loop try again.
 */
void ol_relayed_offer(struct ol_server *server, const struct ol_relayed *next);
bool ol_relayed_is_taken(const struct ol_server *server);
void ol_relayed_wake(const struct ol_server *server);

#endif /* OL_SERVER_RELAYED_H */
