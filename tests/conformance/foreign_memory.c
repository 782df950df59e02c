/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * foreign_memory.c -- memory behind a dma-buf is a source of writes and a target of reads like any
 * other, and this process can touch it by no post; a transport or a device that cannot register it
 * says so, and nothing has changed
 *
 * The dma-buf is one of /dev/udmabuf. Where there is none, a memfd stands for it: that is enough for
 * a refusal, and for the quirk dmabuf of support/adapter, which maps what it is given and registers
 * the mapping. Linux 6.12 maps a udmabuf by page numbers, which cannot be registered, so there a memfd
 * stands for it under the quirk, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	WHOLE = 1 << 20, /* the dma-buf */
	SLAB_OFF = 2 * 4096 + 72, /* in the dma-buf */
	SLAB = 600000,
	OFF = 40, /* of the region, in the slab */
	BYTES = 500000,
	PIECE_MAX = 20000,
	ROUNDS = 300,
	BELL = 7,
};

struct foreign {
	uint8_t *whole; /* what its exporter sees */
	uint8_t *p; /* where the region is in it */
	struct ol_slab *slab;
	bool stands_in; /* a memfd */
};

static struct {
	struct xp_pair pair;
	struct foreign foreign; /* of a, the acceptor, which has a domain for each connection */
	struct xp_mem own; /* of a, too */
	struct xp_mem peer; /* of b */
} stage;

static bool *unseen; /* shared by all processes: the device takes dma-bufs, and there is none */

/* Whether the kernel can pin the pages of a mapping of fd, as it does to register memory */
static bool is_pinned_by_mapping(int fd)
{
	void *map = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct iovec to = { .iov_len = 8 }, from = { .iov_base = map, .iov_len = 8 };
	uint64_t word;
	ssize_t got;

	check(map != MAP_FAILED);
	to.iov_base = &word;
	got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	munmap(map, WHOLE);
	return got == 8;
}

/* A dma-buf of the memfd's pages, or the memfd */
static int dmabuf_make(int memfd, bool *ret_stands_in)
{
	const struct udmabuf_create create = {
		.memfd = (uint32_t)memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = WHOLE,
	};
	const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd;

	*ret_stands_in = device < 0;
	if (device < 0)
		return dup(memfd);
	fd = ioctl(device, UDMABUF_CREATE, &create);
	check(fd >= 0);
	close(device);
	if (getenv("OL_ADAPTER") == NULL || is_pinned_by_mapping(fd))
		return fd;
	close(fd);
	*ret_stands_in = true;
	return dup(memfd);
}

/* No descriptor of it is left but the slab's own. */
static void foreign_open(struct foreign *foreign)
{
	const int memfd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd;

	check(memfd >= 0);
	check_ok(ftruncate(memfd, WHOLE));
	check_ok(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	foreign->whole = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	check(foreign->whole != MAP_FAILED);
	foreign->p = foreign->whole + SLAB_OFF + OFF;
	fd = dmabuf_make(memfd, &foreign->stands_in);
	check(fd >= 0);
	check_ok(ol_slab_from_dmabuf(fd, SLAB_OFF, SLAB, &foreign->slab));
	check(foreign->slab->addr == NULL);
	close(fd);
	close(memfd);
}

static void foreign_close(struct foreign *foreign)
{
	ol_slab_destroy(foreign->slab);
	munmap(foreign->whole, WHOLE);
}

static void stage_open(void)
{
	xp_pair_open(&stage.pair, NULL);
	xp_mem_open(&stage.own, &stage.pair.a, NULL, BYTES, OL_XPORT_ACCESS_LOCAL);
	xp_mem_open(&stage.peer, &stage.pair.b, NULL, 2 * BYTES,
		    OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE);
	foreign_open(&stage.foreign);
}

static void stage_close(void)
{
	foreign_close(&stage.foreign);
	xp_mem_close(&stage.peer);
	xp_mem_close(&stage.own);
	xp_pair_close(&stage.pair);
}

static int reg(struct ol_xport_conn *conn, unsigned access, struct ol_xport_region **ret_region)
{
	return stage.pair.a.ops->reg(stage.pair.a.xport, conn, stage.foreign.slab, OFF, BYTES,
				     access, ret_region);
}

static struct ol_xport_counts counts(void)
{
	struct ol_xport_counts now;

	stage.pair.a.ops->counts(stage.pair.a.xport, &now);
	return now;
}

/* A region of it; NULL: the device takes none, or there is none to take */
static struct ol_xport_region *region_open(struct ol_xport_conn *conn, unsigned access)
{
	struct ol_xport_region *region = NULL;
	const int rc = reg(conn, access, &region);

	if (rc == 0)
		return region;
	check(region == NULL);
	if (stage.pair.a.caps.foreign) { /* the kernel knows that it is no dma-buf */
		check(stage.foreign.stands_in);
		check_eq(rc, -EINVAL);
		*unseen = true;
		return NULL;
	}
	check_eq(rc, -EOPNOTSUPP);
	return NULL;
}

/* Bytes of the peer that a wrote, or would have read */
static void peer_works(struct ol_xport_conn *conn, const struct ol_xport_region *region, uint8_t *p,
		       struct ol_xport_conn *peer)
{
	struct ol_xport_write write = {
		.segs = { { .region = region, .off = 8, .bytes = PIECE_MAX } },
		.seg_count = 1,
		.flags = OL_XPORT_DOORBELL,
		.imm = BELL,
		.dst = xp_key(&stage.peer, peer),
		.dst_off = 16,
	};

	xp_fill(p, BYTES, BELL);
	xp_post_write(conn, &write);
	xp_wait_bell(&stage.pair.b, peer, BELL);
	check(memcmp(stage.peer.p + 16, p + 8, PIECE_MAX) == 0);
}

/* Registering is refused, with one line a time, and nothing else has happened. */
static void refused(void)
{
	const struct ol_xport_counts before = counts();
	const unsigned lines = stage.pair.a.log_lines;
	struct ol_xport_conn *const conns[] = { NULL, stage.pair.a_conn };
	struct ol_xport_region *region = NULL;
	struct ol_xport_later *later;
	struct ol_xport_counts after;
	int rc;

	for (unsigned i = 0; i < 2; i++) {
		check_eq(reg(conns[i], OL_XPORT_ACCESS_LOCAL, &region), -EOPNOTSUPP);
		check(region == NULL);
		check_eq(stage.pair.a.log_lines, lines + 1 + i);
	}
	rc = stage.pair.a.ops->reg_begin(stage.pair.a.xport, OL_XPORT_ACCESS_LOCAL, &later);
	if (rc == 0) {
		rc = stage.pair.a.ops->reg_run(later, stage.foreign.slab, OFF, BYTES);
		stage.pair.a.ops->drop(later);
	}
	check_eq(rc, -EOPNOTSUPP);
	after = counts();
	check(memcmp(&before, &after, sizeof(after)) == 0);
	xp_check_bytes(stage.foreign.whole, WHOLE, 0, "the memory that was refused");
	peer_works(stage.pair.a_conn, stage.own.region, stage.own.p, stage.pair.b_conn);
}

static void taken_or_refused(void)
{
	const unsigned rights[] = { OL_XPORT_ACCESS_PEER_READ, OL_XPORT_ACCESS_PEER_WRITE,
				    OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE };
	struct ol_xport_region *region = NULL;

	stage_open();
	for (unsigned i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		const unsigned lines = stage.pair.a.log_lines;

		check_eq(reg(NULL, rights[i], &region), -EINVAL);
		check_eq(reg(stage.pair.a_conn, rights[i], &region), -EINVAL);
		check_eq(stage.pair.a.log_lines, lines); /* the caller could know */
	}
	check_eq(stage.pair.a.ops->reg(stage.pair.a.xport, NULL, stage.foreign.slab, 1, SLAB,
				       OL_XPORT_ACCESS_LOCAL, &region),
		 -EINVAL);
	check(region == NULL);
	if (!stage.pair.a.caps.foreign)
		refused();
	region = region_open(NULL, OL_XPORT_ACCESS_LOCAL);
	if (region != NULL)
		xp_note("registered: %s", stage.foreign.stands_in ? "a memfd stands for a dma-buf"
								  : "a dma-buf of /dev/udmabuf");
	stage.pair.a.ops->dereg(region);
	stage_close();
}

/* Two pieces, at least one of them foreign, of any length; one in each half, often at its end. */
static void pieces_choose(uint64_t round, const struct ol_xport_region *region,
			  struct ol_xport_seg segs[2], uint8_t *at[2])
{
	const uint64_t dice = xp_mix(round);

	for (unsigned i = 0; i < 2; i++) {
		const bool foreign = round % 3 != i;
		const uint64_t bytes = 1 + xp_mix(dice + i) % PIECE_MAX;
		const uint64_t left = xp_mix(dice + 2 + i) % 4 * 61;
		const uint64_t off = (i + 1) * (BYTES / 2) - left - bytes;

		segs[i] = (struct ol_xport_seg){ .region = foreign ? region : stage.own.region,
						 .off = off,
						 .bytes = (uint32_t)bytes };
		at[i] = (foreign ? stage.foreign.p : stage.own.p) + off;
	}
}

static void round_written(uint64_t round, const struct ol_xport_region *region)
{
	struct ol_xport_write write = { .seg_count = 2,
					.flags = OL_XPORT_DOORBELL,
					.imm = (uint32_t)round,
					.dst = stage.peer.key,
					.dst_off = xp_mix(round) % 4096 };
	const uint8_t *to = stage.peer.p + write.dst_off;
	uint8_t *at[2];

	pieces_choose(round, region, write.segs, at);
	xp_fill(stage.foreign.whole, WHOLE, round);
	xp_fill(stage.own.p, BYTES, ~round);
	memset(stage.peer.p, XP_GUARD, 2 * PIECE_MAX + 8192);
	xp_post_write(stage.pair.a_conn, &write);
	xp_wait_bell(&stage.pair.b, stage.pair.b_conn, write.imm);
	check(memcmp(to, at[0], write.segs[0].bytes) == 0);
	to += write.segs[0].bytes;
	check(memcmp(to, at[1], write.segs[1].bytes) == 0);
	xp_check_bytes(to + write.segs[1].bytes, 64, XP_GUARD, "what is behind the write");
	xp_check_fill(stage.foreign.whole, WHOLE, round, "the source");
}

static void around_is_kept(const struct ol_xport_seg *segs, uint8_t *const at[2])
{
	for (unsigned i = 0; i < 2; i++)
		memset(at[i], XP_GUARD, segs[i].bytes);
	xp_check_bytes(stage.foreign.whole, WHOLE, XP_GUARD, "what is around the read");
	xp_check_bytes(stage.own.p, BYTES, XP_GUARD, "what is around it in own memory");
}

static void round_read(uint64_t round, const struct ol_xport_region *region)
{
	struct ol_xport_read read = { .seg_count = 2,
				      .flags = OL_XPORT_SIGNALED,
				      .src = stage.peer.key,
				      .src_off = xp_mix(round) % 4096,
				      .cookie = round };
	const uint8_t *from = stage.peer.p + read.src_off;
	uint8_t *at[2];

	pieces_choose(round, region, read.segs, at);
	xp_fill(stage.peer.p, 2 * BYTES, round);
	memset(stage.foreign.whole, XP_GUARD, WHOLE);
	memset(stage.own.p, XP_GUARD, BYTES);
	xp_post_read(stage.pair.a_conn, &read);
	xp_wait_done(&stage.pair.a, stage.pair.a_conn, round);
	check(memcmp(at[0], from, read.segs[0].bytes) == 0);
	check(memcmp(at[1], from + read.segs[0].bytes, read.segs[1].bytes) == 0);
	around_is_kept(read.segs, at);
}

static void with_region(void (*run)(const struct ol_xport_region *region), bool common,
			unsigned access)
{
	struct ol_xport_region *region;

	stage_open();
	region = region_open(common ? NULL : stage.pair.a_conn, access);
	if (region != NULL)
		run(region);
	stage.pair.a.ops->dereg(region);
	stage_close();
}

static void rounds_run(const struct ol_xport_region *region)
{
	for (uint64_t round = 1; round <= xp_rounds(ROUNDS); round++) {
		round_written(round, region);
		round_read(round, region);
	}
}

static void bytes_are_right(void)
{
	with_region(rounds_run, true, OL_XPORT_ACCESS_LOCAL);
	with_region(rounds_run, false, OL_XPORT_ACCESS_RELAXED);
}

static void impossible_run(const struct ol_xport_region *region)
{
	const struct ol_xport_seg beyond[] = {
		{ .region = region, .off = BYTES, .bytes = 1 },
		{ .region = region, .off = BYTES - 7, .bytes = 8 },
		{ .region = region, .off = UINT64_MAX, .bytes = 2 },
		{ .region = region, .off = UINT64_MAX - OFF - SLAB_OFF + 1, .bytes = 8 },
	};
	const struct ol_xport_counts before = counts();
	struct ol_xport_write write = { .seg_count = 1,
					.flags = OL_XPORT_SIGNALED,
					.dst = stage.peer.key };
	struct ol_xport_read read = { .seg_count = 1,
				      .flags = OL_XPORT_SIGNALED,
				      .src = stage.peer.key };
	struct ol_xport_counts after;

	for (unsigned i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		write.segs[0] = read.segs[0] = beyond[i];
		check_eq(stage.pair.a.ops->post_write(stage.pair.a_conn, &write), -EINVAL);
		check_eq(stage.pair.a.ops->post_read(stage.pair.a_conn, &read), -EINVAL);
	}
	/* This processor would have to copy it. */
	write.flags |= OL_XPORT_INLINE;
	write.segs[0] = (struct ol_xport_seg){ .region = region, .off = 0, .bytes = 1 };
	check_eq(stage.pair.a.ops->post_write(stage.pair.a_conn, &write), -EINVAL);
	write.seg_count = 2;
	write.segs[1] = write.segs[0];
	write.segs[0].region = stage.own.region;
	check_eq(stage.pair.a.ops->post_write(stage.pair.a_conn, &write), -EINVAL);
	after = counts();
	check(memcmp(&before, &after, sizeof(after)) == 0);
	xp_quiet(&stage.pair.a, stage.pair.a_conn, 20);
	peer_works(stage.pair.a_conn, region, stage.foreign.p, stage.pair.b_conn);
}

static void impossible_posts(void)
{
	with_region(impossible_run, true, OL_XPORT_ACCESS_LOCAL);
}

/* It is registered once more in the domain of a connection that comes later. */
static void later_conn_run(const struct ol_xport_region *region)
{
	struct ol_xport_conn *a_conn, *b_conn;

	xp_connect(&stage.pair.a, &stage.pair.b, &a_conn, &b_conn);
	peer_works(a_conn, region, stage.foreign.p, b_conn);
	peer_works(stage.pair.a_conn, region, stage.foreign.p, stage.pair.b_conn);
	xp_conn_free(&stage.pair.a, a_conn);
	xp_wait_down(&stage.pair.b, b_conn);
	xp_conn_free(&stage.pair.b, b_conn);
	peer_works(stage.pair.a_conn, region, stage.foreign.p, stage.pair.b_conn);
}

static void later_conns(void)
{
	with_region(later_conn_run, true, OL_XPORT_ACCESS_LOCAL);
}

static struct {
	struct ol_xport_later *later;
	int rc;
} job;

static void *job_run(void *unused)
{
	(void)unused;
	job.rc = stage.pair.a.ops->reg_run(job.later, stage.foreign.slab, OFF, BYTES);
	return NULL;
}

static void other_thread_run(const struct ol_xport_region *unused)
{
	const struct ol_xport_ops *ops = stage.pair.a.ops;
	struct ol_xport_conn *a_conn, *b_conn;
	struct ol_xport_region *region;
	pthread_t thread;

	(void)unused;
	check_ok(ops->reg_begin(stage.pair.a.xport, OL_XPORT_ACCESS_LOCAL, &job.later));
	check_ok(pthread_create(&thread, NULL, job_run, NULL));
	check_ok(pthread_join(thread, NULL));
	check_ok(job.rc);
	check_ok(ops->connect(stage.pair.b.xport, stage.pair.a.addr, NULL, 0, NULL, &b_conn));
	a_conn = xp_wait(&stage.pair.a, OL_XPORT_CONN_REQUEST, NULL).ev.conn;
	check_ok(ops->reg_end(job.later, a_conn, &region));
	check_ok(ops->accept(a_conn, NULL, 0));
	xp_wait(&stage.pair.a, OL_XPORT_CONN_UP, a_conn);
	xp_wait(&stage.pair.b, OL_XPORT_CONN_UP, b_conn);
	peer_works(a_conn, region, stage.foreign.p, b_conn);
	job.later = ops->strip(a_conn, region, 0);
	xp_conn_free(&stage.pair.a, a_conn);
	ops->dereg(region);
	ops->drop(job.later);
	xp_wait_down(&stage.pair.b, b_conn);
	xp_conn_free(&stage.pair.b, b_conn);
	/* A peer's right is refused here as by reg(). */
	check_ok(ops->reg_begin(stage.pair.a.xport, OL_XPORT_ACCESS_PEER_READ, &job.later));
	check_eq(ops->reg_run(job.later, stage.foreign.slab, OFF, BYTES), -EINVAL);
	ops->drop(job.later);
}

static void other_thread(void)
{
	with_region(other_thread_run, true, OL_XPORT_ACCESS_LOCAL);
}

int main(int argc, char **argv)
{
	int status;

	xp_init(argc, argv);
	unseen = mmap(NULL, sizeof(*unseen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	check(unseen != MAP_FAILED);
	xp_run1("foreign memory is registered for this end, or refused and nothing has changed",
		taken_or_refused);
	xp_run1("it is written from and read into, alone and beside own memory", bytes_are_right);
	xp_run1("a post beyond it, or inline, is refused", impossible_posts);
	xp_run1("connections that come later use it, too", later_conns);
	xp_run1("another thread registers it", other_thread);
	status = xp_result();
	if (status == 0 && *unseen) {
		printf("skip: the device takes dma-bufs, but there is no /dev/udmabuf to make one\n");
		return CHECK_SKIP;
	}
	return status;
}
