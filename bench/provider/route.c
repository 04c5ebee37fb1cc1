/*
 * See route.h.
 */
#include "provider/route.h"

bool route_match(const char *pattern, const slice *segments, size_t count,
                 slice params[ROUTE_PARAMS_MAX])
{
    slice rest = slice_cstr(pattern);
    size_t used = 0, found = 0;
    /* Most patterns begin otherwise. */
    if (*pattern != '*' && (!count || !segments->len || *pattern != *segments->ptr))
        return false;
    while (rest.ptr) {
        slice wanted = slice_split(&rest, '/');
        if (used == count)
            return false;
        slice segment = segments[used++];
        if (slice_eq(wanted, SLICE("*"))) {
            ASSERT(found < ROUTE_PARAMS_MAX);
            if (!segment.len)
                return false;
            params[found++] = segment;
        } else if (!slice_eq(wanted, segment)) {
            return false;
        }
    }
    return used == count;
}
