/*
 * msg/state.h: what a broker held when it stopped, as a file.
 *
 * Owns      nothing; the descriptor of a lock is the caller's.
 * Units     as in man/sc-wsmsg.7, "STATE".
 * Errors    SC_E_DATA for a file that is damaged or of another version; SC_E_IO, SC_E_NOAUTH,
 *           SC_E_CANTCREAT, SC_E_NOMEM; SC_E_BUSY while another process has the lock; the file is
 *           named.
 * Safety    the process that has the lock. A crash while it is written leaves the file as it was or the new
 *           one, whole.
 * Source    wsmsg 13.
 */
#ifndef SC_MSG_STATE_H
#define SC_MSG_STATE_H

#include "msg/broker.h"

/* Queues, names, sizes, priorities and subscriptions; the broker's time is used. */
int sc_state_write(const char *path, struct sc_broker *broker, struct sc_err *err);
/* Into a fresh broker: 1, or 0 when there is no file. After a failure the broker can only be
 * freed. The file stays. */
int sc_state_read(const char *path, struct sc_broker *broker, struct sc_err *err);
/* Away for good, also what an interrupted write left; no file is good. */
int sc_state_remove(const char *path, struct sc_err *err);
/* Makes its folder, and says whether the file can be written there. */
int sc_state_prepare(const char *path, struct sc_err *err);

/* PATH.lock is there and ours from now until *RET_LOCK is closed. */
int sc_state_lock(const char *path, int *ret_lock, struct sc_err *err);

#endif
