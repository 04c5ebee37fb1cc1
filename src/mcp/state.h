/*
 * The requestState of a form that asks a person to confirm a call: sealed text that the client
 * sends back with the answer. It contains the question, so that nothing has to be stored: the
 * account and the API key, the call, its connection, the expiry, the input given before
 * (input_form.h), and a nonce. The nonce becomes the call's idempotency key, so one state runs
 * once. Private to the mcp room.
 *
 * A state without a confirmation only returns given input.
 */
#ifndef MCP_STATE_H
#define MCP_STATE_H

#include "mcp/message.h"

enum {
    MCP_FORM_BYTES_MAX = 32 * 1024,
    MCP_STATE_MS = 10 * 60 * 1000,
    MCP_NONCE_LEN = 16,
    MCP_FILLED_BYTES_MAX = 8 * 1024, /* limit of the given input, as JSON */
    MCP_CALL_BYTES_MAX = 512 * 1024, /* limit of a call to confirm, with its action's detail */
};

struct mcp_state {
    uint8_t nonce[MCP_NONCE_LEN];
    int64_t connection_id; /* 0: the app needs none */
    uint8_t call[32];      /* a digest of the call and of its action (mcp_state_digest) */
    bool is_confirmation;
    int64_t until_ms; /* after unsealing: when it expires, by the shared clock (base/clock.h) */
    slice filled;     /* JSON text of an object; empty: none */
};

/* Computes the digest of a call. wanted: as it is before a state changes it. action: its action.
 * Returns false if the call is too large, or if out of memory. */
bool mcp_state_digest(const struct exec_request *wanted, const struct catalog_action *action,
                      uint8_t digest[32]) MUST_CHECK;
/* Like mcp_state_digest, for the start of a flow. */
bool mcp_state_digest_start(const struct flow_request *in, const struct flow_template *tmpl,
                            uint8_t digest[32]) MUST_CHECK;
/* Returns text for requestState that is valid for MCP_STATE_MS from now, or SLICE_NONE if out of
 * memory or the input is too large. */
slice mcp_state_seal(struct api_request *request, const struct mcp_state *state);
/* Returns false if the state is forged, altered or expired, or belongs to another account or key.
 * state->filled is in the request's arena. */
bool mcp_state_open(struct api_request *request, slice text, struct mcp_state *state) MUST_CHECK;

#endif
