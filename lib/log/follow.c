/*
 * follow.c: notice of new commits.
 *
 * Each commit overwrites index.state last, when its rows can be seen already; a write to
 * index.mdb would be noticed before that. The folder is watched for a new index.state, which a
 * rebuild makes.
 */
#include "log/follow.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "log/log_internal.h"

#define POLL_NET_MS 1000 /* beside the notices: for file systems that lose them */
#define POLL_ONLY_MS 20  /* without notices */

struct sc_follow {
	struct sc_log *log;
	int fd;
	int state_watch;
	dev_t device; /* of the folder that is watched */
	ino_t inode;
	uint64_t seen,
		seen_next; /* commits, and the next offset: of another copy one may be the same */
};

static void watch_state(struct sc_follow *f)
{
	char path[PATH_MAX];

	sc_log_file(f->log, path, SC_STATE_FILE);
	f->state_watch = inotify_add_watch(f->fd, path, IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF);
}

/* The folder that the log has now. False: there are no watches. */
static bool watch_folder(struct sc_follow *f)
{
	struct stat st;

	if (fstat(f->log->dir_fd, &st) == 0) {
		f->device = st.st_dev;
		f->inode = st.st_ino;
	}
	return inotify_add_watch(f->fd, f->log->path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) >= 0;
}

/* Another log came to its path, and was opened since. */
static bool has_moved(const struct sc_follow *f)
{
	struct stat st;

	return fstat(f->log->dir_fd, &st) == 0 && (st.st_dev != f->device || st.st_ino != f->inode);
}

int sc_follow_open(struct sc_log *log, struct sc_follow **ret_follow, struct sc_err *err)
{
	struct sc_follow *f = sc_calloc(1, sizeof(*f));
	struct sc_state state;
	int rc;

	if (!f)
		return sc_err_nomem(err, "cannot follow the log");
	f->log = log;
	f->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (f->fd >= 0) {
		if (!watch_folder(f))
			sc_close(&f->fd); /* out of watches: by time, then */
		else
			watch_state(f);
	}
	rc = sc_index_now(log, &state, err);
	if (rc < 0) {
		sc_follow_close(f);
		return rc;
	}
	f->seen = state.commit;
	f->seen_next = state.next;
	*ret_follow = f;
	return 0;
}

void sc_follow_close(struct sc_follow *f)
{
	if (!f)
		return;
	sc_close(&f->fd);
	free(f);
}

int sc_follow_fd(const struct sc_follow *f)
{
	return f->fd;
}

int sc_follow_poll_ms(const struct sc_follow *f)
{
	return f->fd >= 0 && f->state_watch >= 0 ? POLL_NET_MS : POLL_ONLY_MS;
}

void sc_follow_clear(struct sc_follow *f)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool again = f->state_watch < 0;
	ssize_t n;

	if (f->fd < 0)
		return;
	while ((n = read(f->fd, buf, sizeof(buf))) > 0)
		for (const char *at = buf; at < buf + n;) {
			const struct inotify_event *event = (const void *)at;

			if (event->wd == f->state_watch
				    ? event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)
				    : event->len && !strcmp(event->name, SC_STATE_FILE))
				again = true;
			at += sizeof(*event) + event->len;
		}
	if (has_moved(f)) {
		watch_folder(f); /* what it tells of the old one does no harm */
		again = true;
	}
	if (again)
		watch_state(f);
}

/* Has a commit come since the last look? 1, 0 or an error. */
static int grown(struct sc_follow *f, struct sc_err *err)
{
	struct sc_state state;
	int rc = sc_index_now(f->log, &state, err);

	if (rc < 0 || (state.commit == f->seen && state.next == f->seen_next))
		return rc;
	f->seen = state.commit;
	f->seen_next = state.next;
	return 1;
}

int sc_follow_wait(struct sc_follow *f, int stop_fd, int wait_ms, struct sc_err *err)
{
	int64_t end_us = sc_mono_us() + (int64_t)wait_ms * 1000;

	for (;;) {
		struct pollfd fds[2] = { { .fd = f->fd, .events = POLLIN },
					 { .fd = stop_fd, .events = POLLIN } };
		int64_t left_ms = wait_ms < 0 ? INT_MAX : (end_us - sc_mono_us() + 999) / 1000;
		int rc, n, ms = sc_follow_poll_ms(f);

		sc_follow_clear(f); /* before the look: a commit after it leaves a new notice */
		rc = grown(f, err);
		if (rc != 0 || left_ms <= 0)
			return rc;
		if (ms > left_ms)
			ms = (int)left_ms;
		n = poll(fds, 2, ms);
		if (n < 0 && errno == EINTR)
			return 0; /* a signal: the caller knows whether to go on */
		if (n < 0)
			return sc_err_sys(err, SC_E_IO, errno, "cannot wait for the log");
		if (fds[1].revents)
			return 0;
	}
}
