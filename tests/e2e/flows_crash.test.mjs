// Crashes during flows: a server is killed at every step of every op that a flow runs, and another
// server adopts the flow. The test compares the flow's end with the provider's ledger. A write is
// never silently made twice: it was made once, or not at all, or the step says that the outcome is
// unknown.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

// In the order in which a flow runs them.
const RUN_STEPS = ['begin', 'execute', 'called', 'record', 'recorded'];
const LANE_STEPS = ['take', 'begin', 'begun', 'call', 'called', 'record', 'recorded'];
const COMMAND_STEPS = ['begin', 'load', 'loaded', 'template', 'decide', 'changed'];
const LOAD_STEPS = ['load', 'loaded', 'template', 'plan'];

const GRAVE = '00000000-0000-7000-8000-000000000001';

let stack, account, heir;
const begun = new Map(); // name of the crash point -> {id, subjects, approved}

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 200 } });
  account = await stack.account('crash');
  await inPairs([
    ...RUN_STEPS.map((step) => () => crashInRun(step)),
    ...LANE_STEPS.map((step) => () => crashInLane(step)),
    () => crashInExec('call'),
    () => crashInExec('check_reply'),
    () => crashInStart(),
    () => crashInParkedStart(),
    () => crashInStartOfWait(),
    ...COMMAND_STEPS.map((step) => () => crashAfterWait('flow_command', step)),
    ...LOAD_STEPS.map((step) => () => crashAfterWait('flow', step)),
    () => crashInTimer(),
    () => crashPoisoned(),
  ]);
  await crashInApprovedFan();
  await stack.cluster.sql(
    `insert into sluice.node (node_id, name, started_at, lease_until)
     values ('${GRAVE}', 'grave', now(), now() - interval '1 s')`,
  );
  heir = await stack.serve();
});
after(() => stack?.stopWell(assert));

async function inPairs(tasks) {
  const rest = [...tasks];
  const worker = async () => {
    for (let task = rest.shift(); task; task = rest.shift()) await task();
  };
  await Promise.all([worker(), worker(), worker()]);
}

const post = (server, path, body = {}) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
const view = async (server, id) => (await server.call(account.key, 'GET', `/api/flows/${id}`)).json;
const sent = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;

const servesUntil = (at) => stack.serve({ env: { SLUICE_CRASH_AT: at } });

async function dies(server) {
  const end = await server.process.gone;
  assert.equal(end.signal, 'SIGKILL', server.log.slice(-3000));
  stack.forget(server);
  // A server that will die must not adopt these flows, so they are given to GRAVE, a node that is
  // unknown until the heir starts.
  await stack.cluster.sql(
    `update sluice.flow set owner = '${GRAVE}' where status = 'running' and owner in
     (select node_id from sluice.node where name like '%:${server.process.pid}')`,
  );
}

// Finds a flow by its subject, since a start that was interrupted returned no id but may be
// durable.
const findBy = (subject) =>
  stack.cluster.sql(`select flow_id from sluice.flow_doc where input::text like '%"${subject}"%'`);

async function cutOff(name, at, template, input, subjects) {
  const server = await servesUntil(at);
  const reply = await post(server, 'start', { flowTemplate: template, input }).catch(() => null);
  await dies(server);
  begun.set(name, { id: reply?.json?.flowId, subjects });
}

const crashInRun = (step) => {
  const subject = `run at ${step}`;
  return cutOff(subject, `flow/${step}`, 'probe_chain', { subject, confirm: true }, [subject]);
};
const crashInLane = (step) => {
  const subjects = [0, 1, 2, 3, 4].map((i) => `lane at ${step} ${i}`);
  return cutOff(`lane at ${step}`, `flow_lane/${step}`, 'probe_fan', { subjects, confirm: true }, subjects);
};
const crashInExec = (step) => {
  const subject = `exec at ${step}`;
  return cutOff(subject, `exec/${step}`, 'probe_chain', { subject, confirm: true }, [subject]);
};
const crashInStart = () => {
  const subject = 'start at started';
  return cutOff(subject, 'flow_command/started', 'probe_chain', { subject, confirm: true }, [subject]);
};

// The steps of a start that parks its flow in the same statement, to wait for a person or for a
// time.
const crashInParkedStart = () => {
  const subject = 'start that asks';
  return cutOff(subject, 'flow_command/started', 'probe_approve', { subject }, [subject]);
};
const crashInStartOfWait = () =>
  cutOff('start that waits', 'flow_command/started', 'probe_wait', { seconds: 0.731 }, []);

// One server starts and parks the flow; it is then approved on another server, which dies.
let starter;
async function crashAfterWait(op, step) {
  starter ??= stack.serve();
  const subject = `${op} at ${step} after approval`;
  const { json } = await post(await starter, 'start', { flowTemplate: 'probe_approve', input: { subject } });
  await until('it waits', async () => (await view(await starter, json.flowId)).flow.status === 'waiting');
  const server = await servesUntil(`${op}/${step}`);
  const reply = await post(server, `${json.flowId}/approve`).catch(() => null);
  await dies(server);
  begun.set(subject, { id: json.flowId, subjects: [subject], isAcknowledged: reply?.status === 200 });
}

// The third item is under way when the server dies.
async function crashInApprovedFan() {
  starter ??= stack.serve();
  const subjects = [0, 1, 2, 3, 4].map((i) => `approved item ${i}`);
  const { json } = await post(await starter, 'start', { flowTemplate: 'probe_approve_fan', input: { subjects } });
  await until('it waits', async () => (await view(await starter, json.flowId)).flow.status === 'waiting');
  const server = await stack.serve();
  await stack.provider.faults([
    { match: { method: 'POST', path_prefix: '/gmail/v1/users/me/messages/send' }, skip: 2, count: 1, action: { hang: 'after' } },
  ]);
  assert.equal((await post(server, `${json.flowId}/approve`)).status, 200);
  await until('the third is under way', async () => (await sent(subjects[2])) === 1);
  server.process.kill('SIGKILL');
  await dies(server);
  await stack.provider.faults([]);
  begun.set('approved fan', { id: json.flowId, subjects });
}

async function crashInTimer() {
  const server = await servesUntil('flow/recorded');
  const { json } = await post(server, 'start', { flowTemplate: 'probe_wait', input: { seconds: 0.2 } });
  await dies(server);
  begun.set('timer', { id: json.flowId, subjects: [] });
}

async function crashPoisoned() {
  await cutOff('poison', 'exec/call', 'probe_chain', { subject: 'poison', confirm: true }, ['poison']);
  const poison = begun.get('poison');
  poison.id ??= await findBy('poison');
  await stack.cluster.sql(`update sluice.flow set adoptions = 4 where id = '${poison.id}'`);
}

const ended = (id) =>
  until(
    'the flow has ended',
    async () => {
      const flow = await view(heir, id);
      return ['completed', 'failed', 'waiting'].includes(flow.flow.status) && flow;
    },
  );

// Checks that the provider's ledger and the flow's state agree.
async function judge(name) {
  const { id: told, subjects } = begun.get(name);
  const id = told ?? (await findBy(subjects[0]));
  const counts = await Promise.all(subjects.map(sent));
  assert.ok(counts.every((count) => count <= 1), `${name}: ${counts}`);
  const flow = await ended(id);
  const after_end = await Promise.all(subjects.map(sent));
  assert.ok(after_end.every((count) => count <= 1), `${name}: ${after_end}`);
  if (flow.flow.status === 'completed') assert.ok(after_end.every((count) => count === 1), `${name}: ${after_end}`);
  if (flow.flow.status === 'failed') {
    const failed = flow.steps.find((step) => step.status === 'failed');
    assert.equal(failed.error.code, 'execution_failed', JSON.stringify(failed));
    assert.match(failed.error.hint, /outcome is unknown/i);
  }
  return { flow, counts: after_end };
}

// The first step is a transform. Its transition also stores the intent of the write.
for (const [step, status, count] of [
  ['begin', 'completed', 1],
  ['execute', 'completed', 1],
  ['record', 'completed', 1],
  ['recorded', 'failed', 0],
  ['called', 'failed', 1],
])
  test(`a flow, killed before ${step}`, async () => {
    const { flow, counts } = await judge(`run at ${step}`);
    assert.equal(flow.flow.status, status, JSON.stringify(flow.steps));
    assert.deepEqual(counts, [count]);
  });

for (const step of LANE_STEPS)
  test(`a fan-out, killed before ${step} of an item`, async () => {
    const { flow, counts } = await judge(`lane at ${step}`);
    const isIntentOpen = ['begun', 'call', 'called', 'record'].includes(step);
    if (isIntentOpen || step !== 'recorded') assert.equal(flow.flow.status, isIntentOpen ? 'failed' : 'completed');
    if (flow.flow.status === 'completed') return;
    const done = await stack.cluster.sql(
      `select count(*) from sluice.flow_item where flow_id = '${flow.flow.id}' and fact = 'completed'`,
    );
    assert.ok(counts.filter((count) => count === 1).length >= Number(done));
    // A resume explicitly decides to repeat the call whose outcome is unknown, and to make the
    // others.
    assert.equal((await post(heir, `${flow.flow.id}/resume`)).status, 200);
    const resumed = await until('resume runs the rest', async () => {
      const now = await view(heir, flow.flow.id);
      return now.flow.status === 'completed' && now;
    });
    assert.equal(resumed.flow.context.count, 5);
    const counts_now = await Promise.all(begun.get(`lane at ${step}`).subjects.map(sent));
    const repeated = counts_now.filter((count) => count > 1).length;
    assert.ok(counts_now.every((count) => count >= 1) && repeated <= 2, `${counts_now}: at most those under way`);
  });

test('a flow that kills every server that runs it is not adopted a sixth time', async () => {
  const { id } = begun.get('poison');
  const flow = await ended(id);
  assert.equal(flow.flow.status, 'failed');
  assert.match(flow.steps[1].error.message, /died repeatedly/);
  assert.equal((await post(heir, `${id}/resume`)).status, 200);
  await until('resume tries once more', async () => (await view(heir, id)).flow.status === 'completed');
  assert.equal(await sent('poison'), 1);
});

test('a write, killed before the call: its outcome is unknown, and resume makes it', async () => {
  const { flow, counts } = await judge('exec at call');
  assert.equal(flow.flow.status, 'failed');
  assert.deepEqual(counts, [0]);
  assert.equal((await post(heir, `${flow.flow.id}/resume`)).status, 200);
  await until('resume has made it', async () => (await view(heir, flow.flow.id)).flow.status === 'completed');
  assert.equal(await sent('exec at call'), 1);
});

test('a write, killed after its reply has arrived: its outcome is unknown, and it is not repeated', async () => {
  const { flow, counts } = await judge('exec at check_reply');
  assert.equal(flow.flow.status, 'failed');
  assert.deepEqual(counts, [1]);
});

test('a start whose answer was lost is still a flow', async () => {
  assert.notEqual(await findBy('start at started'), '');
  await until('it has sent its mail', async () => (await sent('start at started')) === 1);
});

test('a start that asks and whose answer was lost: the flow waits with the right view, and goes on when approved', async () => {
  const name = 'start that asks';
  const id = await findBy(name);
  const flow = await view(heir, id);
  assert.deepEqual([flow.flow.status, flow.steps[0].status, flow.steps[1].status], ['waiting', 'waiting', 'pending']);
  assert.equal(flow.steps[0].input.items[0].input.subject, name);
  // the same as if a separate statement had stored the pause
  assert.equal(await stack.cluster.sql(`select rev from sluice.flow where id = '${id}'`), '2');
  assert.equal((await post(heir, `${id}/approve`)).status, 200);
  await until('it is sent', async () => (await sent(name)) === 1);
});

test('a start that waits and whose answer was lost: no node has a timer for it, and it goes on in time', async () => {
  const id = await stack.cluster.sql(`select flow_id from sluice.flow_doc where input::text like '%0.731%'`);
  const flow = await until('its time has come', async () => {
    const now = await view(heir, id);
    return now.flow.status === 'completed' && now;
  });
  assert.deepEqual(flow.steps.filter((step) => step.stepType === 'wait').map((step) => step.status), ['skipped', 'completed']);
});

for (const [op, steps] of [['flow_command', COMMAND_STEPS], ['flow', LOAD_STEPS]])
  for (const step of steps)
    test(`approved, and killed before ${step} of ${op}`, async () => {
      const name = `${op} at ${step} after approval`;
      const { flow, counts } = await judge(name);
      if (begun.get(name).isAcknowledged) assert.equal(flow.flow.status, 'completed');
      if (flow.flow.status === 'waiting') {
        assert.deepEqual(counts, [0]);
        assert.equal((await post(heir, `${flow.flow.id}/approve`)).status, 200);
        await until('it is sent', async () => (await sent(name)) === 1);
      }
    });

test('an approved fan-out, killed in the middle: completed items are not made again', async () => {
  const { flow, counts } = await judge('approved fan');
  assert.equal(flow.flow.status, 'failed');
  assert.deepEqual(counts, [1, 1, 1, 0, 0]);
  assert.match(flow.steps[1].error.message, /^Item 3 of 5 failed, 2 completed: The server stopped/);
  await post(heir, `${flow.flow.id}/resume`);
  await until('resume runs the rest', async () => (await view(heir, flow.flow.id)).flow.status === 'completed');
  assert.deepEqual(await Promise.all(begun.get('approved fan').subjects.map(sent)), [1, 1, 2, 1, 1]);
});

test('a timer fires on a server that dies', async () => {
  const { flow } = await judge('timer');
  assert.equal(flow.flow.status, 'completed');
});
