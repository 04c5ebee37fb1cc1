// The purpose of each page of the dashboard: the frame shows the place and what waits, and a
// decision shows whose account is used, what is done, how severe it is, the requester, and the
// deadline.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { until } from './support/client.mjs';
import { APPROVE, Dashboard } from './support/dashboard.mjs';
import { makePartition } from './support/partition.mjs';
import { credentials } from './support/stack.mjs';
import { copyFlow, lengthen } from './support/waiting.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start({ args: ['--home-domains', 'example.com,other.example'] });
  account = await dashboard.account('Acme <b>&');
});
after(() => dashboard?.stop());

const nav = (visit) => visit.page.getByRole('navigation', { name: 'Pages' });

// Creates a key of the account with these scopes.
async function keyOf(name, scopes) {
  const made = JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--name', name, '--scopes', scopes, '--json']));
  return { ...account, key: made.key };
}

// Creates a key for any account. Returns it with the id that lists use.
async function keyOfAccount(own, name) {
  const made = JSON.parse(await dashboard.stack.must(['keys', 'create', own.id, '--name', name, '--json']));
  return { id: made.id, as: { ...own, key: made.key } };
}

test('the frame: account and key, counts, and no link to what the key may not see', async () => {
  const lead = await keyOf('ops-lead', 'read,execute,approve,admin');
  const id = await dashboard.startTasks(account);
  const visit = await dashboard.signIn(lead, { viewport: { width: 1280, height: 900 } });
  await visit.goto('/executions');
  assert.match(await visit.page.title(), /^\(1\) Executions - sluice$/);
  assert.equal(await visit.page.locator('.who').innerText(), 'Ac\nAcme <b>&\nwith the key ops-lead');
  assert.deepEqual((await nav(visit).getByRole('link').allInnerTexts()).map((text) => text.trim().replace(/\s+/g, ' ')), ['Overview', 'Approvals 1', 'Flows', 'Executions', 'Apps', 'Connections', 'API keys', 'Audit trail']);
  assert.equal(await nav(visit).locator('[aria-current=page]').innerText(), 'Executions');
  // with the keyboard: the skip link first, then the navigation in its order
  await visit.page.keyboard.press('Tab');
  assert.equal(await visit.page.evaluate(() => document.activeElement.className), 'skip');
  await visit.page.keyboard.press('Tab');
  await visit.page.keyboard.press('Tab');
  assert.equal(await visit.page.evaluate(() => document.activeElement.textContent), 'Overview');
  await visit.end();
  const reader = await dashboard.signIn(await keyOf('reader', 'read'));
  for (const name of ['API keys', 'Audit trail']) assert.equal(await nav(reader).getByRole('link', { name }).count(), 0);
  await reader.goto('/audit.csv');
  assert.match(await reader.text(), /lacks the scope for this/);
  await reader.end();
  const rejected = await dashboard.call(account, 'POST', `/api/flows/${id}/reject`, {});
  assert.equal(rejected.status, 200, rejected.text);
});

test('a decision shows the connection, the action, its severity, the requester and the expiry', async () => {
  const agent = await keyOf('support-agent', 'read,execute');
  const id = await dashboard.startTasks(agent);
  const visit = await dashboard.signIn(account, { viewport: { width: 1280, height: 900 } });
  await visit.goto(`/flows/${id}`);
  // the flow's name comes from flow_title of its template, and the decision's from flow_title of
  // the approval
  assert.equal(await visit.title(), 'Task pages in Notion for unread mails');
  assert.equal(await visit.page.locator('#decision').innerText(), 'Create 2 task pages in Notion');
  const decision = visit.page.locator('.decide');
  const { json } = await dashboard.call(account, 'GET', `/api/flows/${id}`);
  const step = json.steps.find(({ status }) => status === 'waiting');
  assert.match(await decision.locator('.ask').innerText(), /Requested by support-agent, asked for approval/);
  assert.equal(await decision.locator('.ask > span time').count(), step.expiresAt ? 1 : 0);
  assert.match(await decision.locator('.impact').innerText(), /2 × Create a page\s+Notion/);
  const { connections } = (await dashboard.call(account, 'GET', '/api/connections?integration_id=notion')).json;
  for (const [i, { input, target }] of step.input.items.entries()) {
    const call = decision.locator('.items > li').nth(i);
    // where it goes: the name if the app gave one, and the id; not in a fold
    assert.deepEqual(target.map(({ id }) => id), [Object.values(input.parent).find((id) => id.length > 30)]);
    const { label, name, id: place, unread } = target[0];
    assert.equal((await call.locator('dl.facts').first().innerText()).replace(/\s+/g, ' '), [label, name, place, unread && '(name not read)'].filter(Boolean).join(' '));
    assert.match(await call.locator('.via').innerText(), new RegExp(`^create\\s+No\\s+Notion: Create a page, as ${connections[0].label}$`));
    assert.deepEqual(JSON.parse(await call.locator('details pre').last().textContent()), input);
  }
  assert.deepEqual(await decision.getByRole('button').allInnerTexts(), ['Reject', 'Approve 2 writes']);
  // the buttons stay in the window, however long the list is
  await visit.page.setViewportSize({ width: 1280, height: 420 });
  assert.ok(await decision.getByRole('button', { name: APPROVE }).evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight));
  // the inbox shows the same decision, and links to the flow
  await visit.goto('/approvals');
  const row = visit.page.locator('.todo > li').filter({ has: visit.page.locator(`a[href="/flows/${id}"]`) });
  assert.match(await row.innerText(), /Create 2 task pages in Notion\s+Unread mail to tasks in Notion, as \S.*, to \S.*, requested by support-agent, asked for approval [\s\S]*2 writes/);
  // with the same words if it is large, when only what the list shows is read
  const words = await row.innerText(), pad = (to) => dashboard.stack.cluster.sql(`update sluice.flow_doc set waiting_input = (${to})::json where flow_id = '${id}'`);
  await pad("waiting_input::jsonb || jsonb_build_object('pad', repeat('x', 70000))");
  await visit.page.reload();
  assert.equal(await row.innerText(), words);
  await pad("waiting_input::jsonb - 'pad'");
  for (const [label, choice, count] of [['Template', 'Unread mail summary', 0], ['Template', 'any', 1], ['Requested by', 'support-agent', 1]]) {
    await visit.page.getByLabel(label).selectOption(choice);
    await visit.press('Show');
    assert.equal(await row.count(), count, choice);
  }
  await visit.press('Review Create 2 task pages in Notion');
  await visit.page.getByLabel('Note').fill('go <i>on</i>');
  await visit.press('Approve');
  await dashboard.reaches(account, id, 'completed');
  await visit.page.reload();
  // the result, with links to the created pages
  assert.match(await visit.page.locator('#flow-result').innerText(), /^Result\s+Count\s+2\s/);
  const made = (await dashboard.call(account, 'GET', `/api/flows/${id}`)).json.flow.context.created.pages;
  assert.deepEqual(await visit.page.locator('#flow-result a').evaluateAll((all) => all.map((one) => [one.textContent, one.href, one.rel])), made.map(({ title, url }) => [title, url, 'noreferrer']));
  assert.match(await visit.page.locator('#flow-log').innerText(), /Started by support-agent[\s\S]*Approved by [\s\S]*go <i>on<\/i>[\s\S]*Completed/);
  assert.equal(await visit.page.locator('.progress').getAttribute('aria-label'), `${json.steps.length} of ${json.steps.length} steps done`);
  assert.equal(await visit.page.locator('.progress .ok').count() > 0, true);
  await visit.goto('/approvals');
  assert.match(await visit.page.locator('#decided tbody tr').first().innerText(), /approved\s+Create 2 task pages in Notion\s+.*\s+go <i>on<\/i>/);
  await visit.end();
});

// Pages of the emulated task database: one in progress with a date, and one not started and without
// a date.
const TASKS = ['001', '00c'].map((end) => `b3d5f7a9-1c2e-4a6b-8d0f-000000000${end}`);

test('an update shows what changes in each item, and which step read it', async () => {
  const id = await dashboard.start(account, 'reschedule_tasks', { pages: TASKS, due: '2031-12-06', status: 'In progress' });
  const { steps } = await dashboard.reaches(account, id, 'waiting');
  const read = steps.find(({ stepKey }) => stepKey === 'read');
  const visit = await dashboard.signIn(account, { viewport: { width: 1280, height: 900 } });
  await visit.goto(`/flows/${id}`);
  const call = (n) => visit.page.locator('.calls > li').nth(n);
  const table = (n) => call(n).locator('.diff tr').evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
  assert.deepEqual(await visit.page.locator('.calls h3').allInnerTexts(), ['Prepare the offsite in March', 'Clean up the wiki']);
  // a property with an unchanged value is not listed, and one that did not exist is shown as empty
  assert.deepEqual(await table(0), [['Property', 'Now', 'Then'], ['Due', read.output[0].properties.Due.date.start, '2031-12-06']]);
  assert.match(await call(0).locator('.diff + p').innerText(), /^1 further property does not change\. “Now” is what “Notion: Get a page” read .*\.$/);
  assert.equal(await call(0).locator('.diff + p time').getAttribute('datetime'), read.completedAt);
  assert.deepEqual(await table(1), [['Property', 'Now', 'Then'], ['Due', 'empty', '2031-12-06'], ['Status', 'Not started', 'In progress']]);
  assert.match(await call(1).locator('.diff + p').innerText(), /^“Now” is what/);
  assert.match(await call(0).locator('.via').innerText(), /^change\s/);
  await visit.fits();
  await visit.press('Approve');
  await dashboard.reaches(account, id, 'completed');
  const page = await dashboard.call(account, 'POST', '/api/executions', { integration_id: 'notion', action_id: 'get_page', input: { page_id: TASKS[1] } });
  assert.equal(page.json.output.properties.Due.date.start, '2031-12-06');
  // repeating it would change nothing, and the page says so
  const again = await dashboard.start(account, 'reschedule_tasks', { pages: TASKS, due: '2031-12-06' });
  await dashboard.reaches(account, again, 'waiting');
  await visit.goto(`/flows/${again}`);
  assert.equal(await visit.page.locator('.diff').count(), 0);
  assert.match(await call(1).innerText(), /2 properties do not change\. “Now” is what/);
  await visit.end();
});

test('a mail shows its recipients, what leaves the company, and that it cannot be undone', async () => {
  const own = await dashboard.account('mails');
  const mail = (to) => dashboard.start(own, 'mail_with_reminder', { to, subject: `To ${to}`, text: 'Hello' });
  const ids = {
    home: await mail('Anna Keller <anna@eu.EXAMPLE.com>, ben@other.example'),
    away: await mail('"Keller, Anna" <anna@example.com>, Mira <mira@fabrikam.example>'),
    nasty: await mail('boss@example.com <b>@evil.example'),
  };
  for (const id of Object.values(ids)) await dashboard.reaches(own, id, 'waiting');
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const tags = (where) => where.locator('.tag').allInnerTexts();
  const first = visit.page.locator('.calls > li').first();
  await visit.goto(`/flows/${ids.home}`);
  assert.deepEqual(await tags(first), ['send', 'cannot be undone']);
  assert.match(await visit.page.locator('.impact').innerText(), /^2 × Send a message\s+Gmail, to 2 addresses$/);
  await visit.goto(`/flows/${ids.away}`);
  assert.deepEqual(await tags(first), ['send', 'sent outside your company', 'cannot be undone']);
  assert.equal(await first.locator('.facts dd').first().innerText(), '"Keller, Anna" <anna@example.com> Mira <mira@fabrikam.example>');
  assert.deepEqual(await first.locator('.facts strong').allInnerTexts(), ['mira@fabrikam.example']);
  assert.match(await visit.page.locator('.impact').innerText(), /Gmail, to 2 addresses, 1 of them outside your company/);
  assert.deepEqual(await visit.page.locator('.verdict').getByRole('button').allInnerTexts(), ['Reject', 'Approve 2 writes', 'Approve and show next']);
  // the account that it uses, with a link to that connection
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=gmail')).json;
  assert.equal(await visit.page.locator('#flow-about dd a').getAttribute('href'), `/connections/${connections[0].id}`);
  // text that is not an address has no owner
  await visit.goto(`/flows/${ids.nasty}`);
  assert.ok((await tags(first)).includes('sent outside your company'));
  // lists show the same, however long the shown text is
  for (const path of ['/', '/approvals', 'longer', '/', '/approvals']) {
    if (path === 'longer') {
      await lengthen(dashboard.stack, `account_id = '${own.id}'`);
      continue;
    }
    await visit.goto(path);
    const row = (id) => visit.page.locator(`#wait-${id}`);
    assert.deepEqual(await tags(row(ids.home)), ['2 writes', 'cannot be undone']);
    for (const id of [ids.away, ids.nasty]) assert.deepEqual(await tags(row(id)), ['2 writes', 'sent outside your company', 'cannot be undone'], path);
  }
  await visit.end();
});

test('the inbox in parts: soonest to expire first, by requester, and each flow once', async () => {
  const own = await dashboard.account('inbox');
  const [{ id: key }] = JSON.parse(await dashboard.stack.must(['keys', 'list', own.id, '--json']));
  const model = await dashboard.startTasks(own);
  await copyFlow(dashboard.stack, model, 29, 1);
  // all but the first expire, older flows sooner; one in five belongs to a key that does not exist
  await dashboard.stack.cluster.sql(`
    with others as (select id, row_number() over (order by id) n from sluice.flow where account_id = '${own.id}')
    update sluice.flow f set wake_at = case when f.id <> '${model}' then now() + n * interval '1 day' end from others o where f.account_id = '${own.id}' and f.id = o.id;
    update sluice.flow_doc d set actor = 'key:00000000-0000-7000-8000-000000000000' from (select id, row_number() over (order by id) n from sluice.flow where account_id = '${own.id}') o
      where d.account_id = '${own.id}' and d.flow_id = o.id and n % 5 = 0`);
  const order = (await dashboard.stack.cluster.sql(`select string_agg(id::text, ' ' order by wake_at nulls last) from sluice.flow where account_id = '${own.id}'`)).split(' ');
  assert.deepEqual([order.length, order.at(-1)], [30, model]);
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const shown = () => visit.page.locator('#waiting .what').evaluateAll((links) => links.map(({ href }) => href.split('/').at(-1)));
  await visit.goto('/approvals');
  assert.deepEqual(await shown(), order.slice(0, 20));
  await visit.press('Later');
  assert.deepEqual(await shown(), order.slice(20));
  assert.equal(await visit.page.getByRole('link', { name: 'Later' }).count(), 0);
  await visit.press('Sooner');
  assert.deepEqual(await shown(), order.slice(0, 20));
  assert.deepEqual(await visit.page.getByLabel('Requested by').locator('option').evaluateAll((all) => all.map(({ value }) => value)), ['', `key:${key}`, 'key:00000000-0000-7000-8000-000000000000']);
  await visit.page.getByLabel('Requested by').selectOption('key:00000000-0000-7000-8000-000000000000');
  await visit.press('Show');
  assert.equal((await shown()).length, 6);
  assert.match(await visit.page.locator('#waiting').innerText(), /requested by key:00000000-0000-7000-8000-000000000000/);
  for (const [from, text] of [['99', 'This page is empty now.'], ['x', 'Create 2 task pages'], ['101', 'Create 2 task pages']]) {
    await visit.goto(`/approvals?from=${from}`);
    await visit.sees(text);
  }
  await visit.end();
});

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

// RFC 4180: cells are in quotes, and lines end in CRLF.
const cells = (text) => text.trimEnd().split('\r\n').map((line) => [...line.matchAll(/"((?:[^"]|"")*)"|([^",]+)/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain));

test('the audit trail: who did what, filters in the address, pages, and CSV without formulas', async () => {
  const own = await dashboard.account('trail', { apps: [] });
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const evil = '=HYPERLINK("http://x.example")';
  const made = JSON.parse(await dashboard.stack.must(['keys', 'create', own.id, '--name', evil, '--scopes', 'read,execute,admin', '--json']));
  const agent = { ...own, key: made.key };
  for (let i = 0; i < 55; i++) await dashboard.call(agent, 'POST', '/api/connect/sessions', { integration_id: 'gmail' });
  await visit.press('Audit trail');
  const rows = visit.page.locator('tbody tr');
  const first = await rows.first().innerText();
  assert.match(first, /A connect link was created[\s\S]*App Gmail/);
  assert.ok(first.includes(evil), first);
  assert.equal(await rows.count(), 50);
  await visit.press('Older');
  assert.ok((await rows.count()) >= 6);
  assert.match(await rows.last().innerText(), /An API key was created|The account was created/);
  await visit.press('Newer');
  assert.equal(await rows.first().innerText(), first);
  await visit.page.getByLabel('What').selectOption('All API key events');
  await visit.press('Show');
  assert.equal(new URL(visit.page.url()).search, '?kind=key&by=&period=');
  for (const row of await rows.allInnerTexts()) assert.match(row, /An API key was created/);
  await visit.page.getByLabel('Who').selectOption({ label: `${evil} (${made.prefix})` });
  await visit.press('Show');
  await visit.sees('No events match');
  await visit.page.getByLabel('What').selectOption('');
  await visit.page.getByLabel('When').selectOption('the last hour');
  await visit.press('Show');
  assert.equal(await rows.count(), 50);
  // the same rows as CSV, with the same filters
  const cookie = (await visit.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  const csv = async (path) => {
    const reply = await fetch(new URL(path, dashboard.base), { headers: { cookie } });
    assert.deepEqual([reply.status, reply.headers.get('content-type'), reply.headers.get('content-disposition'), reply.headers.get('cache-control')], [200, 'text/csv; charset=utf-8', 'attachment; filename="audit.csv"', 'no-store']);
    return cells(await reply.text());
  };
  const path = await visit.page.getByRole('link', { name: 'Download as CSV' }).getAttribute('href');
  const [head, ...lines] = await csv(path);
  assert.deepEqual(head, ['at', 'kind', 'what', 'reason', 'actor', 'actor_name', 'address', 'request_id', 'details']);
  assert.equal(lines.length, 55);
  for (const line of lines) {
    assert.deepEqual([line[1], line[4], line[5]], ['link.created', `key:${made.id}`, `'${evil}`]);
    assert.equal(JSON.parse(line[8]).integration_id, 'gmail');
  }
  // each character that starts a formula in a spreadsheet; quotes and line breaks stay in their
  // cell
  const begins = ['+1', '-1', '@x', '\t=1', '\r=1', '\n=1', '=1', 'a"b,\nc'];
  const insert = (what, from) => dashboard.stack.cluster.sql(`insert into sluice.audit_event (account_id, id, kind, actor, address)
    select '${own.id}', (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, 'key.created', 'system', ${what} from ${from}`);
  await insert(`(array[${begins.map((text) => `E'${text.replaceAll('\t', '\\t').replaceAll('\r', '\\r').replaceAll('\n', '\\n')}'`)}])[n]`, `generate_series(1, ${begins.length}) n`);
  const raw = await (await fetch(`${dashboard.base}/audit.csv?by=system`, { headers: { cookie } })).text();
  for (const text of begins) assert.ok(raw.includes(`"${/^[a-z]/.test(text) ? '' : "'"}${text.replaceAll('"', '""')}"`), JSON.stringify([text, raw]));
  // one page has at most 2,000; the rest is on an older page
  await insert(`'bulk'`, 'generate_series(100, 2199) n');
  const part = await csv('/audit.csv?by=system');
  assert.equal(part.length, 2001);
  await visit.goto('/audit?by=system');
  const rest = await csv(await visit.page.getByRole('link', { name: 'Older events' }).getAttribute('href'));
  assert.equal(rest.length, 2001);
  assert.equal((await csv(`/audit.csv?by=system&before=${(await dashboard.stack.cluster.sql(`select id from sluice.audit_event where account_id = '${own.id}' and address = 'bulk' order by id limit 1 offset 99`)).trim()}`)).length, 100);
  await visit.goto('/audit?before=x');
  await visit.sees('There is no page at this address.');
  await visit.end();
});

test('the audit trail has the error codes of the replies, each with a page that explains it', async () => {
  const own = await dashboard.stack.account('codes', { apps: [] });
  const calls = [['gmail', 'nope', {}], ['nope', 'x', {}], ['gmail', 'list_messages', {}], ['gmail', 'list_messages', { maxResults: 'x' }]];
  const codes = [];
  for (const [integration_id, action_id, input] of calls) codes.push((await dashboard.call(own, 'POST', '/api/executions', { integration_id, action_id, input })).json.error_code);
  assert.equal(codes.filter(Boolean).length, calls.length);
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  await visit.goto('/audit?kind=execution.blocked');
  const tags = visit.page.locator('main tbody .tag');
  assert.deepEqual(await tags.allInnerTexts(), codes.toReversed());
  const paths = new Set(await tags.locator('a').evaluateAll((links) => links.map((link) => link.getAttribute('href'))));
  for (const path of paths) {
    await visit.goto(path);
    assert.equal(await visit.page.locator(path.slice(path.indexOf('#'))).count(), 1, path);
  }
  await visit.end();
});

test('a filter that a list does not know is refused with the possible values', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false });
  for (const [path, wanted] of [
    ['/executions?status=sucess', 'status must be one of: succeeded failed blocked everything.'],
    ['/executions?period=2h', 'period must be one of: 1h 24h 7d 30d today yesterday.'],
    ['/executions?from=soon', 'from must be a time such as'],
    ['/executions?to=2026-02-30', 'to must be a time such as'],
    ['/executions?key=x', 'key must be the id of a key.'],
    ['/executions?app=a%20b', 'app must be a word of at most 200 characters.'],
    ['/flows?status=blocked', 'status must be one of: running waiting completed failed cancelled rejected approval.'],
    ['/flows?template=%FF', 'template must be the key of a template.'],
    ['/audit?kind=nope', 'kind must be one of, or the first word of: account.created'],
    ['/audit?by=%FF', 'by must be an actor in the audit trail.'],
    ['/audit.csv?period=1', 'period must be one of: 1h 24h 7d 30d today yesterday.'],
  ]) {
    const reply = await visit.page.goto(`${dashboard.base}${path}`);
    assert.equal(reply.status(), 400, path);
    const text = await reply.text();
    assert.ok(text.includes('Unknown filter') && text.includes(wanted), path);
  }
  for (const path of ['/executions?status=&period=&key=&app=', '/flows?status=&template=', '/audit?kind=&by=&period=', '/audit?kind=flow'])
    assert.equal((await visit.page.goto(`${dashboard.base}${path}`)).status(), 200, path);
  await visit.end();
});

test('the audit trail names the object of an event, and links to it', async () => {
  const own = await dashboard.account('named', { apps: ['gmail', 'notion'] });
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const id = await dashboard.startTasks(own, { maxResults: 1 });
  assert.equal((await dashboard.call(own, 'POST', `/api/flows/${id}/reject`, { note: 'not <b>now</b>' })).status, 200);
  await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@b.example', subject: 's', text: 't' } });
  await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'no_such_app', action_id: 'x', input: {} });
  const made = JSON.parse(await dashboard.stack.must(['keys', 'create', own.id, '--name', 'the "new" one', '--json']));
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=notion')).json;
  const row = (what) => visit.page.locator('tbody tr').filter({ hasText: what }).first();
  await until('all events are written', async () => {
    await visit.goto('/audit');
    return (await row('no_such_app').count()) === 1 && (await row('App Gmail').count()) === 1;
  });
  const led = async (what, expected) => {
    const links = await row(what).locator('p a').evaluateAll((all) => all.map((one) => [one.textContent.replace(/(?<=^of ).*/, one.querySelector('time')?.dateTime), one.getAttribute('href')]));
    assert.deepEqual(links, expected, what);
  };
  await led('Action Send a message', [['Gmail', '/integrations/gmail'], ['Send a message', '/integrations/gmail/actions/send_message']]);
  await led('no_such_app', []);
  const began = new Date(parseInt(id.replace('-', '').slice(0, 12), 16)).toISOString();
  await led('Rejected Create 1 task page in Notion', [[`of ${began}`, `/flows/${id}`]]);
  assert.match(await row('Rejected Create').innerText(), /Note not <b>now<\/b>/);
  await led('Key the "new" one', [['the "new" one', `/keys#key-${made.id}`]]);
  await led('App Notion', [[connections[0].label, `/connections/${connections[0].id}`], ['Notion', '/integrations/notion']]);
  await visit.page.getByRole('link', { name: 'the "new" one' }).first().click();
  await visit.page.waitForURL(`**/keys#key-${made.id}`);
  assert.match(await visit.page.locator(`#key-${made.id}`).innerText(), /the "new" one/);
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
  const { as } = await keyOfAccount(own, 'mail-agent');
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
  await visit.sees('No calls to Notion.');
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

// Reaches the element with that name by the Tab key alone. The focus is visible on the way.
async function tabTo(visit, name) {
  for (let i = 0; i < 90; i++) {
    await visit.page.keyboard.press('Tab');
    const { called, isMarked } = await visit.page.evaluate(() => {
      const one = document.activeElement;
      const called = one.getAttribute('aria-label') ?? (one.labels?.[0] ?? one).textContent;
      return { called: called.trim().replace(/\s+/g, ' '), isMarked: one === document.body || getComputedStyle(one).outlineStyle === 'solid' };
    });
    assert.ok(isMarked, `${visit.page.url()}: the focus on "${called}" cannot be seen`);
    if (typeof name === 'string' ? called === name : name.test(called)) return;
  }
  assert.fail(`${visit.page.url()}: no Tab leads to ${name}`);
}
const enter = (visit) => Promise.all([visit.page.waitForNavigation(), visit.page.keyboard.press('Enter')]);

test('only by keyboard: a key is made and revoked, a connection renamed and not disconnected, an app connected', async () => {
  const own = await dashboard.account('keyboard', { apps: ['gmail'] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const go = async (...names) => {
    for (const name of names) {
      await tabTo(visit, name);
      await enter(visit);
    }
  };
  await go('API keys', 'New key');
  await tabTo(visit, 'Name');
  await visit.page.keyboard.type('made by keys');
  await tabTo(visit, /^read/);
  await visit.page.keyboard.press('Space');
  await go('Create the key', 'API keys', /^Revoke made by keys sk_/, 'Revoke the key');
  await visit.sees('The key was revoked');
  await go('Apps', 'Gmail', 'Gmail');
  assert.match(visit.page.url(), /\/connections\/\d+$/);
  await tabTo(visit, 'Label');
  await visit.page.keyboard.press('Control+A');
  await visit.page.keyboard.type('work mail');
  await enter(visit);
  assert.equal(await visit.title(), 'work mail');
  await go('Disconnect', 'Keep the connection');
  await visit.page.keyboard.press('Home');
  await go('Apps', 'Probe');
  await tabTo(visit, /^Token/);
  await visit.page.keyboard.type(credentials.probe.token);
  await enter(visit);
  await visit.sees('Connected.');
  assert.equal((await dashboard.call(own, 'GET', '/api/connections')).json.connections.length, 2);
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

/* ---- the overview ---- */

test('the overview: calls over a period as a chart with its text, what fails by code, calls by app', async () => {
  const other = await dashboard.account('Counted');
  const visit = await dashboard.signIn(other, { viewport: { width: 1280, height: 900 } });
  await visit.sees('Nothing has run in this period');
  await visit.sees('Get started');
  await dashboard.counted(other, [
    ['gmail', 'list_messages', 'succeeded', '', 1200],
    ['gmail', 'send_message', 'failed', 'timeout', 30, 'Gmail said: <i>too late</i> & gone'],
    ['notion', 'create_page', 'blocked', 'policy_blocked', 7],
    ['', '', 'blocked', 'integration_not_found', 1],
  ]);
  // the day before is counted in whole hours; its last hour counts only up to the current minute
  await dashboard.counted(other, [['gmail', 'list_messages', 'succeeded', '', 1800], ['gmail', 'send_message', 'failed', 'timeout', 57]], 2, 26);
  await visit.goto('/');
  const chart = visit.page.getByRole('img', { name: /^3,714 in total: 3,600 succeeded, 90 failed, 24 blocked; most at \w{3} \d+, \d{4}, \d+:\d\d [AP]M$/ });
  assert.equal(await chart.locator('path').count() > 24, true);
  assert.equal(await chart.locator('.hit path').count(), 24);
  assert.match(await chart.locator('.hit path').last().locator('title').textContent(), /[AP]M: 1,200 succeeded, 30 failed, 8 blocked$/);
  const kpis = async () => (await visit.page.locator('.kpi').allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim());
  const [calls, share, time] = await kpis();
  assert.equal(calls, '3,714 as many as the day before');
  assert.equal(share, '2.4 % of all calls that were tried; 3.1 % the day before');
  assert.match(time, /^\d+ ms 95 % of calls took less\. The median is \d+ ms\.$/);
  assert.deepEqual(await visit.page.locator('.plot').first().locator('.y span').allTextContents(), ['2,000', '1,000', '0']);
  // lines of the failure rate of calls that were sent, and of the response times: three equal hours
  const lines = visit.page.locator('#executions .split .plot');
  assert.deepEqual((await lines.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim()), ['4 % 2 % 0', '200 ms 100 ms 0']);
  const points = async (i) => (await visit.page.locator('#executions .line').nth(i).getAttribute('d')).split(/[ML]/).slice(1).map((one) => one.split(' ').map(parseFloat));
  for (const [i, low, high] of [[0, 390, 400], [1, 300, 500], [2, 200, 300]]) {
    const found = await points(i);
    assert.deepEqual(found.map(([x]) => x), [430, 450, 470], `line ${i}`);
    for (const [, y] of found) assert.ok(y >= low && y <= high, `line ${i}: ${y}`);
  }
  const fails = visit.page.locator('#fails tbody tr');
  // the time of the last failure; it is unknown for rows that a server of the previous version
  // wrote
  assert.deepEqual((await fails.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').replace(/\d+ min ago|just now/, 'ago')), ['Gm Gmail: Send a message timeout Gmail said: <i>too late</i> & gone 90 failed ago', 'No Notion: Create a page policy_blocked 21 blocked -', 'Unknown app integration_not_found 3 blocked -']);
  assert.match(await fails.first().locator('time').getAttribute('datetime'), /^\d{4}-\d\d-\d\dT\d\d:\d\d:00.000Z$/);
  assert.deepEqual(await rowsOf(visit, '#apps'), ['GM Gmail 3,690 2.4 % N ms works', 'NO Notion 21 - - blocked', 'Unknown app 3 - - blocked'].map((row) => row.replace(/^[A-Z]{2} /, '')));
  // one stroke for each hour that had calls, all of the same height
  assert.match(await visit.page.locator('#apps .spark path').first().getAttribute('d'), /^M86 20V0M90 20V0M94 20V0$/);
  // the other periods, and a URL with an unknown period
  for (const [name, columns] of [['1 h', 12], ['7 days', 28], ['30 days', 30]]) {
    await visit.press(name);
    assert.equal(await visit.page.locator('.hit path').count(), columns, name);
    assert.equal(await visit.page.locator('.seg [aria-current]').innerText(), name);
  }
  await visit.goto('/?hours=none');
  assert.equal(await visit.page.locator('.seg [aria-current]').innerText(), '24 h');
  await visit.end();
});

// Rows of a table as people read them, without the letters that mark apps, and with N for
// milliseconds.
const rowsOf = async (visit, part) =>
  (await visit.page.locator(`${part} tbody tr`).evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => [...cell.querySelectorAll('.app')].reduce((text, mark) => text.replace(mark.textContent, ''), cell.textContent).trim()).join(' '))))
    .map((text) => text.replace(/\s+/g, ' ').replace(/\d+ ms/, 'N ms'));

test('the overview: apps by health, then connected ones without calls, eight in total', async () => {
  const own = await dashboard.account('Apps', { apps: ['gmail', 'notion', 'probe'] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  assert.deepEqual(await rowsOf(visit, '#apps'), ['Gmail 0 - - no calls', 'Notion 0 - - no calls', 'Probe 0 - - no calls']);
  await dashboard.counted(own, [
    ['notion', 'create_page', 'succeeded', '', 19], ['notion', 'create_page', 'failed', 'execution_failed', 1], // one in 20
    ['slack', 'send_message', 'succeeded', '', 10, null, 12], // over two seconds
    ['github', 'list_issues', 'succeeded', '', 9], ['probe', 'read_label', 'blocked', 'reauth_required', 2],
  ]);
  await dashboard.stack.cluster.sql(`update sluice.connection set status = 'reauth_required', error = 'gone' where account_id = '${own.id}' and integration_id = 'probe'`);
  await visit.goto('/');
  assert.deepEqual(await rowsOf(visit, '#apps'), ['Notion 60 5.0 % N ms failing', 'Slack 30 0.0 % 3.9 s slow', 'GitHub 27 0.0 % N ms works', 'Probe 6 - - reconnect', 'Gmail 0 - - no calls']);
  assert.match((await visit.page.locator('#waiting').innerText()).replace(/\s+/g, ' '), /^Needs you 1 All approvals Pr Probe needs to be reconnected: \S+ gone\. Until then, calls that use it are refused: 6 calls to Probe in the last 24 h\. 6 blocked Reconnect$/);
  assert.equal((await nav(visit).locator('a[href="/connections"]').textContent()).trim(), 'Connections, to reconnect: 1');
  await dashboard.counted(own, ['asana', 'jira', 'stripe', 'zendesk', 'hubspot'].map((app) => [app, 'x', 'succeeded', '', 1]));
  await visit.goto('/');
  assert.equal((await rowsOf(visit, '#apps')).length, 8);
  await visit.press('All apps');
  assert.equal(new URL(visit.page.url()).pathname, '/integrations');
  await visit.end();
});

test('the overview: the last failure’s message comes from the call itself', async () => {
  const own = await dashboard.account('Said', { apps: ['gmail'] });
  const failed = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_message', input: { id: 'ffffffffffffffff' } });
  assert.equal(failed.json.status, 'failed');
  // counts are written every ten seconds
  await until('it is counted', async () => (await dashboard.call(own, 'GET', '/api/stats')).json.by_error.length > 0);
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const [row] = await rowsOf(visit, '#fails');
  assert.ok(row.startsWith(`Gmail: Get a message${failed.json.error_code} ${failed.json.message.slice(0, 120)}`), row);
  assert.match(row, / 1 failed just now$/);
  await visit.end();
});

test('an app’s page: its calls over time, the share that failed and p95, with a table', async () => {
  const own = await dashboard.account('One app', { apps: ['gmail', 'notion'] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  await visit.goto('/integrations/gmail');
  await visit.sees('Nothing has run in this period');
  await dashboard.counted(own, [
    ['gmail', 'list_threads', 'succeeded', '', 18], ['gmail', 'send_message', 'failed', 'timeout', 2, null, 11], ['gmail', 'send_message', 'blocked', 'policy_blocked', 1],
    ['notion', 'create_page', 'succeeded', '', 500],
  ], 2);
  await visit.goto('/integrations/gmail');
  const kpis = async () => visit.page.locator('.kpi strong').allInnerTexts();
  assert.deepEqual((await kpis()).slice(0, 2), ['42', '10.0 %']);
  assert.match((await kpis())[2], /^\d/);
  const rows = visit.page.locator('#executions tbody tr');
  assert.equal(await rows.count(), 2);
  await visit.page.getByText('The numbers as a table').click();
  const cells = await rows.first().locator('td').allInnerTexts();
  assert.deepEqual(cells.slice(1, 5), ['18', '2', '1', '10.0 %']);
  assert.equal(cells[5], (await kpis())[2]);
  await visit.press('7 days');
  assert.equal(`${new URL(visit.page.url()).pathname}${new URL(visit.page.url()).search}`, '/integrations/gmail?hours=168');
  assert.equal((await kpis())[0], '42');
  assert.equal(await visit.page.getByRole('link', { name: 'See which' }).getAttribute('href'), '/executions?status=failed&period=7d&app=gmail');
  // more rows than are read individually
  await dashboard.counted(own, Array.from({ length: 200 }, (_, i) => ['gmail', `action_${i}`, 'succeeded', '', 1]), 20);
  await visit.goto('/integrations/gmail?hours=24');
  assert.equal((await kpis())[0], '4,042');
  // the sums of all apps are cached, those of one app are not
  for (const [path, sum] of [['/?hours=24', '5,042'], ['/integrations/gmail?hours=24', '4,042'], ['/?hours=24', '5,042']]) {
    await visit.goto(path);
    assert.equal((await kpis())[0], sum, path);
  }
  // neither calls nor a connection: only a chosen period is shown, from which others can be chosen
  await visit.goto('/integrations/slack');
  assert.equal(await visit.page.locator('#executions').count(), 0);
  await visit.goto('/integrations/slack?hours=1');
  await visit.sees('Nothing has run in this period');
  await visit.press('30 days');
  await visit.end();
});

test('the overview of an account with many numbers: ended calls are added up once, new ones appear at once, and only its own count', async () => {
  const [busy, quiet] = [await dashboard.account('Busy', { apps: [] }), await dashboard.account('Quiet', { apps: [] })];
  const apps = Array.from({ length: 60 }, (_, i) => [`app_${i}`, 'list', 'succeeded', '', 2]);
  await dashboard.counted(busy, apps, 20);
  const visit = await dashboard.signIn(busy);
  const sum = async () => Number((await visit.page.locator('.kpi strong').first().innerText()).replaceAll(',', ''));
  assert.equal(await sum(), 2400); // for more rows than are read individually
  // checks that the sum grows by this number during a change; repeats if a new hour begins in
  // between
  const grows = (what, by, change) =>
    until(what, async () => {
      await visit.goto('/');
      const before = await sum();
      await dashboard.stack.cluster.sql(change);
      await visit.goto('/');
      return (await sum()) === before + by;
    });
  await grows('past times are cached', 0, `update sluice.tally set calls = calls + 1 where account_id = '${busy.id}' and slot < now() - interval '30 min'`);
  await grows('new calls are added', 7, `insert into sluice.tally as t select '${busy.id}', date_bin('5 min', now(), 'epoch'), 'app_new', 'list', 'succeeded', '', false, 7, 7, array_fill(7, array[16])
    on conflict (account_id, slot, integration_id, action_id, outcome, error_code) do update set calls = t.calls + 7`);
  const other = await dashboard.signIn(quiet);
  await other.sees('Nothing has run in this period');
  await other.end();
  await visit.press('1 h'); // another period is another sum
  assert.ok((await sum()) < 2400, `${await sum()}`);
  await visit.end();
});

test('the first day: five first things to do, ticked as they are done, and no empty sections', async () => {
  const own = await dashboard.account('first day', { apps: [] });
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  const begin = visit.page.locator('#begin');
  const done = async () => [(await begin.locator('header .soft').innerText()), (await begin.locator('li.done h3').allInnerTexts()).join()];
  const panels = async () => (await visit.page.locator('main h2:visible').allInnerTexts()).filter((name) => !['Failed', 'Time'].includes(name)); // panels of calls that have been counted by then
  assert.deepEqual(await done(), ['1 of 5 done', 'Sign in']);
  assert.deepEqual(await panels(), ['Get started', 'Needs you', 'Executions']);
  assert.match(await begin.innerText(), /With the key sk_\S+, which may read, execute, approve, administer\./);
  await visit.isAccessible();
  await dashboard.stack.connect(own.id, 'notion', credentials.notion, ['--label', 'Team']);
  await visit.goto('/');
  assert.deepEqual(await done(), ['2 of 5 done', 'Sign in,Connect an app']);
  await begin.getByText('Notion as Team.').waitFor();
  // running the shown command, a read of that app, ticks off the next item
  const command = await visit.page.locator('#begin-curl').textContent();
  assert.match(command, /"integration_id": "notion"/);
  await promisify(execFile)('sh', ['-c', command.replace('curl ', 'curl -s ')], { env: { ...process.env, SLUICE_KEY: own.key } });
  await visit.goto('/');
  assert.deepEqual(await done(), ['3 of 5 done', 'Sign in,Connect an app,Run an action']);
  assert.deepEqual(await panels(), ['Get started', 'Needs you', 'Executions', 'What fails', 'Apps']);
  // an open page inserts a panel for the new flow
  const flow = await dashboard.start(own, 'probe_wait', { seconds: 3600 });
  await visit.page.locator(`#flow-${flow}`).waitFor();
  assert.deepEqual(await panels(), ['Get started', 'Needs you', 'Executions', 'What fails', 'Apps', 'Latest flows']);
  await dashboard.reaches(own, flow, 'waiting');
  await keyOfAccount(own, 'agent');
  await visit.goto('/');
  assert.equal(await begin.count(), 0);
  assert.deepEqual(await panels(), ['Needs you', 'Executions', 'What fails', 'Apps', 'Latest flows']);
  await visit.end();
  // a user who began in another way gets no advice on how to begin
  const other = await dashboard.account('own way', { apps: [] });
  for (let n = 0; n < 8; n++) await dashboard.start(other, 'probe_wait', { seconds: 3600 });
  const second = await dashboard.signIn(other, { javaScriptEnabled: false });
  assert.equal(await second.page.locator('#begin').count(), 0);
  await second.end();
});

/* ---- from the overview, at most four clicks to the goal ---- */

async function walk(visit, ...clicks) {
  assert.ok(clicks.length <= 4, `${clicks.length} clicks`);
  await visit.goto('/');
  for (const click of clicks) await click(visit.page);
}
const link = (name, within = 'body') => (page) => Promise.all([page.waitForNavigation(), page.locator(within).getByRole('link', { name }).first().click()]);

test('walks: an approval and its exact writes, who approved and when, why calls fail, a call with curl, a new connection', async () => {
  const person = await dashboard.account('Walker', { apps: ['gmail', 'notion'] });
  const visit = await dashboard.signIn(person, { viewport: { width: 1280, height: 900 } });
  const id = await dashboard.startTasks(person);
  const step = (await dashboard.call(person, 'GET', `/api/flows/${id}`)).json.steps.find(({ status }) => status === 'waiting');
  await walk(visit, link(/^Review /), (page) => page.locator('.decide .items > li').first().locator('summary').last().click());
  const exact = visit.page.locator('.decide .items > li').first().locator('pre').last();
  await exact.waitFor({ state: 'visible' });
  assert.deepEqual(JSON.parse(await exact.innerText()), step.input.items[0].input);

  assert.equal((await dashboard.call(person, 'POST', `/api/flows/${id}/approve`, { note: 'as agreed' })).status, 200);
  await dashboard.reaches(person, id, 'completed');
  await walk(visit, link('Task pages in Notion for unread mails', '#flows'));
  const log = visit.page.locator('#flow-log li', { hasText: 'Approved by' });
  assert.match(await log.innerText(), /as agreed/);
  assert.match(await log.locator('time').getAttribute('datetime'), /^\d{4}-\d\d-\d\dT/);

  const failed = await dashboard.call(person, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'get_message', input: { id: 'ffffffffffffffff' } });
  await dashboard.counted(person, [['gmail', 'get_message', 'failed', failed.json.error_code, 1]], 1);
  await walk(visit, link(/^Gmail: /, '#fails'), link(/^Gmail: /, 'tbody'));
  await visit.sees(failed.json.error_code);
  await visit.sees(failed.json.message);
  assert.equal(await visit.page.locator('#execution-id').innerText(), failed.json.execution_id);
  const call = /curl .*\/api\/executions[\s\S]*"integration_id": "gmail"[\s\S]*"action_id": "get_message"/;
  assert.match(await visit.page.locator('#curl').innerText(), call);

  await walk(visit, link('Executions', 'nav'), link(/^Gmail: /, 'tbody'));
  assert.match(await visit.page.locator('#curl').innerText(), call);

  await walk(
    visit,
    link('Connect an app'),
    link('Probe', 'main'),
    async (page) => {
      await page.getByLabel('Token', { exact: true }).fill(credentials.probe.token);
      await page.getByLabel('Label').fill('Second');
      await visit.press('Connect');
    },
  );
  await visit.sees('Connected.');
  const { connections } = (await dashboard.call(person, 'GET', '/api/connections?integration_id=probe')).json;
  assert.ok(connections.some(({ label }) => label === 'Second'));
  await visit.end();
});

test('a key without a name is named by its first characters, a flow without a title by its template', async () => {
  const own = await dashboard.account('nameless');
  const [{ prefix, name }] = JSON.parse(await dashboard.stack.must(['keys', 'list', own.id, '--json']));
  assert.ok(!name, 'the account of a test has a key without a name');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const id = await dashboard.startTasks(own);
  const blocked = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@example.com', subject: 's', text: 't' } });
  assert.equal(blocked.json.status, 'blocked');
  const { json } = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 1 } });
  const sees = async (path, text) => {
    await visit.goto(path);
    // contents of documents are left out; the frame hides the user in a small window
    const all = await visit.page.locator('body').evaluate((body) => [...body.querySelectorAll('pre')].forEach((one) => one.remove()) ?? body.textContent);
    assert.doesNotMatch(all, /key:[0-9a-f]{8}|\(no name\)/, path);
    if (text) assert.ok(all.replace(/\s+/g, ' ').includes(text), `${path}: ${all}`);
  };
  const known = `${prefix}…`;
  await sees('/', `with the key ${known}`);
  await sees('/approvals', 'you asked for this yourself');
  await sees(`/flows/${id}`, `Started by ${known}`);
  await sees('/executions', known);
  await sees('/executions?status=blocked', known);
  await sees(`/executions/${json.execution_id}`, `the key ${known}`);
  await sees('/audit', known);
  assert.equal((await dashboard.call(own, 'POST', `/api/flows/${id}/approve`, {})).status, 200);
  await dashboard.reaches(own, id, 'completed');
  await sees('/approvals', known);
  await sees(`/flows/${id}`, `Approved by ${known}`);
  // a flow of the previous version has no title
  const bare = await dashboard.start(own, 'unread_mail_summary', { maxResults: 1 });
  await dashboard.reaches(own, bare, 'completed');
  await dashboard.stack.cluster.sql(`update sluice.flow set title = null where id = '${bare}'`);
  await visit.goto(`/flows/${bare}`);
  assert.equal(await visit.title(), 'Unread mail summary');
  assert.match(await visit.page.locator('#step-read h3').innerText(), /^Read each mail Gmail, 1 call$/);
  await visit.end();
});

// Rows of Executions on every page that "Older" leads to: [its link, its app and action, the whole
// row].
async function walkOlder(visit, path) {
  const rows = [];
  for (await visit.goto(path); ; await visit.press('Older')) {
    rows.push(...(await visit.page.locator('tbody tr').evaluateAll((all) => all.map((row) => [row.querySelector('a').getAttribute('href'), row.querySelector('a').textContent, row.textContent.replace(/\s+/g, ' ')]))));
    if (!(await visit.page.getByRole('link', { name: 'Older' }).count())) return rows;
  }
}

test('flows: title, requester and state of each, counts by state; a new one appears by itself', async () => {
  const own = await dashboard.account('many flows');
  const { id: key, as } = await keyOfAccount(own, 'night-agent');
  const waits = await dashboard.startTasks(as);
  const done = await dashboard.start(own, 'unread_mail_summary', { maxResults: 1 });
  const { steps } = await dashboard.reaches(own, done, 'completed');
  const timed = await dashboard.startTasks(own);
  await dashboard.stack.cluster.sql(`
    update sluice.flow set wake_at = now() + interval '3 days' where account_id = '${own.id}' and id = '${waits}';
    update sluice.flow set wake_at = now() + interval '1 hour', waiting_for = 'time' where account_id = '${own.id}' and id = '${timed}'`);
  const visit = await dashboard.signIn(own, { viewport: { width: 1280, height: 900 } });
  await visit.goto('/flows');
  const row = (id) => visit.page.locator(`#flow-${id}`);
  const cells = async (id) => (await row(id).innerText()).split('\t').map((text) => text.trim());
  const [state, title, asker, stands] = await cells(waits);
  assert.deepEqual([state, title.split(/\s*\n\s*/), asker], ['waiting', ['Task pages in Notion for unread mails', 'Unread mail to tasks'], 'night-agent']);
  const [, until, step] = stands.match(/^decision expires (.*\d.*)\s*\n\s*(.+)$/);
  assert.ok(until && step);
  assert.match((await cells(timed))[3], /^will continue \S.*\n\s*\S/);
  assert.equal((await cells(done))[3], `all ${steps.length} steps done`);
  const counts = () => visit.page.locator('#counts').innerText().then((text) => text.replace(/\s+/g, ' '));
  assert.equal(await counts(), '0 running 1 waiting for approval 2 waiting in total 1 completed, 24 h 0 failed, 24 h');
  await visit.fits();
  // a removed key is shown by its id, the only part that is left
  await dashboard.stack.cluster.sql(`delete from sluice.api_key where account_id = '${own.id}' and id = '${key}'`);
  await visit.goto('/flows?status=approval');
  assert.deepEqual([(await cells(waits))[2], await row(timed).count(), await row(done).count()], [`key:${key}`, 0, 0]);
  await visit.goto('/flows?status=&template=unread_mail_summary');
  assert.equal(await visit.page.locator('#flows tbody tr').count(), 1);
  // pages of 25, forwards and back, with the same filter
  await copyFlow(dashboard.stack, timed, 25, 1);
  const shown = () => visit.page.locator('#flows tbody tr').evaluateAll((all) => all.map(({ id }) => id));
  await visit.goto('/flows?status=waiting');
  const newest = await shown();
  assert.equal(await visit.page.getByRole('link', { name: 'Newer' }).count(), 0);
  await visit.press('Older');
  assert.deepEqual([newest.length, (await shown()).length, (await shown()).filter((id) => newest.includes(id)).length], [25, 2, 0]);
  await visit.press('Newer');
  assert.deepEqual(await shown(), newest);
  assert.equal(await visit.page.getByLabel('Status').inputValue(), 'waiting');
  await visit.goto('/flows?status=&template=unread_mail_summary');
  const second = await dashboard.start(own, 'unread_mail_summary', { maxResults: 2 });
  await row(second).filter({ hasText: 'completed' }).waitFor();
  await visit.page.locator('#counts').filter({ hasText: /2\s+completed, 24 h/ }).waitFor();
  await visit.end();
});

test('executions: calls of flows are listed with them by time, each once, and link to their step', async () => {
  const own = await dashboard.account('calls of flows');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const run = async () => `/executions/${(await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 1 } })).json.execution_id}`;
  const expected = [];
  for (let i = 0; i < 14; i++) expected.unshift(await run());
  const at = Date.now();
  await until('calls of one millisecond are in any order', () => Date.now() > at + 1);
  const id = await dashboard.startTasks(own);
  const waiting = (await dashboard.call(own, 'GET', `/api/flows/${id}`)).json;
  const calls = (steps) => steps.filter(({ stepType, status }) => stepType === 'tool_call' && status === 'completed').map(({ stepKey }) => `/flows/${id}#step-${stepKey}`);
  for (const one of calls(waiting.steps)) expected.unshift(one);
  for (let i = 0; i < 14; i++) expected.unshift(await run());
  await dashboard.call(own, 'POST', `/api/flows/${id}/approve`, {});
  const { steps } = await dashboard.reaches(own, id, 'completed');
  for (const one of calls(steps).slice(calls(waiting.steps).length)) expected.unshift(one);
  expected.unshift(await run());
  const rows = await walkOlder(visit, '/executions');
  assert.deepEqual(rows.map(([href]) => href), expected);
  // rows of the previous version lack the names of the called actions; housekeeping fills them in,
  // here when a process starts
  const sql = (text) => dashboard.stack.cluster.sql(text);
  await sql('update sluice.flow_step set integration_id = null, action_id = null, api_key_id = null');
  const second = await dashboard.stack.serve();
  await until('all are filled in', async () => (await sql('select count(*) from sluice.flow_step where integration_id is null')) === '0');
  await second.stop();
  assert.deepEqual(await walkOlder(visit, '/executions'), rows);
  const [, what, text] = rows.find(([href]) => href.endsWith('#step-create_tasks'));
  assert.match(what, /^(Notion|Gmail): /);
  assert.match(text, /^succeeded.*Task pages in Notion for unread mails, step Create the task pages, 2 calls[^,]* m?s/);
  await visit.press('Newer');
  await visit.page.locator('a[href*="#step-"]').first().click();
  await visit.page.waitForURL(/#step-/);
  assert.equal(await visit.page.locator(`li[id="${new URL(visit.page.url()).hash.slice(1)}"]`).count(), 1);
  // by app, by key and by outcome
  const notion = await walkOlder(visit, '/executions?app=notion');
  assert.ok(notion.length > 0 && notion.every(([href, name]) => href.startsWith('/flows/') && name.startsWith('Notion: ')), JSON.stringify(notion));
  const agent = await keyOfAccount(own, 'agent of calls');
  await dashboard.startTasks(agent.as);
  const asked = await walkOlder(visit, `/executions?key=${agent.id}`);
  assert.ok(asked.length > 0 && asked.every(([href, , row]) => href.startsWith('/flows/') && row.includes('agent of calls')), JSON.stringify(asked));
  assert.deepEqual(await walkOlder(visit, '/executions?status=failed'), []);
  // a page that takes two scans: after the latest calls, there are more steps without a call than
  // one scan reads
  await sql(`insert into sluice.flow_step select account_id, flow_id, step_index, attempt + n, 'completed', now() - n * interval '1 ms', now(), '{}', '{}', null, integration_id, action_id, api_key_id from sluice.flow_step, generate_series(1, 150) n where flow_id = '${id}' and step_index = 2`);
  const latest = await dashboard.startTasks(own);
  await visit.goto('/executions');
  const page = await visit.page.locator('tbody tr').allInnerTexts();
  assert.equal(page.length, 25);
  assert.match(page.find((row) => row.includes('step Read each mail')), /Gmail: [\s\S]*Task pages in Notion for unread mails, step Read each mail/);
  assert.ok((await visit.page.locator(`a[href^="/flows/${latest}#step-"]`).count()) > 0);
  // more attempts of the same microsecond than fit on a page: none is lost or shown twice
  await sql(`insert into sluice.flow_step select account_id, flow_id, step_index, attempt + n, 'failed', now(), now(), '{}', null, ('{"code":"timeout","message":"late ' || n || '"}')::json, integration_id, action_id, api_key_id from sluice.flow_step, generate_series(1, 150) n where flow_id = '${id}' and step_index = 0`);
  for (const path of ['/executions?status=failed&code=timeout', '/executions']) {
    const late = (await walkOlder(visit, path)).map(([, , row]) => Number(/late (\d+)/.exec(row)?.[1])).filter(Boolean);
    assert.deepEqual(late.sort((a, b) => a - b), Array.from({ length: 150 }, (_, i) => i + 1), path);
  }
  await visit.goto('/executions?status=failed&code=timeout&period=1h');
  assert.match(await visit.page.locator('tbody tr').first().innerText(), /failed\s+Gmail: [\s\S]*late \d+/);
  await visit.end();
});

test('old executions and events follow recent ones on one page', async () => {
  const own = await dashboard.account('long ago');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const run = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input: { maxResults: 1 } });
  const blocked = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'send_message', input: { to: 'a@b.example', subject: 's', text: 't' } });
  assert.equal(blocked.json.status, 'blocked');
  const id = "(lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(days), 12, '0'))::uuid";
  const copies = (table, where) => dashboard.stack.cluster.sql(`insert into sluice.${table} select copy.* from (select days, now() - days * interval '1 day' as at from unnest(array[3, 20]) days) o, sluice.${table} e,
    lateral json_populate_record(e, json_build_object('id', ${id})) copy where ${where}`);
  for (const days of [3, 20]) for (const table of ['execution', 'audit_event']) await makePartition(dashboard.stack, table, Date.now() - days * 86_400_000);
  await copies('execution', `e.id = '${run.json.execution_id}'`);
  await until('the event is written', async () => Number(await dashboard.stack.cluster.sql(`select count(*) from sluice.audit_event where account_id = '${own.id}' and kind = 'execution.blocked'`)) === 1);
  await copies('audit_event', `e.account_id = '${own.id}' and e.kind = 'execution.blocked'`);
  for (const [path, count] of [['/executions', 3], ['/executions?status=succeeded', 3], ['/executions?status=blocked', 3], ['/audit?kind=execution.blocked', 3], ['/executions?period=7d', 2], ['/audit?kind=execution.blocked&period=24h', 1]]) {
    await visit.goto(path);
    assert.equal(await visit.page.locator('tbody tr').count(), count, path);
    assert.equal(await visit.page.getByRole('link', { name: 'Older' }).count(), 0, path);
  }
  await visit.end();
});

test('a flow: when each step ran, as bars on one scale that need neither color nor a script', async () => {
  const visit = await dashboard.signIn(account, { javaScriptEnabled: false, colorScheme: 'dark' });
  const id = await dashboard.startTasks(account);
  const bars = () => visit.page.locator('.steps > li').evaluateAll((all) => all.map((row) => {
    const path = row.querySelector('path');
    const [x, width] = path ? [...path.getAttribute('d').matchAll(/M(\d+) 0h(\d+)/g)].flatMap(([, ...numbers]) => numbers.map(Number)) : [];
    const { fill, strokeDasharray } = path ? getComputedStyle(path) : {};
    const [title, kind] = [...row.querySelector('h3').childNodes].map((one) => one.textContent.trim());
    return { id: row.id, title, kind, state: row.querySelector('.badge').textContent, text: row.querySelector('.span .r').textContent, x, width, isDashed: fill === 'none' && strokeDasharray !== 'none' };
  }));
  const check = (rows, steps) => {
    // a step is named by its title, an approval by its question, and a step without either by the
    // words of its key
    const titles = ['List the mails', 'Read each mail', 'Take what counts of each', 'Make a task of each', "Find the database's source", 'Create 2 task pages in Notion', 'Create the task pages', 'Report'];
    assert.deepEqual(rows.map(({ title, id, state }) => [title, id, state]), steps.map(({ stepKey, status }, i) => [titles[i], `step-${stepKey}`, status]));
    let end = 0;
    for (const [i, { x, width, isDashed, text }] of rows.entries()) {
      const { status, stepType } = steps[i];
      assert.equal(x !== undefined, !['pending', 'skipped'].includes(status), `${text} ${status}`);
      if (x === undefined) continue;
      assert.ok(x + 6 >= end && width > 0 && x + width <= 1000, JSON.stringify(rows));
      end = x + width - 6;
      assert.equal(isDashed, stepType === 'approval', text);
      assert.match(text, stepType !== 'approval' ? /^\d+ ms$|^[\d.]+ s$/ : status === 'waiting' ? /^$/ : /^waited [\d.]+ (ms|s)$/);
    }
  };
  await visit.goto(`/flows/${id}`);
  const waiting = (await dashboard.call(account, 'GET', `/api/flows/${id}`)).json;
  check(await bars(), waiting.steps);
  assert.ok((await bars()).some(({ x, text, state }) => x === undefined && text === '' && state === 'pending'));
  await visit.fits();
  // the bar of an approval of three days is at most as long as a fifth of the work
  await dashboard.stack.cluster.sql(`update sluice.flow_step set started_at = started_at - interval '3 days', finished_at = finished_at - interval '3 days' where flow_id = '${id}'`);
  await dashboard.call(account, 'POST', `/api/flows/${id}/approve`, {});
  const { steps } = await dashboard.reaches(account, id, 'completed');
  await visit.goto(`/flows/${id}`);
  const rows = await bars();
  check(rows, steps);
  assert.equal(rows.find(({ isDashed }) => isDashed).width <= 170, true, JSON.stringify(rows));
  assert.deepEqual(rows.map(({ kind }) => kind), ['Gmail', 'Gmail, 2 calls', 'transform', 'transform', 'Notion', 'approval', 'Notion, 2 calls', 'transform']);
  assert.match(await visit.page.locator('#flow-work').innerText(), /^8 of 8 done, [\d.]+ (ms|s) of work$/);
  // each step can be opened to show its input and output
  await visit.page.locator('#read-more > summary').click();
  const open = visit.page.locator('#read-more');
  assert.match((await open.innerText()).replace(/\s+/g, ' '), /read, tool_call, started .* Input .* Output, 2 of 2 items \[/);
  assert.equal(JSON.parse(await open.locator('pre').last().innerText()).length, 2);
  await visit.end();
});

test('a flow: what happened, with the names of those who decided, failed attempts, and a few of many items', async () => {
  const own = await dashboard.account('what happened');
  const [agent, lead] = [await keyOfAccount(own, 'mail-agent'), await keyOfAccount(own, 'lead <i>')];
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const log = async () => (await visit.page.locator('#flow-log li > span').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
  // rejected, which is not a failure
  const no = await dashboard.startTasks(agent.as, { maxResults: 5 });
  assert.equal((await dashboard.call(lead.as, 'POST', `/api/flows/${no}/reject`, { note: 'two:  are <b>spam</b>' })).status, 200);
  await visit.goto(`/flows/${no}`);
  assert.deepEqual(await log(), ['Started by mail-agent', 'Rejected by lead <i> two: are <b>spam</b>']);
  const step = visit.page.locator('#step-approve_tasks');
  assert.match((await step.innerText()).replace(/\s+/g, ' '), /^rejected Create 5 task pages in Notion approval waited .* Rejected by lead <i>: two: are <b>spam<\/b>$/);
  assert.equal(await visit.page.locator('.problem, .progress .bad, .b-bad').count(), 0);
  assert.doesNotMatch(await visit.text(), /key:[0-9a-f]{8}/);
  // the first three of five
  await visit.page.locator('#tasks-more > summary').click();
  await visit.sees('Output, 3 of 5 items');
  assert.equal(JSON.parse(await visit.page.locator('#tasks-more pre').innerText()).length, 3);
  // failed, resumed, failed again, and completed after the cause was fixed
  await dashboard.provider.faults([{ match: { method: 'POST', path_prefix: '/v1/pages' }, action: { status: 400 } }]);
  const yes = await dashboard.startTasks(agent.as, { maxResults: 1 });
  const attempts = async (count) => Number(await dashboard.stack.cluster.sql(`select count(*) from sluice.flow_step where flow_id = '${yes}' and status = 'failed'`)) === count;
  await dashboard.call(lead.as, 'POST', `/api/flows/${yes}/approve`, {});
  for (let count = 1; count <= 5; count++) {
    await until(`failed ${count} times`, () => attempts(count));
    await dashboard.reaches(own, yes, 'failed');
    if (count === 5) await dashboard.provider.faults([]);
    await dashboard.call(lead.as, 'POST', `/api/flows/${yes}/resume`, {});
  }
  await dashboard.reaches(own, yes, 'completed');
  await visit.goto(`/flows/${yes}`);
  const failed = 'Failed: Create the task pages validation_error', again = 'Resumed by lead <i>';
  assert.deepEqual((await log()).map((text) => text.replace(/ Item 1 of 1 failed.*/, '')), [
    'Started by mail-agent', 'Approved by lead <i>', 'Failed: Create the task pages for the first time (2 failures are not listed)', again, failed, again, failed, again, failed, again, 'Completed',
  ]);
  assert.equal(await visit.page.locator('#decision').count(), 0);
  await visit.sees('Create 1 task page in Notion');
  // cancelled by the first person
  const gone = await dashboard.startTasks(agent.as, { maxResults: 1 });
  for (const who of [lead, agent]) assert.equal((await dashboard.call(who.as, 'POST', `/api/flows/${gone}/cancel`, {})).status, 200);
  await visit.goto(`/flows/${gone}`);
  assert.deepEqual(await log(), ['Started by mail-agent', 'Cancelled by lead <i>']);
  await visit.goto('/audit?kind=flow');
  const events = (await visit.page.locator('tbody tr').allInnerTexts()).map((text) => text.replace(/\s+/g, ' '));
  const named = (what, who) => events.filter((text) => text.includes(what) && text.includes(who)).length;
  assert.deepEqual([named('A flow was cancelled', 'lead <i>'), named('A flow was cancelled', 'mail-agent'), named('A flow was resumed', 'lead <i>')], [1, 1, 5], events.join('\n'));
  // the decisions stay visible though many were cancelled
  await dashboard.stack.cluster.sql(`insert into sluice.audit_event (account_id, id, kind, actor)
    select '${own.id}', (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, 'flow.cancelled', 'system' from generate_series(1, 40) n`);
  await visit.goto('/approvals');
  assert.equal(await visit.page.locator('#decided tbody tr').count(), 2);
  await visit.end();
});

test('a flow: the request that its page shows works unchanged', async () => {
  const visit = await dashboard.signIn(account);
  const id = await dashboard.startTasks(account);
  await visit.goto(`/flows/${id}`);
  const command = await visit.page.getByRole('region', { name: 'With the API' }).locator('code').textContent();
  const { stdout } = await promisify(execFile)('sh', ['-c', command.replace('curl ', 'curl -s ')], { env: { ...process.env, SLUICE_KEY: account.key } });
  assert.equal(JSON.parse(stdout).flow?.id, id, `${command}\n${stdout}`);
  await visit.end();
});

// The fields of a form, and a post of them by a client that does not validate forms. to: the path
// that the reply redirects to.
const fieldsOf = async (visit, names) => Object.fromEntries(await Promise.all(names.map(async (name) => [name, await visit.page.locator(`form[action$="/again"] [name=${name}]`).inputValue()])));
async function post(visit, path, fields) {
  const cookie = (await visit.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  const reply = await fetch(dashboard.base + path, { method: 'POST', redirect: 'manual', headers: { cookie, origin: dashboard.base }, body: new URLSearchParams(fields) });
  return { status: reply.status, to: reply.headers.get('location')?.split('?')[0], text: await reply.text() };
}

test('run again, a flow: a page shows the connection, the action and its severity; it starts one new flow, however often it is sent', async () => {
  const own = await dashboard.account('again');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  const count = async () => (await dashboard.call(own, 'GET', '/api/flows?limit=100')).json.flows.length;
  const id = await dashboard.startTasks(own);
  await visit.goto(`/flows/${id}`);
  assert.equal(await visit.page.getByRole('link', { name: 'Run again' }).count(), 0, 'it has not ended');
  await dashboard.call(own, 'POST', `/api/flows/${id}/approve`, {});
  const { flow } = await dashboard.reaches(own, id, 'completed');
  const lead = await keyOfAccount(own, 'lead <i>');
  const person = await dashboard.signIn(lead.as, { javaScriptEnabled: false });
  await person.goto(`/flows/${id}`);
  await person.press('Run again');
  assert.equal(await person.title(), 'Run “Task pages in Notion for unread mails” again?');
  await person.sees('and the key lead <i>');
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=notion')).json;
  await person.sees(`write Create a page (Notion), as ${connections[0].label}, once for each item`);
  await person.sees('after an approval that shows it');
  assert.equal(await count(), 1, 'a page starts nothing');
  await person.press('Start it again');
  const fresh = new URL(person.page.url()).pathname.split('/').at(-1);
  assert.notEqual(fresh, id);
  const again = (await dashboard.reaches(own, fresh, 'waiting')).flow;
  assert.deepEqual([again.input, again.templateKey, again.triggerType], [flow.input, flow.templateKey, 'manual']);
  assert.match(await person.page.locator('#flow-about').innerText(), /lead <i>/);
  // sent twice, as by a double click
  await person.goto(`/flows/${id}/again`);
  const form = await fieldsOf(person, ['csrf', 'once']);
  const sent = [await post(person, `/flows/${id}/again`, form), await post(person, `/flows/${id}/again`, form)];
  assert.deepEqual(sent.map(({ status }) => status), [303, 303]);
  assert.equal(sent[0].to, sent[1].to);
  assert.equal(await count(), 3);
  // a read-only key is not offered a new run, and cannot start one
  const reader = await dashboard.signIn({ ...own, key: JSON.parse(await dashboard.stack.must(['keys', 'create', own.id, '--name', 'reads', '--scopes', 'read', '--json'])).key });
  await reader.goto(`/flows/${id}`);
  assert.equal(await reader.page.getByRole('link', { name: 'Run again' }).count(), 0);
  await reader.goto(`/flows/${id}/again`);
  await reader.sees('lacks the scope');
  await reader.end();
  // another account's flow is not found
  const stranger = await dashboard.signIn(account);
  await stranger.goto(`/flows/${id}/again`);
  await stranger.sees('There is no such flow.');
  await stranger.end();
  await person.end();
  await visit.end();
});

test('run again, a flow whose start confirms its writes: this needs a checkbox of its own', async () => {
  const own = await dashboard.account('again at once', { apps: ['gmail'] });
  const id = await dashboard.start(own, 'unread_mail_to_slack', { channel: 'C012AB3CD', confirm: true });
  await dashboard.reaches(own, id, 'failed');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  await visit.goto(`/flows/${id}/again`);
  await visit.sees('Post a message (Slack)');
  const box = visit.page.getByLabel('Make its writes without asking again');
  assert.equal(await box.evaluate((one) => one.required), true);
  // the server also refuses a form that a browser would not send
  const refused = await post(visit, `/flows/${id}/again`, await fieldsOf(visit, ['csrf', 'once']));
  assert.equal(refused.status, 400);
  assert.match(refused.text, /Nothing was started/);
  assert.equal((await dashboard.call(own, 'GET', '/api/flows?limit=100')).json.flows.length, 1);
  await box.check();
  await visit.press('Start it again');
  assert.match(new URL(visit.page.url()).pathname, /^\/flows\/[0-9a-f-]{36}$/);
  assert.equal((await dashboard.call(own, 'GET', '/api/flows?limit=100')).json.flows.length, 2);
  await visit.end();
});

test('run again, an execution: the input can be changed, a write needs its checkbox, sent twice it runs once', async () => {
  const own = await dashboard.account('again by hand');
  const run = async (integration_id, action_id, input, more) => (await dashboard.call(own, 'POST', '/api/executions', { integration_id, action_id, input, ...more })).json;
  const read = await run('gmail', 'list_messages', { maxResults: 2 });
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  await visit.goto(`/executions/${read.execution_id}`);
  await visit.press('Run again');
  assert.equal(await visit.title(), 'Run List messages again?');
  const { connections } = (await dashboard.call(own, 'GET', '/api/connections?integration_id=gmail')).json;
  await visit.sees(`Gmail: List messages, as ${connections[0].label}, with the key`);
  const input = visit.page.getByLabel('Input, as JSON');
  assert.equal(typeof JSON.parse(await input.inputValue()), 'object');
  await input.fill('{"maxResults":');
  await visit.press('Run it');
  await visit.sees('The input must be a JSON object.');
  assert.equal(await input.inputValue(), '{"maxResults":');
  await input.fill('{"maxResults": "many"}');
  await visit.press('Run it');
  assert.match(await visit.page.getByRole('alert').innerText(), /maxResults/);
  await input.fill('{"maxResults": 1}');
  await visit.press('Run it');
  const fresh = new URL(visit.page.url()).pathname.split('/').at(-1);
  assert.notEqual(fresh, read.execution_id);
  const { json } = await dashboard.call(own, 'GET', `/api/executions/${fresh}`);
  assert.deepEqual([json.status, json.action_id, json.output.messages.length], ['succeeded', 'list_messages', 1]);
  // a write
  const sent = await run('gmail', 'send_message', { to: 'a@b.example', subject: 'first', text: 't' }, { confirm: true });
  await visit.goto(`/executions/${sent.execution_id}/again`);
  await visit.sees('The action cannot be undone.');
  const box = visit.page.getByLabel('Run this write action with exactly this input');
  assert.equal(await box.evaluate((one) => one.required), true);
  await input.fill('{"to": "a@b.example", "subject": "second", "text": "t"}');
  const path = `/executions/${sent.execution_id}/again`, bare = await fieldsOf(visit, ['csrf', 'once', 'input']);
  const refused = await post(visit, path, bare);
  assert.equal(refused.status, 400);
  assert.match(refused.text, /The action was not confirmed\. Nothing was run/);
  const [first, second] = [await post(visit, path, { ...bare, confirm: 'yes' }), await post(visit, path, { ...bare, confirm: 'yes' })];
  assert.deepEqual([first.status, second.status], [303, 303]);
  assert.equal(first.to, second.to);
  await visit.goto(first.to);
  await visit.sees('Message sent');
  await visit.goto(`/executions/00000000-0000-4000-8000-000000000000/again`);
  await visit.sees('There is no such execution.');
  await visit.end();
});

test('the input of a run: on its page, in its curl, and run again with three clicks', async () => {
  const own = await dashboard.account('inputs of runs');
  const run = async (integration_id, action_id, input, more) => (await dashboard.call(own, 'POST', '/api/executions', { integration_id, action_id, input, ...more })).json;
  const title = 'Again Q4 <b>';
  const input = { parent: dashboard.taskParent, properties: { title: { title: [{ text: { content: title } }] } } };
  const done = await run('notion', 'create_page', input, { confirm: true });
  assert.equal(done.status, 'succeeded', JSON.stringify(done));
  const sent = async () => (await dashboard.provider.control('GET', '/ledger')).entries.filter((entry) => JSON.stringify(entry).includes(title));
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  await visit.goto(`/executions/${done.execution_id}`);
  await visit.sees('The same call with curl');
  const curl = await visit.page.locator('#curl').innerText();
  assert.deepEqual(JSON.parse(/-d '([^]*)'$/.exec(curl)[1]).input, input);
  await visit.press('Run again');
  await visit.sees('The input below is that of the earlier run.');
  assert.deepEqual(JSON.parse(await visit.page.getByLabel('Input, as JSON').inputValue()), input);
  await visit.page.getByLabel('Run this write action with exactly this input').check();
  await visit.press('Run it');
  const fresh = new URL(visit.page.url()).pathname.split('/').at(-1);
  assert.notEqual(fresh, done.execution_id);
  // both pages of the provider are alike
  const made = await Promise.all((await sent()).map(async ({ object_id }) => (await run('notion', 'get_page', { page_id: object_id })).output));
  assert.equal(made.length, 2);
  assert.deepEqual(made.map(({ parent, properties }) => ({ parent, properties }))[1], { parent: made[0].parent, properties: made[0].properties });
  assert.deepEqual((await dashboard.call(own, 'GET', `/api/executions/${fresh}?include=input`)).json.input, input);
  await visit.end();
});

test('a blocked run has a page with its message, hint and input, and runs again from there', async () => {
  const own = await dashboard.account('blocked runs');
  const input = { maxResults: 'Many7' };
  const refused = await dashboard.call(own, 'POST', '/api/executions', { integration_id: 'gmail', action_id: 'list_messages', input });
  assert.equal(refused.json.error_code, 'validation_error');
  const visit = await dashboard.signIn(own, { javaScriptEnabled: false });
  await until('the run is listed', async () => {
    await visit.goto('/executions?status=blocked');
    return (await visit.page.locator('tbody tr').count()) === 1;
  });
  await visit.press('Gmail: List messages');
  assert.equal(await visit.title(), 'List messages was blocked');
  await visit.sees(refused.json.message);
  await visit.sees(refused.json.hint);
  await visit.sees('The same call with curl');
  assert.match(await visit.page.locator('#curl').innerText(), /"maxResults": "Many7"/);
  const page = visit.page.url();
  await visit.press('Run again');
  assert.deepEqual(JSON.parse(await visit.page.getByLabel('Input, as JSON').inputValue()), input);
  await visit.page.getByLabel('Input, as JSON').fill('{"maxResults": 1}');
  await visit.press('Run it');
  await visit.sees('succeeded');
  // a read that succeeded has no input, and its page does not say "the same"
  await visit.sees('An example of this action with curl');
  await visit.sees('The input of this run is not kept.');
  assert.equal(await visit.page.getByText('The same call').count(), 0);
  // once the input is removed, the page still has the code
  await dashboard.stack.cluster.sql(`delete from sluice.execution_input where account_id = '${own.id}'`);
  await visit.goto(new URL(page).pathname);
  await visit.sees('validation_error. The message is no longer kept.');
  await visit.sees('An example of this action with curl');
  // it is of its account only, and an event of another kind is not a run
  const stranger = await dashboard.signIn(account);
  await stranger.goto(new URL(page).pathname);
  await stranger.sees('There is no such execution.');
  await stranger.goto(`${new URL(page).pathname}/again`);
  await stranger.sees('There is no such execution.');
  await stranger.end();
  const other = await dashboard.stack.cluster.sql(`select id from sluice.audit_event where account_id = '${own.id}' and kind <> 'execution.blocked' limit 1`);
  for (const path of [`/executions/${other}`, `/executions/${other}/again`]) {
    await visit.goto(path);
    await visit.sees('There is no such execution.');
  }
  await visit.end();
});
