/*
 * Names that are nearly ours; see names.h.
 */
#include "api/names.h"

static slice skip(slice text)
{
    while (text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '_'))
        text = slice_from(text, 1);
    return text;
}

/* Equal but for case, hyphens and underscores. */
static bool is_near(slice a, slice b)
{
    for (;;) {
        a = skip(a);
        b = skip(b);
        if (a.len == 0 || b.len == 0)
            return a.len == b.len;
        if (!slice_eq_nocase(slice_first(a, 1), slice_first(b, 1)))
            return false;
        a = slice_from(a, 1);
        b = slice_from(b, 1);
    }
}

bool api_names_has(const struct api_names *names, slice name)
{
    for (size_t i = 0; names && i < API_NAMES_MAX && names->own[i]; i++)
        if (slice_eq_cstr(name, names->own[i]))
            return true;
    return false;
}

const char *api_names_right(const struct api_names *names, slice name)
{
    for (size_t i = 0; i < API_NAMES_MAX && names->own[i]; i++)
        if (is_near(name, slice_cstr(names->own[i])))
            return slice_eq_cstr(name, names->own[i]) ? NULL : names->own[i];
    for (size_t i = 0; i < API_NAMES_OTHER_MAX && names->other[i].name; i++)
        if (is_near(name, slice_cstr(names->other[i].name)))
            return names->other[i].use;
    return NULL;
}
