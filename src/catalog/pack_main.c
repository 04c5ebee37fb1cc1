/*
 * A build tool: checks manifests and writes their pack, which is compiled into sluice.
 *
 * catalog-pack FILE.json... >catalog.pack
 *
 * A fault in a manifest fails the build, with the same messages as at run time. The tool is
 * compiled from the same sources as sluice, so both agree on the layout. For cross builds it would
 * have to run on the target, because the pack has numbers in the machine's own form.
 */
#include <stdio.h>
#include <stdlib.h>

#include "catalog/pack.h"

enum { FILES_BYTES_MAX = 64 * 1024 * 1024 };

static void print_errors(const struct catalog_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        if (!problem->is_warning)
            (void)fprintf(stderr, "%.*s %.*s: %.*s\n", SLICE_ARG(problem->source),
                          SLICE_ARG(problem->pointer), SLICE_ARG(problem->text));
    }
}

int main(int argc, char **argv)
{
    /* The report is static because of its size: it has CATALOG_PROBLEMS_MAX entries. */
    static struct catalog_report report;
    static struct catalog_source sources[CATALOG_INTEGRATIONS_MAX];
    struct arena arena;
    struct buf pack;
    size_t count = 0;
    bool is_read = true;
    arena_init(&arena, FILES_BYTES_MAX);
    buf_init(&pack, PACK_BYTES_MAX);
    catalog_report_init(&report);
    for (int i = 1; i < argc && is_read && count < CATALOG_INTEGRATIONS_MAX; i++)
        is_read = catalog_read_file(slice_cstr(argv[i]), &arena, CATALOG_MANIFEST_BYTES_MAX,
                                    &sources[count++], &report);
    bool is_written = is_read && catalog_pack(sources, count, &pack, &report) == OK &&
                      fwrite(pack.ptr, 1, pack.len, stdout) == pack.len && fflush(stdout) == 0;
    print_errors(&report);
    catalog_report_deinit(&report);
    buf_deinit(&pack);
    arena_deinit(&arena);
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
