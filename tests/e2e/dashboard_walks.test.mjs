// What a person does on the dashboard, with the number of presses it takes at most, in headless
// Chromium.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';

let dashboard;

before(async () => {
  dashboard = await Dashboard.start();
});
after(() => dashboard?.stop());

// A visit that counts what is pressed.
async function walk(account, path) {
  const visit = await dashboard.signIn(account);
  await visit.goto(path);
  let presses = 0;
  const press = async (target) => {
    presses++;
    await Promise.all([visit.page.waitForNavigation(), target.first().click()]);
  };
  return { visit, press, pressed: () => presses };
}

test('a mail is found by its recipient with two presses from the overview, without a script, too', async () => {
  const account = await dashboard.account('Find');
  const send = (to, subject, confirm = true) => dashboard.call(account, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to, subject, text: 'x' }, confirm });
  await send('bo@example.com', 'Lunch');
  const { json } = await send('eve.ng@example.com', 'Renewal of the contract');
  await send('bo@example.com', 'Dinner');
  await send('eve.ng@example.com', 'Not confirmed', false);
  for (const options of [{}, { javaScriptEnabled: false }]) {
    const visit = await dashboard.signIn(account, options);
    await visit.goto('/');
    await visit.page.getByRole('navigation').getByRole('link', { name: 'Executions' }).first().click();
    await visit.page.getByLabel('Words or id').fill('eve.ng@example.com');
    await visit.press('Show');
    assert.match(visit.page.url(), /q=eve/);
    assert.deepEqual(await visit.page.locator('tbody td:nth-child(2) a').first().getAttribute('href'), `/executions/${json.execution_id}`);
    assert.equal(await visit.page.locator('tbody tr').count(), 1);
    // no run, then those that were blocked
    await visit.goto('/executions?q=not+confirmed');
    await visit.press('were blocked');
    assert.match(visit.page.url(), /status=everything/);
    await until('the blocked run is stored', async () => {
      await visit.page.reload();
      return (await visit.page.locator('tbody tr').count()) === 1;
    });
    await visit.sees('policy_blocked');
    await visit.goto(`/executions?q=${json.execution_id}`);
    assert.equal(await visit.page.locator('tbody tr').count(), 1);
    assert.equal((await visit.page.goto(`${dashboard.base}/executions?q=%00`)).status(), 400);
    for (const q of ['a%01b', '!!', 'x'.repeat(201), Array(10_000).fill('w').join('+').slice(0, 6000), Array(17).fill('w').join('+')]) {
      const reply = await visit.page.goto(`${dashboard.base}/executions?q=${q}`);
      assert.equal(reply.status(), 400, q);
      await visit.sees('q must be 1 to 16 words');
    }
    await visit.end();
  }
});

test('why a group of blocked runs fails takes two presses from the overview, without a script, too', async () => {
  const account = await dashboard.account('Blocked group');
  const input = { to: 'ann@example.com', subject: 'Why', text: 'x' };
  let said;
  for (let i = 0; i < 3; i++) said = (await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input })).json;
  await until('they are counted', async () => (await dashboard.call(account, 'GET', '/api/stats')).json.by_error[0]?.blocked === 3);
  for (const options of [{}, { javaScriptEnabled: false }]) {
    const visit = await dashboard.signIn(account, options);
    await visit.press('Gmail: Send a message', visit.page.locator('#fails'));
    assert.equal(await visit.page.locator('tbody tr').count(), 3);
    await visit.press('Gmail: Send a message', visit.page.locator('tbody'));
    assert.equal(await visit.title(), 'Send a message was blocked');
    await visit.sees(`policy_blocked: ${said.message} ${said.hint}`);
    await visit.sees('ann@example.com');
    await visit.end();
  }
});

test('runs of a day, of a code, and everything', async () => {
  const account = await dashboard.account('Filters');
  const run = (input, more = {}) => dashboard.call(account, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_message', input, ...more });
  await run({ id: 'ffffffffffffffff' });
  await run({ id: 'eeeeeeeeeeeeeeee' });
  await run({});
  await until('the blocked run is stored', async () => Number(await dashboard.stack.cluster.sql(`select count(*) from sluice.audit_event where account_id = '${account.id}' and kind = 'execution.blocked'`)) === 1);
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  const count = async (query) => {
    await visit.goto(`/executions?${query}`);
    return visit.page.locator('tbody tr').count();
  };
  // the day may change during the test
  const [before, day] = [-1, 0].map((ago) => new Date(Date.now() + ago * 86_400_000).toISOString().slice(0, 10));
  assert.equal(await count(''), 2);
  assert.equal(await count('status=everything'), 3);
  assert.equal(await count('status=blocked'), 1);
  assert.equal(await count('status=everything&code=validation_error'), 1);
  assert.equal((await count('period=today&status=everything')) + (await count('period=yesterday&status=everything')), 3);
  assert.equal(await count(`from=${before}&to=${new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)}`), 2);
  assert.equal(await count(`to=${before}`), 0);
  assert.equal(await visit.page.getByLabel('To (UTC)').inputValue(), before);
  assert.equal(await count(`from=${day}&to=${before}`), 0);
  await visit.goto('/executions');
  await visit.page.getByLabel('Error code').selectOption('validation_error');
  await visit.page.getByLabel('Status').selectOption('everything');
  await visit.press('Show');
  assert.equal(await visit.page.locator('tbody tr').count(), 1);
  await visit.sees('blocked');
  await visit.end();
});

test('a flow is found by words of its title, and by its id', async () => {
  const account = await dashboard.account('Find flows');
  const id = await dashboard.startTasks(account, { maxResults: 1 });
  const read = await dashboard.start(account, 'unread_mail_summary', { maxResults: 1 });
  await dashboard.reaches(account, read, 'completed');
  const { title } = (await dashboard.call(account, 'GET', `/api/flows/${id}`)).json.flow;
  const found = async (q) => (await dashboard.call(account, 'GET', `/api/flows?q=${encodeURIComponent(q)}&fields=summary`)).json.flows.map((flow) => flow.id);
  assert.deepEqual(await found(title.toUpperCase()), [id], title);
  assert.deepEqual(await found(`${title} summary`), []);
  assert.deepEqual(await found('.*'.padStart(3, 'z')), []);
  assert.deepEqual(await found(read), [read]);
  // titles are split as the search is
  for (const [words, q, isFound] of [['«Plan» b', 'plan', true], ['¿Enviar correo?', 'enviar', true], ['发送：邮件', '邮件', true], ['🚀Launch', 'launch', true], ['asked_Ann', 'ann', true], ['asked Ann', 'ed', false], ['breakfast', 'fast', false],
    ['ÄRZTE FÜR ÉLODIE', 'für élodie ärzte', true], ['Договор ΟΔΟΣ', 'ДОГОВОР οδος', true], ['Ärzte', 'arzte', false], ['Ședința de luni', 'ședința', true], ['Έγκριση', 'ΈΓΚΡΙΣΗ', true], ['é'.repeat(40), 'É'.repeat(40), true], ['é'.repeat(29), 'É'.repeat(30), false]]) {
    await dashboard.stack.cluster.sql(`update sluice.flow set title = '${words}' where id = '${read}'`);
    assert.deepEqual(await found(q), isFound ? [read] : [], `${words}: ${q}`);
  }
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto('/flows');
  await visit.page.getByLabel('Words or id').fill(title);
  await visit.press('Show');
  assert.equal(await visit.page.locator('#flows tbody tr').count(), 1);
  await visit.goto(`/flows?q=${crypto.randomUUID()}`);
  await visit.sees('No flows');
  await visit.end();
});

const waiting = async (account, count) => {
  const ids = [];
  for (let i = 0; i < count; i++) ids.push(await dashboard.startTasks(account, { maxResults: 1 }));
  return ids;
};
const decisionOf = async (account, id) => (await dashboard.call(account, 'GET', `/api/flows/${id}`)).json.steps.find((step) => step.stepType === 'approval');
const isOpen = (visit, id) => assert.equal(new URL(visit.page.url()).pathname, `/flows/${id}`);

test('nine decisions in a row are approved with ten presses, and each page says what comes next', async () => {
  const account = await dashboard.account('Nine');
  const ids = await waiting(account, 9);
  const { visit, press, pressed } = await walk(account, '/approvals');
  assert.match(await visit.page.title(), /^\(9\) /);
  await press(visit.page.locator('#waiting .what'));
  const seen = [];
  for (let left = 9; left > 0; left--) {
    seen.push(new URL(visit.page.url()).pathname.split('/').at(-1));
    assert.match(await visit.page.title(), new RegExp(`^\\(${left}\\) `));
    const next = visit.page.locator('#flow-next');
    if (left > 2) assert.match(await next.textContent(), new RegExp(`Next: .+ \\(${left - 2} more\\)`));
    if (left === 2) assert.doesNotMatch(await next.textContent(), /more/);
    if (left === 1) assert.equal(await next.isVisible(), false);
    await press(visit.page.getByRole('button', { name: left > 1 ? 'Approve and show next' : /^Approve/ }));
    if (left > 1) await visit.sees('Your decision was recorded.');
  }
  assert.equal(pressed(), 10);
  assert.deepEqual(seen.toSorted(), ids.toSorted(), 'each decision once');
  for (const id of ids) await dashboard.reaches(account, id, 'completed');
  // the last decision is shown in place
  await visit.sees(/You approved this/);
  assert.doesNotMatch(await visit.page.title(), /^\(/);
  await visit.end();
});

test('a decision that was the last one leads to the inbox; a plain approval names the next decision', async () => {
  const account = await dashboard.account('Last');
  const [first, second] = await waiting(account, 2);
  const { visit, press } = await walk(account, `/flows/${first}`);
  const other = await walk(account, `/flows/${second}`);
  await press(visit.page.getByRole('button', { name: 'Approve 1 write', exact: true }));
  isOpen(visit, first);
  await press(visit.page.locator('#flow-next a'));
  isOpen(visit, second);
  // this page was loaded while two waited
  await other.press(other.visit.page.getByRole('button', { name: 'Approve and show next' }));
  assert.equal(new URL(other.visit.page.url()).pathname, '/approvals');
  await other.visit.sees('Nothing is waiting for a decision');
  for (const one of [visit, other.visit]) await one.end();
});

test('keys: J and K go through the decisions, A and R ask once, no letter of a text decides', async () => {
  const account = await dashboard.account('Keys');
  const ids = await waiting(account, 3);
  const { visit } = await walk(account, '/approvals');
  const { keyboard } = visit.page;
  const type = async (key, navigates = false) => Promise.all([navigates && visit.page.waitForNavigation(), keyboard.press(key)]);
  const focused = () => visit.page.evaluate(() => document.activeElement.pathname ?? document.activeElement.tagName);
  const order = await visit.page.locator('#waiting .what').evaluateAll((all) => all.map((one) => one.pathname));
  assert.deepEqual(order.toSorted(), ids.map((id) => `/flows/${id}`).toSorted());
  for (const [key, at] of [['j', 0], ['j', 1], ['k', 0], ['k', 2], ['j', 0]]) {
    await type(key);
    assert.equal(await focused(), order[at]);
  }
  await type('Enter', true);
  const here = () => new URL(visit.page.url()).pathname;
  for (const [key, at] of [['j', 1], ['j', 2], ['j', 0], ['k', 2], ['k', 1]]) {
    await type(key, true);
    assert.equal(here(), order[at]);
  }
  const asked = [];
  let agrees = false;
  visit.answer = (dialog) => {
    asked.push(dialog.message());
    return agrees ? dialog.accept() : dialog.dismiss();
  };
  const id = here().split('/').at(-1);
  const { title } = (await decisionOf(account, id)).input;
  // neither a text, nor a shortcut of the browser, nor a question that is refused
  await visit.page.getByLabel('Note').pressSequentially('jar? k');
  assert.equal(await visit.page.getByLabel('Note').inputValue(), 'jar? k');
  await visit.page.locator('h2#decision').focus();
  await keyboard.press('Alt+a');
  assert.deepEqual(asked, []);
  await keyboard.press('a');
  await keyboard.press('r');
  assert.deepEqual(asked, [`Approve "${title}"?`, `Reject "${title}"?`]);
  assert.equal((await decisionOf(account, id)).status, 'waiting');
  // the sheet lists the keys and takes none of them
  await keyboard.press('?');
  const sheet = visit.page.getByRole('dialog', { name: 'Keys' });
  await sheet.waitFor();
  await visit.isAccessible();
  await keyboard.press('a');
  assert.equal(asked.length, 2);
  await keyboard.press('Escape');
  await sheet.waitFor({ state: 'hidden' });
  await visit.page.getByRole('button', { name: 'Keys' }).click();
  await sheet.getByRole('button', { name: 'Close' }).click();
  // approved, then the next one is rejected; the note is sent with the decision
  agrees = true;
  await type('a', true);
  const decided = await decisionOf(account, id);
  assert.deepEqual([decided.status, decided.output.note], ['completed', 'jar? k']);
  assert.equal(here(), order[0], 'the first one that waits');
  const next = here().split('/').at(-1);
  await type('r', true);
  await dashboard.reaches(account, next, 'cancelled');
  await visit.end();
});

test('without a script the next decision is a button and a link', async () => {
  const account = await dashboard.account('No script');
  const ids = await waiting(account, 2);
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  await visit.goto(`/flows/${ids[0]}`);
  await visit.press('Approve and show next');
  isOpen(visit, ids[1]);
  await visit.press('Reject');
  await visit.sees(/You rejected this/);
  await visit.end();
});

// The settings of a program, as they are on the page of a key.
const settingsOf = async (visit, id) => (await visit.page.locator(`#use-${id}`).textContent()).trim();
async function connects({ url, server_url, headers }, expected) {
  const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'walk', version: '1' } } };
  const reply = await fetch(url ?? server_url, {
    method: 'POST', body: JSON.stringify(body),
    headers: { ...headers, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
  });
  assert.equal(reply.status, expected);
}

test('a read-only key with its first call and its MCP settings takes four presses', async () => {
  const account = await dashboard.account('First call');
  const { visit, press, pressed } = await walk(account, '/');
  await press(visit.page.getByRole('link', { name: 'API keys' }));
  await press(visit.page.getByRole('link', { name: 'New read-only key' }));
  await visit.page.getByLabel('Name', { exact: true }).fill('reader');
  await press(visit.page.getByRole('button', { name: 'Create the key' }));
  const key = await visit.page.locator('#new-key').textContent();
  await visit.isAccessible();
  await visit.sees('No call has arrived yet');
  const rows = await visit.page.locator('dl.rows').innerText();
  for (const words of ['reader', 'read:', 'execute:read:', 'Expires']) assert.ok(rows.includes(words), `${rows} lacks ${words}`);
  assert.doesNotMatch(rows, /admin|approve|execute:write/);
  // Each program's settings, once opened, connect with this key.
  for (const name of ['Claude Code', 'Cursor', 'VS Code', 'OpenAI']) await visit.page.locator('summary', { hasText: name }).click();
  assert.equal(pressed() + 1, 4, 'the first settings that are opened');
  const settings = [
    JSON.parse(await settingsOf(visit, 'cursor')).mcpServers.sluice,
    JSON.parse(await settingsOf(visit, 'vscode')).servers.sluice,
    JSON.parse(await settingsOf(visit, 'openai')),
  ];
  const [, url, header] = (await settingsOf(visit, 'claude')).match(/^claude mcp add --transport http sluice (\S+) --header "Authorization: (.+)"$/);
  settings.push({ url, headers: { Authorization: header } });
  const navigations = visit.navigations;
  // The page says by itself that the first call has arrived: that of the pasted command.
  const { stdout } = await promisify(execFile)('sh', ['-c', `${await settingsOf(visit, 'curl')} -s`]);
  assert.ok(JSON.parse(stdout).items.length > 0, stdout);
  await visit.page.getByText('This key has been used.').waitFor();
  assert.equal(visit.navigations, navigations);
  assert.equal(await visit.page.locator('#new-key').textContent(), key, 'the key stays on the page');
  for (const one of settings) await connects(one, 200);
  const write = { integration_id: 'gmail', action_id: 'send_message', confirm: true, input: { to: 'ada@example.com', subject: 'No', text: 'No' } };
  assert.equal((await dashboard.call({ key }, 'POST', '/api/executions', write)).status, 403);
  await visit.end();
});

test('the page of a key without its text: what it may do, its use, and what another account sees', async () => {
  const account = await dashboard.account('Key page');
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  const makes = async (name, scopes) => {
    await visit.goto('/keys/new');
    await visit.page.getByLabel('Name', { exact: true }).fill(name);
    for (const scope of scopes) await visit.page.getByRole('checkbox', { name: scope }).check();
    await visit.press('Create the key');
    const key = await visit.page.locator('#new-key').textContent();
    await visit.goto('/keys');
    await visit.press(name);
    return { key, path: new URL(visit.page.url()).pathname };
  };
  const approver = await makes('only approves', [/^approve/]);
  assert.equal(await visit.title(), 'only approves');
  assert.equal(await visit.page.locator('#use-curl, #use-cursor').count(), 0, 'no call that this key could make is offered');
  const { key, path } = await makes('used', [/^read/]);
  assert.equal((await visit.page.content()).includes(key), false);
  await visit.sees('No call has arrived yet');
  await visit.sees('SLUICE_KEY=YOUR_KEY');
  const events = async (who) => (await fetch(`${dashboard.base}${path}/events`, { headers: { cookie: (await who.context.cookies()).map((one) => `${one.name}=${one.value}`).join('; ') } })).text();
  assert.equal(await events(visit), 'retry: 2000\n\n');
  await connects({ url: `${dashboard.base}/mcp`, headers: { Authorization: `Bearer ${key}` } }, 200);
  await until('the use is recorded', async () => (await events(visit)) === 'retry: 2000\ndata: used\n\n');
  await visit.page.reload();
  await visit.sees('This key has been used.');
  // its runs by day, also those for users of the account
  await visit.sees('No runs with this key were counted.');
  const midnight = `date_trunc('day', now() at time zone 'UTC') at time zone 'UTC'`, used = path.split('/').at(-1);
  // the older days have no durations, as of the version before
  await dashboard.stack.cluster.sql(`insert into sluice.usage select '${account.id}', ${midnight} - n * interval '1 day', key, owner, 6, 2, 1, 3, 0, (case when n < 4 then '{0,0,15,0,0,0,0,0,0,0,0,5,0,0,0,0}' else '{}' end)::bigint[]
    from generate_series(0, 31, 2) n, unnest(array['${used}', '${approver.path.split('/').at(-1)}', gen_random_uuid()]::uuid[]) key, unnest(array['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']::uuid[]) owner where key = '${used}' or n < 4`);
  await visit.page.reload();
  const kpis = async () => (await visit.page.locator('.kpi').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
  assert.deepEqual(await kpis(), ['330 runs with this key', '12.5 % of all calls that were tried', '1.8 s 95 % of calls took less. The median is 33 ms.']);
  assert.equal(await visit.page.locator('.chart path.line').count(), 3, 'the share, the median and p95');
  assert.equal(await visit.page.getByRole('link', { name: 'See which' }).count(), 0);
  await visit.page.getByText('The numbers as a table').click();
  const days = visit.page.locator('section[aria-labelledby=runs] tbody tr');
  assert.equal(await days.count(), 15);
  assert.deepEqual(await days.first().locator('td').allTextContents(), [new Date().toISOString().slice(0, 10), '12', '4', '2', '6', '12.5 %', '1.8 s']);
  assert.equal(await days.last().locator('td').last().textContent(), '-');
  const scripted = await dashboard.signIn(account);
  await scripted.goto(path);
  await scripted.isAccessible();
  await scripted.end();
  await visit.press('Revoke');
  await visit.press('Revoke the key');
  await visit.goto(path);
  assert.equal(await visit.page.locator('#use').count(), 0);
  await visit.goto(approver.path);
  await visit.sees('No call has arrived yet');
  const stranger = await dashboard.signIn(await dashboard.account('Stranger'));
  for (const where of [path, `${path}/events`]) assert.equal((await stranger.goto(where)).status(), 404);
  for (const one of [visit, stranger]) await one.end();
});
