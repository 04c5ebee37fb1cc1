// --origin-override: one for each app, and the caller's overrides take precedence over those of
// `sluice dev`.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startDev } from './support/dev.mjs';
import { Scripted } from './support/scripted.mjs';

const MANY = 62; // together with gmail's and notion's, the maximum
const unused = Array.from({ length: MANY - 1 }, (_, i) => `https://app-${i}.example.com`);
let scripted, dev;

before(async () => {
  scripted = await Scripted.start((request, reply) => {
    reply.setHeader('content-type', 'application/json');
    reply.end(JSON.stringify({ labels: [{ id: 'Label_7', name: 'of the test', type: 'user' }] }));
  });
  const origins = ['https://gmail.googleapis.com', ...unused];
  dev = await startDev({ args: origins.flatMap((origin) => ['--origin-override', `${origin}=${scripted.url}`]) });
});
after(async () => {
  await scripted?.stop();
  const end = await dev?.stop();
  assert.deepEqual([end?.code, end?.signal], [0, null], end?.log.slice(-30000));
});

test("sluice dev: the caller's override of a demo app takes precedence", async () => {
  const { json } = await dev.execute('gmail', 'list_labels', {});
  assert.equal(json.status, 'succeeded', JSON.stringify(json));
  assert.deepEqual(json.output.labels.map((one) => one.id), ['Label_7']);
  assert.deepEqual(Object.keys(scripted.seen), ['/gmail/v1/users/me/labels']);
});

test('sluice dev: calls that the caller does not override go to the emulated provider', async () => {
  const { json } = await dev.execute('notion', 'search', {});
  assert.equal(json.status, 'succeeded', JSON.stringify(json));
  assert.ok(json.output.results.length > 0);
});
