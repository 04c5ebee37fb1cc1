/*
 * Who may decide about a held call: a key that neither asked for it nor counts as the one that did
 * (src/policy/README.md "Holds"). All faces decide through the command, which asks here; the
 * dashboard asks the same, to show no buttons that would be refused.
 */
#include "flow/approver.h"

void flow_approver_ask(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid payer_id, slice asker, slice decider)
{
    store_api_key_is_kin(pool, query, op, payer_id, audit_actor_key(decider),
                         audit_actor_key(asker));
}

int flow_approver_result(const struct pg_query *query, bool *may_decide)
{
    bool is_kin;
    int status = store_api_key_is_kin_result(query, &is_kin);
    *may_decide = !is_kin;
    return status;
}

slice flow_approver_refusal(void)
{
    return SLICE("This call waits for the approval of another key. The key that asked for it, keys "
                 "that it was rolled from or to, and keys that they made do not decide about it. "
                 "Nothing was changed.");
}
