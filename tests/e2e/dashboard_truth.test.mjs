// What pages say about an object is true when they are displayed. Another person brings a flow and
// a connection into each of their states. After each, each page is fetched again and each sentence
// of a table is compared with the state that the API reports: a sentence is there if and only if
// its condition holds (support/sentences.mjs). Also forms that were displayed before the other person
// acted. dashboard_states.test.mjs has the other objects; dashboard_live.test.mjs tests a page that
// stays open.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { formsOf } from './support/pages.mjs';
import { Reader, checkAsked, compare, textOf } from './support/sentences.mjs';

const WRITES = { method: 'POST', path_prefix: '/v1/pages' };
let dashboard, account, pages, reader, lead;

before(async () => {
  dashboard = await Dashboard.start({ withoutBrowser: true });
  account = await dashboard.account('Truth');
  [reader, lead] = await Promise.all(['reader', 'lead'].map(async (name) => {
    const { id, key } = JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--name', name, '--json']));
    return { ...account, key, name, actor: `key:${id}` };
  }));
  pages = new Reader(dashboard.base);
  await pages.signIn(reader.key);
});
after(() => dashboard?.stop());

const sql = (text) => dashboard.stack.cluster.sql(text);
const look = (...args) => pages.look(...args);

/* ---- a flow ---- */

const STATES = ['running', 'waiting', 'completed', 'failed', 'cancelled', 'rejected'];

// The facts about a flow, from its API view. canceller: the person who cancelled it, which the view
// does not have.
async function factsOf(id, asker, canceller) {
  const { flow, steps } = (await dashboard.call(account, 'GET', `/api/flows/${id}`)).json;
  const approval = steps.find((step) => step.stepType === 'approval');
  const nameOf = (actor) => [reader, lead].find((one) => actor && actor.includes(one.actor))?.name;
  const approver = nameOf(approval?.output?.approvedBy), rejecter = nameOf(approval?.error?.message);
  const writes = steps.filter((step) => step.stepType === 'tool_call' && /create|notion/.test(step.stepKey));
  const waiting = steps.find((step) => step.status === 'waiting');
  const { events } = (await dashboard.call(account, 'GET', '/api/audit?kind=flow.resumed')).json;
  const resumers = events.filter(({ details }) => details.flow_id === id).map(({ actor }) => nameOf(actor));
  return {
    resumers, title: approval?.input?.title, asker, canceller, approver, rejecter, writes, steps,
    status: flow.status,
    state: rejecter ? 'rejected' : flow.status, // as people see it
    waitsFor: flow.status === 'waiting' && (waiting.stepType === 'approval' ? 'approval' : waiting.error ? 'retry' : 'time'),
  };
}

const aboutFlow = (it) => {
  const isOpen = it.waitsFor === 'approval', isOver = ['completed', 'cancelled'].includes(it.status);
  const mine = (name) => name === 'reader', theirs = (name) => name === 'lead';
  return [
    [/You approved this, \d/, mine(it.approver)], [/Approved by lead , \d/, theirs(it.approver)],
    [/You rejected this, \d/, mine(it.rejecter)], [/Rejected by lead , \d/, theirs(it.rejecter)],
    ['The flow continues.', it.status === 'running' && it.approver],
    ['The flow is running.', it.status === 'running' && !it.approver],
    ['The flow waits for a decision.', isOpen],
    [/The flow will try again, \d/, it.waitsFor === 'retry'],
    [/The flow will continue, \d/, it.waitsFor === 'time'],
    [/The flow has completed, \d/, it.status === 'completed'],
    [/The flow has failed at .+, \d/, it.status === 'failed'],
    ['The flow has ended.', it.state === 'rejected'],
    [/You cancelled the flow, \d/, mine(it.canceller)], [/The flow was cancelled by lead , \d/, theirs(it.canceller)],
    ...STATES.map((state) => [new RegExp(`\\b${state} (You|Approved by|Rejected by|The flow)`), state === it.state]),
    ['you asked for this yourself, with the key reader', mine(it.asker)], [/requested by lead\b/, theirs(it.asker)],
    ['You asked for this yourself', isOpen && mine(it.asker)], [/Requested by lead , asked for approval/, isOpen && theirs(it.asker)],
    ['None of it has been done yet', isOpen], [/Approve \d+ writes?/, isOpen],
    ['Resume from the failed step', it.status === 'failed'], ['Cancel the flow', !isOver], ['Run again', isOver || it.status === 'failed'],
    [/attempt 2 started/, it.steps.some((step) => step.attemptCount === 2)],
    ['Approved', it.approver], ['Rejected', it.rejecter],
    [/UTC Resumed by reader /, it.resumers.includes('reader')], [/UTC Resumed by lead /, it.resumers.includes('lead')],
    ['Tried again', false], // each new start in this test is a person's
  ];
};

const aboutCancel = (it) => {
  const isOver = ['completed', 'cancelled'].includes(it.status);
  const isDone = it.writes.some(({ status }) => status === 'completed'), isBegun = it.writes.some(({ status, startedAt }) => startedAt && !['completed', 'skipped'].includes(status));
  return [
    ['There is nothing to cancel', isOver], ['What has already been done is not undone', !isOver],
    ['Nothing has been written yet.', !isDone && !isBegun && !isOver], ['Nothing has been written.', !isDone && !isBegun && isOver],
    ['Begun, may be done in part or completely', isBegun], ['No step that writes has been completed.', isBegun && !isDone],
    ['its approval expires', it.waitsFor === 'approval'],
    [`${it.state} `, true], [/rejected/, it.rejecter],
  ];
};

const rowOf = (page, id) => textOf({ text: page.text.match(new RegExp(`<tr id="flow-${id}">[\\s\\S]*?</tr>`))?.[0] ?? '' });

const todoOf = (page, id) => textOf({ text: page.text.match(new RegExp(`<li id="wait-${id}">[\\s\\S]*?</li>`))?.[0] ?? '' });

// The rows of a table that name the flow.
const rowsOf = (page, id) => (page.text.match(/<tr>[\s\S]*?<\/tr>/g) ?? []).filter((row) => row.includes(id)).map((row) => textOf({ text: row }).trim());

// Compares each page that shows the flow with its present state.
async function check(id, asker, canceller, what) {
  const it = await factsOf(id, asker, canceller);
  for (const notice of ['', '?notice=approved', '?notice=resumed', '?notice=cancelled', '?notice=rejected'])
    compare((await look(`/flows/${id}${notice}`)).words, aboutFlow(it), `${what}, /flows/…${notice}`);
  compare((await look(`/flows/${id}/cancel`)).words, aboutCancel(it), `${what}, its cancel page`);
  compare((await look(`/flows/${id}/again`)).words, [['A new flow will start with the same inputs', true]], `${what}, its page to run it again`);
  for (const path of ['/', '/flows', ...STATES.map((state) => `/flows?status=${state}`)]) {
    const row = rowOf(await look(path), id), wanted = path.split('=')[1];
    assert.equal(row !== '', !wanted || wanted === it.state, `${what}, ${path}`);
    if (row) assert.match(row.trim(), new RegExp(`^${it.state}\\b`), `${what}, ${path}`);
  }
  for (const path of ['/', '/approvals']) {
    const todo = todoOf(await look(path), id);
    compare(todo, [['Review', it.waitsFor === 'approval'], ['you asked for this yourself', todo && asker === 'reader'], [/requested by lead\b/, todo && asker === 'lead']], `${what}, ${path}`);
  }
  const decided = rowsOf({ text: (await look('/approvals')).text.split('id="decided"')[1] }, id);
  compare(decided.join('\n'), [[/^approved .*\breader\b/, it.approver === 'reader'], [/^approved .*\blead\b/, it.approver === 'lead'], [/^rejected .*\breader\b/, it.rejecter === 'reader'], [/^rejected .*\blead\b/, it.rejecter === 'lead']], `${what}, decided`);
  const trail = rowsOf(await look('/audit?kind=flow'), id).join('\n');
  compare(trail, [[`Approved ${it.title} Flow of`, it.approver], [`Rejected ${it.title} Flow of`, it.rejecter], [/Calls of a flow|Title/, false], ['A flow was resumed', it.resumers.length > 0]], `${what}, the audit trail`);
  return it;
}

// Sends both decisions of a form that was displayed before the flow was decided.
async function pressStale(page, it, what) {
  const form = formsOf(page.text).find(({ action }) => action.endsWith('/approve'));
  for (const verb of ['approve', 'reject']) {
    const reply = await pages.ask(form.action.replace('approve', verb), { method: 'POST', fields: { ...form.fields, note: 'late' } });
    const by = it.approver ?? it.rejecter, done = it.approver ? 'approved' : 'rejected';
    compare(textOf(reply), [
      [`Already ${done}`, by], [by === 'reader' ? `You already ${done} this, ` : `This was already ${done} by ${by} , `, by],
      [/Already cancelled .*(You cancelled the flow|The flow was cancelled by lead ), 20/, it.canceller && !by], ['You cancelled', it.canceller === 'reader' && !by],
      ['The decision has expired This decision expired, 20', it.status === 'failed' && !by], [/\. Your note was not saved/, true],
    ], `${what}, a late ${verb}`);
    assert.equal(reply.status, (verb === 'approve' ? it.approver : it.rejecter) ? 200 : 409, what);
  }
}

const act = async (person, id, verb) => {
  const reply = await dashboard.call(person, 'POST', `/api/flows/${id}/${verb}`, {});
  assert.equal(reply.status, 200, reply.text);
};

test('a flow in each of its states: each sentence of each page is there if and only if it is true', async () => {
  for (const asker of [reader, lead]) {
    // decided by either person: rejected, cancelled while it waits
    for (const [verb, person] of [['reject', lead], ['reject', reader], ['cancel', lead], ['cancel', reader]]) {
      const what = `asked by ${asker.name}, ${verb} by ${person.name}`;
      const id = await dashboard.startTasks(asker, { maxResults: 1 });
      await check(id, asker.name, undefined, `${what}: before`);
      const stale = await look(`/flows/${id}`);
      await act(person, id, verb);
      const it = await check(id, asker.name, verb === 'cancel' ? person.name : undefined, what);
      await pressStale(stale, it, what);
    }
  }
  for (const person of [lead, reader]) {
    const what = `approved by ${person.name}`;
    // approved: its write is under way, fails, is resumed, is under way again, and ends
    const id = await dashboard.startTasks(reader, { maxResults: 1 });
    const stale = await look(`/flows/${id}`);
    const first = await hold(dashboard.provider, WRITES, { action: { status: 400 } });
    await act(person, id, 'approve');
    await first.reached(1);
    await pressStale(stale, await check(id, 'reader', undefined, `${what}, running`), what);
    await first.letGo();
    await dashboard.reaches(account, id, 'failed');
    await check(id, 'reader', undefined, `${what}, failed`);
    // the first attempt began an hour ago
    await sql(`update sluice.flow_step set started_at = started_at - interval '1 hour', finished_at = finished_at - interval '1 hour' where flow_id = '${id}' and status = 'failed'`);
    const failed = await look(`/flows/${id}`);
    const second = await hold(dashboard.provider, WRITES);
    // with a key, and by a person who is signed in
    if (person === lead) await act(lead, id, 'resume');
    else await pages.press(failed, 'Resume from the failed step');
    await second.reached(1);
    await check(id, 'reader', undefined, `${what}, resumed`);
    const again = await pages.press(failed, 'Resume from the failed step');
    compare(textOf(again), [['Only a waiting or failed flow can be resumed. This flow is running.', true]], `${what}, a late resume`);
    const page = await look(`/flows/${id}`);
    const [, last, earliest] = page.text.match(/attempt 2 started <time datetime="([^"]+)"[\s\S]*?, the first <time datetime="([^"]+)"/);
    assert.ok(Date.parse(last) - Date.parse(earliest) >= 3_600_000 && Date.parse(last) <= Date.now() + 60_000, `${last}, ${earliest}`);
    const unpressed = await look(`/flows/${id}/cancel`);
    await second.letGo();
    await dashboard.reaches(account, id, 'completed');
    await check(id, 'reader', undefined, `${what}, completed`);
    // no step took the hour between its attempts
    assert.doesNotMatch((await look(`/flows/${id}`)).words, /\d (min|h)\b(?! of work)/);
    // a flow that has ended can be cancelled, too
    compare(textOf(await pages.press(unpressed, 'Cancel the flow')), [[/cancelled .*You cancelled the flow, \d/, true]], `${what}, a late cancel`);
    await check(id, 'reader', 'reader', `${what}, completed, then cancelled`);
    // approved, cancelled during its write
    const gone = await dashboard.startTasks(lead, { maxResults: 1 });
    const third = await hold(dashboard.provider, WRITES);
    await act(person, gone, 'approve');
    await third.reached(1);
    await act(lead, gone, 'cancel');
    await check(gone, 'lead', 'lead', `${what}, cancelled during its write`);
    await third.letGo();
    // approved, and the app asks for a pause
    await dashboard.provider.faults([{ match: WRITES, action: { status: 429, retry_after: 3600 } }]);
    const slow = await dashboard.startTasks(lead, { maxResults: 1 });
    await act(person, slow, 'approve');
    await until('it waits to try again', async () => (await factsOf(slow, 'lead')).waitsFor === 'retry');
    await check(slow, 'lead', undefined, `${what}, waits to try again`);
    await dashboard.provider.faults([]);
  }
  // without a decision: a timer, and an approval that expires
  const timer = await dashboard.start(lead, 'probe_wait', { seconds: 3600 });
  await dashboard.reaches(account, timer, 'waiting');
  await check(timer, 'lead', undefined, 'a timer');
  // a decision that has expired is listed until its timer runs, which may be at once
  let late, asked;
  const expired = await until('an expired decision is listed', async () => {
    late = await dashboard.start(lead, 'api_gate', { id: 'INBOX', expiresIn: 3600 });
    await dashboard.reaches(account, late, 'waiting');
    compare(todoOf(await look('/approvals'), late), [[', expires 20', true], ['expires in', true], ['expired', false]], 'before it expires');
    asked = await look(`/flows/${late}`);
    await sql(`update sluice.flow set wake_at = now() - interval '1 minute' where account_id = '${account.id}' and id = '${late}'`);
    return todoOf(await look('/approvals'), late);
  });
  compare(expired, [[', expired 20', true], ['expired, not decided', true], [/expires/, false]], 'after it has expired');
  await pressStale(asked, { status: 'failed' }, 'expired, before its timer has run');
  const gate = await dashboard.start(lead, 'api_gate', { id: 'INBOX', expiresIn: 1 });
  await dashboard.reaches(account, gate, 'failed');
  // a form that was displayed before it expired
  await pressStale({ text: asked.text.replaceAll(late, gate) }, await factsOf(gate, 'lead'), 'expired');
  await check(gate, 'lead', undefined, 'expired');
  await act(reader, gate, 'resume');
  await dashboard.reaches(account, gate, 'failed');
  await check(gate, 'lead', undefined, 'expired twice');
  await act(lead, gate, 'cancel');
  await check(gate, 'lead', 'lead', 'expired, then cancelled');
  // decisions that an earlier version recorded keep its words
  await sql(`update sluice.audit_event set details = (details::jsonb - 'title')::json where account_id = '${account.id}' and kind in ('flow.approved', 'flow.rejected')`);
  compare((await look('/audit?kind=flow')).words, [['Calls of a flow were approved', true], ['Calls of a flow were rejected', true], [/Approved|Rejected/, false]], 'old events');
  compare((await look('/approvals')).words, [[/approved Task pages in Notion/, true]], 'old events');
});

/* ---- a connection ---- */

const NOTICES = ['connected', 'reconnected', 'connection_works', 'connection_untested'];

test('a connection in each of its states: no page says that it works, or has no error, unless that is so', async () => {
  const { id } = (await dashboard.call(account, 'GET', '/api/connections?integration_id=notion')).json.connections[0];
  const states = {
    'never used': 'last_used_at = null, failed_at = null, failure = null',
    used: 'last_used_at = now()',
    failed: "failed_at = now(), failure = 'The app refused the call'",
    ended: "status = 'reauth_required', error = 'The app revoked the token', failed_at = null, failure = null",
    'ended after a failure': "failed_at = now(), failure = 'The app refused the call'",
    reconnected: "status = 'live', error = null, failed_at = null, failure = null",
  };
  for (const [what, change] of Object.entries(states)) {
    await sql(`update sluice.connection set ${change} where account_id = '${account.id}' and id = ${id}`);
    const row = JSON.parse(await sql(`select row_to_json(c) from (select status, last_used_at, failed_at, error from sluice.connection where account_id = '${account.id}' and id = ${id}) c`));
    const isLive = row.status !== 'reauth_required';
    for (const notice of ['', ...NOTICES]) {
      const { words } = await look(`/connections/${id}?notice=${notice}`);
      compare(words, [
        ['no error', isLive && row.last_used_at && !row.failed_at], ['not used yet', !row.last_used_at], [/last used \d/, row.last_used_at], [/, failed \d.*: The app refused the call\./, row.failed_at],
        ['This connection no longer works: The app revoked the token', !isLive],
        [/\bConnected\.|Reconnected\.|the connection works/, isLive && notice],
      ], `${what}, ${notice}`);
      compare((await look('/connections?app=notion')).words, [
        ['no error', isLive && row.last_used_at && !row.failed_at], ['not used yet', !row.last_used_at], [/last used \d/, row.last_used_at], [/, failed \d.*: The app refused the call/, row.failed_at],
        ['No longer works: The app revoked the token', !isLive],
      ], `${what}, the list`);
      compare((await look(`/integrations/notion?notice=${notice}`)).words, [[/\bConnected\.|Reconnected\.|the connection works/, isLive && notice]], `${what}, the app, ${notice}`);
    }
    compare((await look('/')).words, [['Notion needs to be reconnected', !isLive]], `${what}, the overview`);
  }
  // a notice about a state is not displayed by a page that does not know it
  for (const notice of [...NOTICES, 'started']) compare((await look(`/?notice=${notice}`)).words, [[/onnected\.|the connection works|has started/, false]], notice);
});

/* ---- a key, and what depends on it ---- */

test('a key that expired, or that another person revoked: its pages say so, and a late press changes nothing', async () => {
  const made = JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--name', 'brief', '--json']));
  const admin = new Reader(dashboard.base);
  await admin.signIn(await dashboard.stack.key(account.id, ['--scopes', 'read,execute,approve,admin']));
  const states = async () => [await admin.ask(`/keys/${made.id}/revoke`), await admin.ask('/keys'), await admin.ask(`/keys/${made.id}`)].map(textOf);
  const stale = await admin.ask(`/keys/${made.id}/revoke`);
  for (const state of ['valid', 'expired', 'revoked']) {
    const [isExpired, isRevoked] = [state === 'expired', state === 'revoked'];
    if (isExpired) await sql(`update sluice.api_key set expires_at = now() - interval '1 second' where id = '${made.id}'`);
    if (isRevoked) await dashboard.stack.must(['keys', 'revoke', account.id, made.id]);
    const [asks, lists, page] = await states();
    compare(asks, [
      ['This key is already revoked.', isRevoked], ['It has expired: it is refused already', isExpired],
      ['Every program that uses it is refused at once', state === 'valid'], [/Every session .* ends/, state === 'valid'],
    ], state);
    const [row] = lists.split('brief sk_')[1].split(' sk_');
    compare(row, ['valid', 'expired', 'revoked'].map((one) => [new RegExp(`\\b${one}\\b`), one === state]), `${state}, the list`);
    compare(page, [
      ['No call has arrived yet', state === 'valid'], ['The first call', state === 'valid'],
      [`This key is ${state}. No use of it is recorded.`, state !== 'valid'], ...['valid', 'expired', 'revoked'].map((one) => [`About ${one} `, one === state]),
    ], state);
  }
  const late = await admin.press(stale, 'Revoke the key');
  assert.ok(late.status < 500, late.text);
  compare((await states())[0], [['This key is already revoked.', true]], 'after a late press');
});

test('each page that this file compares was asked for', () => checkAsked('truth'));
