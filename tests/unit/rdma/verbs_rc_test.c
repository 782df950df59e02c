/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_rc_test.c -- every status of libibverbs and every event of librdmacm gives a code of the
 * transport's contract
 */
/* cmocka.h wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdma/verbs/verbs_rc.h"

static void each_convention_becomes_zero_or_negative(void **state)
{
	int object;

	(void)state;
	assert_int_equal(ol_rc_positive(0), 0);
	assert_int_equal(ol_rc_positive(ENOMEM), -ENOMEM);
	errno = EINVAL;
	assert_int_equal(ol_rc_minus_one(0), 0);
	assert_int_equal(ol_rc_minus_one(-1), -EINVAL);
	assert_int_equal(ol_rc_null(&object), 0);
	assert_int_equal(ol_rc_null(NULL), -EINVAL);
	errno = 0;
	assert_int_equal(ol_rc_minus_one(-1), -EIO);
	assert_int_equal(ol_rc_null(NULL), -EIO);
}

static void completions_have_the_codes_of_done(void **state)
{
	(void)state;
	assert_int_equal(ol_rc_wc(IBV_WC_SUCCESS), 0);
	assert_int_equal(ol_rc_wc(IBV_WC_WR_FLUSH_ERR), -ECONNABORTED);
	assert_int_equal(ol_rc_wc(IBV_WC_REM_ACCESS_ERR), -EACCES);
	assert_int_equal(ol_rc_wc(IBV_WC_REM_INV_REQ_ERR), -EACCES);
	assert_int_equal(ol_rc_wc(IBV_WC_RETRY_EXC_ERR), -ETIMEDOUT);
	assert_int_equal(ol_rc_wc(IBV_WC_RNR_RETRY_EXC_ERR), -ETIMEDOUT);
	assert_int_equal(ol_rc_wc(IBV_WC_RESP_TIMEOUT_ERR), -ETIMEDOUT);
	for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_RNDV_INCOMPLETE + 3; status++) {
		const int rc = ol_rc_wc((enum ibv_wc_status)status);

		assert_true(rc == -ECONNABORTED || rc == -EACCES || rc == -ETIMEDOUT || rc == -EIO);
	}
}

static void failures_to_connect_have_the_codes_of_conn_down(void **state)
{
	(void)state;
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT), -EHOSTUNREACH);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL), -EHOSTUNREACH);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), -ETIMEDOUT);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_UNREACHABLE, -ENETUNREACH), -EHOSTUNREACH);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_REJECTED, 8), -ECONNREFUSED);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_REJECTED, 28), -ECONNREFUSED);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_REJECTED, -ECONNRESET), -ECONNREFUSED);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_REJECTED, 10), -EIO);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_REJECTED, 1), -EIO);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL), -EIO);
	assert_int_equal(ol_rc_cm(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), -EIO);
}

static void a_refused_socket_says_that_nobody_listens_and_no_other_does(void **state)
{
	(void)state;
	assert_int_equal(ol_rc_tcp(ECONNREFUSED), -ECONNREFUSED);
	assert_int_equal(ol_rc_tcp(ETIMEDOUT), -ETIMEDOUT);
	assert_int_equal(ol_rc_tcp(ENETUNREACH), -EHOSTUNREACH);
	assert_int_equal(ol_rc_tcp(EHOSTUNREACH), -EHOSTUNREACH);
	assert_int_equal(ol_rc_tcp(ECONNRESET), -EIO);
	assert_int_equal(ol_rc_tcp(EACCES), -EIO); /* a firewall's answer */
}

static void other_events_are_no_failures(void **state)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ADDR_RESOLVED,   RDMA_CM_EVENT_ROUTE_RESOLVED,
		RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_RESPONSE,
		RDMA_CM_EVENT_ESTABLISHED,     RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_MULTICAST_JOIN,  RDMA_CM_EVENT_MULTICAST_ERROR,
		RDMA_CM_EVENT_ADDR_CHANGE,     RDMA_CM_EVENT_TIMEWAIT_EXIT,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		assert_int_equal(ol_rc_cm(types[i], 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_convention_becomes_zero_or_negative),
		cmocka_unit_test(completions_have_the_codes_of_done),
		cmocka_unit_test(failures_to_connect_have_the_codes_of_conn_down),
		cmocka_unit_test(a_refused_socket_says_that_nobody_listens_and_no_other_does),
		cmocka_unit_test(other_events_are_no_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
