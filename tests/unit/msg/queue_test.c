/*
 * Queues keep order and priority, drop the oldest of the lowest, and account for every byte.
 * Method: tables, and a model of plain arrays that random operations are compared with.
 */
#include "../check.h"
#include "base/clock.h"
#include "base/heap.h"
#include "msg/queue.h"
#include "msg/table.h"

static struct sc_queue_totals totals;

static struct sc_parcel *parcel(uint64_t seq, int64_t accepted_us)
{
	struct sc_msg msg = { .uid = SC_SPAN("0123456789abcdef"),
			      .channel = SC_SPAN("c"),
			      .subject = SC_SPAN("s"),
			      .data = SC_SPAN("\xc0") };
	struct sc_parcel *p = sc_parcel_new(&totals, &msg, SC_MSG_DOCUMENT);

	CHECK(p);
	p->seq = seq;
	p->accepted_us = accepted_us;
	return p;
}

static int push(struct sc_queue *q, unsigned priority, uint64_t seq)
{
	struct sc_parcel *p = parcel(seq, (int64_t)seq);
	int rc = sc_queue_push(q, priority, p);

	sc_parcel_unref(p);
	return rc;
}

static uint64_t pop(struct sc_queue *q)
{
	struct sc_parcel *p = sc_queue_pop(q, NULL);
	uint64_t seq = p ? p->seq : 0;

	sc_parcel_unref(p);
	return seq;
}

TEST(higher_first_and_in_order)
{
	struct sc_queue q;

	sc_queue_init(&q, &totals, 10);
	push(&q, 5, 1);
	push(&q, 0, 2);
	push(&q, 100, 3);
	push(&q, 5, 4);
	CHECK_INT(totals.queued, 4);
	CHECK_INT(pop(&q), 3);
	CHECK_INT(pop(&q), 1);
	CHECK_INT(pop(&q), 4);
	CHECK_INT(pop(&q), 2);
	CHECK_INT(pop(&q), 0);
	sc_queue_done(&q);
	CHECK_INT(totals.bytes, 0);
	CHECK_INT(totals.queued, 0);
}

TEST(the_oldest_of_the_lowest_goes)
{
	struct sc_queue q;

	sc_queue_init(&q, &totals, 3);
	push(&q, 1, 1);
	push(&q, 0, 2);
	push(&q, 0, 3);
	CHECK_INT(push(&q, 1, 4), 1); /* 2 goes */
	CHECK_INT(push(&q, 0, 5), 1); /* 3 goes */
	CHECK_INT(push(&q, 1, 6), 1); /* 5 goes */
	CHECK_INT(push(&q, 0, 7), 0); /* itself: the only one of the lowest */
	CHECK_INT(push(&q, 1, 8), 1); /* 1 goes */
	CHECK_INT(q.dropped_full, 5);
	CHECK_INT(pop(&q), 4);
	CHECK_INT(pop(&q), 6);
	CHECK_INT(pop(&q), 8);
	sc_queue_done(&q);
	CHECK_INT(totals.bytes, 0);
}

TEST(a_smaller_size_drops_at_once)
{
	struct sc_queue q;

	sc_queue_init(&q, &totals, 1000);
	for (unsigned i = 1; i <= 500; i++)
		push(&q, i % 2, i);
	sc_queue_resize(&q, 3);
	CHECK_INT(q.count, 3);
	CHECK_INT(pop(&q), 495);
	CHECK_INT(pop(&q), 497);
	CHECK_INT(pop(&q), 499);
	CHECK_INT(q.dropped_full, 497);
	sc_queue_done(&q);
	CHECK_INT(totals.bytes, 0);
}

TEST(old_ones_go)
{
	struct sc_queue q;

	sc_queue_init(&q, &totals, 1000);
	for (unsigned i = 1; i <= 90; i++)
		push(&q, i % 3, i);
	sc_queue_expire(&q, 80);
	CHECK_INT(q.count, 11);
	CHECK_INT(q.dropped_age, 79);
	sc_queue_expire(&q, 1000);
	CHECK_INT(q.count, 0);
	CHECK_INT(totals.queued, 0);
	push(&q, 7, 5);
	CHECK_INT(pop(&q), 5);
	sc_queue_done(&q);
	CHECK_INT(totals.bytes, 0);
}

TEST(bytes_are_there_once)
{
	struct sc_queue a, b;
	struct sc_parcel *p = parcel(1, 1);
	uint64_t one = totals.bytes;
	struct sc_span d, r;

	CHECK_INT(one, sc_parcel_cost(&p->msg));
	sc_queue_init(&a, &totals, 10);
	sc_queue_init(&b, &totals, 10);
	sc_queue_push(&a, 0, p);
	sc_queue_push(&b, 0, p);
	CHECK(totals.bytes < one + 200);
	d = sc_parcel_form(p, SC_MSG_DOCUMENT);
	r = sc_parcel_form(p, SC_MSG_REFERENCE);
	CHECK(r.data && r.data == sc_parcel_form(p, SC_MSG_REFERENCE).data);
	CHECK_MEM(d.data, d.len,
		  "\x95\xc4\x10"
		  "0123456789abcdef\xa1"
		  "c\xa1s\xc0\xc0");
	CHECK_MEM(r.data, r.len,
		  "\x95\xc4\x10"
		  "0123456789abcdef\xc0\xa1"
		  "c\xa1s\xc0");
	CHECK(p->msg.uid.data > d.data && p->msg.uid.data < d.data + d.len);
	sc_parcel_unref(p);
	CHECK_INT(pop(&a), 1);
	CHECK_INT(pop(&b), 1);
	sc_queue_done(&a);
	sc_queue_done(&b);
	CHECK_INT(totals.bytes, 0);
}

#define SIZE 20
struct model {
	uint64_t seq[5][2000];
	size_t count[5];
};

static size_t fill(const struct model *m)
{
	size_t n = 0;

	for (int i = 0; i < 5; i++)
		n += m->count[i];
	return n;
}

static uint64_t model_take(struct model *m, int lane)
{
	uint64_t seq = m->seq[lane][0];

	memmove(&m->seq[lane][0], &m->seq[lane][1], --m->count[lane] * sizeof(seq));
	return seq;
}

static int lowest(const struct model *m)
{
	int i = 0;

	while (m->count[i] == 0)
		i++;
	return i;
}

static int highest(const struct model *m)
{
	int i = 4;

	while (i >= 0 && m->count[i] == 0)
		i--;
	return i;
}

static int compare(void *arg, unsigned priority, struct sc_parcel *p)
{
	struct model *m = arg;
	int lane = highest(m);

	return lane == (int)priority && model_take(m, lane) == p->seq ? 0 : -1;
}

TEST(random_operations_against_a_model)
{
	static struct model m, copy;
	struct sc_queue q;
	size_t size = SIZE;

	sc_queue_init(&q, &totals, SIZE);
	for (uint64_t step = 1; step < 60000; step++) {
		unsigned what = (unsigned)sc_random_below(10), lane = (unsigned)sc_random_below(5);

		if (what < 5 || (what < 8 && step / 1000 % 2)) {
			push(&q, lane, step);
			m.seq[lane][m.count[lane]++] = step;
			while (fill(&m) > size)
				model_take(&m, lowest(&m));
		} else if (what < 9) {
			int top = highest(&m);

			CHECK_INT(pop(&q), top < 0 ? 0 : model_take(&m, top));
		} else if (step % 50 == 0) {
			size = 1 + sc_random_below(300);
			sc_queue_resize(&q, (uint32_t)size);
			while (fill(&m) > size)
				model_take(&m, lowest(&m));
		}
		CHECK_INT(q.count, fill(&m));
		if (step % 100 == 0) {
			copy = m;
			CHECK_INT(sc_queue_each(&q, compare, &copy), 0);
			CHECK_INT(fill(&copy), 0);
		}
	}
	sc_queue_done(&q);
	CHECK_INT(totals.bytes, 0);
	CHECK_INT(totals.queued, 0);
}

TEST(a_heap_gives_the_least)
{
	static struct sc_heap_item items[300];
	struct sc_heap h = { 0 };
	size_t in = 0;

	for (int step = 0; step < 20000; step++) {
		struct sc_heap_item *item = &items[sc_random_below(300)];

		if (sc_random_below(3)) {
			in += item->place == 0;
			CHECK_INT(sc_heap_put(&h, item, sc_random_below(10), sc_random_below(9)),
				  0);
		} else {
			in -= item->place != 0;
			sc_heap_remove(&h, item);
		}
		CHECK_INT(h.count, in);
		for (size_t i = 0; in && i < 300; i++) {
			const struct sc_heap_item *first = sc_heap_first(&h);

			if (items[i].place &&
			    (items[i].major < first->major ||
			     (items[i].major == first->major && items[i].minor < first->minor)))
				FAIL("not the least");
		}
	}
	sc_heap_done(&h);
}

TEST(a_table_keeps_entries_of_one_key)
{
	static struct sc_table_entry e[1000];
	static char keys[1000][16];
	struct sc_table t = { 0 };

	for (int i = 0; i < 1000; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%d", i / 2);
		e[i].key = sc_span_str(keys[i]);
		e[i].hash = sc_table_hash(e[i].key);
		sc_table_add(&t, &e[i]);
	}
	for (int i = 0; i < 1000; i += 2) {
		CHECK(sc_table_find(&t, e[i].key) == &e[i + 1]);
		CHECK(sc_table_find_next(&e[i + 1]) == &e[i]);
		CHECK(sc_table_find_next(&e[i]) == NULL);
	}
	CHECK(sc_table_find(&t, SC_SPAN("k500")) == NULL);
	for (int i = 0; i < 1000; i++)
		sc_table_remove(&t, &e[i]);
	CHECK(t.count == 0 && !t.buckets);
}
