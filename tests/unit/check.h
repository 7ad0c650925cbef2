/*
 * tests/unit/check.h: the unit tests' frame: TEST(name) { CHECK(...); } and one main.
 *
 * A failed check prints file, line and what was compared, and ends that test; the others go on. The
 * last line is "N passed, N failed". A name as argument runs only the tests that contain it.
 */
#ifndef SC_TESTS_CHECK_H
#define SC_TESTS_CHECK_H

#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1 under a sanitizer, where a fork costs ten times as much and memory that was freed is kept. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SC_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SC_SANITIZED 1
#endif
#endif
#ifndef SC_SANITIZED
#define SC_SANITIZED 0
#endif

struct sc_test {
	const char *name;
	void (*run)(void);
	struct sc_test *next;
};
static struct sc_test *sc_tests, **sc_tests_end = &sc_tests;
static jmp_buf sc_test_out;

#define TEST(NAME) \
	static void NAME(void); \
	__attribute__((constructor)) static void sc_add_##NAME(void) \
	{ \
		static struct sc_test t = { #NAME, NAME, NULL }; \
		*sc_tests_end = &t; \
		sc_tests_end = &t.next; \
	} \
	static void NAME(void)

#define FAIL(...) \
	do { \
		printf("%s:%d: ", __FILE__, __LINE__); \
		printf(__VA_ARGS__); \
		printf("\n"); \
		longjmp(sc_test_out, 1); \
	} while (0)
#define CHECK(COND) do { if (!(COND)) FAIL("not true: %s", #COND); } while (0)
#define CHECK_INT(GOT, WANT) \
	do { \
		int64_t got_ = (int64_t)(GOT), want_ = (int64_t)(WANT); \
		if (got_ != want_) \
			FAIL("%s is %" PRId64 ", not %" PRId64, #GOT, got_, want_); \
	} while (0)
#define CHECK_MEM(GOT, LEN, WANT) \
	do { \
		const char *got_ = (GOT), *want_ = (WANT); \
		size_t len_ = (LEN); \
		if (len_ != strlen(want_) || (len_ && memcmp(got_, want_, len_))) \
			FAIL("%s is '%.*s', not '%s'", #GOT, (int)len_, got_ ? got_ : "", want_); \
	} while (0)
#define CHECK_STR(GOT, WANT) CHECK_MEM(GOT, strlen(GOT), WANT)
#define CHECK_SPAN(GOT, WANT) CHECK_MEM((GOT).data, (GOT).len, WANT)
#define CHECK_OK(CALL, ERR) \
	do { \
		int rc_ = (CALL); \
		if (rc_ < 0) { \
			char line_[1100]; \
			sc_err_line((ERR), line_, sizeof(line_)); \
			FAIL("%s: %s", #CALL, line_); \
		} \
	} while (0)

int main(int argc, char **argv)
{
	static int passed, failed; /* static: longjmp leaves them alone */
	static struct sc_test *t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* LMDB takes 2 MiB of zeros at each opening: out of a heap that grew they would be written
	 * there, and copied by each fork; fresh from the kernel they cost nothing. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	for (t = sc_tests; t; t = t->next) {
		if (argc > 1 && !strstr(t->name, argv[1]))
			continue;
		if (setjmp(sc_test_out) == 0) {
			t->run();
			passed++;
		} else {
			printf("FAILED %s\n", t->name);
			failed++;
		}
	}
	printf("%s: %d passed, %d failed\n", argv[0], passed, failed);
	return failed != 0;
}

#endif
