// The intents for the test of lost replies: an action of each class, their manifests and templates,
// and, for a seed and a number, one intent with everything that the vendor does to it.
import { Order, isProof } from './vendor.mjs';

const FATES_MAX = 5;

// ---- the actions ----

const text = (description) => ({ type: 'string', description, maxLength: 100 });
const input_schema = { type: 'object', additionalProperties: false, required: ['id'], properties: { id: text('Of what.'), note: text('Of the caller.') } };
const body = { json: { id: '${input.id}', note: '${input.note}' } };
const write = (method, path, more) => ({ side_effect_level: 'write', input_schema, request: { method, path, body }, response: { required: ['body.id'] }, ...more });
const removal = (more) => ({ side_effect_level: 'delete', input_schema, request: { method: 'DELETE', path: '/things/${input.id}' }, response: { body: 'any' }, ...more });
const second = (more) => ({ request: { method: 'POST', path: '/chain/${input.id}/second', body }, response: { required: ['body.id'] }, ...(more?.done === undefined && { done: 'The first part was done', not_done: 'the second was not' }), ...more });
const chain = (then, more) => write('POST', '/chain/${input.id}/first', { then: [second(then)], ...more });
const REFUSALS = ['unauthorized', 'forbidden', 'rate_limited', 'validation_error', 'unsupported_operation'];
const errors = [
  { when: "status == `409` && body.code == 'key_in_use'", error_code: 'execution_failed', outcome: 'in_progress', message: 'The same request is under way.' },
  ...REFUSALS.map((code) => ({ when: `body.code == '${code}'`, on_success: true, error_code: code, message: `The app says ${code}.` })),
  { when: 'body.ok == `false`', on_success: true, message: 'The app says that it failed.' },
];
const limits = { first_byte_timeout_ms: 1500, response_bytes_max: 100_000 };
const actions = {
  read: { input_schema, request: { method: 'GET', path: '/things/${input.id}', query: { note: '${input.note}' } }, response: { required: ['body.id'] } },
  plain: write('POST', '/things'),
  keyed: write('POST', '/things', { idempotency_header: 'Idempotency-Key' }),
  keyed_member: write('POST', '/things', { idempotency_member: 'idempotency_key' }),
  set: write('PUT', '/things/${input.id}', { idempotent: true }),
  remove: removal({ idempotent: true }),
  remove_once: removal(),
  chain: chain(),
  chain_again: chain({ idempotent: true }),
  chain_asks: chain({ done: false }),
  chain_safe: chain({}, { idempotent: true }),
};
export const APPS = {
  open: { limits, errors, actions },
  granted: { limits, errors, actions, auth: { type: 'oauth2_client_credentials', token_url: 'https://granted.example.com/token' } },
};

// A third party's OpenAPI document for such actions.
const operation = (operationId, more = {}) => ({
  operationId, summary: `Does ${operationId}`,
  parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }, { name: 'note', in: 'query', schema: { type: 'string' } }],
  responses: { 200: { description: 'Done', content: { 'application/json': { schema: { type: 'object', required: ['id'], properties: { id: { type: 'string' } } } } } } }, ...more,
});
export const DOCUMENT = {
  openapi: '3.0.3', info: { title: 'Imported', version: '1' }, servers: [{ url: 'https://imported.example.com' }],
  paths: { '/things/{id}': { post: operation('plain'), put: operation('set'), delete: operation('remove', { responses: { 204: { description: 'Gone' } } }) }, '/keyed/{id}': { post: operation('keyed') } },
};

// way: the kind of effect on the vendor (vendor.mjs). acts: each of its requests has a lasting
// effect.
const given = (id, note) => ({ id, note });
const of = (app, action, way, more = {}) => ({ app, action, way, isKnown: true, isOurs: app in APPS, input: given, parts: ['it'], ...more });
const twoParts = (way, more) => ({ way, parts: ['first', 'second'], ...more });
export const CLASSES = {
  read: of('open', 'read', 'read', { parts: [] }),
  plain: of('open', 'plain', 'once'),
  keyed: of('open', 'keyed', 'keyed'),
  keyed_member: of('open', 'keyed_member', 'keyed'),
  set: of('open', 'set', 'set'),
  remove: of('open', 'remove', 'remove'),
  remove_once: of('open', 'remove_once', 'remove'),
  chain: of('open', 'chain', '', twoParts('once')),
  chain_again: of('open', 'chain_again', '', twoParts('once', { ways: { second: 'set' } })),
  chain_asks: of('open', 'chain_asks', '', twoParts('once', { parts: ['second'] })),
  chain_safe: of('open', 'chain_safe', '', twoParts('set')),
  granted_read: of('granted', 'read', 'read', { parts: [] }),
  granted_plain: of('granted', 'plain', 'once'),
  granted_keyed: of('granted', 'keyed', 'keyed'),
  granted_set: of('granted', 'set', 'set'),
  refund: of('stripe', 'create_refund', 'keyed', { input: (id, note) => ({ payment_intent: `pi_${id}`, metadata: { note } }) }),
  http_create: of('http', 'create_resource', 'once', { isKnown: false, input: (id, note) => ({ resource: id, body: { note } }) }),
  http_replace: of('http', 'replace_resource', 'set', { isKnown: false, input: (id, note) => ({ resource: id, id: 'one', body: { note } }) }),
  http_remove: of('http', 'delete_resource', 'remove', { isKnown: false, input: (id, note) => ({ resource: id, id: note }) }),
  imported_plain: of('imported', 'plain', 'once', { isKnown: false }),
  imported_keyed: of('imported', 'keyed', 'keyed', { isKnown: false }),
  imported_set: of('imported', 'set', 'set', { isKnown: false }),
  imported_remove: of('imported', 'remove', 'remove', { isKnown: false }),
};
const NAMES = Object.keys(CLASSES);
export const isOpen = ({ app }) => app === 'open' || app === 'imported'; // it needs no connection
export const CREDENTIALS = { granted: ({ name }) => ({ client_id: name, client_secret: 'secret' }), stripe: () => ({ token: 'sk_test_secret' }), http: () => ({ api_key: 'Bearer secret' }) };
export const PARAMS = { http: ['--params', '{"base":"things.example.com/v1"}'] };

export const template = (name, { app, action, way }) => ({
  key: `lost_${name}`, name: `Lost ${name}`, description: 'One call.',
  input: { type: 'object', required: ['call', 'confirm'], additionalProperties: false, properties: { call: { type: 'object', description: 'Its input.' }, confirm: { const: true, description: 'It is made.' } } },
  steps: [{ key: 'call', type: 'tool_call', tool: `${app}_${action}`, input: '${input.call}', retry: { attempts: 3, backoff: 0.01, backoff_max: 0.05 }, ...(way !== 'read' && { confirmed_by: 'start' }) }],
});

// ---- what may happen ----

// Pseudorandom numbers that depend only on the seed and the number.
export function dice(seed, number) {
  let state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + Math.imul(number + 1, 0xc2b2ae35)) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, one: (list) => list[below(list.length)], chance: (p) => next() < p };
}

const STATUSES = [301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 412, 413, 415, 418, 422, 423, 425, 429, 451, 460, 499, 500, 501, 502, 503, 504, 520, 599];
const COMMON = [400, 401, 403, 404, 409, 422, 429, 429, 500, 502, 503];

// did: the vendor made the requested change anyway, which it never does if the reply proves the
// opposite.
function status(random, { way, isKnown }, did) {
  const status = random.one(random.chance(0.6) ? COMMON : STATUSES);
  if (way === 'remove' && (status === 404 || status === 410)) return { what: 'ok' }; // only if the object does not exist
  const fate = { what: 'status', status, did: did && !isProof(status, isKnown) };
  if ([429, 503].includes(status) && random.chance(0.6)) fate.retryAfter = random.one([0, 0, 0, 1]);
  if (random.chance(0.3)) fate.sticks = true;
  return fate;
}

function huge(random, { isKnown }, did) {
  const status = random.one([200, 400, 403, 429, 500, 503]);
  return { what: 'huge', status, did: status < 300 || (did && !isProof(status, isKnown)) };
}

// [percentage, fate], of which one is drawn. A fate that an app's manifest cannot distinguish from
// a success, or has no limit for, becomes a reset.
const FATES = [
  [30, (random, kind, did) => ({ what: 'reset', did })],
  [40, status],
  [6, () => ({ what: 'ok' })],
  [4, (random, kind, did) => ({ what: 'cut', did })],
  [4, (random, kind, did) => ({ what: 'garbage', did })],
  [4, (random, kind, did) => ({ what: 'page', did })],
  [2, (random, kind, did) => ({ what: kind.isOurs && ['once', 'keyed', 'set'].includes(kind.way) ? 'lacking' : 'reset', did })],
  [2, (random, kind, did) => (kind.isOurs ? { what: 'told', code: random.one(REFUSALS) } : { what: 'reset', did })],
  [2, (random, kind, did) => ({ what: kind.isOurs ? 'failed200' : 'reset', did })],
  [2, () => ({ what: 'busy' })],
  [2, (random, kind, did) => (kind.isOurs ? huge(random, kind, did) : { what: 'reset', did })],
  [2, (random, kind, did) => ({ what: kind.isOurs ? 'hang' : 'reset', did })],
];

function fate(random, kind) {
  const did = random.chance(0.6);
  let left = random.below(100);
  return FATES.find(([share]) => (left -= share) < 0)[1](random, kind, did);
}

export function makeIntent(seed, number) {
  const random = dice(seed, number);
  const name = random.one(NAMES);
  const kind = CLASSES[name];
  const script = Array.from({ length: random.below(FATES_MAX + 1) }, () => fate(random, kind));
  const order = new Order(String(number), kind.way, script, { isKnown: kind.isKnown, ways: kind.ways, exists: !random.chance(0.1), gone: random.one([404, 410]) });
  const hasKey = random.chance(0.5);
  const tokens = Array.from({ length: random.below(3) }, () => random.one(['ok', 'refused', 'away']));
  return { number, name, kind, order, random, key: hasKey ? `lost ${seed} ${number}` : undefined, isFlow: random.chance(0.2), note: 0, era: 0, tokens, script };
}
