/*
 * Any text as a flow template: it is refused with a message, or its canonical text compiles to the
 * same version, and a flow of it has a view that is JSON, at any step. No memory is left allocated.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "flow/flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 64 * 1024 * 1024, VIEW_BYTES_MAX = 16 * 1024 * 1024 };

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static struct flow_template *compile(slice text)
{
    struct catalog_report report;
    catalog_report_init(&report);
    struct flow_template *tmpl = flow_template_compile(SLICE("fuzz"), text, NULL, &report);
    check((tmpl == NULL) == (report.error_count > 0));
    for (size_t i = 0; i < report.count; i++)
        check(report.problems[i].text.len > 0);
    catalog_report_deinit(&report);
    return tmpl;
}

/* Includes the index after the last step. */
static void look_at_each_step(const struct flow_template *tmpl)
{
    struct arena arena;
    struct buf view;
    arena_init(&arena, ARENA_BYTES_MAX);
    buf_init(&view, VIEW_BYTES_MAX);
    for (size_t i = 0; i <= tmpl->step_count; i++) {
        struct flow_step step = {.is_completed = true, .attempt = 1, .output = SLICE("{}")};
        struct flow_whole whole = {
            .flow = {.template_key = tmpl->key,
                     .trigger_type = SLICE("manual"),
                     .status = (enum flow_status)(i % (FLOW_CANCELLED + 1)),
                     .rev = 1,
                     .step_index = (int64_t)i},
            .input = SLICE("{}"),
            .steps = &step,
            .step_count = 1,
        };
        buf_clear(&view);
        flow_view_write(&view, &whole, tmpl, false);
        if (buf_is_ok(&view))
            check(json_parse(&arena, buf_slice(&view), &json_limits_request, NULL) != NULL ||
                  arena.is_exhausted);
    }
    buf_deinit(&view);
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flow_template *tmpl = compile(slice_of(data, size));
    if (tmpl) {
        struct flow_template *again = compile(tmpl->body);
        check(again && uuid_eq(again->version, tmpl->version) && slice_eq(again->body, tmpl->body));
        flow_template_unref(again);
        look_at_each_step(tmpl);
    }
    flow_template_unref(tmpl);
    check(mem_live_blocks() == 0);
    return 0;
}
