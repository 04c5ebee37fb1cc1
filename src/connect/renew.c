/*
 * Decides when a token is renewed, and manages the ops that wait for it. A connection has a slot
 * while it is renewed, and after a failure until a renewal succeeds or the slot is evicted. For a
 * while after a failure there is no other attempt, so that a token endpoint that is down does not
 * get a request for every call. The renewal itself is in renewer.c.
 */
#include "connect/renewer.h"

#include <stdio.h>

enum {
    QUIET_MS = 500,                 /* pause after a failure if a call needs the token */
    BACKGROUND_QUIET_MS_MIN = 2000, /* pause if no call needs it yet; doubles */
    BACKGROUND_QUIET_MS_MAX = 60000,
    AGING_US_MAX = 300 * 1000000, /* a token is renewed in the background this long before it
                                   * expires */
    SKEW_US_MAX = 5 * 1000000,    /* a token counts as expired this long before it expires */
};

/* ---- when ---- */

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum connect_need connect_item_need(const struct connect_service *service,
                                    const struct connect_item *item, enum catalog_auth_kind kind,
                                    int64_t now_us)
{
    bool is_renewable = kind == AUTH_OAUTH2_CLIENT_CREDENTIALS ||
                        (kind == AUTH_OAUTH2 && item->has_refresh_token);
    if (!is_renewable || item->status != CONNECTION_LIVE)
        return CONNECT_FRESH;
    if (!item->has_token)
        return CONNECT_EXPIRED;
    if (item->expires_at == 0)
        return CONNECT_FRESH;
    /* The life is counted from the row's last change, which is the grant or later. The margins are
     * fractions of the token's life, so that a token of one minute is not renewed all the time. */
    int64_t life = item->expires_at - item->updated_at;
    if (life < 0)
        life = 0;
    if (now_us >= item->expires_at - min_i64(life / 20, SKEW_US_MAX))
        return CONNECT_EXPIRED;
    /* 75 to 100 % of the margin, constant for a connection in one process, so that processes do not
     * all begin to renew its token at the same moment */
    uint64_t noise = hash_siphash13((uint64_t[2]){service->jitter, 0}, &item->id, sizeof(item->id));
    int64_t margin = min_i64(life / 5, AGING_US_MAX);
    margin -= margin / 4 * (int64_t)(noise % 1024) / 1024;
    return now_us >= item->expires_at - margin ? CONNECT_AGING : CONNECT_FRESH;
}

/* ---- waiting ops and remembered failures ---- */

/* The message is copied into the waiting op's arena, because the renewer's arena is freed with
 * the renewer. */
static void end_wait(struct connect_renewal *renewal, enum connect_renewed result, slice message)
{
    struct op *op = renewal->op;
    ASSERT(op);
    list_unlink(&renewal->link);
    timer_stop(&renewal->timer);
    renewal->op = NULL;
    renewal->result = result;
    renewal->message = message.len > 0 ? arena_dup(&op->arena, message) : SLICE_NONE;
    op_release(op);
}

static void drop_slot(struct connect_service *service, struct slot *slot)
{
    ASSERT(!slot->running);
    keyed_drop(&service->renewals, &slot->keyed);
}

/* Drops the slot after a success, and after the end of the grant: the row is then marked, so no
 * renewal is requested. */
static void remember_result(struct renewer *renewer)
{
    struct slot *slot = renewer->slot;
    ASSERT(slot->running == renewer);
    slot->running = NULL;
    if (renewer->result == CONNECT_RENEWED || renewer->result == CONNECT_RENEWAL_GONE) {
        drop_slot(renewer->service, slot);
        return;
    }
    slot->failed_ns = loop_now_ns(renewer->op.loop);
    slot->failures++;
    slot->result = renewer->result;
    (void)snprintf(slot->message, sizeof(slot->message), "%.*s",
                   SLICE_ARG(slice_first_utf8(renewer->message, RENEWAL_MESSAGE_MAX)));
}

void renewer_ended(struct renewer *renewer)
{
    remember_result(renewer);
    LIST_EACH(&renewer->waiting, struct connect_renewal, wait, link)
        end_wait(wait, renewer->result, renewer->message);
    ASSERT(renewer->service->renewals_active > 0);
    renewer->service->renewals_active--;
}

/* ---- starting ---- */

static bool has_all_slots(const struct connect_service *service)
{
    return service->renewals.map.count >= CONNECT_SLOTS_MAX;
}

static struct slot *find_slot(struct connect_service *service, struct uuid account_id, int64_t id)
{
    char key[RENEWAL_KEY_LEN];
    memcpy(key, account_id.bytes, 16);
    memcpy(key + 16, &id, 8);
    struct slot *slot = keyed_find(&service->renewals, slice_of(key, RENEWAL_KEY_LEN));
    /* Evicts the least recently used slot without a renewal under way. If there is none, the
     * caller's token is not renewed now. */
    for (struct list *node = service->slots.prev;
         !slot && has_all_slots(service) && node != &service->slots;) {
        struct slot *old = LIST_ITEM(node, struct slot, keyed.ring);
        node = node->prev;
        if (!old->running)
            drop_slot(service, old);
    }
    if (!slot && !has_all_slots(service))
        slot = keyed_get(&service->renewals, slice_of(key, RENEWAL_KEY_LEN));
    if (!slot)
        return NULL;
    list_unlink(&slot->keyed.ring);
    list_push_front(&service->slots, &slot->keyed.ring);
    return slot;
}

static uint64_t quiet_ns(const struct slot *slot, bool is_needed)
{
    uint64_t ms = QUIET_MS;
    if (!is_needed) { /* 2 s, 4 s ... 60 s */
        unsigned doublings = slot->failures < 6 ? slot->failures : 6;
        ms = (uint64_t)BACKGROUND_QUIET_MS_MIN << (doublings ? doublings - 1 : 0);
        ms = ms < BACKGROUND_QUIET_MS_MAX ? ms : BACKGROUND_QUIET_MS_MAX;
    }
    return ms * 1000000;
}

/* Whether the last renewal failed so recently that another attempt would probably fail, too. */
static bool is_quiet(const struct connect_service *service, const struct slot *slot, bool is_needed)
{
    return slot->failed_ns > 0 &&
           loop_now_ns(service->loop) < slot->failed_ns + quiet_ns(slot, is_needed);
}

static void on_deadline(struct timer *timer)
{
    end_wait(CONTAINER_OF(timer, struct connect_renewal, timer), CONNECT_RENEWAL_TIMEOUT,
             SLICE("its authorization server did not answer in time"));
}

bool connect_renew(struct connect_service *service, struct connect_renewal *renewal,
                   struct uuid account_id, slice integration_id, const struct connect_item *item,
                   uint64_t deadline_ns, struct op *op)
{
    ASSERT(op && item->id > 0);
    *renewal = (struct connect_renewal){.result = CONNECT_RENEWAL_IMPOSSIBLE,
                                        .message = SLICE("this server cannot renew it")};
    timer_init(&renewal->timer, service->loop, on_deadline);
    list_init(&renewal->link);
    struct slot *slot = service->config.http ? find_slot(service, account_id, item->id) : NULL;
    if (!slot)
        return true;
    if (!slot->running && is_quiet(service, slot, true)) { /* the failure answers this call, too */
        renewal->result = slot->result;
        renewal->message = arena_dup(&op->arena, slice_cstr(slot->message));
        return true;
    }
    struct renewer *renewer = slot->running
                                  ? slot->running
                                  : renewer_start(service, slot, account_id, integration_id, item);
    if (!renewer)
        return true;
    renewal->op = op;
    list_push_back(&renewer->waiting, &renewal->link);
    op_hold(op, "a token to be renewed");
    timer_start(&renewal->timer, deadline_ns);
    return false;
}

/* The renewal itself continues. */
void connect_renew_cancel(struct connect_renewal *renewal)
{
    if (renewal->op)
        end_wait(renewal, CONNECT_RENEWAL_TIMEOUT, SLICE_NONE);
}

void connect_renew_in_background(struct connect_service *service, struct uuid account_id,
                                 slice integration_id, const struct connect_item *item)
{
    struct slot *slot = service->config.http ? find_slot(service, account_id, item->id) : NULL;
    if (slot && !slot->running && !is_quiet(service, slot, false))
        (void)!renewer_start(service, slot, account_id, integration_id, item);
}

/* ---- shutdown ---- */

size_t connect_renewals_active(const struct connect_service *service)
{
    return service->renewals_active;
}

void connect_renewals_cancel(struct connect_service *service)
{
    LIST_EACH(&service->slots, struct slot, slot, keyed.ring) {
        if (slot->running)
            op_cancel(&slot->running->op);
    }
}

void connect_renewals_init(struct connect_service *service)
{
    keyed_init(&service->renewals, sizeof(struct slot));
    list_init(&service->slots);
}

void connect_renewals_free(struct connect_service *service)
{
    ASSERT(service->renewals_active == 0);
    LIST_EACH(&service->slots, struct slot, slot, keyed.ring)
        drop_slot(service, slot);
    keyed_deinit(&service->renewals);
}
