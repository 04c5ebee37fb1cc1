/*
 * The reads of a list's items (contrib/integrations/README.md "each"): for vendors whose lists have
 * only ids. The run itself is in exec/each.c.
 */
#include "catalog/manifest.h"

void manifest_read_each(struct reader *parent, struct catalog_action *action)
{
    struct reader r;
    struct catalog_each *each;
    if (!reader_enter(&r, parent, "each") || !(each = ARENA_NEW(r.arena, struct catalog_each)))
        return;
    *each = (struct catalog_each){
        .when = reader_expr(&r, "when"),
        .items = reader_text_required(&r, "items"),
        .action_id = reader_text_required(&r, "action"),
        .input = reader_pairs(&r, "input"),
        .output = reader_expr(&r, "output"),
        .max = (unsigned)reader_count(&r, "max", CATALOG_EACH_MAX),
    };
    if (each->max == 0)
        reader_error(&r, "max", "must be the number of items that one call reads, 1 to %d",
                     CATALOG_EACH_MAX);
    reader_finish(&r);
    action->each = each;
}
