// What people fill in and press in the dashboard, in headless Chromium with JavaScript and without:
// choices and fields that fit what they are for, questions before what cannot be undone, forms that
// are sent twice, and sessions that end while one types.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Dashboard, PHONE } from './support/dashboard.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('Forms');
});
after(() => dashboard?.stop());

const WAYS = [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }], ['at 390 pixels', PHONE]];
const execute = (integration_id, action_id, input) => dashboard.call(account, 'POST', '/api/executions', { integration_id, action_id, input });

/* ---- what is shown ---- */

test('"Waiting for you" has what waits for a decision, and no timer', async () => {
  const visit = await dashboard.signIn(account);
  const timer = await dashboard.start(account, 'probe_wait', { seconds: 3600 });
  await dashboard.reaches(account, timer, 'waiting');
  const approval = await dashboard.startTasks(account);
  const linked = (id) => visit.page.locator(`main a[href="/flows/${id}"]`).count();
  await visit.goto('/');
  assert.deepEqual([await linked(approval), await linked(timer)], [1, 0]);
  await visit.goto('/flows?status=waiting');
  assert.deepEqual([await linked(approval), await linked(timer)], [1, 1]);
  await visit.page.getByLabel('Status').selectOption('waiting for approval');
  await visit.press('Show');
  assert.deepEqual([await linked(approval), await linked(timer)], [1, 0]);
  assert.equal(await visit.page.getByLabel('Status').inputValue(), 'approval');
  for (const id of [timer, approval]) await dashboard.call(account, 'POST', `/api/flows/${id}/cancel`, {});
  await visit.end();
});

test('the app of executions is chosen, not typed', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto('/executions');
  const names = await visit.page.getByLabel('App').locator('option').allInnerTexts();
  const { json } = await dashboard.call(account, 'GET', '/api/integrations?page_size=100');
  assert.deepEqual(names.sort(), ['any', ...json.items.map(({ name }) => name)].sort());
  await visit.page.getByLabel('App').selectOption('Notion');
  await visit.press('Show');
  assert.equal(new URL(visit.page.url()).searchParams.get('app'), 'notion');
  assert.equal(await visit.page.getByLabel('App').inputValue(), 'notion');
  await visit.goto('/executions?app=gone');
  assert.equal(await visit.page.getByLabel('App').inputValue(), 'gone', 'what the catalog does not have is still said');
  await visit.end();
});

test('a search of apps has the order of /api/search', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  for (const query of ['send', 'mail', 'task', 'message', 'issue', 'create page', 'invoice']) {
    const { json } = await dashboard.call(account, 'GET', `/api/search?limit=100&query=${encodeURIComponent(query)}`);
    const expected = [...new Set(json.items.map(({ integration_id }) => integration_id))];
    assert.ok(expected.length > 0, query);
    await visit.goto(`/integrations?q=${encodeURIComponent(query)}`);
    const links = await visit.page.locator('main .list h3 a').evaluateAll((all) => all.map((one) => one.getAttribute('href').split('/').at(-1)));
    assert.deepEqual(links.slice(0, expected.length), expected, query);
  }
  await visit.end();
});

test('a text of several lines has a field of several lines', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto('/flows/new?template=mail_with_reminder');
  const fields = await visit.page.locator('[name^="input."]').evaluateAll((all) => Object.fromEntries(all.map((one) => [one.name.slice(6), one.localName])));
  assert.deepEqual(fields, { to: 'input', subject: 'input', text: 'textarea', remindAfter: 'input', mailConnectionId: 'input' });
  await visit.page.locator('[name="input.subject"]').fill('x');
  await visit.page.locator('[name="input.to"]').fill('y');
  await visit.page.locator('[name="input.text"]').fill('One line\n\n  and another <&>');
  await visit.page.locator('[name="input.to"]').evaluate((field) => field.removeAttribute('required'));
  await visit.page.locator('[name="input.to"]').fill('');
  await visit.press('Start');
  await visit.page.getByRole('alert').waitFor();
  assert.equal(await visit.page.locator('[name="input.text"]').inputValue(), 'One line\n\n  and another <&>', 'what was typed is there again');
  await visit.page.locator('[name="input.to"]').fill('ada@example.com');
  await visit.press('Start');
  await visit.sees('The flow has started.');
  const id = visit.page.url().match(/\/flows\/([0-9a-f-]{36})/)[1];
  const { json } = await dashboard.call(account, 'GET', `/api/flows/${id}`);
  assert.equal(json.flow.input.text, 'One line\n\n  and another <&>');
  await dashboard.call(account, 'POST', `/api/flows/${id}/cancel`, {});
  await visit.end();
});

test('what Gmail escapes as HTML goes into other apps as it was written', async () => {
  const text = `"Quoted" it's <b> AT&T &amp; co`;
  await dashboard.provider.control('POST', '/mail', { from: 'a@b.example', subject: 'escapes here', text });
  const found = await execute('gmail', 'list_messages', { query: 'subject:"escapes here"' });
  const [{ id, threadId }] = found.json.output.messages;
  const message = await execute('gmail', 'get_message', { id, format: 'metadata' });
  assert.equal(message.json.output.snippet, text);
  assert.equal(message.json.output.subject, 'escapes here');
  assert.equal((await execute('gmail', 'get_message', { id, format: 'minimal' })).json.output.snippet, text);
  const thread = await execute('gmail', 'get_thread', { id: threadId });
  assert.deepEqual(thread.json.output.messages.map(({ snippet, subject }) => [snippet, subject]), [[text, 'escapes here']]);
  const threads = await execute('gmail', 'list_threads', { query: 'subject:"escapes here"' });
  assert.deepEqual(threads.json.output.threads.map(({ snippet }) => snippet), [text]);
  const flow = await dashboard.startTasks(account, { query: 'subject:"escapes here"' });
  const { json } = await dashboard.call(account, 'GET', `/api/flows/${flow}`);
  const [{ input }] = json.steps.find((step) => step.status === 'waiting').input.items;
  assert.equal(input.children[1].paragraph.rich_text[0].text.content, text);
  await dashboard.call(account, 'POST', `/api/flows/${flow}/approve`, {});
  await dashboard.reaches(account, flow, 'completed');
});
