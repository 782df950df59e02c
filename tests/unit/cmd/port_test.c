/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * port_test.c -- counters of ports become metrics: each in the metric of its kind, in one order; what a
 * port does not have, or what is no number, is left out
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/folder.h"
#include "cmd/port.h"

static struct ol_folder root;

static int root_make(void **unused)
{
	(void)unused;
	return ol_folder_make(&root, "ol-port-");
}

static int root_drop(void **unused)
{
	(void)unused;
	ol_folder_drop(&root);
	return 0;
}

/* A file below the root, with its folders */
static void put(const char *name, const char *content)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root.path, name);
	for (char *at = path + strlen(root.path) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*at = '/';
	}
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(content, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void assert_written(bool open, const char *want)
{
	static const struct ol_series_label labels[] = { { "job", "j" }, { NULL, NULL } };
	char *text = NULL;
	size_t bytes;
	struct ol_series to = { .out = open_memstream(&text, &bytes), .open = open };

	assert_non_null(to.out);
	ol_ports_series(root.path, labels, &to);
	assert_int_equal(fclose(to.out), 0);
	assert_string_equal(text, want);
	free(text);
}

static void each_counter_is_in_the_metric_of_its_kind(void **state)
{
	(void)state;
	put("mlx5_1/ports/1/counters/symbol_error", "7\n");
	put("mlx5_0/ports/2/counters/link_downed", "3\n");
	put("mlx5_0/ports/1/hw_counters/packet_seq_err", "12\n");
	put("mlx5_0/ports/1/hw_counters/out_of_buffer", "0\n");
	put("mlx5_0/ports/1/hw_counters/lifespan", "10\n"); /* no trouble */
	put("mlx5_0/ports/1/counters/port_rcv_errors", "18446744073709551615\n");
	assert_written(
		false,
		"# HELP outlast_port_again_total Packets sent again or out of order at a port of "
		"the exporter's host.\n"
		"# TYPE outlast_port_again_total counter\n"
		"outlast_port_again_total{job=\"j\",device=\"mlx5_0\",port=\"1\","
		"counter=\"packet_seq_err\"} 12\n"
		"# HELP outlast_port_not_ready_total Messages that found no receive at a port of "
		"the exporter's host.\n"
		"# TYPE outlast_port_not_ready_total counter\n"
		"outlast_port_not_ready_total{job=\"j\",device=\"mlx5_0\",port=\"1\","
		"counter=\"out_of_buffer\"} 0\n"
		"# HELP outlast_port_errors_total Connections ended and errors of the link at a "
		"port of the exporter's host.\n"
		"# TYPE outlast_port_errors_total counter\n"
		"outlast_port_errors_total{job=\"j\",device=\"mlx5_0\",port=\"1\","
		"counter=\"port_rcv_errors\"} 18446744073709551615\n"
		"outlast_port_errors_total{job=\"j\",device=\"mlx5_0\",port=\"2\","
		"counter=\"link_downed\"} 3\n"
		"outlast_port_errors_total{job=\"j\",device=\"mlx5_1\",port=\"1\","
		"counter=\"symbol_error\"} 7\n");
}

static void what_is_no_number_is_left_out(void **state)
{
	(void)state;
	put("rxe0/ports/1/hw_counters/rcvd_seq_err", "N/A (no PMA)\n");
	put("rxe0/ports/1/hw_counters/retry_exceeded_err", "");
	put("rxe0/ports/one/counters/symbol_error", "1\n");
	put("rxe0/ports/1x/counters/symbol_error", "1\n");
	assert_written(false, "");
}

static void without_devices_nothing_is_written(void **state)
{
	(void)state;
	assert_written(false, "");
	ol_folder_drop(&root);
	assert_written(true, "");
}

#define test(name) cmocka_unit_test_setup_teardown(name, root_make, root_drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(each_counter_is_in_the_metric_of_its_kind),
		test(what_is_no_number_is_left_out),
		test(without_devices_nothing_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
