/*
 * Signatures of messages; see sign.h.
 */
#include "event/sign.h"

#include "base/encode.h"
#include "base/log.h"
#include "vault/key.h"

void event_sign(struct buf *out, slice secret, slice id, slice timestamp, slice body)
{
    uint8_t mac[32];
    const slice parts[] = {id, SLICE("."), timestamp, SLICE("."), body};
    vault_hmac_sha256(secret, parts, ARRAY_LEN(parts), mac);
    buf_append_cstr(out, out->len > 0 ? " v1," : "v1,");
    encode_base64(out, slice_of(mac, sizeof(mac)));
}

void event_secret_format(struct buf *out, slice secret)
{
    buf_append_cstr(out, "whsec_");
    encode_base64(out, secret);
}

struct vault_binding event_secret_binding(const struct webhook *webhook)
{
    return vault_row_binding(webhook->account_id, "webhook", uuid_slice(&webhook->id));
}

int event_sign_webhook(struct buf *out, const struct vault_ring *ring,
                       const struct webhook *webhook, int64_t now, slice id, slice timestamp,
                       slice body, struct err *err)
{
    struct vault_binding binding = event_secret_binding(webhook);
    const slice sealed[] = {webhook->sealed,
                            now < webhook->old_until ? webhook->old_sealed : SLICE_NONE};
    /* The present secret comes first. A row without it cannot be signed, but one whose rolled
     * secret does not open (its master key was removed) still can. */
    for (size_t i = 0; i < ARRAY_LEN(sealed); i++) {
        struct secret *secret;
        if (!sealed[i].ptr && i > 0)
            continue;
        int status = vault_open(ring, &binding, webhook->key_id, sealed[i], &secret, err);
        if (status != OK && i == 0)
            return status;
        if (status != OK)
            continue;
        event_sign(out, secret_reveal(secret), id, timestamp, body);
        secret_unref(secret);
    }
    return buf_is_ok(out) ? OK : err_set(err, ERR_NOMEM, "out of memory");
}
