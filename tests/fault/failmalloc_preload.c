/* failmalloc_preload.c: fail_preload.c with allocations, which no sanitized program can be loaded
 * with. */
#define SC_FAIL_MALLOC
#include "fail_preload.c"
