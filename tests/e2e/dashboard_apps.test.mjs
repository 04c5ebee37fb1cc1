// What people read on the pages of apps, of connections and of API keys.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { credentials } from './support/stack.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('apps');
});
after(() => dashboard?.stop());

test('an app: its actions with their effect, what a connection must be allowed to do in words, and the curl call of one', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  // three clicks from Overview
  await visit.press('Apps');
  await visit.press('Gmail');
  const rows = Object.fromEntries((await visit.page.locator('section:has(#actions) tbody tr').allInnerTexts()).map((row) => row.trim().split(/\s*\t\s*/)).map(([title, ...rest]) => [title, rest]));
  const { actions } = JSON.parse(await readFile(new URL('../../contrib/integrations/gmail.json', import.meta.url), 'utf8'));
  assert.equal(Object.keys(rows).length, actions.length);
  // each action that cannot be undone is marked
  assert.deepEqual(Object.keys(rows).sort(), actions.map(({ title, undo }) => title + (undo === 'never' ? ' cannot be undone' : '')).sort());
  assert.deepEqual(rows['Send a message cannot be undone'].slice(0, 3), ['write', '-', 'needed']);
  assert.deepEqual(rows['List messages'].slice(0, 3), ['read', '-', 'none']);
  await visit.press('Send a message');
  await visit.sees('cannot be undone');
  await visit.sees('Read, write and send your mail, and move it to the trash; not delete it for good https://www.googleapis.com/auth/gmail.modify');
  const curl = await visit.page.locator('#curl').innerText();
  const [example] = actions.find(({ action_id }) => action_id === 'send_message').examples;
  assert.deepEqual(JSON.parse(curl.slice(curl.indexOf("-d '") + 4, -1)), { integration_id: 'gmail', action_id: 'send_message', input: example.input });
  // the curl call on the page does not confirm, so it sends nothing
  const reply = await dashboard.call(account, 'POST', '/api/executions', JSON.parse(curl.slice(curl.indexOf("-d '") + 4, -1)));
  assert.equal(reply.json.error_code, 'policy_blocked', reply.text);
  await visit.goto('/integrations/gmail/actions/nothing');
  await visit.sees('This app has no such action.');
  await visit.end();
});

test('a connection: what it may do, scopes in words, and nothing that one click or a link could end', async () => {
  const own = await dashboard.account('one <i>connection</i>', { apps: [] });
  await dashboard.stack.connect(own.id, 'gmail', credentials.gmail, ['--label', 'inbox <b>', '--scopes', 'https://www.googleapis.com/auth/gmail.readonly']);
  const [{ id }] = (await dashboard.call(own, 'GET', '/api/connections')).json.connections;
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  await visit.goto(`/connections/${id}`);
  assert.equal(await visit.title(), 'inbox <b>');
  const may = await visit.page.locator('section:has(#may)').innerText();
  assert.match(may, /Read: [^\n]*Get a message/);
  assert.doesNotMatch(may, /Send a message/);
  // a scope that was granted without a request is also shown in words
  await visit.sees(/Read your mail and its settings https:\/\/www\.googleapis\.com\/auth\/gmail\.readonly\s+granted/);
  await visit.sees(/not delete it for good\s+https:\/\/www\.googleapis\.com\/auth\/gmail\.modify\s+not granted/);
  await visit.sees('Actions refused without these permissions');
  await visit.press('All actions');
  const scope = async (title) => (await visit.page.locator('section:has(#actions) tbody tr', { has: visit.page.getByRole('link', { name: title, exact: true }) }).innerText()).split(/\s*\t\s*/);
  assert.deepEqual([await scope('Get a message'), await scope('Send a message')], [['Get a message', 'read', 'granted', 'none'], ['Send a message not granted cannot be undone', 'write', 'missing', 'needed']]);
  await visit.goto(`/connections/${id}`);
  // the confirmation is a page; opening it does nothing
  await visit.press('Disconnect');
  await visit.sees('Calls that use it are refused until the app is connected again.');
  await visit.press('Keep the connection');
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections')).json;
  assert.deepEqual(connections.map((one) => [one.id, one.status]), [[id, 'live']]);
  await visit.end();
});

test('a connection: how often its app is called, and the calls through it, here and before it is disconnected', async () => {
  const own = await dashboard.account('users of one');
  const { as } = await dashboard.keyOf(own, 'mail-agent');
  const [gmail, notion] = await Promise.all(['gmail', 'notion'].map(async (app) => (await dashboard.call(own, 'GET', `/api/connections?integration_id=${app}`)).json.connections[0].id));
  // 30 hours of counts, of which the page shows 24; it shows none of another app
  await dashboard.counted(own, [['gmail', 'list_messages', 'succeeded', '', 40], ['gmail', 'get_message', 'failed', 'timeout', 2], ['gmail', 'get_message', 'blocked', 'rate_limited', 1]], 30);
  assert.equal((await dashboard.call(as, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: {} })).status, 200);
  const id = await dashboard.startTasks(own);
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  await visit.goto(`/connections/${gmail}`);
  const hours = await visit.page.locator('.plot .hit title').allTextContents();
  assert.equal(hours.length, 24);
  assert.equal(hours.filter((text) => text.endsWith(': 40 succeeded, 2 failed, 1 blocked')).length >= 22, true, hours.join('\n'));
  const users = async () => (await visit.page.locator('section:has(#users)').innerText()).replace(/\s+/g, ' ');
  assert.match(await users(), /Flows No running or waiting flow has a remaining step that uses it\. Templates .*Unread mail summary .*Keys mail-agent 1 Calls Of the newest executions \(at most 200\), 1 used this connection; 0 failed\. Calls of flows are not among them\.\s*$/);
  assert.doesNotMatch(await users(), /Reschedule tasks/);
  await visit.fits();
  await visit.press('mail-agent');
  assert.match(await visit.page.locator('tbody tr').innerText(), /Gmail: List messages/);
  await visit.goto(`/connections/${notion}`);
  await visit.sees('No calls to Notion were counted.');
  assert.match(await users(), /Flows waiting Task pages in Notion for unread mails Templates Reschedule tasks Unread mail to tasks Keys None in the newest 200 executions\. Calls Of the newest executions \(at most 200\), 0 used this connection; 0 failed\. Calls of flows are not among them\.\s*$/);
  await visit.press('Disconnect');
  await visit.sees('1 running or waiting flow still has a step that uses it');
  assert.equal(await visit.page.locator('main .list a').getAttribute('href'), `/flows/${id}`);
  assert.equal(await visit.page.getByText('Some of the latest calls').count(), 0);
  await visit.goto(`/connections/${gmail}/delete`);
  await visit.sees('Some of the latest calls used it with the key mail-agent');
  await visit.end();
});

test('API keys: scopes in words, last use, and a question before one is revoked', async () => {
  const own = await dashboard.account('keys', { apps: [] });
  const made = JSON.parse(await dashboard.stack.must(['keys', 'create', own.id, '--name', 'agent <b>', '--scopes', 'read,execute', '--json']));
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  await visit.press('API keys');
  const row = visit.page.locator('tbody tr', { hasText: made.prefix });
  assert.match(await row.innerText(), /agent <b>[\s\S]*read: read apps, executions and flows\s+execute: run actions, start flows, connect apps\s+never\s+never\s+valid/);
  const ask = () => dashboard.call({ key: made.key }, 'GET', '/api/integrations');
  assert.equal((await ask()).status, 200);
  await until('its last use is shown', async () => {
    await visit.page.reload();
    return (await row.locator('td:nth-child(3) time').count()) === 1;
  });
  await visit.press(`Revoke agent <b> ${made.prefix}`);
  assert.equal(await visit.title(), 'Revoke the key agent <b>?');
  assert.equal((await ask()).status, 200);
  await visit.press('Revoke the key');
  await visit.sees('The key was revoked');
  assert.match(await row.innerText(), /revoked/);
  assert.deepEqual(await row.getByRole('link').allInnerTexts(), ['agent <b>']);
  await until('it is refused', async () => (await ask()).status === 401);
  await visit.end();
});

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }]])
  test(`a new key: a page of its own, a name and scopes first, limited to certain addresses; ${how}`, async () => {
    const own = await dashboard.account(`new key ${how}`, { apps: [] });
    const visit = await dashboard.signIn(own, options);
    const keys = async () => JSON.parse(await dashboard.stack.must(['keys', 'list', own.id, '--json'])).length;
    await visit.goto('/keys');
    await visit.press('New key');
    assert.equal(new URL(visit.page.url()).pathname, '/keys/new');
    await visit.press('Cancel');
    assert.equal(new URL(visit.page.url()).pathname, '/keys');
    const make = async (name, scopes, addresses) => {
      await visit.goto('/keys/new');
      await visit.page.getByLabel('Name', { exact: true }).fill(name);
      for (const scope of scopes) await visit.page.getByRole('checkbox', { name: scope }).check();
      await visit.page.getByLabel('Only from these addresses').fill(addresses);
      await visit.press('Create the key');
    };
    // without a scope or an address, nothing is created, and the typed text is still shown
    await make('none', [], '');
    await visit.sees('Choose at least one of the scopes');
    await make('none', [/^read/], '10.1.2.3/16 <b>');
    await visit.sees('Refused: the network "10.1.2.3/16" has bits set after its prefix.');
    assert.equal(await visit.page.getByLabel('Only from these addresses').inputValue(), '10.1.2.3/16 <b>');
    assert.equal(await visit.page.getByRole('checkbox', { name: /^read/ }).isChecked(), true);
    assert.equal(await keys(), 1);
    const ask = async (addresses) => {
      await make('bound', [/^read/], addresses);
      assert.equal(await visit.title(), 'The new key');
      const key = (await visit.page.locator('#new-key').innerText()).trim();
      return (await dashboard.call({ key }, 'GET', '/api/integrations?page_size=1')).status;
    };
    assert.equal(await ask('10.1.0.0/16, 2001:db8::1'), 403);
    assert.equal(await ask('127.0.0.0/8 ::1'), 200);
    assert.equal(await ask(''), 200);
    assert.equal(await keys(), 4);
    await visit.goto('/keys');
    await visit.sees('only from 10.1.0.0/16 2001:db8::1');
    await visit.end();
  });

test('apps: the connected ones first, and in a search with the actions that it found', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  await visit.press('Apps');
  const connected = visit.page.locator('section:has(#connected) tbody tr');
  assert.deepEqual((await connected.allInnerTexts()).map((row) => row.split('\t').filter((_, i) => i !== 3).map((cell) => cell.trim().split('\n').at(-1))), [['Gmail', 'mail', '1', 'connected'], ['Notion', 'notes', '1', 'connected']]);
  // the other apps, by category, each once
  const others = await visit.page.locator('section:has(#others) li').evaluateAll((all) => all.map((one) => [one.querySelector('p').textContent, one.querySelector('h2 a').textContent]));
  assert.ok(others.some(([category, name]) => category === 'chat' && name === 'Slack') && !others.some(([, name]) => name === 'Gmail'), others.join());
  assert.deepEqual(others, others.toSorted((a, b) => (a[0] === b[0] ? 0 : a[0] < b[0] ? -1 : 1)));
  await visit.page.getByLabel('Search').fill('send a message');
  await visit.press('Show');
  assert.equal(new URL(visit.page.url()).searchParams.get('q'), 'send a message');
  const gmail = visit.page.locator('.list > li', { has: visit.page.getByRole('link', { name: 'Gmail', exact: true }) });
  await visit.press('Send a message', gmail);
  assert.equal(new URL(visit.page.url()).pathname, '/integrations/gmail/actions/send_message');
  await visit.end();
});
