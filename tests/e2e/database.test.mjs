// The database disappears under load and comes back: restarts without a checkpoint, single killed
// backends, and an outage longer than a lease. No request hangs, and no write that was answered
// with 200 is lost. The provider's ledger shows which writes it received.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, pause, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, account;

before(async () => {
  stack = await Stack.start();
  account = await stack.account('database', { apps: ['probe'] });
  server = await stack.serve();
});
after(() => stack?.stopWell(assert));

const execute = (action, input, more) => server.execute(account.key, 'probe', action, input, more);

function assertTryAgain(reply) {
  assert.equal(reply.status, 503, reply.text);
  assert.ok(Number(reply.headers.get('retry-after')) >= 1, 'Retry-After');
  assert.equal(typeof reply.json.error, 'string');
}

// Well-behaved clients: each sends a write with a key until it has a final answer, with reads in
// between. Anything that is neither an answer nor a 503 with Retry-After is an error, and so is a
// lost connection.
class Load {
  constructor(name, clients) {
    this.name = name;
    this.isOver = false;
    this.finals = new Map(); // subject -> the final reply
    this.refused = 0;
    this.reads = 0;
    this.clients = Array.from({ length: clients }, (_, i) => this.client(i));
  }

  async client(number) {
    for (let n = 0; !this.isOver; n++) {
      const subject = `${this.name} ${number}.${n}`;
      const reply = await this.untilFinal(() =>
        execute('send', { subject }, { confirm: true, idempotency_key: subject }),
      );
      this.finals.set(subject, reply);
      const read = await this.untilFinal(() => execute('read_label', { id: 'INBOX' }));
      assert.equal(read.status, 200, read.text);
      this.reads++;
    }
  }

  async untilFinal(send) {
    for (;;) {
      const reply = await send();
      if (reply.status !== 503) return reply;
      assertTryAgain(reply);
      this.refused++;
      await pause(20);
    }
  }

  async progress(count) {
    const target = this.finals.size + count;
    await until(`${count} more writes have ended`, () => this.failed ?? this.finals.size >= target);
  }

  async end() {
    this.isOver = true;
    await Promise.all(this.clients);
  }
}

// Checks that every write that was answered with 200 was made once and is stored. A write without
// such an answer may have been made once. No write may have been made twice.
async function audit(load) {
  const counts = new Map();
  for (const { marker } of await stack.provider.ledger()) counts.set(marker, (counts.get(marker) ?? 0) + 1);
  let unknown = 0;
  for (const [subject, reply] of load.finals) {
    const count = counts.get(subject) ?? 0;
    if (reply.status === 200) {
      assert.equal(count, 1, `${subject} was answered with 200 and made ${count} times`);
    } else {
      assert.equal(reply.status, 500, reply.text);
      assert.match(reply.json.hint, /outcome is unknown/i);
      assert.ok(count <= 1, `${subject} was made ${count} times`);
      unknown++;
    }
    assert.ok(reply.json.execution_id, reply.text);
  }
  for (const [subject, count] of counts) assert.equal(count, 1, `${subject} was made ${count} times`);
  const subjects = [...load.finals.keys()];
  for (let i = 0; i < subjects.length; i += 50)
    await Promise.all(
      subjects.slice(i, i + 50).map(async (subject) => {
        const reply = load.finals.get(subject);
        const stored = await server.call(account.key, 'GET', `/api/executions/${reply.json.execution_id}`);
        assert.equal(stored.status, 200, `${subject}: ${stored.text}`);
        assert.equal(stored.text, reply.text);
      }),
    );
  return unknown;
}

// The server itself never dies, so it also records its calls, unless an outage took longer than its
// lease, which may happen on a slow machine.
function assertKnown(unknown, from) {
  if (!/lease had expired/.test(server.log.slice(from))) assert.equal(unknown, 0);
}

const isReady = async () => (await fetch(`${server.base}/readyz`)).status === 200;

test('restarts without a checkpoint under load', async (t) => {
  const from = server.log.length;
  const load = new Load('restart', 64);
  await load.progress(300);
  for (let round = 0; round < 3; round++) {
    await stack.cluster.down('immediate');
    await stack.cluster.up();
    await load.progress(300);
  }
  await load.end();
  await until('the service is ready', isReady);
  const unknown = await audit(load);
  t.diagnostic(`${load.finals.size} writes, ${load.reads} reads, ${load.refused} times 503, ${unknown} unknown`);
  assertKnown(unknown, from);
});

test('single backends killed under load', async (t) => {
  const from = server.log.length;
  const load = new Load('backend', 32);
  await load.progress(100);
  for (let round = 0; round < 10; round++) {
    await stack.cluster.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = 'sluice' and pid <> pg_backend_pid() order by random() limit 2`,
      'postgres',
    );
    await load.progress(50);
  }
  await load.end();
  const unknown = await audit(load);
  t.diagnostic(`${load.finals.size} writes, ${load.refused} times 503, ${unknown} unknown`);
  assertKnown(unknown, from);
});

test('while it is unreachable: 503 in bounded time, liveness stays, readiness fails; then everything recovers by itself', async () => {
  await until('the service is ready', isReady);
  await stack.cluster.down('immediate');
  await until('it is not ready', async () => !(await isReady()));
  assert.equal((await fetch(`${server.base}/healthz`)).status, 200);
  const notReady = await fetch(`${server.base}/readyz`);
  assert.deepEqual([notReady.status, notReady.headers.has('retry-after')], [503, true]);
  const id = '01900000-0000-7000-8000-000000000000';
  const replies = await Promise.all([
    execute('send', { subject: 'while away' }, { confirm: true, idempotency_key: 'away' }), // words: ok
    execute('send', { subject: 'also while it is unreachable' }, { confirm: true }),
    execute('read_label', { id: 'INBOX' }),
    server.call(account.key, 'GET', `/api/executions/${id}`),
    // an unknown key can be neither accepted nor refused
    server.call(`sk_${'A'.repeat(43)}`, 'GET', '/api/integrations'),
  ]);
  replies.forEach(assertTryAgain);
  await stack.cluster.up();
  await until('the service is ready', isReady);
  // with a cluster the server is ready once one node is, and the account may be on another
  const reply = await until('its node answers', async () => {
    const one = await execute('send', { subject: 'while away' }, { confirm: true, idempotency_key: 'away' }); // words: ok
    return (!stack.isSharded || one.status !== 503) && one;
  });
  assert.equal(reply.status, 200, reply.text);
  assert.equal((await stack.provider.ledger()).filter((entry) => entry.marker.startsWith('while away')).length, 1); // words: ok
});

// Stops the database after the calls have been made. `outage` decides how long it is down. Resolves
// with the final replies and the number of first answers that were final.
async function writesOverAnOutage(name, outage) {
  const COUNT = 20;
  await until('the service is ready', isReady);
  const held = await hold(stack.provider, { method: 'POST' }, { count: COUNT });
  const subjects = Array.from({ length: COUNT }, (_, i) => `${name} ${i}`);
  const send = (subject) => execute('send', { subject }, { confirm: true, idempotency_key: subject });
  const isOurs = (entry) => entry.marker.startsWith(`${name} `);
  let isDown = false;
  // a client that gets 503 before the outage retries (nothing was sent then)
  const sendOnce = async (subject) => {
    for (;;) {
      const reply = await send(subject);
      if (reply.status !== 503 || isDown) return reply;
      await pause(50);
    }
  };
  const first = Promise.all(subjects.map(sendOnce));
  await held.reached(COUNT);
  isDown = true;
  await stack.cluster.down('immediate');
  await held.letGo();
  await until('it has made them', async () => (await stack.provider.ledger()).filter(isOurs).length === COUNT);
  await outage();
  await stack.cluster.up();
  const finals = [];
  for (const [i, reply] of (await first).entries()) {
    if (reply.status === 503) assertTryAgain(reply);
    const isFinal = (one) => one.status !== 503 && one;
    finals.push(isFinal(reply) || (await until('the key answers', async () => isFinal(await send(subjects[i])))));
  }
  assert.equal((await stack.provider.ledger()).filter(isOurs).length, COUNT, 'nothing was done twice');
  return finals;
}

test('a result that waits for the database is recorded once it is back', async () => {
  const from = server.log.length;
  const replies = await writesOverAnOutage('waiting', () => {});
  for (const reply of replies) if (reply.status !== 200) assert.match(reply.json.hint, /outcome is unknown/i, reply.text);
  assertKnown(replies.filter((reply) => reply.status !== 200).length, from);
});

// After that time, another node might have taken over this node's work. This node must not claim to
// know more than the database does: the result is done or unknown, and is the same for every
// request.
test('an outage longer than the lease', async (t) => {
  const LEASE_MS = 10_000;
  const replies = await writesOverAnOutage('long outage', () => pause(LEASE_MS + 2000));
  let unknown = 0;
  for (const reply of replies) {
    if (reply.status !== 200) {
      assert.equal(reply.status, 500, reply.text);
      assert.match(reply.json.hint, /outcome is unknown/i);
      unknown++;
    }
    const stored = await server.call(account.key, 'GET', `/api/executions/${reply.json.execution_id}`);
    assert.equal(stored.text, reply.text);
  }
  t.diagnostic(`${unknown} of ${replies.length} unknown`);
  // results are stored as soon as the database answers, writes begin with the next lease
  await until('the service is ready', isReady);
  const next = await execute('send', { subject: 'after it' }, { confirm: true });
  assert.equal(next.status, 200, next.text);
});
