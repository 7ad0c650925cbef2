/*
 * net/listen.h: listening sockets from their addresses as text.
 *
 * Owns      a list owns its sockets and the file of a unix socket, until sc_listen_done.
 * Units     ports in host order.
 * Errors    SC_E_CONFIG for an address that says nothing, SC_E_UNAVAILABLE for one that cannot be
 *           had (in use, no such address), SC_E_NOAUTH, SC_E_NOMEM; the address is named.
 * Safety    one thread a list.
 * Source    RFC 3986 3.2.2, unix(7), sd_listen_fds(3).
 */
#ifndef SC_NET_LISTEN_H
#define SC_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/say.h"

struct sc_listen_socket {
	int fd;
	int port;            /* 0 for unix sockets */
	bool local;          /* a unix socket */
	char name[160];      /* as a person writes it: "127.0.0.1:8765", "[::1]:8765", "unix:/run/sc.sock" */
	char unlink[112];    /* the file to remove in the end, or empty */
};

struct sc_listen_list {
	struct sc_listen_socket *sockets;
	size_t count;
};

/* HOST:PORT, [V6]:PORT, :PORT or PORT (127.0.0.1), *:PORT (every interface), unix:/PATH, fd:N. A
 * name may add several. */
int sc_listen_add(struct sc_listen_list *list, const char *address, struct sc_err *err);
/* The sockets passed by the service manager (LISTEN_FDS, LISTEN_PID); the variables are removed.
 * Adds none when there are none. */
int sc_listen_add_passed(struct sc_listen_list *list, struct sc_err *err);
void sc_listen_done(struct sc_listen_list *list);
/* Tell the world that it listens: as one JSON line on READY_FD (-1: nowhere), which is closed
 * then, and in words for each address to SAY (may be NULL), which gets the line's members with
 * the first. MEMBERS: more of them, each with a comma in front; ABOUT: words behind an address. */
int sc_listen_tell(const struct sc_listen_list *list, struct sc_span members, const char *about, int ready_fd,
		   void (*say)(enum sc_level level, const char *fields, const char *format, ...), struct sc_err *err);
/* "127.0.0.1:40812", "[::1]:40812", "unix". */
void sc_listen_name(const struct sockaddr *address, socklen_t len, char *ret_text, size_t size);

#endif
