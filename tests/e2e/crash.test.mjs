// Crashes: a server is killed at every step of an execution, another takes over on the same
// database, and the answers for the keys are compared with the provider's ledger. In test builds,
// every step of an op is a crash point (SLUICE_CRASH_AT=class/step).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { contentOf, Mcp } from './support/mcp.mjs';
import { Stack } from './support/stack.mjs';

// In the order in which an execution runs them.
const STEPS = [
  'find_action',
  'load_key',
  'check_key',
  'check_input',
  'find_connection',
  'check_connection',
  'claim',
  'check_claim',
  'call',
  'read_reply',
  'check_reply',
  'record',
  'check_record',
  'answer',
];
// A write over /mcp without a key dies at these, too.
const ASKED = ['claim', 'check_claim', 'read_reply', 'check_reply', 'record'];
const isAtOrPast = (step, other) => STEPS.indexOf(step) >= STEPS.indexOf(other);

let stack, account, heir;

before(async () => {
  stack = await Stack.start({ catalog: false, postgres: { max_connections: 200 } });
  account = await stack.account('crash');
  for (const step of STEPS) await crashAt(step);
  // A dead node cannot release its leases, so the heir waits until they have expired.
  heir = await stack.serve();
});
after(() => stack?.stopWell(assert));

const write = (step) => [
  'gmail',
  'send_message',
  { to: 'ben@example.org', subject: `crash at ${step}`, text: 'x' },
  { confirm: true, idempotency_key: `write ${step}` },
];
const read = (step) => ['gmail', 'list_labels', {}, { idempotency_key: `read ${step}` }];
const unkeyed = (step) => [
  'gmail',
  'send_message',
  { to: 'ben@example.org', subject: `unkeyed at ${step}`, text: 'x' },
  { confirm: true },
];

const ask = async (server, step) => {
  const input = { to: 'ben@example.org', subject: `asked at ${step}`, text: 'x' };
  return contentOf(await new Mcp(server.base, account.key).call('run_action', { integration_id: 'gmail', action_id: 'send_message', input, confirm: true }));
};

const isKeyStep = (step) => step === 'load_key' || step === 'check_key';

// Each step has its own server, which dies at the first execution that reaches the step.
async function crashAt(step) {
  await Promise.all(
    [write, read, ...(isKeyStep(step) ? [] : [unkeyed]), ...(ASKED.includes(step) ? [null] : [])].map(async (request) => {
      const server = await stack.serve({ env: { SLUICE_CRASH_AT: `exec/${step}` } });
      const reply = request ? server.execute(account.key, ...request(step)) : ask(server, step);
      await assert.rejects(reply, `there was no answer at ${step}`);
      const end = await server.process.gone;
      assert.equal(end.signal, 'SIGKILL', server.log);
      stack.forget(server);
    }),
  );
}

const answerTo = (request) =>
  until(
    'the key answers',
    async () => {
      const reply = await heir.execute(account.key, ...request);
      return reply.status !== 503 && reply;
    },
  );
const writesOf = async (subject) => (await stack.provider.ledger()).filter((entry) => entry.marker === subject).length;

function assertOutcomeUnknown(reply) {
  assert.equal(reply.status, 500, reply.text);
  assert.equal(reply.json.status, 'failed');
  assert.equal(reply.json.error_code, 'execution_failed');
  assert.match(reply.json.hint, /outcome is unknown/i);
  assert.equal(reply.headers.get('idempotent-replayed'), 'true');
}

for (const step of STEPS)
  test(`a keyed write, killed before ${step}`, async () => {
    const subject = `crash at ${step}`;
    const wasCalled = isAtOrPast(step, 'read_reply');
    assert.equal(await writesOf(subject), wasCalled ? 1 : 0);
    const reply = await answerTo(write(step));
    if (isAtOrPast(step, 'check_record')) {
      // it had been recorded: replayed
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.headers.get('idempotent-replayed'), 'true');
    } else if (isAtOrPast(step, 'check_claim')) {
      // the call may have happened, so it is never silently repeated
      assertOutcomeUnknown(reply);
    } else {
      // the call had not begun, so it is made now
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.headers.get('idempotent-replayed'), null);
    }
    const again = await heir.execute(account.key, ...write(step));
    assert.equal(again.text, reply.text);
    const stored = await heir.call(account.key, 'GET', `/api/executions/${reply.json.execution_id}`);
    assert.equal(stored.text, reply.text);
    const expected = wasCalled || !isAtOrPast(step, 'check_claim') ? 1 : 0;
    assert.equal(await writesOf(subject), expected);
  });

for (const step of STEPS)
  test(`a keyed read, killed before ${step}`, async () => {
    const reply = await answerTo(read(step));
    assert.equal(reply.status, 200, reply.text);
    const isReplayed = isAtOrPast(step, 'check_record');
    assert.equal(reply.headers.get('idempotent-replayed'), isReplayed ? 'true' : null);
  });

for (const step of ASKED)
  test(`a write over /mcp without a key, killed before ${step}, is not made twice by the same call`, async () => {
    const wasCalled = isAtOrPast(step, 'read_reply'), isClaimed = isAtOrPast(step, 'check_claim');
    assert.equal(await writesOf(`asked at ${step}`), wasCalled ? 1 : 0);
    const reply = await until('it answers', async () => {
      const one = await ask(heir, step);
      return one.status && !/^This call waited/.test(one.message) && one;
    });
    assert.deepEqual([reply.status, reply.idempotent_replayed], isClaimed ? ['failed', true] : ['succeeded', undefined], JSON.stringify(reply));
    if (isClaimed) assert.match(reply.hint, /outcome is unknown/i);
    assert.equal(await writesOf(`asked at ${step}`), wasCalled || !isClaimed ? 1 : 0);
  });

test('a key of equal calls is kept for minutes', async () => {
  const most = await stack.cluster.sql(`select max(expires_at) < now() + interval '7 minutes' from sluice.idempotency_key where ascii(key) = 2`);
  assert.equal(most, 't');
});

test('a write without a key leaves a trace', async () => {
  await until('all claims have ended', async () => {
    const open = await stack.cluster.sql(`select count(*) from sluice.idempotency_key where state = 'in_flight'`);
    return open === '0';
  });
  for (const step of STEPS) {
    const wasCalled = isAtOrPast(step, 'read_reply');
    assert.equal(await writesOf(`unkeyed at ${step}`), wasCalled ? 1 : 0, step);
  }
  const claimed = STEPS.filter((step) => isAtOrPast(step, 'check_claim') && !isAtOrPast(step, 'check_record'));
  const traces = await stack.cluster.sql(
    `select count(*) from sluice.execution where status = 'failed' and action_id = 'send_message'`,
  );
  const asked = claimed.filter((step) => ASKED.includes(step));
  assert.equal(Number(traces), claimed.length * 2 + asked.length, 'one for each write that was cut off');
});
