/*
 * Notifications of circuits: processes notify each other of opened and closed circuits by NOTIFY
 * (pg/notify.h). They are hints: a process that misses one, or has an older version, relies on its
 * own counts.
 */
#ifndef LIMIT_CIRCUIT_NEWS_H
#define LIMIT_CIRCUIT_NEWS_H

#include "limit/breaker.h"

enum { CIRCUIT_NEWS_BYTES_MAX = 600 };

struct circuit_news {
    struct uuid sender; /* a process receives its own notifications, too */
    struct breaker_key key;
    bool is_of_all;
    struct breaker_news news;
};

/* Returns SLICE_NONE if the origin is too long for a notification. */
slice circuit_news_format(const struct circuit_news *news, char out[CIRCUIT_NEWS_BYTES_MAX]);
/* Returns false if text is not such a notification. The members are slices of text. */
bool circuit_news_parse(slice text, struct circuit_news *news) MUST_CHECK;

#endif
