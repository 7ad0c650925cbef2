/*
 * base/progress.h: how far a long piece of work is, on a terminal and nowhere else.
 *
 * Owns      one line of the terminal, from the first sc_progress_show that draws until
 *           sc_progress_clear.
 * Units     done and total in bytes; times in us.
 * Errors    none: a line that cannot be written is lost.
 * Safety    one thread. Call sc_progress_clear before anything else is written to the terminal.
 * Source    our own.
 */
#ifndef SC_BASE_PROGRESS_H
#define SC_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SC_PROGRESS_COLUMNS 200

struct sc_progress {
	int fd;                   /* -1: draws nothing */
	bool drawn;
	int64_t begun_us, drawn_us;
	char label[64];
};

/* Draws only when FD is a terminal that can (TERM), and the caller WANTS it. */
void sc_progress_init(struct sc_progress *p, int fd, bool wants);
/* A new piece of work begins. */
void sc_progress_begin(struct sc_progress *p, const char *label);
/* Cheap: it draws a few times a second, and not at all when the work is done soon. */
void sc_progress_show(struct sc_progress *p, uint64_t done, uint64_t total);
void sc_progress_clear(struct sc_progress *p);

/*
 * The line, of COLUMNS at most (and SC_PROGRESS_COLUMNS), without a line break: label, bar,
 * percent, size, speed, time left. What does not fit goes, the bar first.
 */
size_t sc_progress_line(const char *label, uint64_t done, uint64_t total, int64_t spent_us, size_t columns,
			char ret_text[SC_PROGRESS_COLUMNS + 1]);

#endif
