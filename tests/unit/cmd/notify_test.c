/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * notify_test.c -- a manager hears that a service is ready, what it does and that it ends; and a sign of life only while
 * the heartbeat goes up
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cmd/notify.h"

static char folder[] = "/tmp/ol-notify-XXXXXX";
static char path[64];
static int manager = -1;
static struct ol_notify notify;

/* A manager at the path, or at the name if that begins with @ */
static void manager_open(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

	memcpy(addr.sun_path, name, strlen(name));
	if (name[0] == '@')
		addr.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(manager >= 0);
	assert_int_equal(bind(manager, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static int setup(void **state)
{
	(void)state;
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	manager_open(path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ol_notify_fini(&notify);
	close(manager);
	(void)unlink(path);
	return 0;
}

static void assert_said(const char *want)
{
	char text[1024];
	ssize_t got = recv(manager, text, sizeof(text) - 1, MSG_DONTWAIT);

	assert_true(got >= 0);
	text[got] = '\0';
	assert_string_equal(text, want);
}

static void assert_silent(void)
{
	char text[16];

	assert_int_equal(recv(manager, text, sizeof(text), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void a_manager_hears_ready_what_it_does_and_the_end(void **state)
{
	(void)state;
	assert_true(ol_notify_init(&notify));
	assert_true(ol_notify_wanted(&notify));
	ol_notify_ready(&notify, 1, "shard 0");
	assert_said("READY=1\nSTATUS=shard 0");
	ol_notify_stopping(&notify, "ends\nin two lines");
	assert_said("STOPPING=1\nSTATUS=ends in two lines");
	assert_silent();
}

static void a_manager_at_an_abstract_name_hears_it(void **state)
{
	char name[64];

	(void)state;
	close(manager);
	snprintf(name, sizeof(name), "@ol-notify-test-%d", (int)getpid());
	manager_open(name);
	assert_true(ol_notify_init(&notify));
	ol_notify_ready(&notify, 1, "x");
	assert_said("READY=1\nSTATUS=x");
}

static void children_do_not_inherit_the_address(void **state)
{
	(void)state;
	setenv("WATCHDOG_USEC", "1000000", 1);
	assert_true(ol_notify_init(&notify));
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
}

static void without_a_manager_nothing_happens(void **state)
{
	(void)state;
	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "1000000", 1);
	assert_true(ol_notify_init(&notify));
	assert_false(ol_notify_wanted(&notify));
	ol_notify_ready(&notify, 1, "x");
	ol_notify_status(&notify, 2, "y");
	assert_int_equal(ol_notify_beat(&notify, 3, 1), -1);
	ol_notify_stopping(&notify, "z");
	assert_silent();
}

static void an_address_that_cannot_be_reached_is_told(void **state)
{
	char longest[200];

	(void)state;
	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	setenv("NOTIFY_SOCKET", longest, 1);
	assert_false(ol_notify_init(&notify));
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	assert_false(ol_notify_init(&notify));
	assert_false(ol_notify_wanted(&notify));
	setenv("NOTIFY_SOCKET", "/", 1);
	assert_false(ol_notify_init(&notify));
}

static void a_status_line_is_said_if_it_changed_and_not_too_often(void **state)
{
	const uint64_t pause_ns = OL_NOTIFY_STATUS_MS * OL_NS_PER_MS;

	(void)state;
	assert_true(ol_notify_init(&notify));
	ol_notify_ready(&notify, 100, "a");
	assert_said("READY=1\nSTATUS=a");
	ol_notify_status(&notify, 100 + 2 * pause_ns, "a");
	assert_silent();
	ol_notify_status(&notify, 100 + 2 * pause_ns, "b");
	assert_said("STATUS=b");
	ol_notify_status(&notify, 99 + 3 * pause_ns, "c");
	assert_silent();
	ol_notify_status(&notify, 100 + 3 * pause_ns, "c");
	assert_said("STATUS=c");
}

static void a_heartbeat_that_stands_gives_no_sign_of_life(void **state)
{
	const uint64_t quarter_ns = OL_NS_PER_S / OL_NOTIFY_BEATS;

	(void)state;
	setenv("WATCHDOG_USEC", "1000000", 1);
	assert_true(ol_notify_init(&notify));
	assert_int_equal(ol_notify_beat(&notify, 1, 7), 250);
	assert_said("WATCHDOG=1");
	ol_notify_beat(&notify, quarter_ns, 8); /* not due */
	assert_silent();
	ol_notify_beat(&notify, 1 + quarter_ns, 8);
	assert_said("WATCHDOG=1");
	for (unsigned i = 2; i < 20; i++)
		ol_notify_beat(&notify, 1 + i * quarter_ns, 8);
	assert_silent();
	ol_notify_beat(&notify, 1 + 20 * quarter_ns, 9);
	assert_said("WATCHDOG=1");
}

static void the_watchdog_of_another_process_is_not_fed(void **state)
{
	char self[16];

	(void)state;
	setenv("WATCHDOG_USEC", "1000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	assert_true(ol_notify_init(&notify));
	assert_int_equal(ol_notify_beat(&notify, 1, 1), -1);
	ol_notify_fini(&notify);
	snprintf(self, sizeof(self), "%d", (int)getpid());
	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "1000000", 1);
	setenv("WATCHDOG_PID", self, 1);
	assert_true(ol_notify_init(&notify));
	assert_int_equal(ol_notify_beat(&notify, 1, 1), 250);
	assert_said("WATCHDOG=1");
}

static void a_watchdog_that_is_no_number_is_none(void **state)
{
	static const char *const texts[] = {
		"", "0", "-1", "1e6", " 5", "99999999999999999999999"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		setenv("NOTIFY_SOCKET", path, 1);
		setenv("WATCHDOG_USEC", texts[i], 1);
		assert_true(ol_notify_init(&notify));
		assert_int_equal(ol_notify_beat(&notify, 1, 1), -1);
		ol_notify_fini(&notify);
	}
	assert_silent();
}

static void a_watchdog_that_is_too_short_is_made_longer(void **state)
{
	(void)state;
	setenv("WATCHDOG_USEC", "1000000", 1);
	assert_true(ol_notify_init(&notify));
	ol_notify_patience(&notify, OL_NS_PER_S / 2);
	ol_notify_patience(&notify, 0);
	assert_silent();
	ol_notify_patience(&notify, 3 * OL_NS_PER_S);
	assert_said("WATCHDOG_USEC=6000000");
	assert_int_equal(ol_notify_beat(&notify, 1, 1), 1500);
}

/* And what it did not take is given again */
static void a_manager_that_reads_nothing_holds_nobody_up(void **state)
{
	uint64_t now_ns = 1;
	unsigned sent = 0;
	char text[64];

	(void)state;
	setenv("WATCHDOG_USEC", "1000000", 1);
	assert_true(ol_notify_init(&notify));
	for (; sent < 100000; sent++) {
		uint64_t before_ns = notify.fed_ns;

		now_ns += OL_NS_PER_S;
		ol_notify_beat(&notify, now_ns, now_ns);
		if (notify.fed_ns == before_ns)
			break;
	}
	assert_true(sent < 100000);
	while (recv(manager, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	ol_notify_beat(&notify, now_ns + 1, now_ns);
	assert_said("WATCHDOG=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_manager_hears_ready_what_it_does_and_the_end),
		TEST(a_manager_at_an_abstract_name_hears_it),
		TEST(children_do_not_inherit_the_address),
		TEST(without_a_manager_nothing_happens),
		TEST(an_address_that_cannot_be_reached_is_told),
		TEST(a_status_line_is_said_if_it_changed_and_not_too_often),
		TEST(a_heartbeat_that_stands_gives_no_sign_of_life),
		TEST(the_watchdog_of_another_process_is_not_fed),
		TEST(a_watchdog_that_is_no_number_is_none),
		TEST(a_watchdog_that_is_too_short_is_made_longer),
		TEST(a_manager_that_reads_nothing_holds_nobody_up),
	};
	int rc;

	if (mkdtemp(folder) == NULL)
		return 1;
	snprintf(path, sizeof(path), "%s/manager", folder);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return rmdir(folder) != 0 || rc != 0;
}
