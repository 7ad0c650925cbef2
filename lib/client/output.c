/* client/output.c: lines to a descriptor, and how many of them the reader has taken. */
#include "client/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* One mark a line: a pipe of 64 KiB and our buffer hold fewer lines than this unless they are
 * under 18 bytes; then neighbours share a mark, which only makes the cursor follow a little
 * later. */
#define MARKS (1u << 16)

enum kind { PIPE, SOCKET, FILE_, TERMINAL, DEVICE };

struct mark {
	uint64_t end; /* position after the line */
	uint64_t offset;
};

struct sc_output {
	int fd;     /* the caller's */
	int own_fd; /* our own open of it, not blocking; -1 = none */
	enum kind kind;
	char name[64];
	struct sc_bytes buf;
	size_t written;    /* front of buf that is out already */
	uint64_t position; /* bytes out */
	uint64_t settled;  /* of a file: bytes that were synced */
	uint64_t taken_offset;
	bool finishing;
	struct mark *marks;
	size_t first, count;
};

static int write_error(const struct sc_output *o, int errnum, struct sc_err *err)
{
	int code = sc_err_sys(err, SC_E_IO, errnum, "cannot write to");

	sc_err_on(err, "output", o->name);
	if (errnum == ENOSPC || errnum == EDQUOT)
		sc_err_next(err, "make room, then run again: nothing that was not written counts "
				 "as delivered");
	return code;
}

/* A pipe or terminal may be shared with other programs, so O_NONBLOCK must not be set on it: it is
 * opened once more. */
static int open_again(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int sc_output_open(int fd, const char *name, struct sc_output **ret_output, struct sc_err *err)
{
	struct sc_output *o;
	struct stat st;

	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &st) < 0) {
		int code = sc_err_sys(err, SC_E_IO,
				      flags >= 0 && (flags & O_ACCMODE) == O_RDONLY ? EBADF : errno,
				      "cannot write to");

		sc_err_on(err, "output", name);
		return code;
	}
	o = sc_calloc(1, sizeof(*o));
	if (!o)
		return sc_err_nomem(err, "cannot open output");
	o->marks = sc_malloc(MARKS * sizeof(*o->marks));
	if (!o->marks) {
		free(o);
		return sc_err_nomem(err, "cannot open output");
	}
	o->fd = fd;
	o->own_fd = -1;
	o->kind = S_ISFIFO(st.st_mode)   ? PIPE
		  : S_ISSOCK(st.st_mode) ? SOCKET
		  : S_ISREG(st.st_mode)  ? FILE_
		  : isatty(fd)           ? TERMINAL
					 : DEVICE;
	if (o->kind == PIPE || o->kind == TERMINAL)
		o->own_fd = open_again(fd);
	snprintf(o->name, sizeof(o->name), "%s", name);
	/* one line may be as long as it likes: the callers have limits of their own */
	sc_bytes_init(&o->buf, SIZE_MAX / 2);
	*ret_output = o;
	return 0;
}

void sc_output_close(struct sc_output *o)
{
	if (!o)
		return;
	sc_close(&o->own_fd);
	sc_bytes_done(&o->buf);
	free(o->marks);
	free(o);
}

bool sc_output_empty(const struct sc_output *o)
{
	return o->written == o->buf.len;
}

bool sc_output_full(const struct sc_output *o)
{
	return o->buf.len - o->written >= SC_OUTPUT_BUFFER;
}

bool sc_output_polls(const struct sc_output *o)
{
	return o->kind != FILE_ && o->kind != DEVICE;
}

int sc_output_fd(const struct sc_output *o)
{
	return o->own_fd >= 0 ? o->own_fd : o->fd;
}

static void mark(struct sc_output *o, uint64_t end, uint64_t offset)
{
	if (o->count == MARKS) { /* shared: the earlier line waits for the later one */
		struct mark *last = &o->marks[(o->first + o->count - 1) % MARKS];

		last->end = end;
		last->offset = offset;
		return;
	}
	o->marks[(o->first + o->count) % MARKS] = (struct mark){ end, offset };
	o->count++;
}

int sc_output_put(struct sc_output *o, struct sc_span line, uint64_t offset, struct sc_err *err)
{
	if (o->written > 0 && (o->written == o->buf.len || o->written >= SC_OUTPUT_BUFFER / 2)) {
		sc_bytes_drop(&o->buf, o->written);
		o->written = 0;
	}
	if (sc_bytes_put(&o->buf, line.data, line.len) < 0) {
		sc_err_nomem(err, "cannot keep a line for");
		return sc_err_on(err, "output", o->name);
	}
	if (offset > 0)
		mark(o, o->position + (o->buf.len - o->written), offset);
	return 0;
}

/* One write that does not wait. */
static ssize_t write_some(const struct sc_output *o, const char *data, size_t len)
{
	struct pollfd p = { o->fd, POLLOUT, 0 };

	if (o->own_fd >= 0)
		return sc_sys_write(o->own_fd, data, len);
	switch (o->kind) {
	case SOCKET:
		return send(o->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	case FILE_:
	case DEVICE: /* the descriptor itself: one that was closed at start must not come to life */
		return sc_sys_write(o->fd, data, len);
	default: /* no /proc: a pipe that polls writable takes PIPE_BUF bytes at once */
		if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLOUT | POLLERR | POLLHUP))) {
			errno = EAGAIN;
			return -1;
		}
		return sc_sys_write(o->fd, data, len < PIPE_BUF ? len : PIPE_BUF);
	}
}

int sc_output_flush(struct sc_output *o, struct sc_err *err)
{
	while (o->written < o->buf.len) {
		ssize_t n = write_some(o, o->buf.data + o->written, o->buf.len - o->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0)
			return write_error(o, errno, err);
		o->written += (size_t)n;
		o->position += (uint64_t)n;
	}
	sc_bytes_clear(&o->buf);
	o->written = 0;
	return 1;
}

int sc_output_drain(struct sc_output *o, int wait_ms, struct sc_err *err)
{
	int64_t until_us = sc_mono_us() + (int64_t)wait_ms * 1000;

	for (;;) {
		struct pollfd p = { sc_output_fd(o), POLLOUT, 0 };
		int rc = sc_output_flush(o, err);
		int64_t left_us = until_us - sc_mono_us();

		if (rc != 0 || left_us <= 0)
			return rc;
		if (poll(&p, 1, (int)(left_us / 1000) + 1) < 0 && errno != EINTR)
			return write_error(o, errno, err);
	}
}

/* Bytes that count as taken. */
static uint64_t taken_position(const struct sc_output *o)
{
	int waiting = 0;

	switch (o->kind) {
	case PIPE:
		if (ioctl(o->fd, FIONREAD, &waiting) < 0)
			return o->position;
		break;
	case SOCKET:
		if (ioctl(o->fd, SIOCOUTQ, &waiting) < 0)
			return o->position;
		/* a local socket counts its buffers' overhead too: only "nothing waits" is
		 * certain */
		if (waiting > 0)
			return 0;
		break;
	case FILE_:
		return o->settled;
	case TERMINAL:
	case DEVICE:
		return o->position;
	}
	return (uint64_t)waiting > o->position ? 0 : o->position - (uint64_t)waiting;
}

uint64_t sc_output_taken(struct sc_output *o)
{
	uint64_t taken = taken_position(o);

	if ((o->kind == PIPE || o->kind == SOCKET) && !o->finishing && taken > 0)
		taken--; /* so that a line's end must have been passed, not only reached */
	while (o->count > 0 && o->marks[o->first].end <= taken) {
		o->taken_offset = o->marks[o->first].offset;
		o->first = (o->first + 1) % MARKS;
		o->count--;
	}
	return o->taken_offset;
}

bool sc_output_all_taken(const struct sc_output *o)
{
	return sc_output_empty(o) && (o->kind == FILE_ || taken_position(o) == o->position);
}

void sc_output_finish(struct sc_output *o)
{
	o->finishing = true;
}

int sc_output_settle(struct sc_output *o, struct sc_err *err)
{
	if (o->kind != FILE_ || o->settled == o->position)
		return 0;
	if (sc_sys_fdatasync(o->fd) < 0)
		return write_error(o, errno, err);
	o->settled = o->position;
	return 0;
}
