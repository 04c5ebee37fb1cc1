// Crashes (PROVING.md, failure 1): the server is killed at every step of an execution, restarted on
// the same data, and the provider's ledger is compared. Every step of an op is a crash point in
// test builds (SLUICE_CRASH_AT=class/step).
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { test } from 'node:test';
import { startDev, until } from './support/dev.mjs';

const STEPS = [
  'look_up_key',
  'check_input',
  'check_connection',
  'claim',
  'judge_claim',
  'call',
  'read_reply',
  'record',
  'check_record',
  'answer',
];

const page = (dev, title) => ({
  integration_id: 'notion',
  action_id: 'create_page',
  confirm: true,
  idempotency_key: `key of ${title}`,
  input: { parent: dev.taskParent, properties: { title: { title: [{ text: { content: title } }] } } },
});

// The provider's memory goes with its process, so the ledger is read before the kill takes the
// whole family down: sluice dev's children die with it. What was written is told by the reply that
// a restarted server gives for the key.
async function crashAt(step) {
  const title = `crash at ${step}`;
  let dev = await startDev({ env: { SLUICE_CRASH_AT: `exec/${step}` } });
  const { dir } = dev;
  try {
    await assert.rejects(dev.call('POST', '/api/executions', page(dev, title)));
    assert.equal((await dev.ended()).signal, 'SIGKILL');
    dev = await startDev({ dir });
    const reply = await until('the key answers', async () => {
      const again = await dev.call('POST', '/api/executions', page(dev, title));
      return again.status !== 503 && again;
    }, 45_000);
    const writes = (await dev.ledger()).filter((write) => JSON.stringify(write).includes(title));
    return { reply, writes: writes.length };
  } finally {
    await dev.stop({ keep: true });
    await rm(dir, { recursive: true, force: true });
  }
}

for (const step of STEPS)
  test(`killed before ${step}`, { timeout: 120_000 }, async () => {
    const { reply, writes } = await crashAt(step);
    const isClaimed = STEPS.indexOf(step) >= STEPS.indexOf('judge_claim');
    const isRecorded = STEPS.indexOf(step) >= STEPS.indexOf('check_record');
    if (!isClaimed || isRecorded) {
      // nothing had been done: it runs now, once; or it had been recorded: it is replayed
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.headers.get('idempotent-replayed'), isRecorded ? 'true' : null);
      assert.equal(writes, isRecorded ? 0 : 1);
    } else {
      // the write may have happened: it is never repeated in silence
      assert.equal(reply.status, 500, reply.text);
      assert.equal(reply.json.status, 'failed');
      assert.equal(reply.json.error_code, 'execution_failed');
      assert.match(reply.json.hint, /outcome is unknown/i);
      assert.equal(reply.headers.get('idempotent-replayed'), 'true');
      assert.equal(writes, 0);
    }
  });
