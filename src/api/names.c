/*
 * Finds misspelt names; see names.h. The tables are short, so they are searched linearly.
 */
#include "api/names.h"

#include "base/ascii.h"

static bool is_joint(char c)
{
    return c == '-' || c == '_';
}

/* Whether names are equal except for case, hyphens and underscores. Nothing is copied for this: a
 * body may have a million members, most of which differ in their first letter. */
static bool is_near(slice name, const char *own)
{
    const char *at = name.ptr, *end = at + name.len;
    for (;;) {
        while (at < end && is_joint(*at))
            at++;
        while (is_joint(*own))
            own++;
        if (at == end || !*own)
            return at == end && !*own;
        if (ascii_lower(*at++) != ascii_lower(*own++))
            return false;
    }
}

bool api_names_has(const struct api_names *names, slice name)
{
    for (size_t i = 0; names && i < API_NAMES_MAX && names->own[i]; i++)
        if (slice_eq_cstr(name, names->own[i]))
            return true;
    return false;
}

bool api_names_is_user(slice name)
{
    static const char *const names[] = {"user", "user_id", "external_user_id", "sluice_user"};
    bool is_user = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        is_user = is_user || is_near(name, names[i]);
    return is_user;
}

const char *api_names_right(const struct api_names *names, slice name)
{
    for (size_t i = 0; i < API_NAMES_MAX && names->own[i]; i++)
        if (is_near(name, names->own[i]))
            return slice_eq_cstr(name, names->own[i]) ? NULL : names->own[i];
    for (size_t i = 0; i < API_NAMES_OTHER_MAX && names->other[i].name; i++)
        if (is_near(name, names->other[i].name))
            return names->other[i].use;
    return NULL;
}
