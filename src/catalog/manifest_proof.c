/*
 * Reads the proof of an action, `met` and `checked` of the manifest, and makes a text about it for
 * people (contrib/integrations/README.md "actions[]"). Tests write both members.
 */
#include <stdio.h>

#include "catalog/manifest.h"

enum { DATE_TEXT_MAX = 32 };

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* Whether the text is YYYY, YYYY-MM or YYYY-MM-DD; missing parts are set to 0. */
static bool parse_date(slice text, uint64_t *year, uint64_t *month, uint64_t *day)
{
    slice rest = text;
    /* Only the form is checked, not the length of a month, because tests write the dates. */
    *month = *day = 0;
    if (text.len != 4 && text.len != 7 && text.len != 10)
        return false;
    if (!slice_to_u64(slice_split(&rest, '-'), 9999, year) || *year < 1000)
        return false;
    if (text.len >= 7 && (!slice_to_u64(slice_split(&rest, '-'), 12, month) || *month == 0))
        return false;
    if (text.len == 10 && (!slice_to_u64(slice_split(&rest, '-'), 31, day) || *day == 0))
        return false;
    return rest.len == 0 && (text.len < 7 || text.ptr[4] == '-') &&
           (text.len < 10 || text.ptr[7] == '-');
}

void manifest_read_proof(struct reader *parent, struct catalog_action *action)
{
    action->checked = reader_text(parent, "checked");
    struct reader r;
    uint64_t year, month, day;
    if (!reader_enter(&r, parent, "met"))
        return;
    action->met_date = reader_text_required(&r, "date");
    action->met_source = reader_text_required(&r, "source");
    reader_finish(&r);
    if (action->met_date.len > 0 && !parse_date(action->met_date, &year, &month, &day))
        reader_error(&r, "date", "must be YYYY, YYYY-MM or YYYY-MM-DD");
}

/* Formats a date as "27 April 2026", or its known part. */
static slice date_text(slice date, char out[DATE_TEXT_MAX])
{
    uint64_t year, month, day;
    if (!parse_date(date, &year, &month, &day) || month == 0)
        return date;
    int len = day > 0
                  ? snprintf(out, DATE_TEXT_MAX, "%d %s %d", (int)day, months[month - 1], (int)year)
                  : snprintf(out, DATE_TEXT_MAX, "%s %d", months[month - 1], (int)year);
    return slice_of(out, (size_t)len);
}

slice catalog_proof(const struct catalog_action *action, struct arena *arena)
{
    char date[DATE_TEXT_MAX];
    if (action->met_source.len > 0)
        return arena_printf(arena, "Proven against a recorded reply of %.*s (%.*s).",
                            SLICE_ARG(date_text(action->met_date, date)),
                            SLICE_ARG(action->met_source));
    if (action->checked.len > 0)
        return arena_printf(
            arena,
            "Compared with the vendor's description (%.*s), but not proven by a recorded reply.",
            SLICE_ARG(action->checked));
    return SLICE("Unproven: written from the vendor's documentation. No recorded reply and no "
                 "machine-readable description proves it.");
}
