/*
 * link: the token of a connect link, decoded. Private to the room.
 *
 * The token is base64url of a version, the account's id (so that the link is found by key) and 256
 * random bits; the database stores only its SHA-256.
 */
#ifndef WEB_LINK_H
#define WEB_LINK_H

#include "base/id.h"
#include "store/connect_session.h"

enum { WEB_LINK_MARK_LEN = 16 };

struct web_link {
    slice token; /* as in the address; borrowed */
    struct uuid account_id;
    uint8_t hash[CONNECT_SESSION_HASH_LEN];
    char
        mark[WEB_LINK_MARK_LEN + 1]; /* the name of its cookie: the beginning of the hash, in hex */
};

/* Returns false if no link can have such a token. */
bool web_link_read(slice token, struct web_link *link) MUST_CHECK;
/* Returns the mark in the OAuth state "<mark>.<random>" of an authorization that a link's page has
 * started. Returns SLICE_NONE for any other state. */
slice web_link_mark_of_state(slice state);

#endif
