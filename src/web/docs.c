/*
 * Docs: the reference of the API: a list of the operations, and for each operation its parameters,
 * its replies and its call with curl. docs.pl makes the data of these pages from the API's document
 * (src/api/openapi.json) when sluice is built. They are the same for every reader; a session adds
 * only the frame.
 */
#include "base/embed.h"
#include "web/pages.h"

static enum op_result reply_docs(struct web_request *request, slice data, const char *file)
{
    json_member_raw(view_begin(request), "page", data);
    request->is_cacheable = true;
    return web_reply_view(request, 200, file);
}

/* The first line is the list, each other line an operation. */
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

enum op_result web_docs_operation(struct web_request *request)
{
    slice operations;
    (void)list_of(&operations);
    while (operations.len > 0) {
        slice data = slice_split(&operations, '\n');
        if (slice_eq(slice_split(&data, '\t'), request->serve.match.params[0]))
            return reply_docs(request, data, "docs_operation");
    }
    return web_reply_missing(request, "The API has no such operation.");
}
