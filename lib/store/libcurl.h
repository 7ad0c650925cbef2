/*
 * store/libcurl.h: libcurl, loaded when the first request needs it.
 *
 * libcurl brings some thirty libraries of its own into a process: more than half of the time in which a program of ours
 * starts. Most runs of sc-log and sc-sub never speak to an archive, so it is not linked but loaded.
 *
 * Owns      the loaded library stays until the process ends.
 * Errors    SC_E_CONFIG: it is not there or lacks a function; SC_E_INTERNAL: it does not start.
 * Safety    any thread.
 * Source    libcurl's documentation: https://curl.se/libcurl/c/
 */
#ifndef SC_STORE_LIBCURL_H
#define SC_STORE_LIBCURL_H

#include <curl/curl.h>

#include "base/err.h"

/* What is called of it, under its own names. */
#define SC_LIBCURL_EACH(X) \
	X(easy_cleanup)    \
	X(easy_getinfo)    \
	X(easy_init)       \
	X(easy_perform)    \
	X(easy_reset)      \
	X(easy_setopt)     \
	X(easy_strerror)   \
	X(getdate)         \
	X(global_init)     \
	X(slist_append)    \
	X(slist_free_all)

/* The macros of curl.h that check types would hide the members. */
#undef curl_easy_getinfo
#undef curl_easy_setopt

struct sc_libcurl {
#define SC_LIBCURL_MEMBER(name) __typeof__(&curl_##name) name;
	SC_LIBCURL_EACH(SC_LIBCURL_MEMBER)
#undef SC_LIBCURL_MEMBER
};

int sc_libcurl_load(const struct sc_libcurl **ret_libcurl, struct sc_err *err);

#endif
