/*
 * tests/fault/run.h: programs of ours, run under the recorder.
 *
 * Errors    what goes wrong ends the test (FAIL of check.h is not for here): a message, and exit 3.
 */
#ifndef SC_FAULT_RUN_H
#define SC_FAULT_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the test's own program lies: record.so beside it, the programs in ../bin. */
void run_init(const char *argv0);
/* What programs started from now on run under: changes below FOLDER go to TRACE. NULL = none. */
void run_record(const char *folder, const char *trace);
void run_mark(const char *text); /* a word of ours in the trace */
void run_folder_made(const char *name); /* in the folder, by the test, and it is on disk */

struct run {
	pid_t pid;
	int in, out;
	size_t lines;      /* that came out */
	char tail[256];    /* the last one of them, cut */
	size_t tail_len;
};
/* ARGV[0] is a program's name (sc-log), NULL at the end. */
void run_start(struct run *run, const char *const *argv);
void run_feed(struct run *run, const char *data, size_t len);
/* At most 1 MiB, which it finds all at once: it is stopped meanwhile. */
void run_feed_at_once(struct run *run, const char *data, size_t len);
void run_wait_lines(struct run *run, size_t lines); /* until so many came out in all */
int run_end(struct run *run);                       /* close its input; its exit status */
/* All of it at once, empty input: the exit status. */
int run_once(const char *const *argv);

#endif
