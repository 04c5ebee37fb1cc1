/*
 * GET /openapi.json: the document of the whole API, which is openapi.json in this folder and is
 * compiled in. tests/unit/api/test_openapi.c compares it with the table of routes, and
 * tests/e2e/openapi.test.mjs with the server's replies.
 */
#include "api/request.h"
#include "base/embed.h"

static enum op_result begin_openapi(struct api_request *request)
{
    const struct embed_file *file = &embed_openapi[0];
    slice document = slice_of((const char *)file->data, file->len);
    if (api_reply_not_modified(request, api_etag_of(request, document)))
        return OP_DONE;
    return api_reply(request, 200, document);
}

const struct api_endpoint api_openapi = {.begin = begin_openapi};
