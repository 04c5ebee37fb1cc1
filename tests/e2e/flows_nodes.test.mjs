// Flows and the life of nodes: a drain hands flows over, a paused node loses its flows, PostgreSQL
// may stop and start, an idle node is quiet, and ended flows are removed.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

let stack, account;

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 100 } });
  account = await stack.account('nodes');
});
beforeEach(() => stack.provider.faults([]));
after(() => stack?.stopWell(assert));

const SEND = { method: 'POST', path_prefix: '/gmail/v1/users/me/messages/send' };
const post = (server, path, body = {}) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
const view = async (server, id) => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json;
const sent = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;
const start = async (server, flowTemplate, input, post_ = post) => {
  const reply = await post_(server, 'start', { flowTemplate, input });
  assert.equal(reply.status, 200, reply.text);
  return reply.json.flowId;
};
// Retries as a client does that gets "Try again" because the server runs its maximum number of
// flows.
const patiently = (server, path, body) =>
  until('it is accepted', async () => {
    const reply = await post(server, path, body);
    if (reply.status !== 503) return reply;
    assert.ok(Number(reply.headers.get('retry-after')) >= 1, reply.text);
  });
const reaches = (server, id, ...statuses) =>
  until(`the flow is ${statuses.join(' or ')}`, async () => {
    const flow = await view(server, id);
    return statuses.includes(flow.flow?.status) && flow; // there is no flow in the reply while the database does not answer
  });

test('a drain hands flows over: calls under way end, no write is made twice, and no adoption is counted', async () => {
  const old = await stack.serve();
  await stack.provider.faults([{ match: SEND, count: 1, action: { latency_ms: 700 } }]);
  const subjects = Array.from({ length: 6 }, (_, i) => `handed over ${i}`);
  const fan = await start(old, 'probe_fan', { subjects, confirm: true });
  const slow = await start(old, 'probe_slow', { ms: 600, subject: 'handed over slow', confirm: true });
  await until('a write is under way', async () => (await sent(subjects[0])) === 1);
  const heir = await stack.serve();
  const end = await old.stop();
  assert.deepEqual([end.code, end.signal], [0, null], old.log.slice(-3000));
  stack.forget(old);
  for (const id of [fan, slow]) assert.equal((await reaches(heir, id, 'completed', 'failed')).flow.status, 'completed');
  for (const subject of [...subjects, 'handed over slow']) assert.equal(await sent(subject), 1, subject);
  assert.equal(await stack.cluster.sql(`select max(adoptions) from sluice.flow`), '0');
  await heir.stop();
  stack.forget(heir);
});

test('a node that was paused past its lease has lost its flows and writes nothing more', async () => {
  const zombie = await stack.serve();
  const heir = await stack.serve();
  // The flow's first step is under way when the node is paused. If the step were a write, its
  // outcome would be unknown.
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const slow = await start(zombie, 'probe_slow', { ms: 1, subject: 'zombie slow', confirm: true });
  await held.reached(1);
  const parked = await start(zombie, 'probe_approve', { subject: 'zombie parked' });
  await reaches(heir, parked, 'waiting');
  zombie.process.kill('SIGSTOP');
  await held.letGo();
  const flow = await reaches(heir, slow, 'completed', 'failed');
  assert.equal(flow.flow.status, 'completed', JSON.stringify(flow.steps));
  assert.equal((await post(heir, `${parked}/approve`)).status, 200);
  zombie.process.kill('SIGCONT');
  await reaches(heir, parked, 'completed');
  await until('it goes on as a new node', async () => /lease had expired/.test(zombie.log));
  // Until its new lease is confirmed, the node starts nothing and answers 503.
  const reply = await until('it takes flows again', async () => {
    const input = { subject: 'zombie again', confirm: true };
    const started = await post(zombie, 'start', { flowTemplate: 'probe_chain', input });
    return started.status !== 503 && started;
  });
  assert.equal(reply.status, 200, reply.text);
  const again = reply.json.flowId;
  assert.equal((await reaches(heir, again, 'completed', 'failed')).flow.status, 'completed');
  for (const subject of ['zombie slow', 'zombie parked', 'zombie again']) assert.equal(await sent(subject), 1, subject);
  for (const server of [zombie, heir]) {
    const end = await server.stop();
    assert.deepEqual([end.code, end.signal], [0, null], server.log.slice(-3000));
    stack.forget(server);
  }
});

test('PostgreSQL dies under running flows: all end, no write is made twice, and no acknowledged start is lost', async () => {
  const server = await stack.serve();
  const ids = [];
  const subjects = Array.from({ length: 30 }, (_, i) => `outage ${i}`);
  for (const [i, subject] of subjects.entries()) {
    const reply = await post(server, 'start', { flowTemplate: 'probe_chain', input: { subject, confirm: true } });
    if (reply.status === 200) ids.push(reply.json.flowId);
    if (i === 10 || i === 20) {
      await stack.cluster.down('immediate');
      await stack.cluster.up();
    }
  }
  assert.ok(ids.length >= 10);
  for (const id of ids) {
    const flow = await reaches(server, id, 'completed', 'failed');
    if (flow.flow.status === 'failed') assert.match(flow.steps[1].error?.hint ?? '', /outcome is unknown/i);
  }
  const counts = await Promise.all(subjects.map(sent));
  assert.ok(counts.every((count) => count <= 1), `${counts}`);
  await server.stop();
  stack.forget(server);
});

test('a server that has as many flows in work as it may says so, and takes more once one has ended', async () => {
  const server = await stack.serve({ args: ['--flows', '1'] }); // Commands may use twice as many.
  const parked = await start(server, 'probe_approve', { subject: 'full parked' });
  await reaches(server, parked, 'waiting');
  const held = await hold(stack.provider, { path_prefix: '/sleep/' });
  const input = (i) => ({ ms: 1, subject: `full ${i}`, confirm: true });
  const ids = [await start(server, 'probe_slow', input(0)), await start(server, 'probe_slow', input(1))];
  await held.reached(2);
  for (const reply of [
    await post(server, 'start', { flowTemplate: 'probe_slow', input: input(2) }),
    await post(server, `${parked}/approve`),
  ]) {
    assert.equal(reply.status, 503, reply.text);
    assert.equal(reply.json.error, 'The server already runs as many flows as it can. Nothing was done. Try again.');
    assert.equal(reply.headers.get('retry-after'), '1');
  }
  await held.letGo();
  for (const id of ids) await reaches(server, id, 'completed');
  assert.equal((await post(server, `${parked}/approve`)).status, 200);
  await reaches(server, parked, 'completed');
  assert.equal(await sent('full 2'), 0);
  await server.stop();
  stack.forget(server);
});

test('timers: many due at one instant all run, none twice; ended flows are removed after their time', async () => {
  const server = await stack.serve({ args: ['--flows', '100', '--execution-days', '1'] });
  const many = 400;
  const at = new Date(Date.now() + 2500).toISOString();
  await Promise.all(Array.from({ length: many }, () => start(server, 'probe_wait', { until: at }, patiently)));
  const done = () => stack.cluster.sql(
    `select count(*) from sluice.flow where template_key = 'probe_wait' and status = 'completed'`,
  );
  await until('all have ended', async () => (await done()) === String(many));
  const twice = await stack.cluster.sql(
    `select count(*) from (select flow_id from sluice.flow_step group by flow_id, step_index, attempt having count(*) > 1) t`,
  );
  assert.equal(twice, '0');
  const early = await stack.cluster.sql(
    `select count(*) from sluice.flow f join sluice.flow_step s
     on s.account_id = f.account_id and s.flow_id = f.id and s.step_index = 0
     where f.template_key = 'probe_wait' and s.finished_at < f.wake_at`,
  );
  assert.equal(early, '0');
  await stack.cluster.sql(
    `update sluice.flow set id = ('00000000' || substr(id::text, 9))::uuid, updated_at = now() - interval '2 days'
     where template_key = 'probe_wait'`,
  );
  await server.stop();
  stack.forget(server);
  const janitor = await stack.serve({ args: ['--execution-days', '1'] });
  await until('they are removed', async () => (await done()) === '0');
  await janitor.stop();
  stack.forget(janitor);
});
