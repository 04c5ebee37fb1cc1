// Every way in which an execution can end, on both endpoints (src/api/README.md "Executions", "Tool
// endpoint"): the HTTP status, the envelope, the headers and the stored row of each. The rows below
// are the table. The last tests prove that every error_code of src/api/README.md and every reason
// of src/call/outcome.h has a row, or a reason for having none.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { makeCertificates, startNginx } from './support/nginx.mjs';
import { freePort } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

// reason -> [status, error_code, error.type, error.code, error.retryable of a read]
const VERDICTS = {
  integration_unknown: ['blocked', 'integration_not_found', 'not_found', 'integration_not_found', false],
  action_unknown: ['blocked', 'action_not_found', 'not_found', 'action_not_found', false],
  input_invalid: ['blocked', 'validation_error', 'validation', 'invalid_arguments', false],
  confirmation_missing: ['blocked', 'policy_blocked', 'confirmation', 'confirmation_required', false],
  policy_denied: ['blocked', 'policy_blocked', 'policy', 'policy_denied', false],
  held: ['blocked', 'policy_blocked', 'policy', 'approval_required', true],
  not_connected: ['blocked', 'integration_not_connected', 'connection', 'not_connected', false],
  connection_unknown: ['blocked', 'integration_not_connected', 'connection', 'connection_not_found', false],
  reauth_required: ['blocked', 'reauth_required', 'auth', 'reauth_required', false],
  key_refused: ['blocked', 'unauthorized', 'auth', 'credential_refused', false],
  connection_ambiguous: ['blocked', 'policy_blocked', 'connection', 'connection_ambiguous', false],
  scope_missing: ['blocked', 'forbidden', 'auth', 'scope_missing', false],
  own_rate_limit: ['blocked', 'rate_limited', 'rate_limit', 'rate_limited', true],
  circuit_open: ['blocked', 'execution_failed', 'provider', 'circuit_open', true],
  address_refused: ['blocked', 'unsupported_operation', 'unsupported', 'address_refused', false],
  operation_gone: ['blocked', 'unsupported_operation', 'unsupported', 'operation_gone', false],
  key_mismatch: ['blocked', 'validation_error', 'validation', 'idempotency_key_reused', false],
  provider_forbidden: ['failed', 'forbidden', 'auth', 'provider_forbidden', false],
  provider_rate_limited: ['failed', 'rate_limited', 'rate_limit', 'rate_limited', true],
  provider_invalid: ['failed', 'validation_error', 'validation', 'provider_refused_arguments', false],
  provider_unsupported: ['failed', 'unsupported_operation', 'unsupported', 'unsupported_operation', false],
  provider_error: ['failed', 'execution_failed', 'provider', 'provider_error', false],
  timed_out: ['failed', 'timeout', 'timeout', 'timeout', true],
  unreachable: ['failed', 'execution_failed', 'network', 'unreachable', true],
  broken_off: ['failed', 'execution_failed', 'network', 'connection_lost', true],
  reply_unreadable: ['failed', 'execution_failed', 'provider', 'reply_unreadable', true],
  reply_too_large: ['failed', 'execution_failed', 'provider', 'reply_too_large', false],
};

// Reasons without a row, and why.
const ELSEWHERE = {
  succeeded: 'not an error; the last test of this file has it',
  hold_over: 'its approval has to be rejected: tests/e2e/holds_faces.test.mjs',
  partly_done: 'an action of several requests: tests/e2e/sequences.test.mjs',
  outcome_unknown: 'a process must die in between: tests/e2e/crash.test.mjs and database.test.mjs',
  unavailable: 'the database must be unreachable: tests/e2e/database.test.mjs',
  still_running: 'a guard error without an envelope: its own test below',
  cancelled: 'its client has disconnected, so there is no reply: tests/e2e/idempotency.test.mjs',
  not_in_scope: 'a guard error without an envelope: tests/e2e/scopes.test.mjs',
  internal: 'a fault of ours, which cannot be caused; its envelope is in tests/unit/api',
};

const NOTHING_DONE = /[Nn]othing was (done|sent|changed)/;
const UNKNOWN = /outcome is unknown/;

// A row: what happens, the reason, and whatever of these it needs:
//   integration, action, input   what is run ("outcome", "read"; the case's own path)
//   write                        runs the write action of the integration; "unconfirmed" without confirm
//   fault                        of the emulated provider, at the case's path
//   account                      of its own: {app, credential, args} connections to make
//   policy                       of the account's keys
//   twice                        the first run only prepares (a connection is marked, a key is bound)
//   code, retryable              where they differ from the verdict
//   message, hint                what they say
//   retryAfter                   the header: a number of seconds, or [least, most]
//   only                         'tool' or 'canonical'; connectionId, files: of the tool endpoint
//   server                       'limited': a server with limits and circuits
//   recommends                   whether to reconnect, where the reason alone does not decide it
const S = (status, body, more) => ({ status, ...(body !== undefined && { body }), ...more });
const PAGE = '<!DOCTYPE html><html><head><title>Sign in</title></head></html>';
const rows = [
  // ---- blocked before anything is sent, in the order of src/api/README.md "Executions" ----
  { what: 'an unknown integration', reason: 'integration_unknown', integration: 'nope', hint: /GET \/api\/integrations/ },
  { what: 'an unknown action', reason: 'action_unknown', action: 'nope', hint: /GET \/api\/actions\?integration_id=outcome/ },
  { what: 'input against the schema', reason: 'input_invalid', input: { at: 7, more: 1 }, message: /\/(input|arguments)\/at: .*\/(input|arguments)\/more: /s, hint: /GET \/api\/actions\/outcome\/read/ },
  { what: 'input that makes no request', reason: 'input_invalid', input: { at: 'x', header: 'a\r\nb' }, message: /header X-Case/ },
  { what: 'a path that leaves its folder', reason: 'input_invalid', input: { at: '..' }, message: /path/ },
  { what: 'a file without data', reason: 'input_invalid', only: 'tool', files: [{ name: 'x' }], action: 'upload', message: /\/files\/0: data is missing/, hint: /standard base64.*"files"/ },
  { what: 'a file that is broken', reason: 'input_invalid', only: 'tool', files: [{ name: 'x', data: '?' }], action: 'upload', message: /\/files\/0\/data: must be standard base64/, hint: /send the same request again/ },
  { what: 'no file, but one is needed', reason: 'input_invalid', action: 'upload', message: /the request has none/, hint: /encode its bytes/ },
  { what: 'a file that is not accepted', reason: 'input_invalid', only: 'tool', files: [{ name: 'x', data: 'QUJD' }], message: /takes no files/, hint: /without files/ },
  { what: 'a write that is not confirmed', reason: 'confirmation_missing', write: 'unconfirmed', hint: /confirm(ed)?: true/ },
  { what: 'a write that is neither confirmed nor valid', reason: 'confirmation_missing', write: 'unconfirmed', input: { at: 7 }, message: /\/(input|arguments)\/at: /, hint: /input_schema.*confirm(ed)?: true/ },
  { what: 'a call that the policy of the key denies', reason: 'policy_denied', account: [], policy: { default: 'deny', rules: [] }, message: /policy of this API key/, hint: /administrator/ },
  { what: 'a call that a person has to approve', reason: 'held', account: [], policy: { default: 'hold', rules: [] }, message: /waits for the approval/, hint: /send the same request again/ },
  { what: 'no connection', reason: 'not_connected', integration: 'keyed', account: [], hint: /Connect the app/ },
  { what: 'a connection that does not exist', reason: 'connection_unknown', only: 'tool', integration: 'keyed', connectionId: 17, hint: /connectionId/ },
  { what: 'a connection for an app that needs none', reason: 'connection_unknown', only: 'tool', connectionId: 17 },
  { what: 'a dead grant, known', reason: 'reauth_required', twice: true, integration: 'granted', fault: S(401), account: [{ app: 'granted', credential: { access_token: 'secret-one' } }] },
  { what: 'a dead key, known', reason: 'reauth_required', twice: true, integration: 'keyed', fault: S(401), account: [{ app: 'keyed', credential: { token: 'secret-two' } }] },
  { what: 'a dead default and a live connection', reason: 'reauth_required', twice: true, integration: 'keyed', fault: S(401), hint: /one of \d+\. GET \/api\/connections\?integration_id=keyed shows/,
    account: [{ app: 'keyed', credential: { token: 'secret-three' }, args: ['--default'] }, { app: 'keyed', credential: { token: 'secret-four' }, args: ['--label', 'spare'] }] },
  { what: 'several connections and no default', reason: 'connection_ambiguous', only: 'canonical', integration: 'keyed', hint: /POST \/api\/tools\/keyed_read\/execute.* one of \d+, \d+\./, ambiguous: true,
    account: [{ app: 'keyed', credential: { token: 'secret-five' }, args: ['--label', 'one'] }, { app: 'keyed', credential: { token: 'secret-six' }, args: ['--label', 'two'] }] },
  { what: 'a scope that is known to be missing', reason: 'scope_missing', integration: 'granted', action: 'scoped', message: /things\.write/, account: [{ app: 'granted', credential: { access_token: 'secret-seven' }, args: ['--scopes', 'things.read'] }] },
  { what: 'own rate limit', reason: 'own_rate_limit', server: 'limited', integration: 'slowly', twice: true, retryAfter: [1, 1000], message: NOTHING_DONE },
  { what: 'an open circuit', reason: 'circuit_open', server: 'limited', integration: 'failing', times: 4, fault: S(500), retryAfter: [1, 120], hint: NOTHING_DONE },
  { what: 'an address that is not allowed', reason: 'address_refused', integration: 'inside', hint: /allow-host/ },
  { what: 'an address that is not allowed, IPv6', reason: 'address_refused', integration: 'inside_six' },
  { what: 'the metadata service of a cloud', reason: 'address_refused', integration: 'metadata' },
  { what: 'an operation that was retired', reason: 'operation_gone', action: 'retired', message: /retired in March/, hint: /Do not send it again/ },
  { what: 'a key of another request', reason: 'key_mismatch', key: true, hint: /new key/ },
  // ---- the provider's answers ----
  { what: '401 for a grant', reason: 'reauth_required', integration: 'granted', fault: S(401, { error: { message: 'token expired' } }), message: /"token expired"/, account: [{ app: 'granted', credential: { access_token: 'secret-eight' } }] },
  { what: '401 for a key', reason: 'key_refused', integration: 'keyed', fault: S(401, 'bad key secret-nine!'), message: /"bad key \*\*\*!"/, account: [{ app: 'keyed', credential: { token: 'secret-nine' } }] },
  { what: '403', reason: 'provider_forbidden', fault: S(403, { message: 'not yours' }), message: /"not yours"/, hint: NOTHING_DONE },
  { what: '403 for a missing scope', reason: 'provider_forbidden', integration: 'keyed', recommends: true, fault: S(403, { lacks: 'things.write' }), message: /things\.write/, hint: /Reconnect/ },
  { what: '403 for another cause', reason: 'provider_forbidden', integration: 'keyed', fault: S(403, { message: 'not yours' }) },
  { what: '401 of an app without credentials', reason: 'key_refused', recommends: false, fault: S(401), hint: /asks for a credential/ },
  { what: '403 that means too fast', reason: 'provider_rate_limited', fault: S(403, { reason: 'slow', wait: 41 }), retryAfter: 41 },
  { what: '429', reason: 'provider_rate_limited', fault: S(429), retryAfter: 30, hint: NOTHING_DONE },
  { what: '429 of a write without a time', reason: 'provider_rate_limited', write: true, fault: S(429), retryAfter: 30, hint: NOTHING_DONE },
  { what: '429 where the manifest has a default', reason: 'provider_rate_limited', integration: 'paced', fault: S(429), retryAfter: 77 },
  { what: '429 with a time where the manifest has a default', reason: 'provider_rate_limited', integration: 'paced', fault: S(429, undefined, { retry_after: 44 }), retryAfter: 44 },
  { what: '429 that says when the quota is renewed', reason: 'provider_rate_limited', integration: 'paced', fault: S(429, { left: 0, reset: 55 }), retryAfter: 55 },
  { what: '429 with a time', reason: 'provider_rate_limited', fault: S(429, undefined, { retry_after: 42 }), retryAfter: 42 },
  { what: '429 with a date', reason: 'provider_rate_limited', integration: 'nginx', at: 'date', retryAfter: [80_000, 86_400] },
  { what: '429 of a write', reason: 'provider_rate_limited', write: true, fault: S(429, undefined, { retry_after: 43 }), retryAfter: 43 },
  { what: '400', reason: 'provider_invalid', fault: S(400, { errors: [{ message: 'name is missing' }] }), message: /"name is missing"/ },
  { what: '422', reason: 'provider_invalid', fault: S(422), hint: NOTHING_DONE },
  { what: '404', reason: 'provider_error', fault: S(404), hint: /ids in the input/ },
  { what: '402', reason: 'provider_error', fault: S(402) },
  { what: '409', reason: 'provider_error', fault: S(409), message: /reports a conflict/, hint: /Read the current state/ },
  { what: '410', reason: 'provider_error', fault: S(410), message: /deleted for good/, hint: /Do not send it again/ },
  { what: '412', reason: 'provider_error', fault: S(412), message: /was changed in the meantime/, hint: /Read it again/ },
  { what: '413', reason: 'provider_error', fault: S(413), message: /a request of that size/, hint: /Send less/ },
  { what: '418', reason: 'provider_error', fault: S(418) },
  { what: '500', reason: 'provider_error', fault: S(500), retryable: true, hint: NOTHING_DONE },
  { what: '500 of a write', reason: 'provider_error', write: true, fault: S(500), hint: UNKNOWN },
  { what: '501', reason: 'provider_unsupported', fault: S(501), hint: /Do not send it again/ },
  { what: '502 of a proxy', reason: 'provider_error', integration: 'nginx', at: 'bad_gateway', retryable: true, message: /"502 Bad Gateway"/ },
  { what: '503', reason: 'provider_error', fault: S(503), retryable: true },
  { what: '503 of a write', reason: 'provider_error', write: true, fault: S(503), hint: UNKNOWN },
  { what: '504', reason: 'provider_error', fault: S(504), retryable: true },
  { what: '599', reason: 'provider_error', fault: S(599), retryable: true },
  { what: 'a redirect to another host', reason: 'provider_error', integration: 'nginx', at: 'redirect', message: /redirect, which is not followed.* The redirect leads to "https:\/\/elsewhere\.example\/"\.$/, hint: /renamed or moved/ },
  { what: 'an error in a 200', reason: 'provider_error', fault: S(200, { ok: false, why: 'because' }), message: /^The app says because/, hint: /Correct what the message says/ },
  { what: 'an error in a 200 of a write', reason: 'provider_error', write: true, fault: S(200, { ok: false, why: 'because' }), message: /^The app says because/, hint: UNKNOWN },
  ...['unauthorized', 'forbidden', 'reauth_required', 'rate_limited', 'validation_error', 'unsupported_operation', 'timeout', 'execution_failed'].map((code) => ({
    what: `a rule's ${code}`,
    reason: { unauthorized: 'key_refused', forbidden: 'provider_forbidden', rate_limited: 'provider_rate_limited', validation_error: 'provider_invalid',
      unsupported_operation: 'provider_unsupported', timeout: 'timed_out', execution_failed: 'provider_error' }[code] ?? code,
    fault: S(200, { ok: false, code }),
    ...(code === 'rate_limited' && { retryAfter: 30 }),
    message: new RegExp(`^Says ${code} in a 200\\.$`),
    hint: new RegExp(`^Mend ${code} by hand\\.$`),
  })),
  // ---- failures without a reply ----
  { what: 'no such name', reason: 'unreachable', integration: 'away', hint: NOTHING_DONE },
  { what: 'no such name, for a write', reason: 'unreachable', write: true, integration: 'away', hint: NOTHING_DONE },
  { what: 'a refused connection', reason: 'unreachable', integration: 'refused', hint: NOTHING_DONE },
  { what: 'a certificate of an unknown authority', reason: 'unreachable', integration: 'stranger', hint: NOTHING_DONE },
  { what: 'a certificate of another host', reason: 'unreachable', integration: 'misnamed', hint: NOTHING_DONE },
  { what: 'a peer that does not speak TLS', reason: 'unreachable', integration: 'babble', hint: NOTHING_DONE },
  { what: 'a peer that sends nothing', reason: 'timed_out', integration: 'silent', hint: NOTHING_DONE },
  { what: 'a peer that sends nothing, for a write', reason: 'timed_out', write: true, integration: 'silent', hint: NOTHING_DONE },
  { what: 'no reply in time', reason: 'timed_out', fault: { hang: 'before' }, deadline: true, hint: NOTHING_DONE },
  { what: 'no reply to a write in time', reason: 'timed_out', write: true, fault: { hang: 'after' }, deadline: true, retryable: false, hint: UNKNOWN },
  { what: 'a reply that drips', reason: 'timed_out', fault: { slow_body: { bytes: 1, interval_ms: 100 } }, deadline: true, hint: NOTHING_DONE },
  { what: 'a reset before the request was read', reason: 'broken_off', fault: { reset: 'before' }, hint: NOTHING_DONE },
  { what: 'a reset after a write', reason: 'broken_off', write: true, fault: { reset: 'after' }, retryable: false, hint: UNKNOWN },
  { what: 'a reset in the reply', reason: 'broken_off', fault: { reset: 'mid_body' }, hint: NOTHING_DONE },
  { what: 'a close after the headers', reason: 'broken_off', fault: { close_after_headers: true }, hint: NOTHING_DONE },
  { what: 'a close without a reply', reason: 'broken_off', integration: 'nginx', at: 'drop', hint: NOTHING_DONE },
  { what: 'garbage', reason: 'broken_off', fault: { garbage: true }, hint: NOTHING_DONE },
  { what: 'garbage for a write', reason: 'broken_off', write: true, fault: { garbage: true }, retryable: false, hint: UNKNOWN },
  // ---- a 2xx that is not what the action returns ----
  { what: 'invalid JSON', reason: 'reply_unreadable', integration: 'nginx', at: 'lie', message: /claims to be JSON and is not/, hint: NOTHING_DONE },
  { what: 'a login page', reason: 'reply_unreadable', integration: 'nginx', at: 'page', message: /a web page, not what the action returns: "Sign in"/, hint: /login page/ },
  { what: 'a login page for a write', reason: 'reply_unreadable', write: true, fault: S(200, PAGE), retryable: false, message: /HTTP 200 with a web page/, hint: UNKNOWN },
  { what: 'a login page for a write that returns nothing', reason: 'reply_unreadable', action: 'silent_write', fault: S(200, PAGE), retryable: false, hint: UNKNOWN },
  { what: 'a text', reason: 'reply_unreadable', fault: S(200, 'OK'), message: /not the JSON that the action returns: "OK"/ },
  { what: 'an empty body', reason: 'reply_unreadable', integration: 'nginx', at: 'empty', message: /with an empty body/ },
  { what: '204', reason: 'reply_unreadable', fault: S(204), message: /HTTP 204 with an empty body/ },
  { what: '202 without a body for a write', reason: 'reply_unreadable', write: true, integration: 'nginx', at: 'accepted', retryable: false, message: /HTTP 202 with an empty body/, hint: UNKNOWN },
  { what: 'an array instead of an object', reason: 'reply_unreadable', action: 'named', fault: S(200, [{ id: 1 }]), message: /an array, not the object/ },
  { what: 'an object instead of an array', reason: 'reply_unreadable', action: 'listed', fault: S(200, { error: { message: 'busy' } }), message: /an object, not the array that the action returns: "busy"/ },
  { what: 'an object without its id', reason: 'reply_unreadable', action: 'named', fault: S(200, { error: { message: 'busy' } }), message: /without body\.id, which this reply always has: "busy"/ },
  { what: 'a write without its id', reason: 'reply_unreadable', action: 'named_write', fault: S(201, { id: null }), retryable: false, message: /HTTP 201 without body\.id/, hint: UNKNOWN },
  { what: 'an endless reply', reason: 'reply_too_large', fault: { endless_body: true }, hint: /fewer items/ },
];
rows.forEach((row, i) => (row.slug = `case${i}`));
const ENDPOINTS = ['canonical', 'tool'];
const ruleOf = (row, endpoint) => ({ match: { path_prefix: `/echo/${row.slug}-${endpoint}` }, count: -1, action: row.fault });

// ---- the catalog of these rows ----

const at = { type: 'string', description: 'Where.' };
const action = (action_id, request, more = {}) => ({
  action_id,
  title: `Do ${action_id}`,
  description: 'For the table of outcomes.',
  side_effect_level: 'read',
  input_schema: { type: 'object', additionalProperties: false, required: ['at'], properties: { at, header: { type: 'string', description: 'A header.' } } },
  request: { method: 'GET', path: '/echo/${input.at}', headers: { 'X-Case': '${input.header}' }, ...request },
  display: { title: 'Done', summary: 'Done' },
  ...more,
});
const read = (more) => action('read', {}, more);
const write = (more) => action('write', { method: 'POST' }, { side_effect_level: 'write', ...more });
const soon = { deadline_ms: 700 };
const integration = (integration_id, base_url, more = {}) => ({
  integration_id,
  name: `The ${integration_id}`,
  description: 'For the table of outcomes.',
  category: 'test',
  base_url,
  auth: { type: 'none' },
  actions: [read(), write()],
  ...more,
});
const rule = (code) => ({ when: `body.code == '${code}'`, on_success: true, error_code: code, message: `Says ${code} in a 200.`, hint: `Mend ${code} by hand.` });
const codes = rows.filter((row) => row.fault?.body?.code).map((row) => row.fault.body.code);
const host = (name) => `https://${name}.example`;
const scoped = (auth) => ({ auth, actions: [read(), action('scoped', {}, { scopes: ['things.write'] })] });
const manifests = () => [
  integration('outcome', host('outcome'), {
    limits: {
      response_bytes_max: 200_000,
      rate_limited: [
        { when: "status == `403` && body.reason == 'slow'", retry_after: 'body.wait' },
        { when: 'status == `429`', retry_after: 'headers."retry-after"' },
      ],
    },
    errors: [...codes.map(rule), { when: 'body.ok == `false`', on_success: true, message: 'The app says ${body.why}.' }],
    actions: [
      read(), write(),
      action('read_soon', {}, soon), action('write_soon', { method: 'POST' }, { side_effect_level: 'write', ...soon }),
      action('upload', { method: 'PUT' }, { files: { travel: 'raw' }, input_schema: { type: 'object', properties: { at } } }),
      action('retired', {}, { gone: 'it was retired in March' }),
      action('named', {}, { response: { required: ['body.id'] } }),
      action('named_write', { method: 'POST' }, { side_effect_level: 'write', response: { required: ['body.id'] } }),
      action('listed', {}, { response: { kind: 'array' } }),
      action('silent_write', { method: 'POST' }, { side_effect_level: 'delete', response: { body: 'none' } }),
    ],
  }),
  integration('keyed', host('keyed'), {
    auth: { type: 'bearer' },
    errors: [{ when: 'status == `403` && body.lacks', error_code: 'forbidden', missing_scopes: true, message: 'It lacks ${body.lacks}, so nothing was done.', hint: 'Reconnect the app and grant the permission.' }],
  }),
  integration('paced', host('paced'), { limits: { retry_after_s: 77, quota: { remaining: 'body.left', reset: 'body.reset' } } }),
  integration('granted', host('granted'), scoped({ type: 'oauth2', authorize_url: `${host('granted')}/authorize`, token_url: `${host('granted')}/token` })),
  integration('slowly', host('slowly'), { limits: { rate_per_s: 0.001, burst: 1 } }),
  integration('failing', host('failing')),
  integration('inside', 'https://127.0.0.1:1'),
  integration('inside_six', 'https://[::ffff:10.0.0.1]'),
  integration('metadata', 'https://169.254.169.254'),
  integration('away', 'https://away.invalid'),
  integration('refused', host('refused')),
  integration('stranger', host('stranger')),
  integration('misnamed', host('misnamed')),
  integration('babble', host('babble')),
  integration('silent', host('silent'), { limits: { connect_timeout_ms: 300 } }),
  integration('nginx', host('nginx'), { redirects: 'same-origin', actions: [action('read', { path: '/${input.at}' }), action('write', { method: 'POST', path: '/${input.at}' }, { side_effect_level: 'write' })] }),
];

// ---- the peers ----

let stack, peers;
const servers = {};

async function listen(onSocket) {
  const server = net.createServer(onSocket);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

const tomorrow = new Date(Date.now() + 86_400_000).toUTCString();
const nginxConf = (tls, address, dead) => (port) => `
  server {
    listen ${address}:${port} ssl;
    ssl_certificate ${tls.certFile}; ssl_certificate_key ${tls.keyFile};
    location /drop { return 444; }
    location /page { default_type text/html; return 200 "<html><title>Sign in</title></html>"; }
    location /empty { default_type application/json; return 200; }
    location /accepted { return 202; }
    location /lie { default_type application/json; return 200 "<html>no JSON</html>"; } # words: ok
    location /redirect { return 302 https://elsewhere.example/; }
    location /renamed { absolute_redirect off; return 301 /found; }
    location /found { default_type application/json; return 200 '{}'; }
    location /date { add_header Retry-After "${tomorrow}" always; return 429; }
    location /bad_gateway { proxy_pass http://127.0.0.1:${dead}; }
  }
  server { listen 127.0.0.1:${port}; }`;

async function startPeers() {
  const dir = { good: join(stack.dir, 'good'), bad: join(stack.dir, 'bad') };
  for (const one of Object.values(dir)) await mkdir(one);
  const good = await makeCertificates(dir.good), bad = await makeCertificates(dir.bad), dead = await freePort();
  const caFile = join(stack.dir, 'roots.pem');
  await writeFile(caFile, `${await readFile(stack.provider.caFile)}\n${await readFile(good.caFile)}`);
  const nginx = { good: null, bad: null, misnamed: null };
  nginx.good = await startNginx(dir.good, (port) => nginxConf(good, '127.0.0.1', dead)(port).replace(/server \{ listen[^}]*\}\s*$/, ''));
  nginx.bad = await startNginx(dir.bad, (port) => nginxConf(bad, '127.0.0.1', dead)(port).replace(/server \{ listen[^}]*\}\s*$/, ''));
  // a certificate for 127.0.0.1, used at 127.0.0.2
  nginx.misnamed = await startNginx(stack.dir, nginxConf(good, '127.0.0.2', dead));
  const babble = await listen((socket) => socket.on('error', () => {}).end('220 mail.example ESMTP\r\n'));
  const silent = await listen((socket) => socket.on('error', () => {}));
  const tcp = (server) => `https://127.0.0.1:${server.address().port}`;
  const provider = stack.provider.url;
  const targets = {
    outcome: provider, keyed: provider, granted: provider, slowly: provider, paced: provider, failing: provider,
    refused: `https://127.0.0.1:${dead}`, stranger: `https://127.0.0.1:${nginx.bad.port}`,
    misnamed: `https://127.0.0.2:${nginx.misnamed.port}`, babble: tcp(babble), silent: tcp(silent),
    nginx: `https://127.0.0.1:${nginx.good.port}`,
  };
  const stop = async () => {
    for (const one of Object.values(nginx)) await one.stop();
    babble.close();
    silent.close();
  };
  const overrides = Object.entries(targets).flatMap(([name, url]) => ['--origin-override', `${host(name)}=${url}`]);
  return { caFile, overrides, stop };
}

async function accountOf(row) {
  if (!row.account) return stack.shared;
  const account = await stack.account(`${row.slug}-${row.endpoint}`, { apps: [] });
  for (const one of row.account) await stack.connect(account.id, one.app, one.credential, one.args, stack.options);
  if (row.ambiguous) await stack.cluster.sql(`update sluice.connection set is_default = false where account_id = '${account.id}'`);
  return account;
}

before(async () => {
  stack = await Stack.start();
  const dir = join(stack.dir, 'catalog');
  await mkdir(dir);
  for (const one of manifests()) await writeFile(join(dir, `${one.integration_id}.json`), JSON.stringify(one));
  peers = await startPeers();
  stack.options = { env: { SLUICE_CATALOG: dir } };
  const options = { ...stack.options, provider: { url: stack.provider.url, caFile: peers.caFile } };
  stack.shared = await stack.account('shared', { apps: [] });
  await stack.connect(stack.shared.id, 'keyed', { token: 'secret-shared' }, [], stack.options);
  servers.plain = await stack.serve({ ...options, args: [...peers.overrides, '--connection-limits', 'off', '--circuit-volume', '0'] });
  servers.limited = await stack.serve({ ...options, args: [...peers.overrides, '--connection-limits', 'on', '--limit-wait', '0s', '--circuit-volume', '3', '--circuit-open', '1m'] });
  servers.brief = await stack.serve({ ...options, args: [...peers.overrides, '--execution-timeout', '300ms'] });
  const rulesOf = (row) => (row.deadline ? ENDPOINTS.map((endpoint) => ruleOf(row, endpoint)) : [ruleOf(row, '')]);
  await stack.provider.faults(rows.filter((row) => row.fault).flatMap(rulesOf));
});
after(async () => {
  await peers?.stop();
  await stack?.stopWell(assert);
});

// ---- running a row ----

const seen = { reasons: new Set(), codes: new Set() };

function send(row, endpoint, account, headers, other = {}) {
  const server = servers[row.server ?? 'plain'];
  const name = row.integration ?? 'outcome';
  const kind = row.action ?? `${row.write ? 'write' : 'read'}${row.deadline ? '_soon' : ''}`;
  const input = row.input ?? (row.action === 'upload' ? {} : { at: row.at ?? `${row.slug}-${endpoint}`, ...other });
  const isConfirmed = row.write !== 'unconfirmed';
  if (endpoint === 'canonical')
    return server.call(account.key, 'POST', '/api/executions', { integration_id: name, action_id: kind, input, confirm: isConfirmed }, headers);
  const body = { arguments: input, confirmed: isConfirmed, connectionId: row.connectionId, files: row.files };
  return server.call(account.key, 'POST', `/api/tools/${name}_${kind}/execute`, body, headers);
}

async function storedReason(account, row, summary, request_id) {
  if (row.status === 'failed')
    return stack.cluster.sql(`select status || ':' || error_code from sluice.execution where account_id = '${account.id}' and id = '${summary.execution_id}'`);
  return until('the audit event is written', () =>
    stack.cluster.sql(`select 'blocked:' || reason from sluice.audit_event where account_id = '${account.id}' and request_id = '${request_id}' and kind = 'execution.blocked'`));
}

// The members that the document requires of a blocked or failed summary.
function checkSummary(row, summary) {
  const isBlocked = row.status === 'blocked';
  const { display, message, hint, recommended_next_action: next } = summary;
  assert.deepEqual([summary.status, summary.error_code, summary.integration_id], [row.status, row.wantedCode, row.integration ?? 'outcome']);
  assert.equal(summary.execution_id === null, isBlocked);
  assert.equal('started_at' in summary && 'finished_at' in summary, !isBlocked);
  assert.equal('output' in summary, false);
  assert.ok(display.title && display.summary);
  assert.match(message, /^\S[^\n]{15,}[.\]")]$/, 'a message is a sentence on one line');
  assert.match(hint ?? '', /^[A-Z/][^\n]{15,}[.\]]$/, 'there is a hint, and it is a sentence');
  assert.match(`${message} ${hint}`, /[Nn]othing was (done|sent|changed)|outcome is unknown|The action ran|Says|The app says/, 'it says whether anything was done');
  if (row.message) assert.match(message, row.message);
  if (row.hint) assert.match(hint, row.hint);
  const isOpen = (row.integration ?? 'outcome') === 'outcome'; // it has no credential to renew
  const reconnects = row.recommends ?? (!isOpen && ['reauth_required', 'key_refused', 'scope_missing'].includes(row.reason));
  const connects = row.reason === 'not_connected';
  assert.deepEqual(next, !reconnects && !connects ? undefined
    : { tool: 'sluice.connect_app', input: { integration_id: row.integration ?? 'outcome', ...(reconnects && { force_reconnect: true }) } });
}

function checkHeaders(row, reply, request_id) {
  assert.equal(reply.headers.get('content-type'), 'application/json; charset=utf-8');
  assert.equal(reply.headers.get('x-request-id'), request_id);
  assert.equal(reply.headers.get('idempotent-replayed'), null);
  const told = reply.headers.get('retry-after');
  if (row.retryAfter === undefined) assert.equal(told, null);
  else if (Array.isArray(row.retryAfter)) assert.ok(Number(told) >= row.retryAfter[0] && Number(told) <= row.retryAfter[1], `Retry-After: ${told}`);
  else assert.equal(told, String(row.retryAfter));
}

function checkTool(row, reply) {
  const name = `${row.integration ?? 'outcome'}_`;
  const { ok, toolName, error, canonical } = reply.json;
  const [, , type, code, retryable] = row.verdict;
  assert.deepEqual(Object.keys(reply.json), ['ok', 'toolName', 'integration', 'error', 'canonical']);
  assert.deepEqual([ok, toolName.startsWith(name)], [false, true]);
  assert.deepEqual(error, { type, code, message: canonical.message, retryable: row.retryable ?? retryable });
  return canonical;
}

// A call that waits for a reply until its short deadline has to be sent before the deadline. If the
// machine was too slow for that, the call is repeated.
function untilSent(row, fn) {
  const { path_prefix } = ruleOf(row, row.endpoint).match;
  const hits = async () => (await stack.provider.control('GET', '/faults')).rules.find((rule) => rule.path_prefix === path_prefix).hits;
  return until('it is sent in time', async () => {
    const before = await hits();
    const reply = await fn();
    return (await hits()) > before && reply;
  });
}

async function runRow(template, endpoint) {
  const verdict = VERDICTS[template.reason];
  const row = { ...template, endpoint, verdict, status: verdict[0], wantedCode: template.code ?? verdict[1] };
  const account = await accountOf(row);
  const request_id = `${row.slug}-${endpoint}`;
  const headers = { 'x-request-id': request_id };
  if (row.policy) assert.equal((await servers.plain.call(account.key, 'PUT', '/api/policies/default', { policy: row.policy })).status, 200);
  if (row.key) {
    headers['idempotency-key'] = request_id;
    assert.equal((await send(row, endpoint, account, { 'idempotency-key': request_id }, { header: 'first' })).status, 200);
  }
  for (let i = 1; i < (row.times ?? (row.twice ? 2 : 1)); i++) await send(row, endpoint, account, {});
  if (row.twice && row.account)
    await until('the connection is marked', () => stack.cluster.sql(`select count(*) from sluice.connection where account_id = '${account.id}' and status = 'reauth_required'`).then((n) => n === '1'));
  const reply = row.deadline ? await untilSent(row, () => send(row, endpoint, account, headers)) : await send(row, endpoint, account, headers);
  const statuses = { blocked: endpoint === 'tool' && row.reason === 'confirmation_missing' ? 412 : 409, failed: 500 };
  assert.equal(reply.status, statuses[row.status], reply.text);
  checkHeaders(row, reply, request_id);
  const summary = endpoint === 'tool' ? checkTool(row, reply) : reply.json;
  checkSummary(row, summary);
  assert.equal(await storedReason(account, row, summary, request_id), `${row.status}:${row.reason}`);
  assert.ok(!reply.text.includes('secret-'), reply.text);
  if (row.status === 'failed') {
    const stored = await servers.limited.call(account.key, 'GET', `/api/executions/${summary.execution_id}`);
    assert.deepEqual([stored.status, stored.json], [200, summary]);
  }
  seen.reasons.add(row.reason);
  seen.codes.add(row.wantedCode);
}

describe('every outcome, on both endpoints', { concurrency: 8 }, () => {
  for (const row of rows)
    for (const endpoint of ENDPOINTS)
      if (!row.only || row.only === endpoint) test(`${row.what} (${endpoint})`, () => runRow(row, endpoint));
});

test('a key whose run continues in another process past the deadline: 503', async () => {
  const run = (server) => servers[server].execute(stack.shared.key, 'outcome', 'read', { at: 'still' }, { idempotency_key: 'still' });
  const held = await hold(stack.provider, { path_prefix: '/echo/still' });
  const first = run('plain');
  await held.reached(1);
  const reply = await run('brief');
  await held.letGo();
  assert.equal(reply.status, 503, reply.text);
  assert.deepEqual(Object.keys(reply.json), ['error']);
  assert.match(reply.json.error, /still running/);
  assert.match(reply.headers.get('retry-after'), /^\d+$/);
  assert.equal((await first).status, 200);
  assert.equal((await run('plain')).headers.get('idempotent-replayed'), 'true');
});

test('a renamed object is found at the address in the reply', async () => {
  const reply = await servers.plain.execute(stack.shared.key, 'nginx', 'read', { at: 'renamed' });
  assert.deepEqual([reply.status, reply.json.output], [200, {}], reply.text);
});

test('a success, for comparison: it has no error, and is stored as it was answered', async () => {
  const reply = await servers.plain.execute(stack.shared.key, 'outcome', 'read', { at: 'well' });
  assert.equal(reply.status, 200, reply.text);
  for (const name of ['error_code', 'message', 'hint', 'recommended_next_action']) assert.equal(name in reply.json, false);
  const stored = await servers.limited.call(stack.shared.key, 'GET', `/api/executions/${reply.json.execution_id}`);
  assert.equal(stored.text, reply.text);
});

test('a host that an account names never reveals whether it is internal', async () => {
  const answers = [];
  for (const host of ['localhost', 'nowhere.invalid']) {
    const account = await stack.account(`names ${host}`, { apps: [] });
    await stack.connect(account.id, 'http', { api_key: 'secret-key' }, ['--default', '--params', JSON.stringify({ base: host })]);
    const reply = await servers.plain.execute(account.key, 'http', 'list_resources', { resource: 'read' });
    answers.push([reply.status, reply.text.replaceAll(host, 'HOST')]);
    await until('the log names it', () => servers.plain.log.includes(host === 'localhost' ? 'outbound address refused' : 'outbound name not found'));
  }
  assert.equal(answers[0][0], 409, answers[0][1]);
  assert.deepEqual(answers[1], answers[0]);
});

test('every reason and every error_code has a row', async () => {
  const source = await readFile(new URL('../../src/call/outcome.c', import.meta.url), 'utf8');
  const reasons = [...source.matchAll(/^\s+\[EXEC_\w+\] = \{"(\w+)"/gm)].map((match) => match[1]);
  assert.ok(reasons.length > 20);
  const listed = new Set([...seen.reasons, ...Object.keys(ELSEWHERE)]);
  assert.deepEqual(reasons.filter((name) => !listed.has(name)), []);
  assert.deepEqual(Object.keys(ELSEWHERE).filter((name) => seen.reasons.has(name) || !reasons.includes(name)), []);
  const header = await readFile(new URL('../../src/call/outcome.h', import.meta.url), 'utf8');
  const members = header.match(/enum exec_reason \{([^}]*)\}/)[1].replace(/\/\*.*?\*\//gs, '').match(/EXEC_\w+/g);
  assert.equal(members.length - 1, reasons.length, 'every member of the enum has its name');
  // src/api/README.md "Executions"
  assert.deepEqual([...seen.codes].sort(), ['action_not_found', 'execution_failed', 'forbidden', 'integration_not_connected', 'integration_not_found',
    'policy_blocked', 'rate_limited', 'reauth_required', 'timeout', 'unauthorized', 'unsupported_operation', 'validation_error']);
});
