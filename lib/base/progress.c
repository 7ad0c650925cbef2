/* base/progress.c: how far a long piece of work is, on a terminal and nowhere else. */
#include "base/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_US 300000 /* work that is done by then shows nothing */
#define AGAIN_US 100000
#define BAR_MAX 40
#define BAR_MIN 8
#define ERASE "\r\033[K"

void sc_progress_init(struct sc_progress *p, int fd, bool wants)
{
	const char *term = getenv("TERM");

	*p = (struct sc_progress){ .fd = -1 };
	if (wants && term && *term && strcmp(term, "dumb") != 0 && isatty(fd))
		p->fd = fd;
}

void sc_progress_begin(struct sc_progress *p, const char *label)
{
	sc_progress_clear(p);
	p->begun_us = sc_mono_us();
	snprintf(p->label, sizeof(p->label), "%s", label);
}

static void put(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

void sc_progress_show(struct sc_progress *p, uint64_t done, uint64_t total)
{
	char line[sizeof(ERASE) + SC_PROGRESS_COLUMNS], *text = line + sizeof(ERASE) - 1;
	struct winsize size = { .ws_col = 0 };
	int64_t now_us;
	size_t len;

	if (p->fd < 0)
		return;
	now_us = sc_mono_us();
	if (now_us - p->begun_us < FIRST_US || (p->drawn && now_us - p->drawn_us < AGAIN_US))
		return;
	if (ioctl(p->fd, TIOCGWINSZ, &size) < 0 || size.ws_col < 2)
		size.ws_col = 80;
	/* one column less: a full line would wrap */
	len = sc_progress_line(p->label, done, total, now_us - p->begun_us, size.ws_col - 1u, text);
	memcpy(line, ERASE, sizeof(ERASE) - 1);
	put(p->fd, line, sizeof(ERASE) - 1 + len);
	p->drawn = true;
	p->drawn_us = now_us;
}

void sc_progress_clear(struct sc_progress *p)
{
	if (p->drawn)
		put(p->fd, ERASE, sizeof(ERASE) - 1);
	p->drawn = false;
}

static void size_text(double bytes, char text[16])
{
	static const char units[] = "BKMGTPE";
	size_t unit = 0;

	while (bytes >= 1000 && units[unit + 1]) {
		bytes /= 1024;
		unit++;
	}
	if (unit == 0 || bytes >= 100)
		snprintf(text, 16, "%.0f%c", bytes, units[unit]);
	else
		snprintf(text, 16, "%.1f%c", bytes, units[unit]);
}

static void left_text(double left_s, char text[16])
{
	if (left_s >= 360000)
		snprintf(text, 16, ">100h");
	else if (left_s >= 3600)
		snprintf(text, 16, "%dh%02dm", (int)left_s / 3600, (int)left_s / 60 % 60);
	else
		snprintf(text, 16, "%d:%02d", (int)left_s / 60, (int)left_s % 60);
}

size_t sc_progress_line(const char *label, uint64_t done, uint64_t total, int64_t spent_us,
			size_t columns, char ret_text[SC_PROGRESS_COLUMNS + 1])
{
	char bar[BAR_MAX + 3] = "", tail[80], part[16], whole[16], speed[16], left[16] = "?";
	double share, per_s;
	size_t label_len = strlen(label), tail_len, room;

	if (columns > SC_PROGRESS_COLUMNS)
		columns = SC_PROGRESS_COLUMNS;
	if (done > total)
		done = total;
	share = total ? (double)done / (double)total : 1;
	per_s = spent_us > 0 ? (double)done * 1e6 / (double)spent_us : 0;
	size_text((double)done, part);
	size_text((double)total, whole);
	size_text(per_s, speed);
	if (per_s > 0)
		left_text((double)(total - done) / per_s, left);
	snprintf(tail, sizeof(tail), " %3d%% %s/%s %s/s %s", (int)(share * 100), part, whole, speed,
		 left);
	tail_len = strlen(tail);
	room = columns > label_len + tail_len + 3 ? columns - label_len - tail_len - 3 : 0;
	if (room >= BAR_MIN) {
		size_t width = room < BAR_MAX ? room : BAR_MAX,
		       full = (size_t)(share * (double)width);

		bar[0] = '[';
		memset(bar + 1, '#', full);
		memset(bar + 1 + full, '-', width - full);
		memcpy(bar + 1 + width, "]", 2);
	}
	/* cut to the columns: a line that wraps could not be erased */
	snprintf(ret_text, columns + 1, "%s%s%s%s", label, *bar ? " " : "", bar, tail);
	return strlen(ret_text);
}
