// A database backend is paused and resumes later: its statements run long after the server dropped
// the connection and the run that sent them has replied and ended. No claim is left over: a claim
// without a run on the owning node is released, or ends as unknown if a provider may have received
// the call. Backends are then paused in turn under load. This is the short form. With
// SOAK_SECONDS=n, the test runs for n seconds, and each pause takes 16 to 20 s.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, pause, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const SOAK_SECONDS = Number(process.env.SOAK_SECONDS ?? 0);
// Longer than the wait for a connection; in the long form also longer than a lease.
const FROZEN_MS = SOAK_SECONDS ? [16_000, 20_000] : [8_000, 8_500];
const TIMEOUT = '2s'; // for a statement: short, but longer than any statement takes on a slow machine
const SILENT = /the database has gone silent/g;
let stack, server, account, flowId;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('frozen', { apps: ['probe'] });
  // A connection counts as dead five seconds after the longest statement. There is only one writer.
  // If several were paused, a connection with nothing in flight would be kept and would send the
  // release of a claim. After the backends resume, the claim and its release would run in any
  // order, and nothing might be left to recover.
  const args = ['--database-writers', '1', '--database-readers', '1', '--database-timeout', TIMEOUT];
  server = await stack.serve({ args });
  await loseFlow();
});
after(() => stack?.stopWell(assert));

const execute = (action, input, more) => server.execute(account.key, 'probe', action, input, more);
const send = (subject, more) => execute('send', { subject }, { confirm: true, ...more });
const read = (idempotency_key) => execute('read_label', { id: 'INBOX' }, { idempotency_key });
const sent = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;
const sql = (text) => stack.cluster.sql(text);
const lines = async (text) => (await sql(text)).split('\n').filter(Boolean);
const inFlight = () => lines(`select execution_id from sluice.idempotency_key where state = 'in_flight'`);
const noneInFlight = () => until('no claim is in flight', async () => (await inFlight()).length === 0);
const recovered = async (as) =>
  Number(new RegExp(`^sluice_recovered_total\\{as="${as}"\\} (\\d+)`, 'm').exec(await server.metrics())?.[1] ?? 0);

// Creates the state that a timer's take leaves if it commits late: this node owns the row, but has
// no run of the flow. The last test in this file found this case.
async function loseFlow() {
  const body = { flowTemplate: 'probe_wait', input: { seconds: 3600 } };
  flowId = (await server.call(account.key, 'POST', '/api/flows/start', body)).json.flowId;
  await until('it waits', async () => (await sql(`select status from sluice.flow where id = '${flowId}'`)) === 'waiting');
  await sql(`update sluice.flow set status = 'running', rev = rev + 1, waiting_for = null, updated_at = now() - interval '1 hour',
    owner = (select node_id from sluice.node where lease_until > now()) where id = '${flowId}'`);
}

// The reader always runs selects, and one connection listens.
const writers = async () => {
  const pids = await stack.cluster.sql(
    `select pid from pg_stat_activity where datname = 'sluice' and application_name = 'sluice' and query !~* '^(select|listen)'`,
    'sluice',
    await stack.cluster.nodeOf(account.id),
  );
  return pids.split('\n').filter(Boolean);
};
const signal = (pids, name) => pids.forEach((pid) => process.kill(Number(pid), name));

// Pauses the only writer and sends a write, so that its claim is what the writer has in flight. A
// writer has one batch in flight: if that is a heartbeat, the claim is never sent, and the pause is
// begun again. Returns the paused backend and the reply to the write.
async function freezeWithClaim() {
  const gauges = async () => {
    const text = await server.metrics();
    return ['database_pending', 'pg_queries_waiting', 'executions_active'].map((name) =>
      Number(new RegExp(`^sluice_${name} (\\d+)`, 'm').exec(text)[1]),
    );
  };
  let count = 0;
  return until('the claim is in flight', async () => {
    // a connection whose last statement was a select is not known to be the writer until it writes
    await send(`warming ${++count}`);
    const frozen = await writers();
    if (frozen.length !== 1) return false;
    signal(frozen, 'SIGSTOP');
    const isIdle = (await gauges())[0] === 0;
    const subject = `unkeyed ${count}`;
    let isAnswered = false;
    const reply = isIdle && send(subject).finally(() => (isAnswered = true));
    if (isIdle) await until('it runs', async () => (await gauges())[2] === 1 || isAnswered);
    const [pending, waiting] = await gauges();
    if (isIdle && !isAnswered && pending === 1 && waiting === 0) return { frozen, subject, reply };
    signal(frozen, 'SIGCONT');
    await reply;
    return false;
  });
}

test('claims that are committed after their connection was given up', async () => {
  assert.equal((await send('before')).status, 200); // key and connection are cached from now on
  const { frozen, subject, reply: unkeyed } = await freezeWithClaim();
  const keyed = [() => send('keyed', { idempotency_key: 'keyed write' }), () => read('keyed read')];
  try {
    for (const reply of await Promise.all([unkeyed, ...keyed.map((one) => one())])) assert.equal(reply.status, 503, reply.text);
    // sent on the new connection, after the statements that released the claims
    await until('it writes again', async () => (await send('after')).status === 200);
    assert.deepEqual(await inFlight(), [], 'there was nothing to release');
  } finally {
    signal(frozen, 'SIGCONT');
  }
  await until('the late claims are released', async () => (await recovered('released')) > 0);
  await noneInFlight();
  // Nothing had been sent, so the same request runs again.
  for (const reply of await Promise.all([send(subject), ...keyed.map((one) => one())])) {
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.headers.get('idempotent-replayed'), null);
  }
  for (const marker of [subject, 'keyed']) assert.equal(await sent(marker), 1, marker);
});

// A start is answered once its result is known, and with 503 only if nothing began. If the answer
// to a decision was lost, the reply says to read the flow.
test('starts and an approval are in a backend when it is paused', async () => {
  const post = (path, body) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
  const start = (subject, more) => post('start', { flowTemplate: 'probe_approve', input: { subject }, ...more });
  const rows = (subject) => lines(`select f.id from sluice.flow f join sluice.flow_doc d on d.account_id = f.account_id
    and d.flow_id = f.id where d.input ->> 'subject' = '${subject}'`);
  const asked = (await start('decided')).json.flowId;
  const keyed = { idempotency_key: 'a start' };
  let warming = 0;
  const frozen = await until('the writer is known', async () => {
    await send(`warming again ${++warming}`);
    const pids = await writers();
    return pids.length === 1 && pids;
  });
  signal(frozen, 'SIGSTOP');
  const replies = [];
  try {
    replies.push(...(await Promise.all([start('plain'), start('with a key', keyed), post(`${asked}/approve`, {})])));
  } finally {
    signal(frozen, 'SIGCONT');
  }
  const [plain, withKey, approved] = replies;
  await until('it writes again', async () => (await send('after that')).status === 200);
  for (const [reply, subject] of [[plain, 'plain'], [withKey, 'with a key']]) {
    const made = await rows(subject);
    if (reply.status === 200) assert.deepEqual(made, [reply.json.flowId]);
    else if (reply.status === 500) assert.match(reply.json.error, /^The flow may have started\. Read the flow [0-9a-f-]{36} before you start another\.$/);
    else assert.deepEqual([reply.status, made], [503, []], reply.text);
  }
  if (approved.status !== 200) {
    assert.equal(approved.status, 503, approved.text);
    const isUndone = (await server.call(account.key, 'GET', `/api/flows/${asked}`)).json.flow.status === 'waiting';
    if (!isUndone) assert.match(approved.json.error, new RegExp(`Read the flow ${asked} before you try again`));
  }
  const again = await until('the start is answered', async () => {
    const reply = await start('with a key', keyed);
    return reply.status === 200 && reply;
  });
  if (withKey.status === 200) assert.equal(again.json.flowId, withKey.json.flowId);
  assert.deepEqual(await rows('with a key'), [again.json.flowId]);
});

// Creates the claims that such a commit leaves: claims of the live node, and of a dead one.
test('orphans are ended according to what is known of them, and runs under way are left alone', async () => {
  const ids = { recorded: (await send('recorded')).json.execution_id, dead: (await send('dead')).json.execution_id };
  const stored = await lines(`select id, summary from sluice.execution where id in ('${ids.recorded}', '${ids.dead}') order by id`);
  await noneInFlight();
  const held = await hold(stack.provider, { method: 'POST' });
  const long = send('long');
  await held.reached(1);
  const [owner] = await lines(`select owner from sluice.idempotency_key where state = 'in_flight'`);
  const dead = '01900000-0000-7000-8000-00000000dead';
  const orphan = (id, key, is_write, who = owner) => `
    insert into sluice.idempotency_key (account_id, key, execution_id, fingerprint, state, owner, integration_id,
      action_id, connection_id, is_write, started_at, expires_at)
    select account_id, ${key}, '${id}', fingerprint, state, '${who}', integration_id, action_id, connection_id,
      ${is_write}, started_at, now() + interval '1 day'
    from sluice.idempotency_key where state = 'in_flight' and owner = '${owner}' limit 1;`;
  const near = (n) => ids.recorded.slice(0, -12) + String(n).padStart(12, '0'); // an id with the time of a run of today
  const own = (id) => `E'\\x01${id}'`;
  const released = await recovered('released');
  await sql(`
    update sluice.idempotency_key set started_at = now() - interval '1 hour' where state = 'in_flight';
    ${orphan(ids.recorded, own(ids.recorded), true)}
    ${orphan(near(1), `'orphan write'`, true)}
    ${orphan(near(2), `'orphan read'`, false)}
    ${orphan('01900000-0000-7000-8000-000000000001', `'orphan write of a past day'`, true)}
    insert into sluice.node (node_id, name, started_at, lease_until) values ('${dead}', 'dead', now(), now());
    ${orphan(ids.dead, own(ids.dead), true, dead)}`);
  await until('all but one are ended', async () => (await inFlight()).length === 1);
  assert.equal(await recovered('released'), released + 4);
  assert.equal(await recovered('outcome_unknown'), 1);
  const states = await lines(`select key, state, e.error_code from sluice.idempotency_key k left join sluice.execution e
    on e.account_id = k.account_id and e.id = k.execution_id where key like 'orphan%'`);
  assert.deepEqual(states, ['orphan write|bound|outcome_unknown']);
  assert.deepEqual(await lines(`select id, summary from sluice.execution where id in ('${ids.recorded}', '${ids.dead}') order by id`), stored);
  await held.letGo();
  assert.equal((await long).status, 200);
  await noneInFlight();
});

// The client disconnects while its claim is on its way to the database.
test('a keyed read whose client has disconnected ends its claim by itself', async () => {
  const released = await recovered('released');
  for (let i = 0; i < 40; i++) {
    const gone = new AbortController();
    const body = JSON.stringify({ integration_id: 'probe', action_id: 'read_label', input: { id: 'INBOX' }, idempotency_key: `gone ${i}` });
    const headers = { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' };
    const asked = fetch(`${server.base}/api/executions`, { method: 'POST', headers, body, signal: gone.signal });
    setTimeout(() => gone.abort(), i / 2);
    await asked.catch(() => {});
  }
  await noneInFlight();
  assert.equal(await recovered('released'), released);
});

test('a flow whose take is committed late is continued by its owner', () =>
  until('it has ended', async () => (await sql(`select status from sluice.flow where id = '${flowId}'`)) === 'completed'));

// The requests of clients during the pauses: each subject is sent once, or with one key until the
// outcome is known. Returns the subjects by the acknowledged result.
function load(nodes) {
  const answers = new Map(); // subject -> status of the last answer
  const flows = [];
  let isOver = false;
  let count = 0;
  const client = async (kind, node) => {
    while (!isOver) {
      const subject = `${kind} in a freeze ${++count}`;
      await KINDS[kind](node, subject, answers, flows, () => isOver);
      await pause(20);
    }
  };
  const clients = Object.keys(KINDS).flatMap((kind) => nodes.map((node) => client(kind, node)));
  return { answers, flows, end: () => ((isOver = true), Promise.all(clients)) };
}

// A node without a lease, or one that waits for a database, answers with 503, so a client sends its
// key again.
const KINDS = {
  async unkeyed(node, subject, answers) {
    const reply = await node.execute(account.key, 'probe', 'send', { subject }, { confirm: true });
    answers.set(subject, reply.status);
  },
  async keyed(node, subject, answers, flows, isOver) {
    const more = { confirm: true, idempotency_key: subject };
    let reply;
    do {
      reply = await node.execute(account.key, 'probe', 'send', { subject }, more);
      if (reply.status === 503 || reply.status === 409) await pause(100);
    } while ((reply.status === 503 || reply.status === 409) && !isOver());
    answers.set(subject, reply.status);
  },
  async flow(node, subject, answers, flows) {
    const body = { flowTemplate: 'probe_chain', input: { subject, confirm: true } };
    const reply = await node.call(account.key, 'POST', '/api/flows/start', body);
    if (reply.status === 200) flows.push({ id: reply.json.flowId, subject });
  },
};

async function freezeOne(nodes) {
  const silences = () => nodes.reduce((sum, node) => sum + (node.log.match(SILENT)?.length ?? 0), 0);
  const before = silences();
  const pids = await until('a writer is connected', async () => (await writers()).sort(() => Math.random() - 0.5));
  const [least, most] = FROZEN_MS;
  signal(pids.slice(0, 1), 'SIGSTOP');
  try {
    await pause(least + Math.random() * (most - least));
  } finally {
    signal(pids.slice(0, 1), 'SIGCONT');
  }
  return silences() - before;
}

test('one backend after the other freezes under load', async (t) => {
  await server.stop();
  stack.forget(server);
  const args = ['--database-writers', '2', '--database-readers', '1'];
  if (!SOAK_SECONDS) args.push('--database-timeout', TIMEOUT);
  const nodes = [await stack.serve({ args }), await stack.serve({ args })];
  const work = load(nodes);
  const end = Date.now() + SOAK_SECONDS * 1000;
  let freezes = 0;
  let losses = 0;
  for (; Date.now() < end || losses === 0; freezes++) losses += await freezeOne(nodes);
  await work.end();
  const done = [...work.answers.values()].filter((status) => status === 200).length;
  t.diagnostic(`figure: ${freezes} freezes, ${losses} connections given up, ${done} of ${work.answers.size} writes and ${work.flows.length} flows acknowledged`);

  await noneInFlight();
  const open = () => sql(`select count(*) from sluice.flow where template_key = 'probe_chain' and status in ('running', 'waiting')`);
  await until('all flows have ended', async () => (await open()) === '0');
  const made = new Map();
  for (const { marker } of await stack.provider.ledger()) made.set(marker, (made.get(marker) ?? 0) + 1);
  assert.deepEqual([...made].filter(([, times]) => times > 1), [], 'a write was made twice');
  for (const [subject, status] of work.answers) if (status === 200) assert.equal(made.get(subject), 1, subject);
  const completed = new Set(await lines(`select id from sluice.flow where status = 'completed'`));
  for (const { id, subject } of work.flows) if (completed.has(id)) assert.equal(made.get(subject), 1, subject);
  assert.ok(done > 0 && completed.size > 0);
});
