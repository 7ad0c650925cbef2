/*
 * Patterns match what wsmsg 10 says, and a router finds exactly those that a try of all would find.
 * Method: the table of the specification; random patterns and texts over a small alphabet, against
 * a matcher by recursion and against trying all.
 */
#include "../check.h"
#include "base/clock.h"
#include "msg/pattern.h"
#include "msg/router.h"

static const struct {
	const char *pattern;
	const char *match[4], *no[4];
} vectors[] = {
	{ "*", { "", "a", "a.b.c", ".hidden" }, { NULL } },
	{ "order.*",
	  { "order.created", "order.get.request", "order.", NULL },
	  { "order", "xorder.a", "Order.a", NULL } },
	{ "order.?", { "order.a", NULL }, { "order.ab", "order.", NULL } },
	{ "?", { "é", "😀", NULL }, { "", "ab", NULL } },
	{ "??", { "ab", NULL }, { "😀", NULL } },
	{ "[ab]*", { "apple", NULL }, { "cat", NULL } },
	{ "[!ab]*", { "cat", NULL }, { "apple", "", NULL } },
	{ "[^ab]*", { "^x", "apple", NULL }, { "cat", NULL } },
	{ "[a-c]x", { "bx", NULL }, { "dx", NULL } },
	{ "[c-a]x", { NULL }, { "bx", NULL } },
	{ "[]]x", { "]x", NULL }, { NULL } },
	{ "[]a]x", { "]x", "ax", NULL }, { NULL } },
	{ "[!]]x", { "ax", NULL }, { "]x", NULL } },
	{ "[a", { "[a", NULL }, { "a", NULL } },
	{ "[]", { "[]", NULL }, { "", NULL } },
	{ "[!]", { "[!]", NULL }, { "", NULL } },
	{ "a[", { "a[", NULL }, { "a", NULL } },
	{ "[*]", { "*", NULL }, { "a", NULL } },
	{ "[?]", { "?", NULL }, { "a", NULL } },
	{ "a\\*b", { "a\\*b", "a\\zzb", NULL }, { "a*b", NULL } },
	{ "*.*", { "a.b", NULL }, { "ab", NULL } },
	{ "a**b", { "a.x.b", "ab", NULL }, { NULL } },
	{ "a*b*c", { "aXbYc", "abcc", NULL }, { "acb", NULL } },
	{ "a*", { "a\nb", NULL }, { NULL } },
	{ "", { "", NULL }, { "a", NULL } },
	{ "[a-]", { "-", "a", NULL }, { "b", NULL } },
	{ "[!-]", { "x", NULL }, { "-", NULL } },
	{ "[a-é]", { "z", "é", NULL }, { "A", NULL } },
	{ "#", { "#", NULL }, { "anything", NULL } },
	{ "+", { "+", NULL }, { "anything", NULL } },
	{ "orders.>", { "orders.>", NULL }, { "orders.x", NULL } },
	/* what follows from the rules */
	{ "*a", { "a", "aa", "ba", NULL }, { "ab", "", NULL } },
	{ "*?", { "a", "é", NULL }, { "", NULL } },
	{ "*é", { "é", "xé", NULL }, { "e", NULL } },
	{ "[é]", { "é", NULL }, { "\xc3", NULL } },
	{ "[--a]", { "A", "-", NULL }, { "b", NULL } },
	{ "[a-c-e]", { "b", "-", "e", NULL }, { "d", NULL } },
	{ "*[ab]*c", { "xbyc", "ac", NULL }, { "c", "xyc", NULL } },
};

TEST(vectors_of_the_specification)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		struct sc_span pattern = sc_span_str(vectors[i].pattern);

		for (int j = 0; j < 4 && vectors[i].match[j]; j++) {
			if (!sc_pattern_match(pattern, sc_span_str(vectors[i].match[j])))
				FAIL("'%s' does not match '%s'", vectors[i].pattern,
				     vectors[i].match[j]);
		}
		for (int j = 0; j < 4 && vectors[i].no[j]; j++) {
			if (sc_pattern_match(pattern, sc_span_str(vectors[i].no[j])))
				FAIL("'%s' matches '%s'", vectors[i].pattern, vectors[i].no[j]);
		}
	}
}

TEST(hard_patterns_take_no_long_time)
{
	char pattern[256], text[256];
	int64_t start = sc_mono_us();

	memset(text, 'a', 255);
	for (int i = 0; i < 254; i += 2) {
		pattern[i] = '*';
		pattern[i + 1] = 'a';
	}
	pattern[253] = 'b';
	CHECK(!sc_pattern_match(sc_span(pattern, 254), sc_span(text, 255)));
	memset(pattern, 'x', 255);
	pattern[0] = '*';
	pattern[1] = '[';
	pattern[254] = ']';
	CHECK(!sc_pattern_match(sc_span(pattern, 255), sc_span(text, 255)));
	CHECK(sc_mono_us() - start < 2000000);
}

TEST(shapes)
{
	static const struct {
		const char *pattern;
		bool literal;
		size_t prefix, suffix;
	} shapes[] = {
		{ "abc", true, 3, 3 },     { "", true, 0, 0 },        { "a[b", true, 3, 3 },
		{ "a*", false, 1, 0 },     { "*a", false, 0, 1 },     { "ab*c?de", false, 2, 2 },
		{ "a[bc]d", false, 1, 1 }, { "a[!]]d", false, 1, 1 }, { "a[]", true, 3, 3 },
		{ "a*[b", false, 1, 2 },   { "[x]", false, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct sc_pattern_shape s = sc_pattern_shape(sc_span_str(shapes[i].pattern));

		if (s.literal != shapes[i].literal || s.prefix != shapes[i].prefix ||
		    s.suffix != shapes[i].suffix)
			FAIL("'%s': %d %zu %zu", shapes[i].pattern, s.literal, s.prefix, s.suffix);
	}
}

/* Any bytes: only that nothing is read outside, and that it ends. */
TEST(any_bytes_are_safe)
{
	for (int i = 0; i < 20000; i++) {
		unsigned char bytes[32];
		size_t cut = sc_random_below(17);
		char *pattern = malloc(cut + 1), *text = malloc(33 - cut);

		CHECK(pattern && text);
		sc_random(bytes, sizeof(bytes));
		memcpy(pattern, bytes, cut);
		memcpy(text, bytes + cut, 32 - cut);
		for (size_t j = 0; j < cut; j++)
			pattern[j] = bytes[j] & 1 ? pattern[j] : "*?[]!-"[(bytes[j] >> 1) % 6];
		(void)sc_pattern_match(sc_span(pattern, cut), sc_span(text, 32 - cut));
		(void)sc_pattern_shape(sc_span(pattern, cut));
		free(pattern);
		free(text);
	}
}

#define MANY 400
static struct sc_router_entry entries[MANY];
static char names[MANY][64];
static bool present[MANY], found[MANY];
static int found_count;

static void note(void *arg, struct sc_router_entry *e)
{
	size_t i = (size_t)(e - entries);

	(void)arg;
	if (found[i])
		found_count = -1000000;
	found[i] = true;
	found_count++;
}

static void random_text(char *out, const char *letters, size_t most)
{
	size_t len = sc_random_below(most + 1);

	for (size_t i = 0; i < len; i++)
		out[i] = letters[sc_random_below(strlen(letters))];
	out[len] = 0;
}

TEST(a_router_finds_what_a_try_of_all_finds)
{
	struct sc_router r = { 0 };

	for (int step = 0; step < 30000; step++) {
		size_t i = sc_random_below(step % 7000 < 500 ? 10 : MANY);
		char text[64];
		int want = 0;

		if (present[i]) {
			CHECK(sc_router_find(&r, entries[i].pattern));
			sc_router_remove(&r, &entries[i]);
			present[i] = false;
		} else {
			random_text(names[i], step % 3 ? "ab*" : "aaaaaaab?[]*", step % 5 ? 6 : 40);
			entries[i].pattern = sc_span_str(names[i]);
			if (!sc_router_find(&r, entries[i].pattern)) {
				CHECK_INT(sc_router_add(&r, &entries[i]), 0);
				present[i] = true;
			}
		}
		random_text(text, "aab", step % 5 ? 7 : 45);
		memset(found, 0, sizeof(found));
		found_count = 0;
		sc_router_match(&r, sc_span_str(text), note, NULL);
		for (size_t j = 0; j < MANY; j++) {
			bool is = present[j] &&
				  sc_pattern_match(entries[j].pattern, sc_span_str(text));

			want += is;
			if (is != found[j])
				FAIL("'%s' and '%s': %d", names[j], text, found[j]);
		}
		CHECK_INT(found_count, want);
	}
	for (size_t j = 0; j < MANY; j++) {
		if (present[j])
			sc_router_remove(&r, &entries[j]);
	}
	CHECK(r.table.count == 0 && !r.table.buckets && !r.shapes);
}
