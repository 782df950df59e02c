/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * list_test.c -- a list holds what was added, in order, while members come and go
 */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct item {
	int value;
	struct ol_list link;
};

static struct ol_list list;

static void add(int value)
{
	struct item *item = malloc(sizeof(*item));

	assert_non_null(item);
	item->value = value;
	ol_list_add_tail(&list, &item->link);
}

static void assert_holds(const int *values, size_t count)
{
	struct ol_list *pos;
	size_t i = 0;

	ol_list_for_each (pos, &list) {
		assert_true(i < count);
		assert_int_equal(ol_container_of(pos, struct item, link)->value, values[i]);
		assert_ptr_equal(pos->next->prev, pos);
		i++;
	}
	assert_int_equal(i, count);
}

static void members_stay_in_the_order_added(void **state)
{
	struct item first = { .value = 0 };
	struct ol_list *link;

	(void)state;
	ol_list_init(&list);
	assert_true(ol_list_empty(&list));
	assert_null(ol_list_pop_head(&list));
	add(1);
	add(2);
	ol_list_add_head(&list, &first.link);
	assert_false(ol_list_empty(&list));
	assert_holds((const int[]){ 0, 1, 2 }, 3);
	ol_list_del(&first.link);
	ol_list_del(&first.link); /* again: nothing happens */
	assert_holds((const int[]){ 1, 2 }, 2);
	while ((link = ol_list_pop_head(&list)) != NULL)
		free(ol_container_of(link, struct item, link));
	assert_true(ol_list_empty(&list));
}

static void members_may_leave_and_be_freed_inside_a_safe_loop(void **state)
{
	struct ol_list *pos, *after;

	(void)state;
	ol_list_init(&list);
	for (int i = 0; i < 6; i++)
		add(i);
	ol_list_for_each_safe (pos, after, &list) {
		struct item *item = ol_container_of(pos, struct item, link);

		if (item->value % 2 == 0) {
			ol_list_del(pos);
			free(item);
		}
	}
	assert_holds((const int[]){ 1, 3, 5 }, 3);
	ol_list_for_each_safe (pos, after, &list) {
		ol_list_del(pos);
		free(ol_container_of(pos, struct item, link));
	}
	assert_true(ol_list_empty(&list));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_stay_in_the_order_added),
		cmocka_unit_test(members_may_leave_and_be_freed_inside_a_safe_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
