/*
 * Docs: the first five minutes, and the reference of the API: a list of the operations, for each
 * operation its parameters, its replies and its call with curl, and the error codes. docs.pl
 * makes the data of these pages from the API's document (src/api/openapi.json) when sluice is
 * built. They are the same for every reader; a session adds only the frame.
 */
#include "base/embed.h"
#include "web/pages.h"

static enum op_result reply_docs(struct web_request *request, slice data, const char *file)
{
    json_member_raw(view_begin(request), "page", data);
    request->is_cacheable = true;
    return web_reply_view(request, 200, file);
}

/* The first line is the list; each other line is a page: its name, a tab, and its data. */
static slice list_of(slice *operations)
{
    *operations = slice_of((const char *)embed_docs[0].data, embed_docs[0].len);
    return slice_split(operations, '\n');
}

enum op_result web_docs(struct web_request *request)
{
    slice operations;
    return reply_docs(request, list_of(&operations), "docs");
}

/* Returns the file of a page of its own, or of an operation. */
static const char *file_of(slice name)
{
    return slice_eq_cstr(name, "errors")  ? "docs_errors"
           : slice_eq_cstr(name, "start") ? "docs_start"
                                          : "docs_operation";
}

enum op_result web_docs_operation(struct web_request *request)
{
    slice operations, wanted = request->serve.match.params[0];
    (void)list_of(&operations);
    while (operations.len > 0) {
        slice data = slice_split(&operations, '\n');
        if (slice_eq(slice_split(&data, '\t'), wanted))
            return reply_docs(request, data, file_of(wanted));
    }
    return web_reply_missing(request, "The API has no such operation.");
}
