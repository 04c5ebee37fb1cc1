// Held calls and crashes: a server is killed between the first request and the last record of a
// call that waits for an approval, with keys that are kept for a day and for a second. Another
// server goes on, and the client repeats its request. The app gets the call at most once, a lost
// outcome is unknown for good, and all repetitions name one execution. This is the short form. With
// SOAK_SECONDS, the server is killed at every step, with both lifetimes of keys.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const IS_LONG = Number(process.env.SOAK_SECONDS ?? 0) > 0;
const LIFETIMES = ['1s', '24h'];
const GRAVE = '00000000-0000-7000-8000-000000000001';
const SEND = { method: 'POST', path_prefix: '/gmail/v1/users/me/messages/send' };
const steps = (op, ...names) => names.map((name) => `${op}/${name}`);

// In the order in which they are run: while the request is held, approved, and made.
const ASKING = [
  ...steps('exec', 'find_action', 'load_key', 'check_key', 'check_input', 'find_connection', 'check_connection', 'hold'),
  ...steps('hold', 'find', 'found', 'template', 'stored', 'start'),
  ...steps('flow_command', 'begin', 'start', 'send', 'started'),
  'hold/started',
  ...steps('exec', 'held', 'answer'),
];
const APPROVING = steps('flow_command', 'begin', 'load', 'loaded', 'template', 'decide', 'approver', 'take', 'changed', 'audited');
const CALLING = [
  ...steps('flow', 'begin', 'load', 'loaded', 'template', 'plan', 'execute', 'call', 'record', 'recorded', 'check', 'checked', 'intend', 'intended'),
  ...steps('exec', 'find_action', 'load_key', 'check_key', 'check_input', 'find_connection', 'check_connection', 'enter_limits', 'admit', 'claim'),
  ...steps('exec', 'check_claim', 'call', 'read_reply', 'check_reply', 'next', 'record', 'check_record', 'fit_output', 'answer'),
  'flow/called',
];
const SHORT = {
  asking: ['exec/hold', 'hold/started'],
  approving: ['flow_command/changed'],
  calling: ['flow/recorded', 'flow/intend', 'flow/intended', 'exec/check_claim', 'exec/check_reply', 'exec/check_record'],
};
const CHOSEN = IS_LONG ? { asking: ASKING, approving: APPROVING, calling: CALLING } : SHORT;
const points = Object.entries(CHOSEN).flatMap(([phase, list]) =>
  list.flatMap((at, i) => (IS_LONG ? LIFETIMES : [LIFETIMES[i % 2]]).map((lifetime) => ({ phase, at, lifetime, subject: `${phase} ${at} ${lifetime}` }))),
);

// Between these steps the claim is there, and the record is not.
const from = CALLING.indexOf('exec/check_claim'), to = CALLING.indexOf('exec/record');
const isInDoubt = ({ phase, at }) => phase === 'calling' && CALLING.indexOf(at) >= from && CALLING.indexOf(at) <= to;
const isSentBefore = ({ phase, at }) => phase === 'calling' && CALLING.indexOf(at) > CALLING.indexOf('exec/call');

let stack, account, agent, heir;
const starters = {};

const serve = (lifetime, env = {}, provider) => stack.serve({ args: ['--idempotency-ttl', lifetime], env, provider });
const request = (server, subject) => {
  // one half comes without a key
  const key = subject.length % 2 ? { idempotency_key: subject } : {};
  return server.execute(agent, 'gmail', 'send_message', { to: 'ada@outside.example', subject, text: 'x' }, key);
};
const decide = (server, id, what) => server.call(account.key, 'POST', `/api/flows/${id}/${what}`, {});
const view = async (server, id) => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json;
const sent = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;
// The first hold of a request: a later one is that of a key which is forgotten.
const flowOf = (subject) => stack.cluster.sql(`select flow_id from sluice.flow_doc where input::text like '%"${subject}"%' order by flow_id limit 1`);

before(async () => {
  stack = await Stack.start({ catalog: false, postgres: { max_connections: 200 } });
  account = await stack.account('held', { apps: ['gmail'] });
  for (const lifetime of LIFETIMES) starters[lifetime] = await serve(lifetime);
  const policy = { default: 'allow', rules: [{ tools: ['gmail_send_message'], decision: 'hold' }] };
  const written = await starters['24h'].call(account.key, 'PUT', '/api/policies/default', { policy });
  assert.ok(written.status < 300, written.text);
  const made = await starters['24h'].call(account.key, 'POST', '/api/keys', { name: 'agent', scopes: ['read', 'execute'] });
  agent = made.json.key;
  const rest = [...points];
  const worker = async () => {
    for (let point = rest.shift(); point; point = rest.shift()) await crash(point);
  };
  await Promise.all([worker(), worker()]);
  await stack.cluster.sql(
    `insert into sluice.node (node_id, name, started_at, lease_until) values ('${GRAVE}', 'grave', now(), now() - interval '1 s')`,
  );
  heir = await serve('24h');
});
after(() => stack?.stopWell(assert));

async function held(subject, lifetime) {
  const reply = await request(starters[lifetime], subject);
  assert.deepEqual([reply.status, reply.json.error_code, reply.json.approval?.status], [409, 'policy_blocked', 'waiting'], reply.text);
  return reply.json.approval.flow_id;
}

// Its flows are given to GRAVE, a node that is not known before the heir starts: no server that will
// die adopts them.
async function crash(point) {
  const { phase, at, lifetime, subject } = point;
  if (phase !== 'asking') point.id = await held(subject, lifetime);
  const server = await serve(lifetime, { SLUICE_CRASH_AT: at });
  const reply = phase === 'asking' ? request(server, subject) : decide(server, point.id, 'approve');
  await reply.catch(() => {});
  assert.equal((await server.process.gone).signal, 'SIGKILL', server.log.slice(-3000));
  stack.forget(server);
  await stack.cluster.sql(
    `update sluice.flow set owner = '${GRAVE}' where status = 'running' and owner in
     (select node_id from sluice.node where name like '%:${server.process.pid}')`,
  );
  assert.equal(await sent(subject), isSentBefore(point) ? 1 : 0, at);
}

// Repeats the request, and approves its hold once a person can, until the hold has ended.
async function end(point) {
  const { subject, lifetime } = point;
  return until(`${subject} has ended`, async () => {
    point.id ||= await flowOf(subject);
    const flow = point.id && (await view(heir, point.id));
    if (['completed', 'failed', 'cancelled'].includes(flow?.flow?.status)) return flow;
    const reply = await request(Math.random() < 0.5 ? heir : starters[lifetime], subject);
    assert.ok([200, 409, 500, 503].includes(reply.status), reply.text);
    if (flow?.flow?.status === 'waiting' && flow.flow.currentStep === 'approval') await decide(heir, point.id, 'approve');
    return false;
  });
}

// Two nodes give one answer, which names the execution.
async function repeat(point) {
  const replies = await Promise.all([heir, starters[point.lifetime], heir].map((server) => request(server, point.subject)));
  for (const reply of replies) assert.equal(reply.json.execution_id, replies[0].json.execution_id, reply.text);
  return replies[0];
}

for (const point of points)
  test(`${point.phase}, killed before ${point.at}, keys kept for ${point.lifetime}`, async () => {
    const { subject } = point;
    const { flow, steps: made } = await end(point);
    const call = made.find((step) => step.stepKey === 'call');
    assert.equal(flow.status, isInDoubt(point) ? 'failed' : 'completed', JSON.stringify(call));
    const count = isInDoubt(point) && !isSentBefore(point) ? 0 : 1;
    assert.equal(await sent(subject), count);
    if (isInDoubt(point)) {
      assert.match(call.error.hint, /outcome is unknown.*Resume does not make the call again/);
      assert.equal((await decide(heir, point.id, 'resume')).status, 200);
      await until('it has failed again', async () => {
        const now = await view(heir, point.id);
        return now.flow.status === 'failed' && now.steps.find((step) => step.stepKey === 'call').attemptCount > call.attemptCount;
      });
    }
    assert.equal((await decide(heir, point.id, 'approve')).status, 409);
    if (point.lifetime === '24h') {
      const reply = await repeat(point);
      assert.deepEqual([reply.status, reply.json.outcome], isInDoubt(point) ? [500, 'unknown'] : [200, 'done'], reply.text);
      assert.equal(reply.headers.get('idempotent-replayed'), 'true');
    }
    assert.equal(await sent(subject), count);
  });

test('a refusal that passes is tried again, and all repetitions name the last execution', async () => {
  const subject = 'refused at first', point = { subject, lifetime: '24h', id: await held(subject, '24h') };
  await stack.provider.faults([{ match: SEND, count: 1, action: { status: 429, retry_after: 1 } }]);
  assert.equal((await decide(heir, point.id, 'approve')).status, 200);
  assert.equal((await end(point)).flow.status, 'completed');
  const reply = await repeat(point);
  assert.equal(reply.status, 200, reply.text);
  assert.equal(await sent(subject), 1);
  const ids = await stack.cluster.sql(`select execution_id from sluice.hold where flow_id = '${point.id}'`);
  assert.equal(reply.json.execution_id, ids);
});

test('a call that is under way when its flow is cancelled is recorded, and its result is repeated', async () => {
  const subject = 'cancelled', point = { subject, lifetime: '24h', id: await held(subject, '24h') };
  const held_reply = await hold(stack.provider, SEND);
  assert.equal((await decide(heir, point.id, 'approve')).status, 200);
  await held_reply.reached(1);
  assert.equal((await decide(starters['24h'], point.id, 'cancel')).status, 200);
  await held_reply.letGo();
  const reply = await until('it is recorded', async () => {
    const now = await request(heir, subject);
    return now.status === 200 && now;
  });
  assert.equal((await repeat(point)).json.execution_id, reply.json.execution_id);
  assert.deepEqual([(await view(heir, point.id)).flow.status, await sent(subject)], ['cancelled', 1]);
});

test('a server that is paused during the call, and goes on after another has taken the flow', async () => {
  const subject = 'paused', point = { subject, lifetime: '24h', id: await held(subject, '24h') };
  const zombie = await serve('24h');
  const held_reply = await hold(stack.provider, SEND);
  assert.equal((await decide(zombie, point.id, 'approve')).status, 200);
  await held_reply.reached(1);
  zombie.process.kill('SIGSTOP');
  await held_reply.letGo();
  const { flow } = await end(point);
  assert.equal(flow.status, 'failed');
  zombie.process.kill('SIGCONT');
  await until('it goes on as a new node', async () => /lease had expired/.test(zombie.log));
  const reply = await repeat(point);
  assert.deepEqual([reply.status, reply.json.outcome, await sent(subject)], [500, 'unknown', 1], reply.text);
  assert.equal((await request(zombie, subject)).json.execution_id, reply.json.execution_id, 'it lives');
});

// In front of the provider: accepts connections, and forwards nothing until it is opened.
async function gate() {
  const { port, hostname } = new URL(stack.provider.url);
  const sockets = [];
  const server = net.createServer((socket) => sockets.push(socket.on('error', () => {})));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const open = () => sockets.forEach((socket) => socket.pipe(net.connect(port, hostname).on('error', () => {})).pipe(socket));
  const url = stack.provider.url.replace(`:${port}`, `:${server.address().port}`);
  return { provider: { url, caFile: stack.provider.caFile }, sockets, open, close: () => server.close() };
}

test('a server that is paused before the first byte sends nothing after another has cancelled', async () => {
  const subject = 'not sent', id = await held(subject, '24h'), closed = await gate();
  const server = await serve('24h', {}, closed.provider);
  assert.equal((await decide(server, id, 'approve')).status, 200);
  await until('it connects', () => closed.sockets.length > 0);
  server.process.kill('SIGSTOP');
  assert.equal((await decide(heir, id, 'cancel')).status, 200);
  closed.open();
  server.process.kill('SIGCONT');
  const claims = `select count(*) from sluice.idempotency_key where state = 'in_flight'`;
  await until('its claim is released', async () => (await stack.cluster.sql(claims)) === '0');
  const reply = await request(heir, subject);
  assert.deepEqual([reply.status, reply.json.approval?.status, await sent(subject)], [409, 'cancelled', 0], reply.text);
  closed.close();
});
