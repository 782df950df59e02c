/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device_bound.c -- a named device is the one that is used: its address is listened at, and
 * connections leave by it, whatever the route says; what it lacks is said with the remedy
 *
 * tests/rxe/device.sh makes the devices: rxe0 and rxe1 at the two ends of a cable, one network; bare0
 * has no address; vlan0's interface has an address on a VLAN besides.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

static char said[256]; /* the last error */

static void log_keep(void *log_arg, enum ol_xport_log_level level, const char *text)
{
	(void)log_arg;
	if (getenv("OL_TEST_VERBOSE") != NULL)
		fprintf(stderr, "  log %d: %s\n", (int)level, text);
	if (level == OL_XPORT_LOG_ERROR)
		snprintf(said, sizeof(said), "%s", text);
}

static void open_on(struct xp_end *end, const char *device)
{
	struct ol_xport_opts opts = xp_opts();

	opts.device = device;
	/* between two ends in one kernel the first request is lost, and sent again after 4 s */
	opts.connect_timeout_ms = XP_WAIT_MS;
	opts.log = log_keep;
	xp_end_open(end, &opts);
}

static uint64_t packets_of(const char *device)
{
	unsigned long long packets = 0;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/sent_pkts",
		 device);
	file = fopen(path, "re");
	check(file != NULL);
	check_eq(fscanf(file, "%llu", &packets), 1);
	fclose(file);
	return packets;
}

static const char *host(const char *name)
{
	const char *value = getenv(name);

	check_msg(value != NULL, "%s is not set", name);
	return value;
}

/* An address of the host, any port */
static void listen_on(struct xp_end *end, const char *addr, const char *want)
{
	check_ok(end->ops->listen(end->xport, addr, end->addr));
	xp_note("listens at %s", end->addr);
	check_msg(strncmp(end->addr, want, strlen(want)) == 0 && end->addr[strlen(want)] == ':',
		  "%s is not at %s", end->addr, want);
}

/* Bells both ways; the packets of `by` show that it carried them */
static void bells_by(struct xp_end *a, struct xp_end *b, const char *by)
{
	const uint64_t before = packets_of(by);
	uint64_t until_ms;
	struct ol_xport_conn *a_conn, *b_conn;

	xp_connect(a, b, &a_conn, &b_conn);
	for (uint32_t i = 0; i < 10; i++) {
		xp_bell(b_conn, i);
		xp_wait_bell(a, a_conn, i);
		xp_bell(a_conn, i);
		xp_wait_bell(b, b_conn, i);
	}
	until_ms = xp_now_ms() + 2000;
	while (packets_of(by) - before < 20) { /* the kernel renews its figures every 10 ms */
		check_msg(xp_now_ms() < until_ms, "%s sent %ju packets", by,
			  (uintmax_t)(packets_of(by) - before));
		xp_relax();
	}
	xp_conn_free(b, b_conn);
	xp_conn_free(a, a_conn);
}

static void leaves_by_named(void)
{
	struct xp_end a, b;

	open_on(&a, "rxe0");
	listen_on(&a, "0.0.0.0:0", host("OL_ADDR"));
	open_on(&b, "rxe1");
	bells_by(&a, &b, "rxe1");
	xp_end_close(&b);
	open_on(&b, "rxe0");
	bells_by(&a, &b, "rxe0");
	xp_end_close(&b);
	xp_end_close(&a);
}

/* Two servers, a device each, with one port */
static void listens_at_named(void)
{
	struct xp_end a, b, c;
	char any[64];

	open_on(&a, "rxe0");
	listen_on(&a, "0.0.0.0:0", host("OL_ADDR"));
	snprintf(any, sizeof(any), "0.0.0.0%s", strrchr(a.addr, ':'));
	open_on(&b, "rxe1");
	listen_on(&b, any, host("OL_ADDR_RXE1"));
	open_on(&c, "rxe0");
	bells_by(&b, &c, "rxe0");
	bells_by(&a, &c, "rxe0");
	xp_end_close(&c);
	xp_end_close(&b);
	xp_end_close(&a);
}

/* The kernel leads IPv6 between two addresses of one machine past its cables: a device each time */
static void ipv6(void)
{
	static const char *const devices[][2] = { { "rxe0", "OL_ADDR6" },
						  { "rxe1", "OL_ADDR6_RXE1" } };
	struct xp_end a, b;

	for (unsigned i = 0; i < 2; i++) {
		open_on(&a, devices[i][0]);
		listen_on(&a, "[::]:0", host(devices[i][1]));
		open_on(&b, devices[i][0]);
		bells_by(&a, &b, devices[i][0]);
		xp_end_close(&b);
		xp_end_close(&a);
	}
}

/* The VLAN's address is the device's, too, and connections find it */
static void vlan(void)
{
	char addr[64];
	struct xp_end a, b;

	open_on(&a, "vlan0");
	snprintf(addr, sizeof(addr), "%s:0", host("OL_ADDR_VLAN"));
	listen_on(&a, addr, host("OL_ADDR_VLAN"));
	open_on(&b, "vlan0");
	bells_by(&a, &b, "vlan0");
	xp_end_close(&b);
	xp_end_close(&a);
}

static void down_by(struct xp_end *end, const char *addr, const char *text)
{
	struct ol_xport_conn *conn;

	said[0] = '\0';
	check_ok(end->ops->connect(end->xport, addr, NULL, 0, NULL, &conn));
	check_eq(xp_wait_down(end, conn), -EHOSTUNREACH);
	check_msg(strstr(said, text) != NULL, "\"%s\" is not in: %s", text, said);
	xp_conn_free(end, conn);
}

static void no_address(void)
{
	char addr[OL_XPORT_ADDR_MAX];
	struct xp_end end;

	open_on(&end, "bare0");
	check_eq(end.ops->listen(end.xport, "0.0.0.0:0", addr), -EADDRNOTAVAIL);
	xp_note("%s", said);
	check(strstr(said, "device bare0 has no IP address") != NULL);
	check(strstr(said, "ip addr add A.B.C.D/24 dev b0") != NULL);
	snprintf(addr, sizeof(addr), "%s:7000", host("OL_ADDR"));
	down_by(&end, addr, "dev b0");
	xp_end_close(&end);
}

static void no_route(void)
{
	struct xp_end end;

	open_on(&end, "rxe1");
	down_by(&end, "[fd99::1]:7000", "device rxe1 has no route to [fd99::1]:7000");
	xp_note("%s", said);
	xp_end_close(&end);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("connections leave by the named device", leaves_by_named);
	xp_run1("a listener on every address listens at its device's", listens_at_named);
	xp_run1("the same with IPv6", ipv6);
	xp_run1("an address on a VLAN is its device's", vlan);
	xp_run1("a device without an address: the remedy is said", no_address);
	xp_run1("a device without a route to the peer says so", no_route);
	return xp_result();
}
