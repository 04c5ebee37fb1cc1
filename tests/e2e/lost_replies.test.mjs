// Whatever a vendor does with the requests of one intent, a client that follows the replies never
// has the action done twice unless a reply said that the outcome is unknown. No reply says that
// nothing was done if something was. A released key runs again, and a bound key replays. This holds
// for each class of action, with and without a key from the caller, on every surface that runs
// actions, on two processes. The generator is seeded: a failure prints the seed and the number of
// the intent, and SLUICE_SEED=n ONLY=i repeats that intent. With SOAK_SECONDS=n, the test runs for
// n seconds.
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { APPS, CLASSES, CREDENTIALS, DOCUMENT, PARAMS, isOpen, makeIntent, template } from './support/intents.mjs';
import { Mcp, contentOf } from './support/mcp.mjs';
import { overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';
import { Vendor } from './support/vendor.mjs';

const SEED = Number(process.env.SLUICE_SEED ?? 20261126);
const ONLY = process.env.ONLY;
const SOAK_SECONDS = Number(process.env.SOAK_SECONDS ?? 0);
const INTENTS = Number(process.env.SLUICE_RUNS ?? 120);
const AT_ONCE = 48;
const LANES = 6; // accounts whose connections are refused and made again, with one intent at a time in each
const ROUNDS_MAX = 12;
const FAILED_MAX = 5; // the number of failures that are reported

// ---- the deployment ----

let stack, vendor, servers, open, lanes, mcps, env;
const sends = new Map(); // trace id -> era of its intent
let traces = 0;

// A request of an execution is assigned to the send with the same trace, even if it arrives late. A
// request of a flow is assigned to the current step of its intent.
function causeOf(request, order) {
  const by = /^00-0*([0-9a-f]+)-/.exec(request.headers.traceparent ?? '')?.[1];
  return sends.has(by) ? { by, era: sends.get(by) } : { by: 'the flow', era: order.intent.era };
}

const granted = new Map(); // client id -> intent
function token(request, form) {
  const intent = granted.get(new URLSearchParams(form).get('client_id'));
  const answer = intent?.tokens.shift() ?? 'ok';
  intent?.order.tell(`    POST /token: ${answer}`);
  if (answer === 'refused') return { status: 400, headers: {}, body: '{"error":"invalid_grant"}' };
  if (answer === 'away') return { status: 503, headers: {}, body: '{}' };
  return { status: 200, headers: {}, body: JSON.stringify({ access_token: `token-${++traces}`, token_type: 'Bearer', expires_in: 3600 }) };
}

// Replaces the previous one.
async function connect(account, app) {
  const former = account.connections[app];
  const id = await stack.connect(account.id, app, CREDENTIALS[app](account), ['--default', ...(PARAMS[app] ?? [])], { env, bin: process.env.SLUICE_RELEASE_BIN });
  account.connections[app] = id;
  if (former) assert.ok((await servers[0].call(account.key, 'DELETE', `/api/connections/${former}`)).status < 300);
}

before(async () => {
  stack = await Stack.start({ provider: false });
  vendor = await Vendor.start(stack.dir, { causeOf, token });
  const folder = await writeCatalog(stack.dir, APPS);
  env = { SLUICE_CATALOG: folder };
  const at = (name) => join(stack.dir, name);
  await writeFile(at('document.json'), JSON.stringify(DOCUMENT));
  await writeFile(at('overrides.json'), JSON.stringify({ integration: { auth: { type: 'none' } }, operations: { keyed: { idempotency_header: 'Idempotency-Key' } } }));
  await stack.must(['catalog', 'import', 'openapi', at('document.json'), '--id', 'imported', '--overrides', at('overrides.json'), '--output', join(folder, 'imported.json')]);
  await mkdir(join(folder, 'templates'));
  for (const [name, kind] of Object.entries(CLASSES)) await writeFile(join(folder, 'templates', `lost_${name}.json`), JSON.stringify(template(name, kind)));
  open = await stack.account('open', { apps: [] });
  lanes = [];
  while (lanes.length < LANES) {
    const account = { name: `lane${lanes.length}`, connections: {}, ...(await stack.account(`lane ${lanes.length}`, { apps: [] })) };
    for (const app of Object.keys(CREDENTIALS)) await connect(account, app);
    lanes.push(account);
  }
  const ids = [...overrides(vendor.url, 'open', 'granted', 'imported', 'things'), '--origin-override', `https://api.stripe.com=${vendor.url}`];
  const args = [...ids, '--ca-file', vendor.caFile, '--circuit-volume', '0', '--trace-propagate', 'on'];
  servers = await Promise.all([stack.serve({ args, env }), stack.serve({ args, env })]);
  mcps = new Map([open, ...lanes].map((account) => [account, servers.map((server) => new Mcp(server.base, account.key))]));
});
after(async () => {
  await vendor?.stop();
  await stack?.stopWell(assert);
});

// ---- the surfaces ----

// Each surface returns {http, summary, retryAfter, text, isReplayed}, without a summary if the
// reply is not an envelope. Missing values are undefined.
const SURFACES = {
  canonical: async (where, call, headers) => {
    const body = { integration_id: call.app, action_id: call.action, input: call.input, confirm: true, ...(call.key && { idempotency_key: call.key }) };
    const reply = await where.server.call(where.account.key, 'POST', '/api/executions', body, headers);
    return { http: reply.status, summary: reply.json.status && reply.json, retryAfter: reply.headers.get('retry-after'), text: reply.text, isReplayed: reply.headers.get('idempotent-replayed') === 'true' };
  },
  tool: async (where, call, headers) => {
    const all = { ...headers, 'idempotency-key': call.key };
    const reply = await where.server.call(where.account.key, 'POST', `/api/tools/${call.app}_${call.action}/execute`, { arguments: call.input, confirmed: true }, all);
    const { canonical, error } = reply.json;
    if (canonical && error) assert.equal(error.retryable, canonical.retryable ?? error.retryable, `the tool endpoint's retryable differs: ${reply.text}`);
    return { http: reply.status, summary: canonical, retryAfter: reply.headers.get('retry-after'), text: reply.text, isReplayed: reply.headers.get('idempotent-replayed') === 'true' };
  },
  batch: async (where, call, headers) => {
    const item = { integration_id: call.app, action_id: call.action, input: call.input, confirm: true, ...(call.key && { idempotency_key: call.key }) };
    const reply = await where.server.call(where.account.key, 'POST', '/api/executions/batch', { executions: [item] }, headers);
    assert.equal(reply.status, 200, reply.text);
    const [one] = reply.json.results;
    return { http: one.status, summary: one.summary, retryAfter: one.retry_after ?? null, text: JSON.stringify(one), isReplayed: one.idempotent_replayed === true };
  },
  mcp: async (where, call, headers) => {
    const inMeta = call.key && where.server.port % 2 === 0;
    const args = { integration_id: call.app, action_id: call.action, input: call.input, confirm: true, ...(call.key && !inMeta && { idempotency_key: call.key }) };
    const reply = await where.mcp.ask('tools/call', { name: 'run_action', arguments: args }, { headers, ...(inMeta && { meta: { 'sluice/idempotency_key': call.key } }) });
    const summary = contentOf(reply.result);
    const http = { succeeded: 200, blocked: 409, failed: 500 }[summary?.status] ?? 503;
    return { http, summary: summary?.status && summary, retryAfter: null, text: reply.text, isReplayed: undefined };
  },
};
const DIRECT = Object.keys(SURFACES);

// ---- the client ----

const fail = (intent, what) => assert.fail(`intent ${intent.number} (${intent.name}): ${what}`);
const doneBy = (intent, by) => intent.order.ledger.filter((one) => one.by === by && intent.kind.parts.includes(one.part));

function traceOf(intent) {
  const by = (++traces).toString(16);
  sends.set(by, intent.era);
  return { by, headers: { traceparent: `00-${by.padStart(32, '0')}-${by.padStart(16, '0')}-00` } };
}

// A new era begins when a client repeats an intent although the outcome is unknown.
const doneInEra = (intent) => intent.order.ledger.filter((one) => one.era === intent.era && intent.kind.parts.includes(one.part));

function checkEffects(intent) {
  for (const part of intent.kind.parts) {
    const count = doneInEra(intent).filter((one) => one.part === part).length;
    if (count > 1) fail(intent, `${part} was done ${count} times, but no reply had said that its outcome was unknown`);
  }
  if (intent.order.faults.length > 0) fail(intent, intent.order.faults.join('; '));
}

const NOTHING = /[Nn]othing was (done|sent|changed)/;
const UNKNOWN = /outcome is unknown|is not known/;

// Compares the promises of a reply with the ledger. did: the effects of its request.
function checkReply(intent, reply, did) {
  const { summary } = reply;
  const { kind } = intent;
  if (!summary) {
    if (reply.http !== 503) fail(intent, `neither a summary nor a 503: ${reply.text}`);
    if (did.length > 0) fail(intent, `503, but it was done: ${reply.text}`);
    return 'not_done';
  }
  const { status, error_code: code } = summary;
  const words = `${summary.message} ${summary.hint ?? ''}`;
  const isWrite = kind.way !== 'read';
  if (status === 'succeeded') {
    if (isWrite && summary.outcome !== 'done') fail(intent, `a success whose outcome is ${summary.outcome}`);
    return 'done';
  }
  const { outcome } = summary;
  if (!['done', 'not_done', 'partly', 'unknown'].includes(outcome)) fail(intent, `outcome ${outcome}: ${reply.text}`);
  if (typeof summary.retryable !== 'boolean') fail(intent, `retryable ${summary.retryable}: ${reply.text}`);
  if (status === 'blocked' && outcome !== 'not_done') fail(intent, `blocked, and its outcome is ${outcome}`);
  if (!isWrite && outcome !== 'not_done') fail(intent, `the outcome of a read is ${outcome}`);
  if (outcome === 'unknown' || outcome === 'partly') {
    if (!['execution_failed', 'timeout', ...(kind.isKnown ? [] : ['validation_error'])].includes(code)) fail(intent, `outcome ${outcome} with ${code}, after which clients send again unchanged`);
    if (summary.retryable && !reply.isSafe) fail(intent, `outcome ${outcome}, and retryable`);
    if (reply.retryAfter !== null) fail(intent, `outcome ${outcome} with Retry-After`);
    if (NOTHING.test(words)) fail(intent, `outcome ${outcome}, but the words say that nothing was done: ${words}`);
    if (outcome === 'unknown' && !UNKNOWN.test(words)) fail(intent, `outcome unknown, but the words do not say so: ${words}`);
  }
  if (outcome === 'partly') {
    const isDone = (part) => doneInEra(intent).some((one) => one.part === part);
    if (!kind.parts.some(isDone) || kind.parts.every(isDone)) fail(intent, `outcome partly, but it was done as a whole or not at all: ${words}`);
  }
  if (outcome === 'not_done') {
    if (UNKNOWN.test(words)) fail(intent, `outcome not_done, but the words say that it is unknown: ${words}`);
    if (did.length > 0) fail(intent, `outcome not_done (${code}), but it was done: ${words}`);
  }
  if (outcome === 'done' && kind.parts.some((part) => !doneInEra(intent).some((one) => one.part === part))) fail(intent, `outcome done, but it was not: ${words}`);
  if (code === 'rate_limited' && reply.retryAfter === null && !reply.isBare) fail(intent, 'rate_limited without Retry-After');
  return outcome;
}

const short = ({ summary, http, text, isReplayed }) =>
  summary ? `${http} ${summary.status} ${summary.error_code ?? ''} outcome ${summary.outcome} retryable ${summary.retryable}${isReplayed ? ' (replayed)' : ''}: ${summary.message ?? ''} | ${summary.hint ?? ''}` : `${http} ${text.slice(0, 200)}`;

async function send(intent, account, surface, at) {
  const { kind } = intent;
  const { by, headers } = traceOf(intent);
  const where = { account, server: servers[at], mcp: mcps.get(account)[at] };
  const call = { app: kind.app, action: kind.action, input: kind.input(`intent_${intent.number}_`, `n${intent.note}`), key: intent.key };
  intent.order.tell(`  sends ${by} to process ${at}, ${surface}${intent.key ? ` with key ${intent.key}` : ''}, note ${intent.note}, era ${intent.era}`);
  const reply = await SURFACES[surface](where, call, headers);
  intent.order.tell(`  ${by}: ${short(reply)}`);
  return { ...reply, by, isBare: surface === 'mcp' || surface === 'batch' };
}

// Sends one request, or the same request twice concurrently with its key.
async function ask(intent, account) {
  const { random } = intent;
  const one = () => send(intent, account, random.one(DIRECT), random.below(2));
  const replies = intent.key && random.chance(0.15) ? await Promise.all([one(), one()]) : [await one()];
  // One of two concurrent requests may report the other's run.
  const isOwn = (reply) => replies.length === 1 || reply.isReplayed === false;
  const ends = replies.map((reply) => ({ reply, outcome: checkReply(intent, reply, isOwn(reply) ? doneBy(intent, reply.by) : []) }));
  checkEffects(intent);
  return ends.find(({ outcome }) => outcome !== 'not_done') ?? ends[0];
}

// Checks that a bound key gives the same answer, without a request to the vendor.
async function checkBound(intent, account, { reply, outcome }) {
  const before = intent.order.requests;
  const again = await send(intent, account, intent.random.one(DIRECT), intent.random.below(2));
  if (again.summary?.execution_id !== reply.summary.execution_id) fail(intent, `the key is not bound to ${reply.summary.execution_id} (${outcome}): ${short(again)}`);
  if (again.isReplayed === false) fail(intent, 'the same answer, but not marked as a replay');
  if (intent.order.requests !== before) fail(intent, 'a replay called the vendor');
  if (checkReply(intent, again, []) !== outcome) fail(intent, `a replay says ${again.summary.outcome} instead of ${outcome}`);
}

async function checkStored(intent, account, { summary }) {
  const { status, json, text } = await servers[intent.random.below(2)].call(account.key, 'GET', `/api/executions/${summary.execution_id}`);
  if (status !== 200 || json.outcome !== summary.outcome || json.error_code !== summary.error_code) fail(intent, `stored otherwise than ${summary.outcome}: ${status} ${text}`);
}

// After "nothing was done", does what a client does that follows the advice.
async function heed(intent, account, { summary }) {
  if (!summary || summary.retryable) return;
  const { error_code: code } = summary;
  if (['reauth_required', 'unauthorized', 'integration_not_connected'].includes(code)) {
    if (!isOpen(intent.kind)) {
      intent.order.tell('  connects again');
      await connect(account, intent.kind.app);
    }
    return;
  }
  if (!intent.isFlow && intent.random.chance(0.5)) intent.note++; // corrects its request
}

async function pursue(intent, account) {
  let released;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const end = await ask(intent, account);
    const { outcome, reply } = end;
    const id = reply.summary?.execution_id;
    if (id && id === released) fail(intent, `the key was released, but gives the former answer: ${short(reply)}`);
    released = id;
    if (id && intent.random.chance(0.1)) await checkStored(intent, account, reply);
    if (intent.key && outcome !== 'not_done') await checkBound(intent, account, end);
    if (outcome === 'done') return;
    if (outcome === 'not_done' && intent.kind.way === 'remove' && !intent.order.exists) return; // there is nothing to remove
    if (outcome === 'not_done') {
      await heed(intent, account, reply);
    } else {
      if (intent.random.chance(0.4)) return;
      intent.era++;
      if (intent.key) intent.key = `${intent.key}+`;
    }
  }
}

// ---- a step of a flow ----

async function flowCall(intent, account, path, body, at) {
  const reply = await until('it is accepted', async () => {
    const one = await servers[at].call(account.key, 'POST', `/api/flows/${path}`, body);
    return one.status !== 503 && one;
  });
  assert.equal(reply.status, 200, `intent ${intent.number}: ${reply.text}`);
  return reply.json;
}

async function settled(account, id, at) {
  return until('the flow has ended', async () => {
    const { json } = await servers[at].call(account.key, 'GET', `/api/flows/${id}?wait=10&until=settled`);
    return ['completed', 'failed'].includes(json.flow.status) && json;
  });
}

// The result of a failed step, in the form of the other surfaces.
function readStep({ flow, steps }) {
  const error = steps[0].error;
  if (flow.status === 'completed') return { http: 200, summary: { status: 'succeeded', outcome: 'done' }, retryAfter: null, isBare: true };
  const { code: error_code, message, hint, outcome, retryable } = error;
  return { http: 500, summary: { status: 'failed', error_code, message, hint, outcome, retryable }, retryAfter: null, isBare: true };
}

async function pursueFlow(intent, account) {
  const { kind, random, order } = intent;
  const input = { call: kind.input(`intent_${intent.number}_`, 'n0'), confirm: true };
  const start = { flowTemplate: `lost_${intent.name}`, input, ...(intent.key && { idempotency_key: intent.key }) };
  const begin = () => flowCall(intent, account, 'start', start, random.below(2));
  order.tell('  starts a flow');
  const [{ flowId }, again] = await Promise.all(intent.key ? [begin(), begin()] : [begin()]);
  if (again) assert.equal(again.flowId, flowId);
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const reply = readStep(await settled(account, flowId, random.below(2)));
    // If the call may be repeated, as its error says, resuming it is not a second request.
    reply.isSafe = ['keyed', 'set'].includes(kind.way) || (kind.way === 'remove' && intent.name !== 'remove_once');
    order.tell(`  the step: ${short(reply)}`);
    const outcome = checkReply(intent, reply, doneInEra(intent));
    checkEffects(intent);
    if (outcome === 'done' || (kind.way === 'remove' && !order.exists && outcome === 'not_done')) return;
    if (outcome === 'not_done') await heed(intent, account, reply);
    else if (random.chance(0.4)) return;
    else if (!reply.summary.retryable) intent.era++;
    order.tell('  resumes the flow');
    await flowCall(intent, account, `${flowId}/resume`, {}, random.below(2));
  }
}

// ---- the property ----

async function runIntent(intent, account) {
  vendor.orders.set(String(intent.number), Object.assign(intent.order, { intent }));
  if (account.name) granted.set(account.name, intent);
  try {
    await (intent.isFlow ? pursueFlow(intent, account) : pursue(intent, account));
    checkEffects(intent);
  } catch (error) {
    error.message += `\n# SLUICE_SEED=${SEED} ONLY=${intent.number}\n${JSON.stringify(intent.script)}\n${intent.order.story.join('\n')}`;
    return error;
  }
  intent.order.story.length = 0; // the order stays: a request that was given up may be read late
  return undefined;
}

// Runs the intents. Each of `accounts` has one intent at a time.
async function runAll(intents, accounts) {
  const errors = [];
  const rest = intents[Symbol.iterator]();
  await Promise.all(accounts.map(async (account) => {
    for (let next = rest.next(); !next.done; next = rest.next()) {
      const error = await runIntent(next.value, account);
      if (error) errors.push(error);
      if (errors.length >= FAILED_MAX) return;
    }
  }));
  return errors;
}

test(`nothing is silently done twice (seed ${SEED})`, async () => {
  const end = Date.now() + SOAK_SECONDS * 1000;
  let number = 0;
  do {
    const wanted = ONLY ? [makeIntent(SEED, Number(ONLY))] : Array.from({ length: INTENTS }, () => makeIntent(SEED, number++));
    const errors = (await Promise.all([
      runAll(wanted.filter(({ kind }) => isOpen(kind)), Array(AT_ONCE).fill(open)),
      runAll(wanted.filter(({ kind }) => !isOpen(kind)), lanes),
    ])).flat();
    if (errors.length > 0) {
      console.log(errors.map((error) => error.message).join('\n\n'));
      throw errors[0];
    }
  } while (Date.now() < end);
});
