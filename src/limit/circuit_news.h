/*
 * Circuits between processes: what one opens or closes the others hear of by NOTIFY (pg/notify.h).
 * A hint: a process that misses it, or is of a version that does not know it, counts for itself.
 */
#ifndef LIMIT_CIRCUIT_NEWS_H
#define LIMIT_CIRCUIT_NEWS_H

#include "limit/breaker.h"

enum { CIRCUIT_NEWS_BYTES_MAX = 600 };

struct circuit_news {
    struct uuid sender; /* who hears its own, too */
    struct breaker_key key;
    bool is_of_all;
    struct breaker_news news;
};

/* SLICE_NONE: an origin that is too long to tell of. */
slice circuit_news_format(const struct circuit_news *news, char out[CIRCUIT_NEWS_BYTES_MAX]);
/* false: none of ours. What it has is a part of text. */
bool circuit_news_parse(slice text, struct circuit_news *news) MUST_CHECK;

#endif
