/*
 * sign: signatures of messages as Standard Webhooks has them (version 1.0.0): HMAC-SHA256 over
 * "id.timestamp.body" in base64, after "v1,". A secret is 32 random bytes; people and libraries get
 * it as "whsec_" and base64.
 */
#ifndef EVENT_SIGN_H
#define EVENT_SIGN_H

#include "base/buf.h"
#include "store/webhook.h"
#include "vault/seal.h"

enum {
    EVENT_SECRET_LEN = 32,
    EVENT_SECRET_TEXT_MAX = 6 + 44, /* whsec_ and base64 */
};

/* Appends "v1," and the signature, after a space if out is not empty. */
void event_sign(struct buf *out, slice secret, slice id, slice timestamp, slice body);
/* Appends the text of a secret. */
void event_secret_format(struct buf *out, slice secret);
/* What the secrets of an endpoint are bound to. */
struct vault_binding event_secret_binding(const struct webhook *webhook);
/* Appends the signatures of the endpoint's secrets: of the rolled one, too, if `now` (microseconds
 * since 1970) is before old_until. Returns ERR_CRYPTO, ERR_NOTFOUND, ERR_SYNTAX or ERR_NOMEM if the
 * secret does not open (vault_open); a rolled secret that does not open only lacks its
 * signature. */
int event_sign_webhook(struct buf *out, const struct vault_ring *ring,
                       const struct webhook *webhook, int64_t now, slice id, slice timestamp,
                       slice body, struct err *err) MUST_CHECK;

#endif
