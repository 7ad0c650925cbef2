/* client/exec.c: a shell command run once a line or batch. */
#include "client/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "net/child.h"

/* A line that waits for its run. */
struct item {
	size_t len;
	uint64_t offset;
};

struct sc_exec {
	struct sc_loop *loop;
	char *command;
	unsigned rows_max;
	void (*room)(void *arg);
	void (*moved)(void *arg);
	void (*failed)(void *arg, const struct sc_err *err);
	void *arg;
	struct sc_bytes lines; /* back to back; the front ones belong to the run going on */
	struct item *items;
	size_t count, cap;
	/* the run */
	struct sc_child *child; /* NULL = none */
	size_t run_items, run_bytes;
	uint64_t run_first, run_last;
	uint64_t trailing; /* of rows without a line, after the lines that wait */
	uint64_t done;
	bool has_failed;
};

int sc_exec_new(struct sc_loop *loop, const char *command, unsigned rows_max,
		void (*room)(void *arg), void (*moved)(void *arg),
		void (*failed)(void *arg, const struct sc_err *err), void *arg,
		struct sc_exec **ret_exec, struct sc_err *err)
{
	struct sc_exec *e = sc_calloc(1, sizeof(*e));

	if (!e)
		return sc_err_nomem(err, "cannot set up the command");
	e->command = sc_malloc(strlen(command) + 1);
	if (!e->command) {
		sc_exec_free(e);
		return sc_err_nomem(err, "cannot set up the command");
	}
	memcpy(e->command, command, strlen(command) + 1);
	e->loop = loop;
	e->rows_max = rows_max ? rows_max : 1;
	e->room = room;
	e->moved = moved;
	e->failed = failed;
	e->arg = arg;
	sc_bytes_init(&e->lines, SIZE_MAX / 2);
	*ret_exec = e;
	return 0;
}

void sc_exec_free(struct sc_exec *e)
{
	if (!e)
		return;
	sc_child_free(e->child);
	sc_bytes_done(&e->lines);
	free(e->items);
	free(e->command);
	free(e);
}

bool sc_exec_full(const struct sc_exec *e)
{
	return e->lines.len >= SC_EXEC_BUFFER || e->count >= SC_EXEC_ROWS_MAX;
}

bool sc_exec_idle(const struct sc_exec *e)
{
	return e->count == 0;
}

uint64_t sc_exec_done(const struct sc_exec *e)
{
	return e->done;
}

/* Rows that a filter dropped are finished when the lines before them are. */
static void settle_trailing(struct sc_exec *e)
{
	if (e->count == 0 && e->trailing > e->done)
		e->done = e->trailing;
}

int sc_exec_put(struct sc_exec *e, struct sc_span line, uint64_t offset, struct sc_err *err)
{
	if (line.len == 0) {
		e->trailing = offset;
		settle_trailing(e);
		return 0;
	}
	if (e->count == e->cap) {
		size_t cap = e->cap ? e->cap * 2 : 64;
		struct item *grown = sc_realloc(e->items, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, "cannot keep a line for the command");
		e->items = grown;
		e->cap = cap;
	}
	if (sc_bytes_put(&e->lines, line.data, line.len) < 0)
		return sc_err_nomem(err, "cannot keep a line for the command");
	e->items[e->count++] = (struct item){ line.len, offset };
	return 0;
}

static void run_failed(struct sc_exec *e, const struct sc_err *err)
{
	e->has_failed = true;
	e->failed(e->arg, err);
}

static void set_failure(const struct sc_exec *e, int status, struct sc_err *err)
{
	if (WIFSIGNALED(status))
		sc_err_set(err, SC_E_PARTIAL, "cannot finish", "it was ended by signal %d",
			   WTERMSIG(status));
	else
		sc_err_set(err, SC_E_PARTIAL, "cannot finish", "it ended with status %d",
			   WEXITSTATUS(status));
	sc_err_on(err, "command", e->command);
	if (e->run_last) {
		sc_err_field_u64(err, "first_offset", e->run_first);
		sc_err_field_u64(err, "offset", e->run_last);
		sc_err_next(
			err,
			"offsets %llu to %llu are not finished and come again at the next start",
			(unsigned long long)e->run_first, (unsigned long long)e->run_last);
	} else {
		sc_err_next(err, "the row it had is not finished");
	}
}

static void on_end(void *arg, const struct sc_child_end *end)
{
	struct sc_exec *e = arg;
	struct sc_err err;
	int status = end->status, errnum = end->errnum;
	bool was_full = sc_exec_full(e);

	sc_child_free(e->child);
	e->child = NULL;
	if (errnum) {
		sc_err_sys(&err, SC_E_INTERNAL, errnum, "cannot wait for");
		sc_err_on(&err, "command", e->command);
		run_failed(e, &err);
		return;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		set_failure(e, status, &err);
		run_failed(e, &err);
		return;
	}
	if (e->run_last > e->done)
		e->done = e->run_last;
	sc_bytes_drop(&e->lines, e->run_bytes);
	memmove(e->items, e->items + e->run_items, (e->count - e->run_items) * sizeof(*e->items));
	e->count -= e->run_items;
	settle_trailing(e);
	e->moved(e->arg);
	if (sc_exec_flush(e, &err) < 0)
		run_failed(e, &err);
	else if (was_full && !sc_exec_full(e))
		e->room(e->arg);
}

static void choose_run(struct sc_exec *e)
{
	e->run_items = e->count < e->rows_max ? e->count : e->rows_max;
	e->run_bytes = 0;
	e->run_first = e->run_last = 0;
	for (size_t i = 0; i < e->run_items; i++) {
		e->run_bytes += e->items[i].len;
		if (!e->run_first)
			e->run_first = e->items[i].offset;
		if (e->items[i].offset)
			e->run_last = e->items[i].offset;
	}
}

int sc_exec_flush(struct sc_exec *e, struct sc_err *err)
{
	char *argv[] = { "sh", "-c", e->command, NULL };
	char first[48] = "SC_FIRST_OFFSET", last[48] = "SC_OFFSET"; /* a run without any has none */
	const char *env[] = { first, last, NULL };
	struct sc_child_options options = { .argv = argv, .env = env };
	int rc;

	if (e->child || e->count == 0 || e->has_failed)
		return 0;
	choose_run(e);
	if (e->run_last) {
		snprintf(first, sizeof(first), "SC_FIRST_OFFSET=%llu",
			 (unsigned long long)e->run_first);
		snprintf(last, sizeof(last), "SC_OFFSET=%llu", (unsigned long long)e->run_last);
	}
	options.input = sc_span(e->lines.data, e->run_bytes);
	rc = sc_child_start(e->loop, &options, on_end, e, &e->child, err);
	if (rc < 0)
		sc_err_on(err, "command", e->command);
	return rc;
}
