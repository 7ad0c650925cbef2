/*
 * log/follow.h: learn of new commits of a log.
 *
 * Owns      an inotify descriptor until sc_follow_close.
 * Units     ms.
 * Errors    SC_E_IO. Where inotify is out of watches the log is looked at by time instead: slower,
 *           never wrong.
 * Safety    one thread.
 * Source    inotify(7).
 */
#ifndef SC_LOG_FOLLOW_H
#define SC_LOG_FOLLOW_H

#include "base/err.h"
#include "log/log.h"

struct sc_follow;

int sc_follow_open(struct sc_log *log, struct sc_follow **ret_follow, struct sc_err *err);
void sc_follow_close(struct sc_follow *follow);
int sc_follow_fd(const struct sc_follow *follow);       /* to poll for reading; -1 when it can only poll by time */
int sc_follow_poll_ms(const struct sc_follow *follow);  /* look again after so long at the latest */
void sc_follow_clear(struct sc_follow *follow);         /* take what is readable */
/*
 * Wait until the log may have grown, STOP_FD is readable (-1 = none), or WAIT_MS passed (-1 = for
 * ever). 1 grown, 0 otherwise.
 */
int sc_follow_wait(struct sc_follow *follow, int stop_fd, int wait_ms, struct sc_err *err);

#endif
