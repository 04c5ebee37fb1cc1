// How the dashboard looks: axe-core on every page in both schemes, and the pictures that the README
// shows, made into build/screenshots (committed under contrib/screenshots).
import assert from 'node:assert/strict';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Dashboard } from './support/dashboard.mjs';
import { must } from './support/process.mjs';

const PICTURES = new URL('../../build/screenshots/', import.meta.url).pathname;
const PICTURE_BYTES_MAX = 60e3;

let dashboard, account, waiting, failed, completed, good, bad;

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
  completed = await dashboard.start(account, 'unread_mail_summary', { maxResults: 2 });
  await dashboard.reaches(account, completed, 'completed');
  good = await execute('gmail', 'list_messages', { maxResults: 3 });
  bad = await execute('notion', 'get_page', { page_id: '00000000-0000-4000-8000-000000000000' });
});
after(() => dashboard?.stop());

async function picture(visit, name) {
  const path = join(PICTURES, `${name}.png`);
  await visit.page.screenshot({ path });
  await must('pngquant', ['64', '--strip', '--force', '--output', path, path]);
  const { size } = await stat(path);
  assert.ok(size < PICTURE_BYTES_MAX, `${name}.png has ${size} bytes`);
}

const open = async (visit) => {
  for (const one of await visit.page.locator('details').all()) await one.evaluate((element) => (element.open = true));
};

const PHONE = { width: 390, height: 800 };

for (const colorScheme of ['light', 'dark'])
  test(`axe-core finds nothing serious on any page, ${colorScheme}`, async () => {
    const stranger = await dashboard.browser.visit(dashboard.base, { colorScheme });
    await stranger.goto('/sign-in');
    await stranger.isAccessible();
    await stranger.page.getByLabel('API key').fill('sk_no');
    await stranger.press('Sign in');
    await stranger.isAccessible();
    await stranger.end();
    const visit = await dashboard.signIn(account, { colorScheme });
    const flows = [waiting, failed, completed].map((id) => `/flows/${id}`);
    const executions = [good, bad].map(({ json }) => `/executions/${json.execution_id}`);
    const apps = ['gmail', 'probe', 'twilio', 'salesforce'].map((id) => `/integrations/${id}`);
    for (const path of [
      '/', '/?notice=connected', '/flows', '/flows/new', '/flows/new?template=unread_mail_to_tasks', ...flows,
      '/executions', '/executions?status=failed', ...executions, '/integrations', '/integrations?q=nothinglikeit', ...apps,
      '/keys', '/executions/00000000-0000-4000-8000-000000000000', '/connect/callback?state=none&code=none',
    ]) {
      await visit.goto(path);
      await open(visit);
      await visit.isAccessible();
      await visit.fits();
      await visit.page.setViewportSize(PHONE);
      await visit.fits();
      await visit.page.setViewportSize({ width: 1000, height: 900 });
    }
    await visit.goto('/keys');
    await visit.page.getByLabel('Name', { exact: true }).fill(`seen in ${colorScheme}`);
    await visit.page.getByRole('checkbox', { name: /^read/ }).check();
    await visit.press('Create the key');
    assert.equal(await visit.title(), 'The new key');
    await visit.isAccessible();
    await visit.end();
  });

for (const colorScheme of ['light', 'dark'])
  test(`pictures, ${colorScheme}`, async () => {
    await mkdir(PICTURES, { recursive: true });
    const visit = await dashboard.signIn(account, { colorScheme, viewport: { width: 1000, height: 860 } });
    for (const [name, path] of [['overview', '/'], ['flow', `/flows/${waiting}`], ['connect', '/integrations/zendesk']]) {
      await visit.goto(path);
      await picture(visit, `${name}-${colorScheme}`);
    }
    await visit.end();
  });
