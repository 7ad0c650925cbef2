/*
 * tests/fault/segment_test.c: each write, sync and allocation of sealing and reading a segment
 * fails in turn.
 *
 * Method: this program runs itself with SC_FAULT set, for the first call, the second, and so on
 * until the work succeeds. Every run before must end with an error that says what happened, without
 * a crash, and under the sanitizers without a leak. Each call that failed is a test.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log/segment.h"

#define REFUSED 3
#define ROWS 9000

static struct sc_err err;

static int write_rows(struct sc_segment_writer *w)
{
	struct sc_segment_tie tie = { .next = ROWS + 1 };
	struct sc_segment_info info;
	char text[200];

	for (uint64_t i = 1; i <= ROWS; i++) {
		int len = snprintf(text, sizeof(text),
				   "[%llu,{\"n\":%llu,\"s\":\"\\u0041%060llu\"}]\n",
				   (unsigned long long)i, (unsigned long long)i,
				   (unsigned long long)i * 7919);
		struct sc_run run = { { text, (size_t)len }, i, i, 1, (int64_t)(i / 3) };
		int rc = sc_segment_write_add(w, &run, &err);

		if (rc < 0)
			return rc;
	}
	return sc_segment_write_finish(w, &tie, &info, &err);
}

static int seal(int fd)
{
	static const char text[] = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":"
				   "\"integer\"},\"s\":{\"type\":\"string\"}},"
				   "\"required\":[\"n\",\"s\"]}";
	struct sc_segment_begin begin = { .fd = fd, .name = "segment", .stream_id = "x" };
	struct sc_segment_writer *w = NULL;
	struct sc_schema *schema = NULL;
	int rc = sc_schema_parse(sc_span_str(text), &schema, &err);

	begin.schema = schema;
	if (rc == 0)
		rc = sc_segment_write_begin(&begin, &w, &err);
	if (rc == 0)
		rc = write_rows(w);
	sc_segment_write_free(w);
	sc_schema_free(schema);
	return rc;
}

static int read_rows(int fd)
{
	struct sc_segment_source source;
	struct sc_segment_place place;
	struct sc_segment *s = NULL;
	uint64_t rows = 0;
	struct sc_run run;
	int rc = sc_segment_source_fd(fd, "segment", &source, &err);

	if (rc == 0)
		rc = sc_segment_open(&source, &s, &err);
	while (rc >= 0 && (rc = sc_segment_next(s, 0, &run, &err)) == 1)
		rows += run.rows;
	if (rc == 0 && rows != ROWS)
		abort();
	if (rc == 0)
		rc = sc_segment_find_time(s, 1000, &place, &err);
	if (rc >= 0)
		rc = sc_segment_verify(s, &err);
	sc_segment_close(s);
	return rc;
}

static int child(void)
{
	int fd = memfd_create("segment", MFD_CLOEXEC), rc = seal(fd);

	if (rc == 0)
		rc = read_rows(fd);
	close(fd);
	if (rc < 0 && (err.code != rc || !err.tried[0] || !err.reason[0]))
		abort();
	return rc < 0 ? REFUSED : 0;
}

/* How the child ends when its call number N fails: exit status, or -1. */
static int run_once(const char *self, const char *call, int n, const char *error)
{
	char fault[64];
	int status;
	pid_t pid;

	snprintf(fault, sizeof(fault), "%s:%d:%s", call, n, error);
	pid = fork();
	if (pid == 0) {
		setenv("SC_FAULT", fault, 1);
		execl(self, self, "child", (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *call, *error;
		int least; /* calls of that kind there are */
	} kinds[] = { { "pwrite", "ENOSPC", 4 },
		      { "pwrite", "EIO", 4 },
		      { "fsync", "EIO", 1 },
		      { "malloc", "ENOMEM", 20 } };
	int passed = 0, failed = 0;

	if (argc > 1 && !strcmp(argv[1], "child"))
		return child();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int n = 1, status;

		while ((status = run_once("/proc/self/exe", kinds[i].call, n, kinds[i].error)) ==
		       REFUSED) {
			n++;
			passed++;
		}
		if (status != 0 || n - 1 < kinds[i].least) {
			printf("%s:%d:%s: status %d\n", kinds[i].call, n, kinds[i].error, status);
			failed++;
		}
	}
	printf("%s: %d passed, %d failed\n", argv[0], passed, failed);
	return failed != 0;
}
