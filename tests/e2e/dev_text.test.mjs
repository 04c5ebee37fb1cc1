// What `sluice dev` prints for a newcomer is pasted into a shell, whole, as a newcomer would.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startDev, until } from './support/dev.mjs';
import { must } from './support/process.mjs';

let dev;
before(async () => {
  dev = await startDev();
});
after(async () => {
  const end = await dev?.stop();
  assert.deepEqual([end?.code, end?.signal], [0, null], end?.log.slice(-30000));
});

test('read, blocked write, confirmed write, a flow that waits and goes on', async () => {
  const printed = dev.log.slice(dev.log.indexOf('SLUICE_KEY='), dev.log.indexOf('`sluice catalog show'));
  assert.equal(printed.match(/^# /gm).length, 5, printed);
  const replies = (await must('bash', ['-euc', printed])).trim().split('\n').map((line) => JSON.parse(line));
  const [read, blocked, written, waiting, approved, ...more] = replies;
  assert.deepEqual(more, []);
  assert.equal(read.status, 'succeeded');
  assert.ok(read.output.threads.length > 0);
  assert.deepEqual([blocked.status, blocked.error_code], ['blocked', 'policy_blocked']);
  assert.equal(written.status, 'succeeded');

  assert.deepEqual([waiting.flow.status, waiting.flow.currentStep], ['waiting', 'approve_tasks']);
  const { items } = waiting.steps.find((step) => step.stepKey === 'approve_tasks').input;
  assert.equal(items.length, 3);
  assert.equal(approved.flow.id, waiting.flow.id);
  const ended = await until('the flow has ended', async () => {
    const { json } = await dev.call('GET', `/api/flows/${waiting.flow.id}`);
    return json.flow.status === 'completed' && json;
  });
  const made = (await dev.ledger()).filter((entry) => entry.path === '/v1/pages');
  assert.equal(made.length, 4);
  for (const [index, page] of ended.flow.context.created.pages.entries()) {
    assert.equal(page.title, items[index].input.title);
    const read = await dev.execute('notion', 'get_page', { page_id: page.id });
    assert.equal(read.json.status, 'succeeded', read.text);
  }
});
