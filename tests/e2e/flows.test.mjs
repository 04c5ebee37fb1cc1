// Flows (src/api/README.md "Flows"): every row of the transition table, on two nodes; that the
// writes are as approved; pauses, retries, fan-outs, deadlines; cancel and resume.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

let stack, account, one, two;

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 100 } });
  account = await stack.account('flows');
  one = await stack.serve();
  two = await stack.serve();
});
beforeEach(() => stack.provider.faults([]));
after(() => stack?.stopWell(assert));

const SEND = { method: 'POST', path_prefix: '/gmail/v1/users/me/messages/send' };
const SLEEP = { path_prefix: '/sleep/' };
const LABEL = { path_prefix: '/gmail/v1/users/me/labels' };
let names = 0;
const fresh = (name) => `${name} ${++names}`;

const post = (server, path, body = {}) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
const view = async (id, server = one) => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json;
const step = (flow, key) => flow.steps.find((each) => each.stepKey === key);
const sent = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;

async function start(flowTemplate, input, server = one) {
  const reply = await post(server, 'start', { flowTemplate, input });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.json.flow.flow.status, 'running');
  return reply.json.flowId;
}

const reaches = (id, ...statuses) =>
  until(`the flow is ${statuses.join(' or ')}`, async () => {
    const flow = await view(id);
    return statuses.includes(flow.flow.status) && flow;
  });

test('start: steps run in order, later steps see the outputs of earlier ones', async () => {
  const subject = fresh('chain');
  const flow = await reaches(await start('probe_chain', { subject, confirm: true }), 'completed');
  assert.deepEqual(flow.steps.map((each) => each.status), ['completed', 'completed', 'completed', 'completed']);
  assert.deepEqual(flow.flow.context.end, { subject, label: 'INBOX' });
  assert.equal(flow.flow.currentStep, 'end');
  assert.ok(flow.flow.completedAt);
  assert.deepEqual(step(flow, 'send').input, { subject });
  assert.equal(await sent(subject), 1);
});

test('start: invalid requests are refused', async () => {
  const unknown = await post(one, 'start', { flowTemplate: 'nothing' });
  assert.deepEqual([unknown.status, unknown.json.error], [404, 'Unknown flow template: nothing']);
  const unconfirmed = await post(one, 'start', { flowTemplate: 'probe_chain', input: { subject: 'x' } });
  assert.equal(unconfirmed.status, 400);
  assert.match(unconfirmed.json.error, /confirm/);
  const more = await post(one, 'start', { flowTemplate: 'probe_wait', input: { other: 1, seconds: 'x' } });
  assert.equal(more.status, 400);
  assert.match(more.json.error, /other/);
  assert.match(more.json.error, /seconds/);
});

test('an approval is given on the other node, once', async () => {
  const subject = fresh('approved');
  const id = await start('probe_approve', { subject });
  const waiting = await reaches(id, 'waiting');
  assert.deepEqual(step(waiting, 'ask').input, {
    title: `Send ${subject}`,
    summary: 'One mail',
    items: [{ stepKey: 'send', tool: 'probe_send', input: { subject } }],
  });
  assert.equal((await post(one, `${id}/approve`, { stepKey: 'send' })).status, 409);
  const resumed = await post(one, `${id}/resume`);
  assert.deepEqual([resumed.status, resumed.json.flow.status], [200, 'waiting']);
  const approved = await post(two, `${id}/approve`, { stepKey: 'ask', note: 'go' });
  assert.equal(approved.status, 200, approved.text);
  assert.equal((await post(one, `${id}/approve`)).status, 409);
  const flow = await reaches(id, 'completed');
  assert.equal(step(flow, 'ask').output.note, 'go');
  assert.match(step(flow, 'ask').output.approvedBy, /^key:/);
  assert.deepEqual(step(flow, 'send').input, step(waiting, 'ask').input.items[0].input);
  assert.equal(await sent(subject), 1);
});

test('fifty approvals at once on two nodes: one succeeds, and one mail is sent', async () => {
  const subject = fresh('raced');
  const id = await start('probe_approve', { subject });
  await reaches(id, 'waiting');
  const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => post(i % 2 ? one : two, `${id}/approve`)));
  assert.equal(replies.filter((reply) => reply.status === 200).length, 1);
  assert.equal(replies.filter((reply) => reply.status === 409).length, 49);
  await reaches(id, 'completed');
  assert.equal(await sent(subject), 1);
});

test('reject cancels the flow, and the approval step fails', async () => {
  const subject = fresh('rejected');
  const id = await start('probe_approve', { subject });
  await reaches(id, 'waiting');
  const reply = await post(two, `${id}/reject`, { note: 'no' });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.json.flow.status, 'cancelled');
  assert.equal(step(reply.json, 'ask').error.code, 'policy_blocked');
  assert.equal((await post(one, `${id}/approve`)).status, 409);
  assert.equal((await post(one, `${id}/resume`)).status, 409);
  assert.equal(await sent(subject), 0);
});

test('an approval that expires fails the step; resume asks again', async () => {
  const subject = fresh('expired');
  const id = await start('probe_approve', { subject, expires: 0.3 });
  const failed = await reaches(id, 'failed');
  assert.equal(step(failed, 'ask').error.code, 'timeout');
  assert.equal((await post(two, `${id}/resume`)).status, 200);
  await reaches(id, 'waiting', 'failed');
  assert.equal(await sent(subject), 0);
});

test('waits: for seconds, until a time with an offset, and not at all for a past time', async () => {
  const past = await start('probe_wait', { until: '2020-01-01T00:00:00+02:00', seconds: 0 });
  const soon = await start('probe_wait', { seconds: 0.5 });
  const at = new Date(Date.now() + 800);
  const local = new Date(at.getTime() + 2 * 3600_000).toISOString().replace('Z', '+02:00');
  const later = await start('probe_wait', { until: local });
  const long = await start('probe_wait', { seconds: 3600 });
  for (const id of [past, soon, later]) assert.equal((await reaches(id, 'completed')).flow.context.end, 'done');
  const woken = step(await view(later), 'by_time');
  assert.ok(new Date(woken.completedAt) >= at, `${woken.completedAt} is before ${at.toISOString()}`);
  assert.equal(step(await view(soon), 'by_time').status, 'skipped');
  const waiting = await view(long);
  assert.equal(waiting.flow.status, 'waiting');
  assert.ok(new Date(step(waiting, 'by_seconds').wakeAt) > new Date());
  const early = await post(two, `${long}/resume`);
  assert.deepEqual([early.status, early.json.flow.status], [200, 'waiting']);
  assert.equal((await post(two, `${long}/cancel`)).json.flow.status, 'cancelled');
});

test('a flow fails at its deadline', async () => {
  const flow = await reaches(await start('probe_deadline', {}), 'failed');
  assert.equal(step(flow, 'rest').error.code, 'timeout');
});

// The provider answers neither call. The times that the server stored show what ended each call.
test('a call ends at the configured timeout or with its flow, whichever comes first', async () => {
  const brief = await stack.serve({ args: ['--execution-timeout', '300ms'] });
  const held = await hold(stack.provider, SLEEP);
  const ends = async (template, server) => {
    const { flow, steps } = await reaches(await start(template, {}, server), 'failed');
    assert.equal(steps[0].error.code, 'timeout', JSON.stringify(steps));
    return new Date(flow.updatedAt) - new Date(flow.createdAt);
  };
  assert.ok(await ends('probe_patient', brief) < 30_000, 'the flow had 600 s');
  assert.ok(await ends('probe_hasty', one) < 30_000, 'the setting allowed 30 s');
  await held.letGo();
});

test('running and completed flows cannot be resumed or approved; cancel works from every state', async () => {
  const subject = fresh('slow');
  const held = await hold(stack.provider, SLEEP);
  const running = await start('probe_slow', { ms: 1, subject, confirm: true });
  await held.reached(1);
  for (const verb of ['resume', 'approve']) assert.equal((await post(two, `${running}/${verb}`)).status, 409);
  const done = await start('probe_wait', {});
  const completed = await reaches(done, 'completed');
  assert.equal((await post(one, `${done}/resume`)).status, 409);
  for (const id of [running, done]) { // Do not wait for the call under way: the provider holds it.
    const first = await post(one, `${id}/cancel`);
    assert.deepEqual([first.status, first.json.flow.status], [200, 'cancelled']);
    const second = await post(two, `${id}/cancel`);
    assert.deepEqual([second.status, second.json.flow.updatedAt], [200, first.json.flow.updatedAt]);
  }
  await held.letGo();
  assert.equal((await view(done)).flow.completedAt, completed.flow.completedAt);
  assert.equal((await post(one, `${running}/resume`)).status, 409);
  const nobody = '01a2007c-ddc7-7664-bcdc-429c0f5bdf92';
  for (const verb of ['approve', 'reject', 'resume', 'cancel']) {
    const reply = await post(one, `${nobody}/${verb}`);
    assert.deepEqual([reply.status, reply.json], [404, { error: 'Flow not found' }]);
  }
  assert.equal(await sent(subject), 0);
});

test('cancel during a write on the other node: its late result changes nothing', async () => {
  const subject = fresh('late');
  const held = await hold(stack.provider, SEND);
  const id = await start('probe_chain', { subject, confirm: true });
  await held.reached(1);
  const reply = await post(two, `${id}/cancel`);
  assert.equal(reply.json.flow.status, 'cancelled');
  await held.letGo();
  await until('its node has dropped the flow', async () => /sluice_flows_running 0/.test(await one.metrics()));
  const flow = await view(id);
  assert.equal(flow.flow.status, 'cancelled');
  assert.equal(step(flow, 'send').status, 'cancelled');
  assert.equal(step(flow, 'send').output, null);
});

test('a read is retried; when no attempt is left the flow fails; resume goes on from there', async () => {
  await stack.provider.faults([{ match: LABEL, count: 1, action: { status: 429, retry_after: 0 } }]);
  assert.equal((await reaches(await start('probe_retry', {}), 'completed')).flow.status, 'completed');
  await stack.provider.faults([{ match: LABEL, action: { status: 404 } }]);
  const id = await start('probe_retry', {});
  const failed = await reaches(id, 'failed');
  assert.equal(step(failed, 'look').error.retryable, false);
  assert.equal(failed.flow.completedAt, null);
  await stack.provider.faults([]);
  const resumed = await post(two, `${id}/resume`);
  assert.equal(resumed.status, 200, resumed.text);
  const flow = await reaches(id, 'completed');
  assert.equal(step(flow, 'look').attemptCount, 2);
});

test('a long Retry-After parks the flow, and it continues by itself', async () => {
  await stack.provider.faults([{ match: LABEL, count: 1, action: { status: 429, retry_after: 6 } }]);
  const id = await start('probe_retry', {});
  const parked = await reaches(id, 'waiting');
  assert.equal(step(parked, 'look').error.code, 'rate_limited');
  const early = await post(one, `${id}/approve`);
  assert.equal(early.status, 409);
  const flow = await reaches(id, 'completed');
  assert.equal(step(flow, 'look').attemptCount, 2);
});

test('a fan-out: outputs in order; after a failure resume runs only what has not completed', async () => {
  const subjects = Array.from({ length: 8 }, (_, i) => fresh(`fan${i}`));
  await stack.provider.faults([{ match: SEND, skip: 3, count: 1, action: { status: 400 } }]);
  const id = await start('probe_fan', { subjects, confirm: true });
  const failed = await reaches(id, 'failed');
  const error = step(failed, 'send').error;
  assert.match(error.message, /^Item \d of 8 failed, \d completed: /);
  const before = await Promise.all(subjects.map(sent));
  assert.ok(before.filter((count) => count === 1).length >= 3);
  await stack.provider.faults([]);
  assert.equal((await post(two, `${id}/resume`)).status, 200);
  const flow = await reaches(id, 'completed');
  assert.equal(flow.flow.context.count, 8);
  assert.deepEqual(await Promise.all(subjects.map(sent)), Array(8).fill(1));
  const ids = (await stack.provider.ledger()).filter((each) => subjects.includes(each.marker));
  const inOrder = subjects.map((subject) => ids.find((each) => each.marker === subject).object_id);
  assert.deepEqual(step(flow, 'send').output.map((each) => each.id), inOrder);
  // its two attempts in the list of executions
  const { json } = await one.call(account.key, 'GET', '/api/executions?flow_calls=true&limit=100');
  const calls = json.executions.filter((each) => each.flow?.id === id).map((each) => [each.status, each.flow.calls, each.flow.failedCalls]);
  const count = before.filter((each) => each === 1).length;
  assert.deepEqual(calls, [['succeeded', 8 - count, 0], ['failed', count + 1, 1]]);
});

test('an item whose provider asks for a long pause parks the fan-out; completed items are not read again', async () => {
  await stack.provider.faults([{ match: SLEEP, skip: 2, count: 1, action: { status: 429, retry_after: 6 } }]);
  const id = await start('probe_reads', { ms: [1, 1, 1, 1, 1, 1] });
  const parked = await reaches(id, 'waiting', 'failed');
  assert.equal(parked.flow.status, 'waiting', JSON.stringify(step(parked, 'rest').error));
  assert.equal(step(parked, 'rest').error.code, 'rate_limited');
  const completed = () =>
    stack.cluster.sql(`select count(*) from sluice.flow_item where flow_id = '${id}' and fact = 'completed'`);
  assert.ok(Number(await completed()) >= 2);
  const flow = await reaches(id, 'completed', 'failed');
  assert.equal(flow.flow.status, 'completed');
  assert.equal(step(flow, 'rest').attemptCount, 2);
  assert.equal(step(flow, 'rest').output.length, 6);
  assert.equal(await completed(), '6');
});

test('an empty fan-out, and one with too many items', async () => {
  const none = await reaches(await start('probe_fan', { subjects: [], confirm: true }), 'completed');
  assert.deepEqual(step(none, 'send').output, []);
  const many = await start('probe_fan', { subjects: Array(1001).fill('x'), confirm: true });
  const failed = await reaches(many, 'failed');
  assert.match(step(failed, 'send').error.message, /1,000/);
});

test('a step that is blocked fails the flow with its code; once the cause is repaired, resume goes on', async () => {
  const other = await stack.account('unconnected', { apps: [] });
  const call = (method, path, body) => one.call(other.key, method, `/api/flows${path}`, body);
  const started = await call('POST', '/start', { flowTemplate: 'probe_retry', input: {} });
  const id = started.json.flowId;
  const status = async () => (await call('GET', `/${id}`)).json;
  const failed = await until('it has failed', async () => {
    const flow = await status();
    return flow.flow.status === 'failed' && flow;
  });
  assert.equal(failed.steps[0].error.code, 'integration_not_connected');
  await stack.connect(other.id, 'probe', { token: 'ya29.demo-gmail-full' });
  await until('resume finds the connection', async () => {
    await call('POST', `/${id}/resume`);
    return (await status()).flow.status === 'completed';
  });
});

// Sends two requests at the same time, to one node or to two. The tests use both orders, and the
// flow has to end as in one of the two serial orders.
const both = async (id, first, second, servers) =>
  Promise.all([post(servers[0], `${id}/${first}`), post(servers[1], `${id}/${second}`)]);

const OUTCOMES = {
  'approve cancel': { approve: [200, 409], cancel: [200], ends: ['cancelled'] },
  'approve reject': { approve: [200, 409], reject: [200, 409], ends: ['completed', 'cancelled'] },
  'approve resume': { approve: [200], resume: [200, 409], ends: ['completed'] },
  'approve approve': { approve: [200, 409], ends: ['completed'] },
  'reject cancel': { reject: [200, 409], cancel: [200], ends: ['cancelled'] },
  'reject resume': { reject: [200], resume: [200, 409], ends: ['cancelled'] },
  'cancel resume': { cancel: [200], resume: [200, 409], ends: ['cancelled'] },
};

for (const [pair, wanted] of Object.entries(OUTCOMES))
  test(`at the same time: ${pair}`, async () => {
    const [a, b] = pair.split(' ');
    const runs = [[a, b, one, one], [b, a, one, one], [a, b, one, two], [b, a, one, two]];
    await Promise.all(runs.map(async ([first, second, ...servers]) => {
      const subject = fresh(pair);
      const id = await start('probe_approve', { subject });
      await reaches(id, 'waiting');
      const [x, y] = await both(id, first, second, servers);
      assert.ok(wanted[first].includes(x.status) && wanted[second].includes(y.status), `${x.text} ${y.text}`);
      const flow = await reaches(id, ...wanted.ends);
      const decided = { [first]: x.status, [second]: y.status };
      if (pair === 'approve approve' || pair === 'approve reject')
        assert.deepEqual([x.status, y.status].sort(), [200, 409]);
      if (decided.reject === 200) assert.equal(flow.flow.status, 'cancelled');
      const mails = await sent(subject);
      if (flow.flow.status === 'completed') assert.equal(mails, 1);
      else if (decided.approve === 200) assert.ok(mails <= 1);
      else assert.equal(mails, 0);
    }));
  });

for (const verb of ['cancel', 'resume'])
  test(`at the same time: a timer fires and a user sends ${verb}`, async () => {
    await Promise.all([0, 5, 10, 15, 20, 25, 30, 40].map(async (ms, i) => {
      const at = Date.now() + 1000;
      const id = await start('probe_wait', { until: new Date(at).toISOString() }, i % 2 ? one : two);
      await reaches(id, 'waiting', 'completed'); // completed if this took longer than the wait
      await new Promise((resolve) => setTimeout(resolve, at + ms - 10 - Date.now()));
      const reply = await post(one, `${id}/${verb}`);
      const flow = await reaches(id, verb === 'cancel' ? 'cancelled' : 'completed');
      if (verb === 'cancel') assert.equal(reply.status, 200, reply.text);
      else assert.ok([200, 409].includes(reply.status), reply.text);
      assert.equal(step(flow, 'by_time').attemptCount, 1);
    }));
  });

test('at the same time: a step completes and a user cancels', async () => {
  await Promise.all([280, 290, 300, 310, 320, 340].map(async (ms, i) => {
    const subject = fresh('completes');
    const id = await start('probe_slow', { ms: 300, subject, confirm: true });
    await new Promise((resolve) => setTimeout(resolve, ms));
    const reply = await post(i % 2 ? one : two, `${id}/cancel`);
    assert.deepEqual([reply.status, reply.json.flow.status], [200, 'cancelled'], reply.text);
    const after = await view(id);
    assert.equal(after.flow.status, 'cancelled');
    assert.ok((await sent(subject)) <= 1);
  }));
});

test('an item of a fan-out is tried as often as the template says, and not more often', async () => {
  await stack.provider.faults([{ match: { path_prefix: '/sleep/' }, action: { status: 501 } }]);
  const id = await start('probe_reads', { ms: [1, 1, 1] });
  const failed = await reaches(id, 'failed');
  assert.equal(step(failed, 'rest').error.code, 'unsupported_operation');
  await stack.provider.faults([{ match: { path_prefix: '/sleep/' }, action: { status: 500 } }]);
  const calls = async () => (await stack.provider.control('GET', '/counters')).requests;
  const before = await calls();
  const again = await reaches(await start('probe_reads', { ms: [1] }), 'failed');
  assert.equal(step(again, 'rest').error.retryable, true);
  assert.equal((await calls()) - before, 2);
});
