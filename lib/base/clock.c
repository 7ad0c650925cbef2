/* base/clock.c: times, random numbers, ids. */
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static int64_t (*fake_wall_us)(void);
static int64_t (*fake_mono_us)(void);

static int64_t now_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t sc_wall_us(void)
{
	return fake_wall_us ? fake_wall_us() : now_us(CLOCK_REALTIME);
}

int64_t sc_mono_us(void)
{
	return fake_mono_us ? fake_mono_us() : now_us(CLOCK_MONOTONIC);
}

void sc_clock_set(int64_t (*wall_us)(void), int64_t (*mono_us)(void))
{
	fake_wall_us = wall_us;
	fake_mono_us = mono_us;
}

void sc_time_text(int64_t wall_us, char ret_text[SC_TIME_TEXT])
{
	int64_t secs = wall_us / 1000000, us = wall_us % 1000000;
	struct tm tm;
	time_t t;

	if (us < 0) {
		us += 1000000;
		secs--;
	}
	t = (time_t)secs;
	/* years of other than four digits do not fit the form: show the nearest that does */
	if (!gmtime_r(&t, &tm) || tm.tm_year > 8099 || tm.tm_year < -1900) {
		memcpy(ret_text,
		       secs < 0 ? "0000-01-01T00:00:00.000000Z" : "9999-12-31T23:59:59.999999Z",
		       SC_TIME_TEXT);
		return;
	}
	/* the masks tell the compiler what gmtime_r promises: at most two digits each */
	snprintf(ret_text, SC_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
		 (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)(tm.tm_mon + 1) % 100u,
		 (unsigned)tm.tm_mday % 100u, (unsigned)tm.tm_hour % 100u,
		 (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u, (unsigned)us % 1000000u);
}

void sc_random(void *ret_bytes, size_t len)
{
	unsigned char *p = ret_bytes;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n <= 0)
			continue; /* only EINTR is possible for what we ask */
		p += n;
		len -= (size_t)n;
	}
}

uint64_t sc_random_below(uint64_t limit)
{
	uint64_t value, top;

	if (limit < 2)
		return 0;
	top = UINT64_MAX - UINT64_MAX % limit; /* above it the remainders would not be even */
	do
		sc_random(&value, sizeof(value));
	while (value >= top);
	return value % limit;
}

void sc_uuid(char ret_text[SC_UUID_TEXT])
{
	unsigned char b[16];

	sc_random(b, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(ret_text, SC_UUID_TEXT,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
}

void sc_boot_id(char ret_text[SC_UUID_TEXT])
{
	const char *fake = getenv("SC_BOOT_ID");
	ssize_t n = -1;
	int fd;

	memset(ret_text, 0, SC_UUID_TEXT);
	if (fake) {
		snprintf(ret_text, SC_UUID_TEXT, "%s", fake);
		return;
	}
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, ret_text, SC_UUID_TEXT - 1);
		close(fd);
	}
	if (n != SC_UUID_TEXT -
			 1) /* no /proc: an id of its own, so that the index is rebuilt each time */
		sc_uuid(ret_text);
}
