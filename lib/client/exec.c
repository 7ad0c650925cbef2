/* client/exec.c: a shell command run once a line or batch. */
#include "client/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

extern char **environ;

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
	pid_t pid; /* 0 = none */
	int pid_fd, in_fd;
	struct sc_watch *end_watch, *in_watch;
	size_t run_items, run_bytes, run_written;
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
	e->pid_fd = e->in_fd = -1;
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

static void close_input(struct sc_exec *e)
{
	sc_watch_free(e->in_watch);
	e->in_watch = NULL;
	sc_close(&e->in_fd);
}

static void close_run(struct sc_exec *e)
{
	close_input(e);
	sc_watch_free(e->end_watch);
	e->end_watch = NULL;
	sc_close(&e->pid_fd);
	e->pid = 0;
}

void sc_exec_free(struct sc_exec *e)
{
	if (!e)
		return;
	close_run(e);
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

static void on_end(void *arg, int events)
{
	struct sc_exec *e = arg;
	struct sc_err err;
	int status;
	pid_t got;
	bool was_full = sc_exec_full(e);

	(void)events;
	got = waitpid(e->pid, &status, WNOHANG);
	if (got == 0 || (got < 0 && errno == EINTR))
		return;
	close_run(e);
	if (got < 0) {
		sc_err_sys(&err, SC_E_INTERNAL, errno, "cannot wait for");
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

static void on_input(void *arg, int events)
{
	struct sc_exec *e = arg;

	(void)events;
	while (e->run_written < e->run_bytes) {
		ssize_t n = sc_sys_write(e->in_fd, e->lines.data + e->run_written,
					 e->run_bytes - e->run_written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* it does not read on: its status says whether that is well */
		e->run_written += (size_t)n;
	}
	close_input(e);
}

/* Our environment and the run's offsets. NULL when memory is out. */
static char **make_environment(const struct sc_exec *e, char texts[2][48])
{
	size_t count = 0, used = 0;
	char **env;

	while (environ[count])
		count++;
	env = sc_malloc((count + 3) * sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (strncmp(environ[i], "SC_FIRST_OFFSET=", 16) &&
		    strncmp(environ[i], "SC_OFFSET=", 10))
			env[used++] = environ[i];
	if (e->run_last) {
		snprintf(texts[0], 48, "SC_FIRST_OFFSET=%llu", (unsigned long long)e->run_first);
		snprintf(texts[1], 48, "SC_OFFSET=%llu", (unsigned long long)e->run_last);
		env[used++] = texts[0];
		env[used++] = texts[1];
	}
	env[used] = NULL;
	return env;
}

/* Start the shell with IN as its standard input. Signals are as a shell's child expects them, not
 * as the loop has them. */
static int spawn(struct sc_exec *e, int in)
{
	char *argv[] = { "sh", "-c", e->command, NULL };
	char texts[2][48];
	char **env = make_environment(e, texts);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, normal;
	int rc = ENOMEM;

	if (!env)
		return rc;
	sigemptyset(&none);
	sigemptyset(&normal);
	sigaddset(&normal, SIGPIPE); /* what the frame ignores */
	sigaddset(&normal, SIGXFSZ);
	if (posix_spawn_file_actions_init(&files) != 0) {
		free(env);
		return rc;
	}
	if (posix_spawnattr_init(&attr) == 0) {
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setsigdefault(&attr, &normal);
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
		rc = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
		if (rc == 0)
			rc = posix_spawn(&e->pid, "/bin/sh", &files, &attr, argv, env);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&files);
	free(env);
	return rc;
}

static int start_failed(struct sc_exec *e, int errnum, struct sc_err *err)
{
	close_run(e);
	sc_err_sys(err, SC_E_INTERNAL, errnum, "cannot start");
	return sc_err_on(err, "command", e->command);
}

static void choose_run(struct sc_exec *e)
{
	e->run_items = e->count < e->rows_max ? e->count : e->rows_max;
	e->run_bytes = e->run_written = 0;
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
	int ends[2], errnum, rc;

	if (e->pid || e->count == 0 || e->has_failed)
		return 0;
	choose_run(e);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return start_failed(e, errno, err);
	e->in_fd = ends[1];
	errnum = sc_set_nonblock(e->in_fd, true) < 0 ? errno : spawn(e, ends[0]);
	close(ends[0]);
	if (errnum) {
		e->pid = 0;
		return start_failed(e, errnum, err);
	}
	e->pid_fd = (int)syscall(SYS_pidfd_open, e->pid, 0);
	if (e->pid_fd < 0)
		return start_failed(e, errno, err);
	fcntl(e->pid_fd, F_SETFD, FD_CLOEXEC);
	rc = sc_watch_new(e->loop, e->pid_fd, SC_READABLE, on_end, e, &e->end_watch, err);
	if (rc == 0)
		rc = sc_watch_new(e->loop, e->in_fd, SC_WRITABLE, on_input, e, &e->in_watch, err);
	if (rc < 0)
		close_run(e);
	return rc;
}
