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
  await visit.page.getByRole('button', { name: 'Copy', exact: true }).waitFor();
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

test('the first five minutes: its commands, pasted in order, end with an approved flow', async () => {
  const visit = await dashboard.signIn(account);
  await visit.goto('/docs');
  await visit.press('From a key to an approved flow');
  await visit.isAccessible();
  await visit.fits();
  const parts = ['key', 'read', 'write', 'flow', 'yes'];
  const commands = await Promise.all(parts.map((part) => visit.page.locator(`#start-${part}`).textContent()));
  const script = commands.join('\necho\n').replace('YOUR_KEY', account.key).replaceAll('curl ', 'curl -s ');
  const { stdout } = await promisify(execFile)('sh', ['-c', script]);
  const [read, write, waits, approved] = stdout.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
  assert.deepEqual([read.status, read.output.threads.length], ['succeeded', 3]);
  assert.deepEqual([write.status, write.display.summary], ['succeeded', 'To you@example.com: Hello']);
  assert.equal(waits.flow.status, 'waiting');
  assert.equal(approved.flow.id, waits.flow.id);
  const flow = await dashboard.call(account, 'GET', `/api/flows/${waits.flow.id}`);
  assert.equal(flow.json.steps.find((step) => step.stepType === 'approval').status, 'completed');
  await visit.end();
});

test('each code of an error has a meaning on its page, where links to it lead', async () => {
  const visit = await dashboard.signIn(account);
  const { components } = JSON.parse(await (await fetch(`${dashboard.base}/openapi.json`)).text());
  const kinds = [['', components.schemas.ErrorCode], ['exact-', components.schemas.ToolError.properties.code]];
  await visit.goto('/docs');
  await visit.press('Error codes');
  for (const [prefix, schema] of kinds) {
    assert.deepEqual(Object.keys(schema['x-enumDescriptions']), schema.enum);
    for (const code of schema.enum) {
      const row = await visit.page.locator(`tr#${prefix}${code}`).innerText();
      assert.ok(row.includes(code) && row.includes(schema['x-enumDescriptions'][code]), row);
    }
  }
  await visit.isAccessible();
  await visit.fits();
  // from an execution that failed
  const { json } = await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_message', input: { id: '1999999999999999' } });
  assert.equal(json.status, 'failed');
  for (const path of ['/executions?status=failed', `/executions/${json.execution_id}`]) {
    await visit.goto(path);
    await visit.press(json.error_code);
    assert.equal(visit.page.url(), `${dashboard.base}/docs/errors#${json.error_code}`);
  }
  await visit.end();
});

test("an action's page lists the fields of its input", async () => {
  const visit = await dashboard.signIn(account);
  await visit.goto('/integrations/gmail/actions/list_messages');
  const { json } = await dashboard.call(account, 'GET', '/api/actions/gmail/list_messages');
  const { properties } = json.input_schema;
  const terms = await visit.page.locator('section[aria-labelledby=fields] dt').allInnerTexts();
  assert.deepEqual(terms, Object.keys(properties));
  const texts = await visit.page.locator('section[aria-labelledby=fields] dd').allInnerTexts();
  assert.ok(texts.every((text, i) => text.includes(properties[terms[i]].description ?? '') && text.startsWith(properties[terms[i]].type.replace('array', 'list of '))), texts.join('\n'));
  await visit.isAccessible();
  await visit.goto('/integrations/gmail/actions/send_message');
  assert.match(await visit.page.locator('section[aria-labelledby=fields]').innerText(), /to\n[^\n]*, required/);
  await visit.end();
});
