/* store/libcurl.c: libcurl, loaded when the first request needs it. */
#include "store/libcurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct sc_libcurl lib;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int failed; /* sc_code */
static char why[256];

static void keep(int code, const char *words)
{
	failed = code;
	snprintf(why, sizeof(why), "%s", words ? words : "unknown error");
}

static void load(void)
{
	static const char *const names[] = {
#define NAME(name) "curl_" #name,
		SC_LIBCURL_EACH(NAME)
#undef NAME
	};
	void *members[] = {
#define MEMBER(name) &lib.name,
		SC_LIBCURL_EACH(MEMBER)
#undef MEMBER
	};
	void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	CURLcode begun;

	if (!handle) {
		keep(SC_E_CONFIG, dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *symbol = dlsym(handle, names[i]);

		if (!symbol) {
			keep(SC_E_CONFIG, dlerror());
			return;
		}
		memcpy(members[i], &symbol, sizeof(symbol)); /* POSIX: one size for both kinds */
	}
	begun = lib.global_init(CURL_GLOBAL_DEFAULT);
	if (begun != CURLE_OK)
		keep(SC_E_INTERNAL, lib.easy_strerror(begun));
}

int sc_libcurl_load(const struct sc_libcurl **ret_libcurl, struct sc_err *err)
{
	pthread_once(&once, load);
	if (failed) {
		sc_err_set(err, failed, "cannot use", "libcurl does not start: %s", why);
		return sc_err_next(err, "install Debian's libcurl4, or name a folder as archive");
	}
	*ret_libcurl = &lib;
	return 0;
}
