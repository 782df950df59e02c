/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_foreign_test.c -- a dma-buf is registered as the driver wants it, or refused as the caller
 * wants it; the machine is made up
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "rdma/slab.h"
#include "unit/rdma/verbs_stage.h"

enum {
	WHOLE = 1 << 20,
	SLAB_OFF = 4096 + 72,
	SLAB = 100000,
	OFF = 24,
	BYTES = 5000,
};

static struct ol_slab *slab;

static struct ol_xport_caps opened(int dmabuf_error)
{
	const int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	struct ol_xport_caps caps;

	xport_opened(dmabuf_error);
	ops->query(xport, &caps);
	check_ok(ftruncate(fd, WHOLE));
	check_ok(ol_slab_from_dmabuf(fd, SLAB_OFF, SLAB, &slab));
	close(fd);
	assert_int_equal(machine.lines, 0);
	return caps;
}

static void closed(void)
{
	ol_slab_destroy(slab);
	ops->close(xport);
	assert_int_equal(machine.things, 0);
}

static int reg(unsigned access, struct ol_xport_region **ret_region)
{
	return ops->reg(xport, NULL, slab, OFF, BYTES, access, ret_region);
}

static void its_offset_is_the_address_that_posts_name(void **state)
{
	struct ol_xport_region *region;

	(void)state;
	assert_int_equal(opened(0).foreign, 1);
	assert_int_equal(reg(OL_XPORT_ACCESS_LOCAL, &region), 0);
	assert_int_equal(machine.dmabuf.offset, SLAB_OFF + OFF);
	assert_int_equal(machine.dmabuf.iova, SLAB_OFF + OFF);
	assert_int_equal(machine.dmabuf.bytes, BYTES);
	assert_int_equal(machine.dmabuf.fd, slab->fd);
	assert_int_equal(machine.dmabuf.access, IBV_ACCESS_LOCAL_WRITE);
	ops->dereg(region);
	closed();
}

static void peers_get_no_right_to_it(void **state)
{
	struct ol_xport_region *region;

	(void)state;
	opened(0);
	assert_int_equal(reg(OL_XPORT_ACCESS_PEER_READ, &region), -EINVAL);
	assert_int_equal(reg(OL_XPORT_ACCESS_PEER_WRITE, &region), -EINVAL);
	assert_int_equal(machine.lines, 0);
	assert_int_equal(machine.dmabuf.bytes, 0);
	closed();
}

/* The device may be another one afterwards: nothing is registered. */
static void a_driver_that_takes_none_is_named(void **state)
{
	static const int errors[] = { EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS };
	struct ol_xport_counts counts;
	struct ol_xport_region *region = NULL;
	char addr[OL_XPORT_ADDR_MAX];
	int things;

	(void)state;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		assert_int_equal(opened(errors[i]).foreign, 0);
		things = machine.things;
		assert_int_equal(reg(OL_XPORT_ACCESS_LOCAL, &region), -EOPNOTSUPP);
		assert_null(region);
		assert_int_equal(machine.things, things);
		assert_int_equal(machine.lines, 1);
		assert_non_null(strstr(machine.line, "dma-buf"));
		assert_non_null(strstr(machine.line, "device a"));
		ops->counts(xport, &counts);
		assert_int_equal(counts.regions + counts.region_bytes, 0);
		assert_int_equal(ops->listen(xport, "127.0.0.1:2", addr), 0);
		closed();
	}
}

static void other_errors_are_told_as_they_are(void **state)
{
	struct ol_xport_region *region;

	(void)state;
	assert_int_equal(opened(EINVAL).foreign, 0); /* not known to be taken */
	assert_int_equal(reg(OL_XPORT_ACCESS_LOCAL, &region), -EINVAL);
	assert_non_null(strstr(machine.line, "of a dma-buf: error 22"));
	closed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_offset_is_the_address_that_posts_name),
		cmocka_unit_test(peers_get_no_right_to_it),
		cmocka_unit_test(a_driver_that_takes_none_is_named),
		cmocka_unit_test(other_errors_are_told_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
