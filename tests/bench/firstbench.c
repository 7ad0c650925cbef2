/*
 * firstbench: how long the first row of a read takes, at offsets all over two logs, a large and a
 * small one.
 *
 * Method: the logs take turns, one random offset each, so that a busy machine hits both alike;
 * three measures of each: a reader opened in an open log, the log opened for it, and a process that
 * is started for it (sc-log read --from N --count 1, until its line is there and it has ended).
 * What came is compared with the offset. Usage: firstbench SC-LOG LARGE SMALL [READS [PROCESSES]].
 * One JSON line on stdout, in microseconds.
 */
#include <spawn.h>

#include "bench.h"
#include "library.h"

#include "log/log.h"
#include "log/reader.h"

extern char **environ;

enum how { READER, OPENED, PROCESS, HOWS };
static const char *const hows[] = { "reader", "log", "process" };
static const char *const sizes[] = { "large", "small" };

struct measured {
	uint64_t *ns;
	size_t count;
};

static void read_one(struct sc_log *log, uint64_t offset)
{
	struct sc_reader *reader = NULL;
	struct sc_run run;

	if (sc_reader_open(log, offset, &reader, &err) < 0 ||
	    sc_reader_next(reader, 1, &run, &err) != 1)
		fail("cannot read");
	if (run.first != offset || run.rows != 1)
		fail("another row came");
	sc_reader_close(reader);
}

static struct sc_log *open_log(const char *path)
{
	struct sc_log *log = NULL;

	if (sc_log_open(path, SC_LOG_READ, &log, &err) < 0)
		fail("cannot open");
	return log;
}

static void run_one(const char *program, const char *path, uint64_t offset)
{
	char from[32], want[32], got[4096];
	char *argv[] = { (char *)(uintptr_t)program,
			 "read",
			 (char *)(uintptr_t)path,
			 "--from",
			 from,
			 "--count",
			 "1",
			 NULL };
	posix_spawn_file_actions_t acts;
	size_t len = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	snprintf(from, sizeof(from), "%llu", (unsigned long long)offset);
	snprintf(want, sizeof(want), "[%llu,", (unsigned long long)offset);
	if (pipe2(fds, O_CLOEXEC) < 0 || posix_spawn_file_actions_init(&acts) ||
	    posix_spawn_file_actions_adddup2(&acts, fds[1], STDOUT_FILENO) ||
	    posix_spawn(&pid, program, &acts, NULL, argv, environ))
		fail("cannot start a program");
	close(fds[1]);
	while (len < sizeof(got) && (n = read(fds[0], got + len, sizeof(got) - len)) > 0)
		len += (size_t)n;
	close(fds[0]);
	posix_spawn_file_actions_destroy(&acts);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		fail("the program failed");
	if (len < strlen(want) || memcmp(got, want, strlen(want)) != 0 || got[len - 1] != '\n')
		fail("it printed another row");
}

static uint64_t measure(enum how how, const char *program, const char *path, struct sc_log *log,
			uint64_t offset)
{
	uint64_t since = now_ns();
	struct sc_log *own;

	switch (how) {
	case READER:
		read_one(log, offset);
		break;
	case OPENED:
		own = open_log(path);
		read_one(own, offset);
		sc_log_close(own);
		break;
	default:
		run_one(program, path, offset);
	}
	return now_ns() - since;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *size, const char *how, struct measured *m)
{
	uint64_t sum = 0;

	qsort(m->ns, m->count, sizeof(*m->ns), compare);
	for (size_t i = 0; i < m->count; i++)
		sum += m->ns[i];
	printf(",\"%s_%s\":{\"mean_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"worst_us\":%.1f}",
	       size, how, (double)sum / (double)m->count / 1e3, (double)m->ns[m->count / 2] / 1e3,
	       (double)m->ns[m->count * 99 / 100] / 1e3, (double)m->ns[m->count - 1] / 1e3);
}

int main(int argc, char **argv)
{
	size_t counts[HOWS] = { argc > 4 ? strtoul(argv[4], NULL, 10) : 1000 };
	struct sc_log_state state[2];
	struct sc_log *logs[2];
	struct measured m;

	counts[OPENED] = counts[READER];
	counts[PROCESS] = argc > 5 ? strtoul(argv[5], NULL, 10) : 200;
	if (argc < 4 || !counts[READER] || !counts[PROCESS]) {
		fprintf(stderr, "usage: firstbench SC-LOG LARGE SMALL [READS [PROCESSES]]\n");
		return 64;
	}
	for (int i = 0; i < 2; i++) {
		logs[i] = open_log(argv[2 + i]);
		if (sc_log_state(logs[i], &state[i], &err) < 0)
			fail("cannot ask for the state");
	}
	printf("{\"large_rows\":%llu,\"small_rows\":%llu", (unsigned long long)state[0].rows,
	       (unsigned long long)state[1].rows);
	for (int how = 0; how < HOWS; how++) {
		struct measured both[2];

		m.count = counts[how];
		for (int i = 0; i < 2; i++) {
			m.ns = calloc(m.count, sizeof(*m.ns));
			if (!m.ns)
				fail("no memory");
			both[i] = m;
		}
		for (size_t n = 0; n < m.count; n++)
			for (int i = 0; i < 2; i++)
				both[i].ns[n] = measure((enum how)how, argv[1], argv[2 + i],
							logs[i],
							state[i].first_offset + any(state[i].rows));
		for (int i = 0; i < 2; i++) {
			print(sizes[i], hows[how], &both[i]);
			free(both[i].ns);
		}
	}
	printf("}\n");
	sc_log_close(logs[0]);
	sc_log_close(logs[1]);
	return 0;
}
