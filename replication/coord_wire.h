/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_wire.h -- what the embedded coordinator and its clients say to each other, and on what
 *
 * A frame is a head of 16 bytes, little-endian, then `bytes` bytes:
 *
 *	0       uint32_t        bytes   of the rest, at most OL_COORD_BODY_MAX
 *	4       uint16_t        type
 *	6       uint16_t        shard   0 where it says nothing
 *	8       uint64_t        value   0 where it says nothing
 *
 *	client          coordinator     shard           value           rest
 *	HELLO                                           protocol        magic, nonce n
 *	                CHALLENGE                                       nonce m, proof of n
 *	PROOF                           shard_count     lease in ms     proof of all, job
 *	                WELCOME
 *	OFFER                           it                              view
 *	JOIN                            it                              member
 *	                JOINED          it              errno, 0: done  why not
 *	WATCH                                                           from now on it is told
 *	                VIEW            it              version         view; empty: none
 *	                MEMBERS         it                              members
 *	                READY                                           all was told once
 *	BEAT            BEAT                            any, the same   the answer confirms the
 *lease PROPOSE                         it              version         view BYE the session is over
 *	                REFUSE                          errno           why; the end
 *
 * Each side proves that it knows the secret over both nonces before it believes the other; nothing
 * else is listened to before.
 */
#ifndef OL_REPLICATION_COORD_WIRE_H
#define OL_REPLICATION_COORD_WIRE_H

#include <sys/socket.h>

#include "replication/coord/coord.h"

enum {
	OL_COORD_PROTO = 1,
	OL_COORD_HEAD_BYTES = 16,
	OL_COORD_BODY_MAX = OL_VIEW_TEXT_MAX,
	OL_COORD_FRAME_MAX = OL_COORD_HEAD_BYTES + OL_COORD_BODY_MAX,
	OL_COORD_PIPE_BYTES = 3 * OL_COORD_FRAME_MAX, /* each way, of one connection */
};

enum ol_coord_msg {
	OL_COORD_HELLO = 1,
	OL_COORD_CHALLENGE,
	OL_COORD_PROOF,
	OL_COORD_WELCOME,
	OL_COORD_OFFER,
	OL_COORD_JOIN,
	OL_COORD_JOINED,
	OL_COORD_WATCH,
	OL_COORD_VIEW,
	OL_COORD_MEMBERS,
	OL_COORD_READY,
	OL_COORD_BEAT,
	OL_COORD_PROPOSE,
	OL_COORD_BYE,
	OL_COORD_REFUSE,
};

struct ol_coord_frame {
	enum ol_coord_msg type;
	uint16_t shard;
	uint64_t value;
	const void *body; /* of a decoded frame: in the bytes that it came from */
	uint32_t bytes;
};

/* ol_coord_frame_encode -- its size. body may be NULL if bytes is 0. */
size_t ol_coord_frame_encode(const struct ol_coord_frame *frame, uint8_t bytes[OL_COORD_FRAME_MAX]);
/*
 * ol_coord_frame_decode -- the frame at the beginning of what came
 *
 * Returns its size; 0: more is to come; -EPROTO: no frame begins like this, whatever comes.
 */
int ol_coord_frame_decode(const uint8_t *bytes, size_t count, struct ol_coord_frame *ret_frame);

/* Bodies. Each decode: 0 (a count), or -EPROTO. */
struct ol_coord_hello {
	uint8_t nonce[OL_COORD_NONCE_BYTES];
};

struct ol_coord_challenge {
	uint8_t nonce[OL_COORD_NONCE_BYTES];
	uint8_t mac[OL_COORD_MAC_BYTES];
};

struct ol_coord_proof {
	uint8_t mac[OL_COORD_MAC_BYTES];
	uint32_t shard_count;
	uint32_t lease_ms;
	char job[OL_COORD_JOB_MAX];
};

/* Frames whose body lies in `body`, which has room for OL_COORD_BODY_MAX bytes. */
struct ol_coord_frame ol_coord_hello_frame(const struct ol_coord_hello *hello, uint8_t *body);
struct ol_coord_frame ol_coord_challenge_frame(const struct ol_coord_challenge *challenge,
					       uint8_t *body);
struct ol_coord_frame ol_coord_proof_frame(const struct ol_coord_proof *proof, uint8_t *body);
struct ol_coord_frame ol_coord_members_frame(uint32_t shard, const struct ol_member *members,
					     uint32_t count, uint8_t *body);
/* -EPROTO also for another protocol: the value of the frame tells */
int ol_coord_hello_decode(const struct ol_coord_frame *frame, struct ol_coord_hello *ret_hello);
int ol_coord_challenge_decode(const struct ol_coord_frame *frame,
			      struct ol_coord_challenge *ret_challenge);
int ol_coord_proof_decode(const struct ol_coord_frame *frame, struct ol_coord_proof *ret_proof);
int ol_coord_members_decode(const struct ol_coord_frame *frame,
			    struct ol_member ret_members[OL_MEMBERS_MAX]);

/* The two proofs. mac NULL: there is no secret. n: client's nonce, m: coordinator's. -EIO: none can
 * be made, and none be checked; mac is all 0. */
struct ol_coord_secret {
	ol_coord_mac_fn *mac;
	void *arg;
};

int ol_coord_challenge_mac(const struct ol_coord_secret *secret,
			   const uint8_t n[OL_COORD_NONCE_BYTES],
			   const uint8_t m[OL_COORD_NONCE_BYTES], uint8_t mac[OL_COORD_MAC_BYTES]);
/* proof->mac is not looked at */
int ol_coord_proof_mac(const struct ol_coord_secret *secret, const uint8_t n[OL_COORD_NONCE_BYTES],
		       const uint8_t m[OL_COORD_NONCE_BYTES], const struct ol_coord_proof *proof,
		       uint8_t mac[OL_COORD_MAC_BYTES]);
bool ol_coord_mac_same(const uint8_t a[OL_COORD_MAC_BYTES], const uint8_t b[OL_COORD_MAC_BYTES]);

/* One connected socket, which does not block, and what is on its way. Zeroed, then fd set. */
struct ol_coord_pipe {
	int fd;
	size_t in_at; /* frames before are taken */
	size_t in_end;
	size_t out_at; /* sent up to here */
	size_t out_end;
	uint8_t in[OL_COORD_PIPE_BYTES];
	uint8_t out[OL_COORD_PIPE_BYTES];
};

/* ol_coord_pipe_fill -- read what is there, once. Bytes; 0: nothing, or no room; -EPIPE: the other
 * end is gone; -errno */
int ol_coord_pipe_fill(struct ol_coord_pipe *pipe);
/* ol_coord_pipe_take -- the next frame that came: 1; 0: none; -EPROTO. Valid until the next fill.
 */
int ol_coord_pipe_take(struct ol_coord_pipe *pipe, struct ol_coord_frame *ret_frame);
/* ol_coord_pipe_put -- -EAGAIN: no room before more is flushed */
int ol_coord_pipe_put(struct ol_coord_pipe *pipe, const struct ol_coord_frame *frame);
/* ol_coord_pipe_room -- a frame of any size can be put */
bool ol_coord_pipe_room(const struct ol_coord_pipe *pipe);
/* ol_coord_pipe_flush -- send what can be: 0: all; -EAGAIN: when the socket is writable; -errno */
int ol_coord_pipe_flush(struct ol_coord_pipe *pipe);

/* A socket address. "HOST:PORT", "[HOST]:PORT", "@NAME". */
struct ol_coord_place {
	struct sockaddr_storage at;
	socklen_t bytes;
};

/* Resolves names: may take its time. -EINVAL: not an address; -EADDRNOTAVAIL: no such host */
int ol_coord_place_parse(const char *addr, struct ol_coord_place *ret_place);
/* ol_coord_place_str -- as parse takes it, for what getsockname() says */
void ol_coord_place_str(const struct ol_coord_place *place, char *text, size_t text_bytes);
/* ol_coord_socket -- of that family: does not block, is closed by exec; no delay. fd or -errno */
int ol_coord_socket(const struct ol_coord_place *place);
/* ol_coord_socket_tune -- of an accepted one: no delay */
void ol_coord_socket_tune(int fd);

/* ol_coord_random -- unpredictable bytes; -EIO: the system has none */
int ol_coord_random(void *bytes, size_t count);

#endif /* OL_REPLICATION_COORD_WIRE_H */
