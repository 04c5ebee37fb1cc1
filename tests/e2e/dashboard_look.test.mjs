// How the dashboard looks: axe-core on every page in both schemes, and the pictures that the README
// shows, made into build/screenshots (committed under contrib/screenshots).
import assert from 'node:assert/strict';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { Dashboard } from './support/dashboard.mjs';
import { must } from './support/process.mjs';

const PICTURES = new URL('../../build/screenshots/', import.meta.url).pathname;
const PICTURE_BYTES_MAX = 60e3;

let dashboard, account, waiting, failed, execution;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('Look');
  const execute = (integration_id, action_id, input) =>
    dashboard.call(account, 'POST', '/api/executions', { integration_id, action_id, input });
  waiting = await dashboard.startTasks(account);
  failed = await dashboard.startTasks(account, { maxResults: 1 });
  await dashboard.provider.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, action: { status: 400 } }]);
  await dashboard.call(account, 'POST', `/api/flows/${failed}/approve`, {});
  await dashboard.reaches(account, failed, 'failed');
  await dashboard.provider.faults([]);
  ({ json: { execution_id: execution } } = await execute('gmail', 'list_messages', { maxResults: 3 }));
  await execute('notion', 'get_page', { page_id: '00000000-0000-4000-8000-000000000000' });
});
after(() => dashboard?.stop());

async function picture(visit, name) {
  const path = join(PICTURES, `${name}.png`);
  await visit.page.screenshot({ path });
  await must('pngquant', ['64', '--strip', '--force', '--output', path, path]);
  const { size } = await stat(path);
  assert.ok(size < PICTURE_BYTES_MAX, `${name}.png has ${size} bytes`);
}

for (const colorScheme of ['light', 'dark'])
  test(`pictures, ${colorScheme}`, async () => {
    await mkdir(PICTURES, { recursive: true });
    const visit = await dashboard.signIn(account, { colorScheme, viewport: { width: 1000, height: 800 } });
    for (const [name, path] of [['overview', '/'], ['flow', `/flows/${waiting}`]]) {
      await visit.goto(path);
      await picture(visit, `${name}-${colorScheme}`);
    }
    await visit.end();
  });
