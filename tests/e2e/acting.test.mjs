// Whose connection acts: random sequences of changes and calls of an account and three of its users,
// against a model of the rule in src/api/README.md. The vendor says which credential came, so what is
// compared is what was really sent. A failure prints the seed and the shortest sequence that was found
// to fail; SLUICE_SEED=n repeats it, SLUICE_RUNS=n sets the number of steps.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dice } from './support/intents.mjs';
import { Scripted, overrides, writeCatalog } from './support/scripted.mjs';
import { Stack } from './support/stack.mjs';

const SEED = Number(process.env.SLUICE_SEED ?? 20261129);
const STEPS = Number(process.env.SLUICE_RUNS ?? (process.env.SOAK_SECONDS ? 5000 : 200));
const OWNERS = [undefined, 'ada', 'bob', 'cy']; // undefined: the account itself
const EACH_MAX = 4; // connections of an owner
const SHRINKS_MAX = 60;
const APP = 'acts';

let stack, server, vendor;
const refused = new Set(); // the tokens that the vendor no longer accepts
let tokens = 0;
const numberOf = (token) => Number(token.split('-')[1]);

before(async () => {
  vendor = await Scripted.start((request, reply) => {
    const token = (request.headers.authorization ?? '').replace('Bearer ', '');
    reply.writeHead(refused.has(token) ? 401 : 200, { 'content-type': 'application/json' }).end(JSON.stringify({ number: numberOf(token) })); // a credential in a reply is masked
  });
  stack = await Stack.start({ provider: false });
  const folder = await writeCatalog(stack.dir, { [APP]: { auth: { type: 'bearer' }, actions: { who: { response: { output: 'body' } } } } });
  server = await stack.serve({ args: overrides(vendor.url, APP), env: { SLUICE_CATALOG: folder } });
});
after(async () => {
  await stack?.stopWell(assert);
  await vendor?.stop();
});

// ---- the model: connections are {id, owner, token, isDefault, isDead, isShared}, oldest first ----

// The rule for one set of connections: {acts}, or why none does.
function choose(set) {
  const preferred = set.find((one) => one.isDefault);
  if (preferred) return preferred.isDead ? { why: 'reauth_required' } : { acts: preferred };
  const live = set.filter((one) => !one.isDead);
  if (live.length > 1) return { why: 'policy_blocked' };
  if (live.length === 1) return { acts: live[0] };
  return { why: set.length > 0 ? 'reauth_required' : 'integration_not_connected' };
}

const ownedBy = (model, owner) => model.filter((one) => one.owner === owner);

// Its own connections, even if none of them works; only without any, those that the account shares. A
// user cannot reconnect a shared one.
function chosen(model, owner) {
  const own = ownedBy(model, owner);
  if (own.length > 0 || owner === undefined) return choose(own);
  const shared = choose(model.filter((one) => one.isShared));
  return shared.why === 'reauth_required' ? { why: 'integration_not_connected' } : shared;
}

// ---- a step: a kind, an owner, and a number that chooses among the connections there are ----

// Each kind takes the world {model, ask(owner, method, path, body)}, the owner and the number, and checks
// its own reply. With nothing to do it does nothing, so that any part of a sequence is a sequence.
const pick = (list, number) => list[number % list.length];
const at = (one) => `/api/connections/${one.id}`;
const tokenOf = () => `token-${++tokens}`;

async function add(world, owner, isDefault) {
  if (ownedBy(world.model, owner).length >= EACH_MAX) return;
  const token = tokenOf();
  const reply = await world.ask(owner, 'POST', '/api/connections', { integration_id: APP, credential: { token }, ...(isDefault && { default: true }) });
  assert.equal(reply.status, 201, reply.text);
  const isFirst = !ownedBy(world.model, owner).some((one) => one.isDefault);
  if (isDefault) for (const one of ownedBy(world.model, owner)) one.isDefault = false;
  world.model.push({ id: reply.json.id, owner, token, isDefault: isDefault || isFirst, isDead: false, isShared: false });
  assert.equal(reply.json.default, isDefault || isFirst);
}

async function change(world, owner, number, body, apply) {
  const one = pick(ownedBy(world.model, owner), number);
  if (!one) return;
  const reply = await world.ask(owner, 'PATCH', at(one), body);
  assert.equal(reply.status, 200, reply.text);
  apply(one);
}

// A call through `one`, or through the one that the model names: it acts with exactly its credential.
async function check(world, owner, expected, reply) {
  const { acts, why } = expected;
  const told = `for ${owner ?? 'the account'}: ${reply.text}; expected ${JSON.stringify(expected)}`;
  if (!acts) return assert.deepEqual([reply.status, reply.json.error_code], [409, why], told);
  if (!refused.has(acts.token)) {
    assert.deepEqual([reply.status, reply.json.output?.number], [200, numberOf(acts.token)], told);
    return undefined;
  }
  acts.isDead = true; // the vendor's refusal ends it, and a user is not asked to reconnect what is shared
  const code = acts.owner === owner ? 'unauthorized' : 'integration_not_connected';
  return assert.deepEqual([reply.status, reply.json.error_code], [409, code], told);
}

const KINDS = {
  act: async (world, owner) =>
    check(world, owner, chosen(world.model, owner), await world.ask(owner, 'POST', '/api/executions', { integration_id: APP, action_id: 'who', input: {} })),
  // names any connection there is: another user's, or one that is not shared, does not exist for this one
  name: async (world, owner, number) => {
    const one = pick(world.model, number);
    if (!one) return;
    const { status, text, json } = await world.ask(owner, 'POST', `/api/tools/${APP}_who/execute`, { arguments: {}, connectionId: one.id });
    const isSeen = one.owner === owner || (one.owner === undefined && one.isShared);
    if (!isSeen) return assert.deepEqual([status, json.error?.code], [409, 'connection_not_found'], text);
    const dead = one.owner === owner ? 'reauth_required' : 'integration_not_connected';
    return check(world, owner, one.isDead ? { why: dead } : { acts: one }, { status, text, json: { output: json.data ?? json.result, ...json.canonical } });
  },
  add: (world, owner) => add(world, owner, false),
  add_default: (world, owner) => add(world, owner, true),
  make_default: (world, owner, number) => change(world, owner, number, { default: true }, (one) => {
    for (const other of ownedBy(world.model, owner)) other.isDefault = other === one;
  }),
  share: (world, owner, number) => change(world, undefined, number, { shared: number % 3 > 0 }, (one) => (one.isShared = number % 3 > 0)),
  end: async (world, owner, number) => {
    const one = pick(ownedBy(world.model, owner), number);
    if (one) refused.add(one.token);
  },
  renew: async (world, owner, number) => {
    const one = pick(ownedBy(world.model, owner), number);
    if (!one) return;
    const token = tokenOf();
    const reply = await world.ask(owner, 'POST', '/api/connections', { integration_id: APP, credential: { token }, connection_id: one.id });
    assert.equal(reply.status, 201, reply.text);
    Object.assign(one, { token, isDead: false });
  },
  remove: async (world, owner, number) => {
    const one = pick(ownedBy(world.model, owner), number);
    if (!one) return;
    const reply = await world.ask(owner, 'DELETE', at(one));
    assert.equal(reply.status, 200, reply.text);
    world.model.splice(world.model.indexOf(one), 1);
  },
  // what each list says about each connection
  list: async (world, owner) => {
    const { json } = await world.ask(owner, 'GET', `/api/connections?integration_id=${APP}&limit=100`);
    const seen = world.model.filter((one) => one.owner === owner || (owner !== undefined && one.isShared));
    const member = (one) => [one.id, one.isDead ? 'reauth_required' : 'live'];
    assert.deepEqual(json.connections.map(({ id, status }) => [id, status]).sort(), seen.map(member).sort(), `of ${owner ?? 'the account'}`);
  },
};
const OFTEN = { act: 12, name: 6, add: 4, add_default: 1, make_default: 2, share: 4, end: 4, renew: 2, remove: 5, list: 3 };

function sequence(seed, count) {
  const random = dice(seed, 0);
  const kinds = Object.entries(OFTEN).flatMap(([kind, times]) => Array(times).fill(kind));
  return Array.from({ length: count }, () => ({ kind: random.one(kinds), owner: random.one(OWNERS), number: random.below(1000) }));
}

// Runs a sequence for a new account. Returns {at, error} of the step that failed, or null.
let runs = 0;
async function play(steps) {
  const account = await stack.account(`acting ${++runs}`, { apps: [] });
  const world = { model: [], ask: (owner, method, path, body) => server.call(account.key, method, path, body, owner ? { 'sluice-user': owner } : {}) };
  for (const [index, { kind, owner, number }] of steps.entries()) {
    try {
      await KINDS[kind](world, owner, number);
      // whatever has changed, each of them acts as the model says
      if (!['act', 'name', 'list'].includes(kind)) for (const each of OWNERS) await KINDS.act(world, each);
    } catch (error) {
      return { at: index, error };
    }
  }
  return null;
}

// Leaves out parts of a sequence that fails, ever smaller ones, as long as it still fails.
async function shrink(steps, failure) {
  for (let size = steps.length >> 1, left = SHRINKS_MAX; size > 0 && left > 0; ) {
    let isShorter = false;
    for (let from = 0; from < steps.length && left > 0; left--) {
      const rest = [...steps.slice(0, from), ...steps.slice(from + size)];
      const again = await play(rest);
      if (again) [steps, failure, isShorter] = [rest.slice(0, again.at + 1), again, true];
      else from += size;
    }
    if (!isShorter) size >>= 1;
  }
  return { steps, failure };
}

test(`the connection that the model names acts (seed ${SEED}, ${STEPS} steps)`, async () => {
  const steps = sequence(SEED, STEPS);
  const failed = await play(steps);
  if (!failed) return;
  const short = await shrink(steps.slice(0, failed.at + 1), failed);
  const listed = short.steps.map(({ kind, owner, number }) => `  ${kind} ${owner ?? '(account)'} ${number}`).join('\n');
  assert.fail(`seed ${SEED}, step ${failed.at}: ${failed.error.message}\nThe shortest sequence found:\n${listed}\n${short.failure.error.stack}`);
});
