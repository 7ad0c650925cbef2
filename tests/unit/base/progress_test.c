/*
 * Goal: the line says how far, how fast and how long, fits any width, shows on a terminal only, and goes away.
 * Method: lines against texts; a pseudo-terminal and a pipe, with a clock that the test moves.
 */
#include "base/progress.h"

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"

static char text[SC_PROGRESS_COLUMNS + 1];
static int64_t now_us;

static int64_t fake_mono(void)
{
	return now_us;
}

TEST(line_says_how_far_how_fast_how_long)
{
	size_t len = sc_progress_line("seal", 50 << 20, 100 << 20, 5000000, 79, text);

	CHECK_INT(len, strlen(text));
	CHECK(strstr(text, "seal [####"));
	CHECK(strstr(text, " 50% 50.0M/100M 10.0M/s 0:05"));
	CHECK(len <= 79);
}

TEST(line_fits_any_width)
{
	for (size_t columns = 0; columns < 300; columns++) {
		size_t len = sc_progress_line("compact", 1, UINT64_MAX, 1, columns, text);

		CHECK_INT(len, strlen(text));
		CHECK(len <= columns && len <= SC_PROGRESS_COLUMNS);
	}
}

TEST(line_has_no_bar_where_it_is_narrow)
{
	sc_progress_line("seal", 1, 2, 1000000, 30, text);
	CHECK(!strchr(text, '['));
	CHECK(strstr(text, "50%"));
}

TEST(line_takes_odd_numbers)
{
	sc_progress_line("seal", 0, 0, 0, 79, text);
	CHECK(strstr(text, "100% 0B/0B 0B/s ?"));
	sc_progress_line("seal", 9, 3, -5, 79, text);
	CHECK(strstr(text, "100% 3B/3B"));
	sc_progress_line("seal", 1, UINT64_MAX, 1000000, 79, text);
	CHECK(strstr(text, ">100h"));
	sc_progress_line("seal", 1000, 8200000, 1000000, 79, text);
	CHECK(strstr(text, "2h16m"));
	sc_progress_line("", 1, 2, 1, 79, text);
	CHECK(text[0] == ' ');
}

TEST(no_terminal_gets_nothing)
{
	struct sc_progress p;
	int fds[2];
	char c;

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	setenv("TERM", "xterm", 1);
	sc_progress_init(&p, fds[1], true);
	CHECK_INT(p.fd, -1);
	now_us = 0;
	sc_clock_set(NULL, fake_mono);
	sc_progress_begin(&p, "seal");
	now_us = 10000000;
	sc_progress_show(&p, 1, 2);
	sc_progress_clear(&p);
	sc_clock_set(NULL, NULL);
	CHECK(read(fds[0], &c, 1) < 0);
	close(fds[0]);
	close(fds[1]);
}

/* What the terminal got since the last look. */
static size_t drain(int fd, char *ret_text, size_t size)
{
	ssize_t n = read(fd, ret_text, size - 1);

	ret_text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

TEST(a_terminal_gets_a_line_that_goes_away)
{
	struct winsize size = { .ws_row = 24, .ws_col = 50 };
	struct sc_progress p;
	char got[1024];
	int master, slave;

	CHECK(openpty(&master, &slave, NULL, NULL, &size) == 0);
	fcntl(master, F_SETFL, O_NONBLOCK);
	setenv("TERM", "dumb", 1);
	sc_progress_init(&p, slave, true);
	CHECK_INT(p.fd, -1);
	setenv("TERM", "xterm", 1);
	sc_progress_init(&p, slave, false);
	CHECK_INT(p.fd, -1);
	sc_progress_init(&p, slave, true);
	CHECK_INT(p.fd, slave);
	now_us = 0;
	sc_clock_set(NULL, fake_mono);
	sc_progress_begin(&p, "seal");
	now_us = 200000;
	sc_progress_show(&p, 1, 2); /* not yet */
	CHECK_INT(drain(master, got, sizeof(got)), 0);
	now_us = 400000;
	sc_progress_show(&p, 1, 2);
	CHECK(drain(master, got, sizeof(got)) > 0);
	CHECK(strncmp(got, "\r\033[Kseal", 8) == 0);
	CHECK(strlen(got) - 4 <= 49);
	now_us = 450000;
	sc_progress_show(&p, 1, 2); /* not so soon again */
	CHECK_INT(drain(master, got, sizeof(got)), 0);
	sc_progress_clear(&p);
	drain(master, got, sizeof(got));
	CHECK_STR(got, "\r\033[K");
	sc_progress_clear(&p);
	CHECK_INT(drain(master, got, sizeof(got)), 0);
	sc_clock_set(NULL, NULL);
	close(slave);
	close(master);
}
