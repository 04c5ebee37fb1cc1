/*
 * Functions that all handlers share: writing a reply, and the seeded random source.
 */
#include "provider/provider.h"

void reply_header(struct provider_reply *reply, slice name, slice value)
{
    ASSERT(reply->header_count + 1 < PROVIDER_REPLY_HEADERS_MAX);
    reply->headers[++reply->header_count] = (struct http_header){name, value};
}

struct json_writer reply_json(struct provider_reply *reply, unsigned status)
{
    struct json_writer w;
    reply_text(reply, status, SLICE("application/json; charset=utf-8"), SLICE_NONE);
    json_begin(&w, reply->body);
    return w;
}

void reply_text(struct provider_reply *reply, unsigned status, slice content_type, slice text)
{
    reply->status = status;
    reply->headers[0] = (struct http_header){SLICE("Content-Type"), content_type};
    buf_clear(reply->body);
    buf_append(reply->body, text);
}

bool reply_error(struct provider_reply *reply, unsigned status, slice text)
{
    struct json_writer w = reply_json(reply, status);
    json_open(&w, '{');
    json_member_str(&w, "error", text);
    json_close(&w, '}');
    return false;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t rng_next(struct rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    ASSERT(bound > 0);
    return rng_next(rng) % bound;
}
