// The dashboard as people use it, in headless Chromium: sign in, look around, start, approve,
// reject and resume, with JavaScript, without it, and on a phone. dashboard_safety.test.mjs tests
// what must be true of every page, and dashboard_connect.test.mjs tests connecting.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { hold } from './support/client.mjs';
import { APPROVE, Dashboard, PHONE } from './support/dashboard.mjs';
import { credentials } from './support/stack.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('Dashboard');
});
after(async () => {
  try {
    if (account) dashboard.judge({ key: account.key, mail: credentials.gmail.access_token, notes: credentials.notion.access_token });
  } finally {
    await dashboard?.stop();
  }
});

const flowOf = (visit) => visit.page.url().match(/\/flows\/([0-9a-f-]{36})/)[1];
const stepsOf = (visit) => visit.page.locator('.steps > li');

async function signIn(visit) {
  await visit.goto('/flows?status=waiting');
  assert.equal(await visit.title(), 'Sign in');
  await visit.page.getByLabel('API key').fill('sk_0000000000000000000000000000000000000000000');
  await visit.press('Sign in');
  await visit.sees('unknown, expired or revoked');
  await visit.page.getByLabel('API key').fill(account.key);
  await visit.press('Sign in');
  assert.equal(await visit.title(), 'Flows', 'the page that was requested');
  assert.equal(new URL(visit.page.url()).search, '?status=waiting');
}

// Goes from /flows/new to a page that shows every task that the flow would create.
async function startTasks(visit, number) {
  await visit.goto('/flows/new');
  await visit.press('Unread mail to tasks');
  await visit.page.locator('[name="input.taskParent"]').fill(JSON.stringify(dashboard.taskParent));
  await visit.page.locator('[name="input.maxResults"]').fill(`${number}`);
  await visit.press('Start');
  await visit.sees('The flow has started.');
  const id = flowOf(visit);
  await dashboard.reaches(account, id, 'waiting');
  return id;
}

// Does not load another page: the bar announces the decision if the page did not show it from the
// start.
async function comesToDecision(visit) {
  const [approve, show] = [APPROVE, 'Show it'].map((name) => visit.page.getByRole('button', { name }));
  await approve.or(show).first().waitFor();
  if (await show.isVisible()) await show.click();
  await approve.waitFor();
}

async function seesItems(visit, id) {
  const flow = await dashboard.reaches(account, id, 'waiting');
  const { items } = flow.steps.find((step) => step.status === 'waiting').input;
  const shown = await visit.page.locator('main').textContent();
  for (const { input } of items) {
    const strings = [];
    JSON.stringify(input, (key, value) => (typeof value === 'string' && strings.push(value), value));
    assert.ok(strings.length > 3);
    for (const text of strings) assert.ok(shown.includes(text), `"${text}" is not shown`);
  }
  return items;
}

async function approve(visit, id, note) {
  const items = await seesItems(visit, id);
  assert.equal((await visit.page.locator('.items > li').count()), items.length);
  const before = (await dashboard.pagesMade()).length;
  await visit.page.getByLabel('Note').fill(note);
  await visit.press('Approve');
  await visit.sees(/You approved this, .*(The flow continues|The flow has completed)/);
  return { before, items };
}

async function isDone(id, { before, items }, note) {
  const flow = await dashboard.reaches(account, id, 'completed');
  assert.equal(flow.steps.find((step) => step.stepType === 'approval').output.note, note);
  const made = (await dashboard.pagesMade()).slice(before);
  assert.deepEqual(made.sort(), items.map((item) => item.input.title).sort());
}

test('sign in, start a flow, approve exactly what is shown, and watch the end without reloading', async () => {
  const visit = await dashboard.browser.visit(dashboard.base);
  await signIn(visit);
  await visit.goto('/');
  await visit.sees('Gmail');
  await visit.sees('Notion');
  const id = await startTasks(visit, 3);
  const before = visit.navigations;
  await comesToDecision(visit);
  assert.equal(visit.navigations, before);
  // the provider holds the writes until the page shows the running step
  const held = await hold(dashboard.provider, { method: 'POST', path_prefix: '/v1/pages' });
  const done = await approve(visit, id, 'go ahead');
  const navigations = visit.navigations;
  const token = await visit.page.evaluate(() => (globalThis.sameDocument = Math.random()));
  await held.reached(1);
  await held.letGo();
  await visit.page.locator('[role=status] .badge', { hasText: 'completed' }).waitFor();
  assert.equal(await visit.page.evaluate(() => globalThis.sameDocument), token);
  assert.equal(visit.navigations, navigations, 'no page was loaded meanwhile');
  // the tasks are created below a page, so no data source was looked up
  const badges = await Promise.all((await stepsOf(visit).all()).map((step) => step.locator('.badge').innerText()));
  assert.deepEqual([...new Set(badges)].sort(), ['completed', 'skipped']);
  assert.equal(badges.filter((text) => text === 'skipped').length, 1);
  await isDone(id, done, 'go ahead');
  await visit.goto('/flows?status=completed');
  assert.ok(await visit.page.locator(`a[href="/flows/${id}"]`).count());
  await visit.press('Sign out');
  await visit.sees('You are signed out.');
  await visit.goto('/');
  assert.equal(await visit.title(), 'Sign in');
  await visit.end();
});

test('the same without JavaScript', async () => {
  const visit = await dashboard.browser.visit(dashboard.base, { javaScriptEnabled: false });
  await signIn(visit);
  const id = await startTasks(visit, 2);
  await visit.page.reload();
  const done = await approve(visit, id, 'by hand');
  await isDone(id, done, 'by hand');
  await visit.page.reload();
  assert.match(await visit.page.locator('main [role=status] .badge').first().innerText(), /completed/);
  await visit.end();
});

test('the same at 390 pixels: nothing is wider than the screen', async () => {
  const visit = await dashboard.browser.visit(dashboard.base, PHONE);
  await signIn(visit);
  const id = await startTasks(visit, 2);
  await comesToDecision(visit);
  for (const one of await visit.page.locator('details').all()) await one.evaluate((element) => (element.open = true));
  await visit.fits();
  const done = await approve(visit, id, 'on the way');
  await isDone(id, done, 'on the way');
  const { json } = await dashboard.call(account, 'POST', '/api/executions', {
    integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 2 },
  });
  for (const path of ['/', '/flows', '/flows/new', '/flows/new?template=unread_mail_to_tasks', '/flows/' + id, '/executions', '/executions/' + json.execution_id]) {
    await visit.goto(path);
    for (const one of await visit.page.locator('details').all()) await one.evaluate((element) => (element.open = true));
    await visit.fits();
  }
  await visit.end();
});

test('reject: nothing is made, and the note is stored', async () => {
  const visit = await dashboard.signIn(account);
  const before = await dashboard.pagesMade();
  const id = await dashboard.startTasks(account);
  await visit.goto(`/flows/${id}`);
  await visit.page.getByLabel('Note').fill('not these');
  await visit.press('Reject');
  await visit.sees(/rejected\s+You rejected this, .* The flow has ended\./);
  const flow = await dashboard.reaches(account, id, 'cancelled');
  assert.match(JSON.stringify(flow.steps.find((step) => step.stepType === 'approval')), /not these/);
  assert.deepEqual(await dashboard.pagesMade(), before);
  assert.equal(await visit.page.getByRole('button', { name: APPROVE }).count(), 0);
  await visit.end();
});

test('a stale page approves nothing', async () => {
  // without the script that would update the page
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  const id = await dashboard.startTasks(account);
  await visit.goto(`/flows/${id}`);
  const before = await dashboard.pagesMade();
  const approved = await dashboard.call(account, 'POST', `/api/flows/${id}/approve`, {});
  assert.equal(approved.status, 200, approved.text);
  await visit.press('Approve');
  assert.equal(await visit.title(), 'Already approved');
  await visit.sees('You already approved this, 20');
  await dashboard.reaches(account, id, 'completed');
  assert.equal((await dashboard.pagesMade()).length, before.length + 2);
  await visit.end();
});

test('a flow that failed continues after the cause is repaired', async () => {
  const visit = await dashboard.signIn(account);
  await dashboard.provider.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, action: { status: 400 } }]);
  const id = await dashboard.startTasks(account);
  await visit.goto(`/flows/${id}`);
  await visit.press('Approve');
  await visit.page.locator('[role=status] .badge', { hasText: 'failed' }).waitFor();
  await visit.goto('/');
  assert.ok(await visit.page.locator(`a[href="/flows/${id}"]`).count(), 'the overview shows it');
  await visit.goto(`/flows/${id}`);
  await dashboard.provider.faults([]);
  await visit.press('Resume');
  await visit.sees(/You approved this, .*(The flow continues|The flow has completed)/);
  await visit.page.locator('[role=status] .badge', { hasText: 'completed' }).waitFor();
  await visit.end();
});

test('executions: the list, its filters, and one in detail', async () => {
  const visit = await dashboard.signIn(account);
  const good = await dashboard.call(account, 'POST', '/api/executions', {
    integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 3 },
  });
  const bad = await dashboard.call(account, 'POST', '/api/executions', {
    integration_id: 'notion', action_id: 'get_page', input: { page_id: '00000000-0000-4000-8000-000000000000' },
  });
  const [yes, no] = [good, bad].map((reply) => `a[href="/executions/${reply.json.execution_id}"]`);
  await visit.goto('/executions');
  assert.deepEqual([await visit.page.locator(yes).count(), await visit.page.locator(no).count()], [1, 1]);
  const said = async (link) => (await visit.page.locator('tr', { has: visit.page.locator(link) }).innerText()).replace(/\s+/g, ' ');
  assert.ok(good.json.display.summary && (await said(yes)).includes(` List messages ${good.json.display.summary} `), await said(yes));
  assert.ok((await said(no)).includes(`${bad.json.error_code} ${bad.json.message}`), await said(no));
  await visit.page.getByLabel('Status').selectOption('failed');
  await visit.press('Show');
  assert.deepEqual([await visit.page.locator(yes).count(), await visit.page.locator(no).count()], [0, 1]);
  await visit.page.getByLabel('Status').selectOption('');
  await visit.page.getByLabel('App').selectOption('Gmail');
  await visit.press('Show');
  assert.deepEqual([await visit.page.locator(yes).count(), await visit.page.locator(no).count()], [1, 0]);
  await visit.page.locator(yes).click();
  await visit.page.waitForURL(/\/executions\/[0-9a-f]/);
  await visit.sees(good.json.execution_id);
  await visit.sees('Gmail: List messages, took');
  await visit.sees('resultSizeEstimate');
  assert.ok(!/and 0 more|has 0 bytes/.test(await visit.text()));
  const command = await visit.page.locator('#curl').textContent();
  const { stdout } = await promisify(execFile)('sh', ['-c', command.replace('curl ', 'curl -s ')], { env: { ...process.env, SLUICE_KEY: account.key } });
  assert.equal(JSON.parse(stdout).status, 'succeeded', `${command}\n${stdout}`);
  await visit.goto(`/executions/${bad.json.execution_id}`);
  await visit.sees(bad.json.error_code);
  await visit.end();
});

for (const [how, options] of [['', {}], [' without JavaScript', { javaScriptEnabled: false }]])
  test(`executions: by action, code and time, blocked ones, newer and older${how}`, async () => {
    const person = await dashboard.account(`Filters${how}`);
    const run = (integration_id, action_id, input, more) => dashboard.call(person, 'POST', '/api/executions', { integration_id, action_id, input, ...more });
    const visit = await dashboard.signIn(person, options);
    const shown = () => visit.page.locator('tbody td:nth-child(2) > a').evaluateAll((links) => links.map((link) => link.getAttribute('href').split('/').at(-1)));
    const runs = [];
    for (let i = 0; i < 30; i++) runs.unshift((await run('gmail', 'list_messages', { maxResults: 1 })).json.execution_id);
    const { execution_id, error_code } = (await run('notion', 'get_page', { page_id: '00000000-0000-4000-8000-000000000000' })).json;
    runs.unshift(execution_id);
    assert.equal((await run('gmail', 'send_message', { to: 'a@b.example', subject: 's', text: 't' })).status, 409);
    await visit.goto('/executions?period=1h');
    assert.deepEqual(await shown(), runs.slice(0, 25));
    assert.equal(await visit.page.getByRole('link', { name: 'Newer' }).count(), 0);
    await visit.press('Older');
    assert.deepEqual(await shown(), runs.slice(25));
    assert.equal(await visit.page.getByLabel('When').inputValue(), '1h');
    await visit.press('Newer');
    assert.deepEqual(await shown(), runs.slice(0, 25));
    await visit.page.getByLabel('Error code').selectOption(error_code);
    await visit.press('Show');
    assert.deepEqual(await shown(), [execution_id]);
    await visit.sees('Notion: Get a page');
    await visit.goto('/executions?app=gmail&code=none');
    await visit.sees('No executions.');
    await visit.page.getByLabel('Error code').selectOption('');
    await visit.page.getByLabel('Action').selectOption('Get a message');
    await visit.press('Show');
    assert.deepEqual(await shown(), []);
    await visit.page.getByLabel('Action').selectOption('Send a message');
    await visit.page.getByLabel('Status').selectOption('blocked');
    await visit.press('Show');
    await visit.sees('Gmail: Send a message');
    assert.equal(await visit.page.locator('tbody tr').count(), 1);
    await visit.goto('/executions?app=notion&status=blocked');
    await visit.sees('No executions.');
    const other = JSON.parse(await dashboard.stack.must(['keys', 'create', person.id, '--name', 'night shift', '--json']));
    const { json } = await dashboard.call({ key: other.key }, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: {} });
    await dashboard.call({ key: other.key }, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@b.example', subject: 's', text: 't' } });
    await visit.goto(`/executions/${json.execution_id}`);
    await visit.sees('the key night shift');
    await visit.press('night shift');
    assert.equal(await visit.page.locator('tbody tr').count(), 1);
    assert.equal(await visit.page.locator('tbody td > a').first().getAttribute('href'), `/executions/${json.execution_id}`);
    await visit.page.getByLabel('Status').selectOption('blocked');
    await visit.press('Show');
    assert.equal(await visit.page.locator('tbody tr').count(), 1);
    assert.equal(await visit.page.getByLabel('By', { exact: true }).locator('option:checked').innerText(), 'night shift');
    await visit.page.getByLabel('By', { exact: true }).selectOption('any key');
    await visit.page.getByLabel('Status').selectOption('');
    await visit.press('Show');
    assert.equal(await visit.page.locator('tbody tr').count(), 25);
    await visit.end();
  });
