/*
 * The text is "circuit SENDER open|closed MS ACCOUNT|all INTEGRATION|- ORIGIN". The integration is
 * set for a host from an account's connection; the origin is the rest of the text.
 */
#include "limit/circuit_news.h"

#include <stdio.h>

slice circuit_news_format(const struct circuit_news *news, char out[CIRCUIT_NEWS_BYTES_MAX])
{
    char sender[UUID_TEXT_LEN + 1], account[UUID_TEXT_LEN + 1] = "all";
    const struct breaker_key *key = &news->key;
    uuid_format(news->sender, sender);
    if (!news->is_of_all)
        uuid_format(key->account_id, account);
    if (key->origin.len > BREAKER_ORIGIN_MAX)
        return SLICE_NONE;
    int len = snprintf(out, CIRCUIT_NEWS_BYTES_MAX, "circuit %s %s %llu %s %.*s %.*s", sender,
                       news->news.turn == BREAKER_OPENS ? "open" : "closed",
                       (unsigned long long)news->news.for_ms, account,
                       SLICE_ARG(key->is_host_given ? key->integration_id : SLICE("-")),
                       SLICE_ARG(key->origin));
    return len < CIRCUIT_NEWS_BYTES_MAX ? slice_of(out, (size_t)len) : SLICE_NONE;
}

bool circuit_news_parse(slice text, struct circuit_news *news)
{
    slice rest = text, sender, turn, account, integration;
    uint64_t for_ms;
    *news = (struct circuit_news){.news = {BREAKER_STAYS, 0}};
    if (!slice_eq(slice_split(&rest, ' '), SLICE("circuit")))
        return false;
    sender = slice_split(&rest, ' ');
    turn = slice_split(&rest, ' ');
    if (!uuid_parse(sender, &news->sender) ||
        !slice_to_u64(slice_split(&rest, ' '), UINT32_MAX, &for_ms))
        return false;
    account = slice_split(&rest, ' ');
    integration = slice_split(&rest, ' ');
    news->news.for_ms = for_ms;
    news->news.turn = slice_eq(turn, SLICE("open")) ? BREAKER_OPENS : BREAKER_CLOSES;
    news->is_of_all = slice_eq(account, SLICE("all"));
    news->key.is_host_given = !slice_eq(integration, SLICE("-"));
    news->key.integration_id = integration;
    news->key.origin = rest;
    return (news->is_of_all ? !news->key.is_host_given
                            : uuid_parse(account, &news->key.account_id)) &&
           rest.len > 0 && rest.len <= BREAKER_ORIGIN_MAX;
}
