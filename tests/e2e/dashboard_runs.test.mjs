// What people read about what was done: flows, executions, and the audit trail; and running one again.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { makePartition } from './support/partition.mjs';
import { copyFlow } from './support/waiting.mjs';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('runs');
});
after(() => dashboard?.stop());

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
  const { id: key, as } = await dashboard.keyOf(own, 'night-agent');
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
  const agent = await dashboard.keyOf(own, 'agent of calls');
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
  const [agent, lead] = [await dashboard.keyOf(own, 'mail-agent'), await dashboard.keyOf(own, 'lead <i>')];
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
  const lead = await dashboard.keyOf(own, 'lead <i>');
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
  await visit.sees('validation_error. The message of this run is not kept.');
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
  await led('Key the "new" one', [['the "new" one', `/keys/${made.id}`]]);
  await led('App Notion', [[connections[0].label, `/connections/${connections[0].id}`], ['Notion', '/integrations/notion']]);
  await visit.page.getByRole('link', { name: 'the "new" one' }).first().click();
  await visit.page.waitForURL(`**/keys/${made.id}`);
  assert.equal(await visit.page.locator('h1').innerText(), 'the "new" one');
  await visit.end();
});
