// The reference of the API: every operation of openapi.json has a public page, whose curl call
// works as described. The browser caches the pages until they change. On the release build.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { Dashboard, PHONE } from './support/dashboard.mjs';

let dashboard, account, operations;

before(async () => {
  dashboard = await Dashboard.start({ bin: process.env.SLUICE_RELEASE_BIN });
  account = await dashboard.account('Reader');
  const document = (await dashboard.call(account, 'GET', '/openapi.json')).json;
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).filter(([, one]) => one.operationId).map(([method, one]) => ({ path, method: method.toUpperCase(), ...one })));
  assert.ok(operations.length > 25);
});
after(() => dashboard?.stop());

const byShell = async (command) => (await promisify(execFile)('sh', ['-c', command.replace('curl ', 'curl -s ')], { env: { ...process.env, SLUICE_KEY: account.key } })).stdout;

test('each operation has a public page: its input, each answer, its call', async () => {
  const ask = async (path) => (await fetch(dashboard.base + path)).text();
  const list = await ask('/docs');
  const inPage = (text) => text.replaceAll("'", '&#39;');
  for (const { operationId, summary, path, method, responses, security } of operations) {
    assert.ok(list.includes(`<a href="/docs/${operationId}">${inPage(summary)}</a></td><td><code>${method} ${path}</code>`), operationId);
    const page = await ask(`/docs/${operationId}`);
    assert.ok(page.includes(`${inPage(summary)}</h1>`), operationId);
    for (const status of Object.keys(responses)) assert.ok(page.includes(`<dt>${status}</dt>`), `${operationId} ${status}`);
    assert.equal(page.includes('$SLUICE_KEY'), security.length > 0, operationId);
    assert.ok(page.includes(`${dashboard.base}${path}`), operationId);
  }
});

for (const [how, options] of [['light', {}], ['dark, at 390 pixels', { ...PHONE, colorScheme: 'dark' }]])
  test(`axe finds nothing, and nothing is too wide, ${how}`, async () => {
    const visit = await dashboard.browser.visit(dashboard.base, options);
    for (const path of ['/docs', '/docs/createExecution', '/docs/watchFlow', '/docs/getHealth']) {
      await visit.goto(path);
      await visit.isAccessible();
      await visit.fits();
    }
    await visit.end();
  });

test('the members of a body, and a call that can be pasted', async () => {
  const visit = await dashboard.signIn(account);
  await visit.goto('/docs/createExecution');
  for (const name of ['integration_id', 'action_id', 'input', 'confirm', 'idempotency_key', 'Idempotency-Key']) await visit.sees(name);
  const command = await visit.page.locator('#curl').innerText();
  const reply = JSON.parse(await byShell(command));
  assert.equal(reply.status, 'succeeded', JSON.stringify(reply));
  await visit.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await visit.page.getByRole('button', { name: 'Copy' }).click();
  await visit.page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await visit.page.evaluate(() => navigator.clipboard.readText()), await visit.page.locator('#curl').textContent());
  await visit.goto('/docs/listFlows');
  assert.ok(JSON.parse(await byShell(await visit.page.locator('#curl').innerText())).flows);
  await visit.goto('/docs/none');
  assert.equal(await visit.title(), 'Not found');
  await visit.end();
});

test('the browser keeps a page, and asks whether it is still the same', async () => {
  const ask = async (headers) => {
    const reply = await fetch(`${dashboard.base}/docs/listFlows`, { headers });
    return { status: reply.status, etag: reply.headers.get('etag'), keeps: reply.headers.get('cache-control'), text: await reply.text() };
  };
  const first = await ask({});
  assert.deepEqual([first.status, first.keeps], [200, 'private, no-cache']);
  const again = await ask({ 'if-none-match': first.etag });
  assert.deepEqual([again.status, again.etag, again.text], [304, first.etag, '']);
  assert.equal((await ask({ 'if-none-match': 'W/"0000000000000000"' })).status, 200);
  assert.equal((await fetch(`${dashboard.base}/docs/none`, { headers: { accept: 'text/html' } })).headers.get('cache-control'), 'no-store');
});
