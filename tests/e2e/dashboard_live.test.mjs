// A flow's page while the flow runs, in headless Chromium: nothing that a person is about to press
// moves, nothing that is typed, selected, opened or focused is lost, and a bar announces new
// content above. Also the stream of events, which reports each change once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hold, until } from './support/client.mjs';
import { APPROVE, Dashboard, PHONE } from './support/dashboard.mjs';

const DECIDE = 'The flow is now waiting for your decision.';
const CHANGED = 'This page has changed.';
const LOST = 'Connection lost. Trying again.';

let dashboard, account;

before(async () => {
  dashboard = await Dashboard.start();
  account = await dashboard.account('Live');
});
after(() => dashboard?.stop());

const barOf = (visit) => visit.page.locator('.news [role=status]');
const announces = (visit, words) => until(`the bar says "${words}"`, async () => (await barOf(visit).textContent()) === words);
const badgeOf = (visit, step) => visit.page.locator(`#step-${step} .badge`);

// Starts a flow whose reads of messages the provider holds.
async function startHeld(input = {}) {
  const held = await hold(dashboard.provider, { method: 'GET', path_prefix: '/gmail/v1/users/me/messages/' });
  const id = await dashboard.start(account, 'unread_mail_to_tasks', { taskParent: dashboard.taskParent, maxResults: 5, ...input });
  await held.reached(1);
  return { id, ...held };
}

// Puts the mouse over the element and remembers it. `isAimedAt` then says whether it is still
// there.
async function aim(visit, target) {
  await target.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await target.boundingBox();
  const at = [x + width / 2, y + height / 2];
  await visit.page.mouse.move(...at);
  const now = (point) => {
    const one = document.elementFromPoint(...point);
    const { left, top, width: w, height: h } = one.getBoundingClientRect();
    globalThis.aimedAt ??= one;
    return { isSame: one === globalThis.aimedAt, rect: [left, top, w, h], text: one.textContent };
  };
  const first = await visit.page.evaluate(now, at);
  return {
    at,
    // a window scrolls by whole pixels
    isAimedAt: async () => {
      const { rect, ...rest } = await visit.page.evaluate(now, at);
      assert.deepEqual(rest, { isSame: true, text: first.text });
      assert.ok(rect.every((one, i) => Math.abs(one - first.rect[i]) < 1), `from ${first.rect} to ${rect}`);
    },
    click: async () => {
      await visit.page.mouse.down();
      await visit.page.mouse.up();
    },
  };
}

for (const [how, options] of [['in a small window', { viewport: { width: 900, height: 500 } }], ['in a window that holds all of it', { viewport: { width: 1000, height: 3000 } }]])
  test(`the mouse over "Cancel the flow": steps finish and an approval appears above, and still the flow is cancelled; ${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    const { id, letGo } = await startHeld();
    await visit.goto(`/flows/${id}`);
    const aimed = await aim(visit, visit.page.getByRole('link', { name: 'Cancel the flow' }));
    await letGo();
    await announces(visit, DECIDE);
    await aimed.isAimedAt();
    assert.equal(await visit.page.getByRole('button', { name: APPROVE }).count(), 0, 'new content above waits');
    const made = (await dashboard.pagesMade()).length;
    await Promise.all([visit.page.waitForNavigation(), aimed.click()]);
    assert.match(await visit.title(), /^Cancel /);
    await visit.press('Cancel the flow');
    await visit.sees(/You cancelled the flow, /);
    await dashboard.reaches(account, id, 'cancelled');
    assert.equal((await dashboard.pagesMade()).length, made);
    await visit.end();
  });

test('the mouse over "Approve": a decision of another person moves nothing; the buttons are disabled, and the bar names the person who decided', async () => {
  const lead = { ...account, key: await dashboard.stack.key(account.id, ['--name', 'lead']) };
  const visit = await dashboard.signIn(account, { viewport: { width: 900, height: 600 } });
  const id = await dashboard.startTasks(account, { maxResults: 5 });
  await visit.goto(`/flows/${id}`);
  await visit.page.getByLabel('Note').fill('mine');
  const aimed = await aim(visit, visit.page.getByRole('button', { name: APPROVE }));
  assert.equal((await dashboard.call(lead, 'POST', `/api/flows/${id}/approve`, { note: 'theirs' })).status, 200);
  await dashboard.reaches(account, id, 'completed');
  await until('the page knows', async () => (await badgeOf(visit, 'created').innerText()) === 'completed');
  await aimed.isAimedAt();
  assert.match(await barOf(visit).textContent(), /^Approved by lead, .* The flow has completed, /);
  assert.equal(await visit.page.getByLabel('Note').inputValue(), 'mine');
  const buttons = [APPROVE, 'Reject'].map((name) => visit.page.getByRole('button', { name }));
  for (const button of buttons) assert.equal(await button.isDisabled(), true);
  assert.equal(await visit.page.getByText('None of it has been done yet').isVisible(), false);
  // they stay so when a lost connection is back
  await visit.page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  for (const button of buttons) assert.equal(await button.isDisabled(), true);
  await visit.isAccessible();
  await visit.page.getByRole('button', { name: 'Show it' }).click();
  assert.equal(await visit.page.locator('#decision').count(), 0);
  assert.equal(await visit.page.locator('#flow-result').isVisible(), true);
  await visit.end();
});

test('after one’s own decision the result appears in place, and nothing is announced', async () => {
  const visit = await dashboard.signIn(account);
  const id = await dashboard.startTasks(account, { maxResults: 1 });
  const held = await hold(dashboard.provider, { method: 'POST', path_prefix: '/v1/pages' });
  await visit.goto(`/flows/${id}`);
  await visit.press('Approve');
  await held.reached(1);
  await visit.sees(/running\s+You approved this, .* The flow continues\./);
  assert.equal(await visit.page.locator('#flow-result').isVisible(), false);
  const { navigations } = visit;
  await held.letGo();
  await visit.page.locator('#flow-result').waitFor();
  await visit.sees(/completed\s+You approved this, .* The flow has completed, /);
  assert.equal(await barOf(visit).textContent(), '');
  assert.equal(visit.navigations, navigations);
  const [result, steps] = await Promise.all(['#flow-result', '#flow-steps'].map((part) => visit.page.locator(part).boundingBox()));
  assert.ok(result.y + result.height <= steps.y, 'where the decision was');
  await visit.end();
});

test('focus, selection, opened parts and the scroll position stay as they are', async () => {
  const visit = await dashboard.signIn(account, { viewport: { width: 900, height: 300 } });
  const { id, letGo } = await startHeld({ maxResults: 20 });
  await visit.goto(`/flows/${id}`);
  await badgeOf(visit, 'list').getByText('completed').waitFor();
  await visit.page.locator('#list-more > summary').click();
  await visit.page.locator('#list-more > summary').focus();
  await visit.page.mouse.move(1, 1);
  await visit.page.evaluate(() => {
    const [text] = document.querySelector('#list-more pre:last-child').childNodes;
    getSelection().setBaseAndExtent(text, 10, text, 60);
    globalThis.kept = { details: document.querySelector('#list-more'), marked: `${getSelection()}`, focused: document.activeElement };
    document.querySelector('#step-create_tasks').scrollIntoView();
    globalThis.kept.top = document.querySelector('#step-create_tasks').getBoundingClientRect().top;
  });
  await letGo();
  await announces(visit, DECIDE);
  await until('the steps are as they are now', async () => (await badgeOf(visit, 'tasks').innerText()) === 'completed');
  const now = await visit.page.evaluate(() => {
    const { kept } = globalThis;
    return {
      isSame: kept.details === document.querySelector('#list-more') && kept.details.open,
      isMarked: `${getSelection()}` === kept.marked && kept.marked.length > 30,
      isFocused: document.activeElement === kept.focused,
      hasMoved: Math.abs(document.querySelector('#step-create_tasks').getBoundingClientRect().top - kept.top) >= 1,
    };
  });
  assert.deepEqual(now, { isSame: true, isMarked: true, isFocused: true, hasMoved: false });
  await visit.end();
});

test('a note that is being written stays, and is sent with the decision', async () => {
  const visit = await dashboard.signIn(account);
  const id = await dashboard.startTasks(account);
  await visit.goto(`/flows/${id}`);
  const note = visit.page.getByLabel('Note');
  await note.pressSequentially('half of a sen');
  await dashboard.stack.cluster.sql(`update sluice.flow set updated_at = updated_at + interval '2 minutes', rev = rev + 1 where id = '${id}'`);
  await announces(visit, CHANGED);
  await note.pressSequentially('tence');
  assert.equal(await note.inputValue(), 'half of a sentence');
  await visit.page.getByRole('button', { name: 'Show it' }).click();
  assert.equal(await note.inputValue(), 'half of a sentence', 'also once all is shown');
  await visit.press('Approve');
  const flow = await dashboard.reaches(account, id, 'completed');
  assert.equal(flow.steps.find((step) => step.stepType === 'approval').output.note, 'half of a sentence');
  await visit.end();
});

for (const [how, options] of [['', {}], [' at 390 pixels', PHONE]])
  test(`the bar is announced, is reached by keyboard, shows the decision and disappears${how}`, async () => {
    const visit = await dashboard.signIn(account, options);
    const { id, letGo } = await startHeld();
    await visit.goto(`/flows/${id}`);
    assert.ok(await visit.page.evaluate(() => !document.querySelector('[data-live]').contains(document.querySelector('.news'))));
    assert.equal(await barOf(visit).textContent(), '');
    await letGo();
    await announces(visit, DECIDE);
    await visit.isAccessible();
    await visit.fits();
    const show = visit.page.getByRole('button', { name: 'Show it' });
    await show.focus();
    await visit.page.keyboard.press('Enter');
    await visit.page.getByRole('button', { name: APPROVE }).waitFor();
    assert.equal(await visit.page.evaluate(() => document.activeElement.id), 'decision');
    assert.equal(await barOf(visit).textContent(), '');
    assert.equal(await show.isVisible(), false);
    await visit.isAccessible();
    await visit.fits();
    await visit.end();
  });

/* ---- the stream ---- */

async function cookieOf(visit) {
  return (await visit.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
}

// Reads events until `isEnough`, called with the text received so far, is true.
async function read(path, headers, isEnough) {
  const stop = new AbortController();
  const reply = await fetch(dashboard.base + path, { headers, signal: stop.signal });
  if (reply.status !== 200) return { status: reply.status };
  let text = '';
  const whole = (async () => {
    try {
      for await (const part of reply.body.pipeThrough(new TextDecoderStream())) text += part;
    } catch (error) {
      if (error.name !== 'AbortError') throw error;
    }
  })();
  await until('enough events were sent', () => isEnough(text));
  stop.abort();
  await whole;
  return { status: 200, text, ids: [...text.matchAll(/id: (\d+)\ndata: changed\n\n/g)].map(([, rev]) => Number(rev)) };
}

const revOf = async (id) => Number(await dashboard.stack.cluster.sql(`select rev from sluice.flow where id = '${id}'`));

// The number of queries by the server itself. One in every few checks whether a watched flow has
// changed.
const looks = async () => [...(await dashboard.server.metrics()).matchAll(/^sluice_pg_query_seconds_count(?:\{[^}]*\})? (\d+)/gm)].reduce((sum, [, count]) => sum + Number(count), 0);

test('each change is sent once; a browser does not get known changes again', async () => {
  const visit = await dashboard.signIn(account);
  const headers = { cookie: await cookieOf(visit) };
  await visit.end();
  const id = await dashboard.startTasks(account);
  const events = `/flows/${id}/events`;
  const first = await revOf(id);
  let changedAt;
  const told = await read(`${events}?since=${first}`, headers, async (text) => {
    if (!text.includes(':') && !text.includes('id:')) return false;
    if (changedAt === undefined) {
      assert.ok(!text.includes('changed'), 'nothing had');
      await dashboard.stack.cluster.sql(`update sluice.flow set rev = rev + 1 where id = '${id}'`);
      changedAt = await looks();
    }
    return text.includes('changed') && (await looks()) >= changedAt + 25;
  });
  assert.deepEqual(told.ids, [first + 1]);
  // a browser that reconnects, and an outdated page
  const enough = (text) => text.includes('\n\n');
  assert.deepEqual((await read(`${events}?since=${first}`, { ...headers, 'last-event-id': `${first + 1}` }, enough)).ids, []);
  assert.deepEqual((await read(`${events}?since=${first}`, headers, enough)).ids, [first + 1]);
  await dashboard.call(account, 'POST', `/api/flows/${id}/cancel`, {});
  const last = await revOf(id);
  assert.deepEqual((await read(`${events}?since=${first}`, headers, (text) => text.includes('changed'))).ids, [last]);
  assert.equal((await read(`${events}?since=${last}`, headers)).status, 204, 'nothing more will be sent');
});

test('a connection that breaks again and again: the page says so, and is not loaded more often than it changes', async () => {
  const visit = await dashboard.signIn(account);
  const { id, letGo } = await startHeld();
  let [asked, tried, isBroken] = [0, 0, true];
  visit.page.on('request', (request) => (asked += request.resourceType() === 'fetch'));
  await visit.page.route('**/events*', (route) => {
    tried++;
    return isBroken ? route.abort('connectionreset') : route.continue();
  });
  await visit.goto(`/flows/${id}`);
  await announces(visit, LOST);
  await until('it tries again', () => tried >= 3);
  isBroken = false;
  await announces(visit, '');
  const before = asked;
  await letGo();
  await announces(visit, DECIDE);
  const changes = await revOf(id);
  assert.ok(asked - before <= changes, `asked ${asked - before} times at ${changes} revisions`);
  assert.ok(before <= tried, `asked ${before} times in ${tried} tries`);
  visit.problems = visit.problems.filter((one) => !one.includes('ERR_CONNECTION_RESET'));
  await visit.end();
});

test('an account’s events: each change in it, once; nothing that the browser has; they end with the session', async () => {
  const { id, key } = JSON.parse(await dashboard.stack.must(['keys', 'create', account.id, '--json']));
  const visit = await dashboard.signIn({ key });
  const headers = { cookie: await cookieOf(visit) };
  await visit.end();
  const flow = await dashboard.startTasks(account);
  const stamps = (text) => [...text.matchAll(/id: (\d+)\ndata: changed\n\n/g)].map(([, stamp]) => stamp);
  // the first event is the state that the browser lacks, and the second is the change
  let isChanged = false;
  const told = await read('/events', headers, async (text) => {
    if (stamps(text).length === 1 && !isChanged) isChanged = await dashboard.stack.cluster.sql(`update sluice.flow set rev = rev + 1 where id = '${flow}'`).then(() => true);
    return stamps(text).length === 2;
  });
  const [, last] = stamps(told.text);
  const other = await dashboard.account('Stranger');
  await dashboard.startTasks(other);
  const asked = await looks();
  assert.deepEqual((await read(`/events?since=${last}`, headers, async (text) => text.includes(':') && (await looks()) >= asked + 8)).ids, []);
  assert.deepEqual((await read('/events', { ...headers, 'last-event-id': last }, (text) => text.includes(':'))).ids, []);
  const ends = await fetch(`${dashboard.base}/events?since=${last}`, { headers });
  await dashboard.stack.must(['keys', 'revoke', account.id, id]);
  await ends.text();
  assert.equal((await fetch(`${dashboard.base}/events`, { headers, redirect: 'manual' })).status, 303);
});

test('the overview: a new approval appears by itself, under a pointer only on demand, and disappears once it is decided', async () => {
  const other = await dashboard.account('Overview');
  const first = await dashboard.startTasks(other, { maxResults: 1 });
  const visit = await dashboard.signIn(other);
  await visit.goto('/');
  const navigations = visit.navigations;
  const linkTo = (id) => visit.page.locator(`main .todo .what[href="/flows/${id}"]`);
  const second = await dashboard.startTasks(other, { maxResults: 1 });
  await linkTo(second).first().waitFor();
  // the tab and the navigation count it, too
  assert.match(await visit.page.title(), /^\(2\) Overview - sluice$/);
  assert.equal(await visit.page.locator('#pages a[href="/approvals"] .count').innerText(), '2');
  await visit.page.evaluate(() => document.querySelector('main').focus());
  assert.equal(await barOf(visit).textContent(), '');
  // the newest flow is first, so the content under the pointer would move down
  const aimed = await aim(visit, linkTo(first).first());
  const third = await dashboard.startTasks(other, { maxResults: 1 });
  await until('it is shown, or announced', async () => (await linkTo(third).count()) > 0 || (await barOf(visit).textContent()) !== '');
  await aimed.isAimedAt();
  if (await linkTo(third).count() === 0) await visit.page.getByRole('button', { name: 'Show it' }).click();
  await linkTo(third).first().waitFor();
  await visit.page.mouse.move(1, 1);
  for (const id of [first, second, third]) await dashboard.call(other, 'POST', `/api/flows/${id}/cancel`, {});
  await linkTo(first).first().waitFor({ state: 'detached' });
  assert.equal(visit.navigations, navigations, 'no page was loaded meanwhile');
  await visit.isAccessible();
  await visit.end();
});

test('open pages of the account say what a fresh one says, whatever another person or an endpoint does', async () => {
  const other = await dashboard.account('Open pages');
  const visit = await dashboard.signIn(other);
  const pages = [visit.page];
  for (const path of ['/approvals', '/flows']) {
    pages.push(await visit.context.newPage());
    await pages.at(-1).goto(path);
  }
  // the words of the blocks that are kept fresh, with exact times; no event reports new counts of calls
  const agree = (page) => page.evaluate(async () => {
    const wordsOf = (whole) => {
      const part = whole.querySelector('[data-live]').cloneNode(true);
      for (const one of part.querySelectorAll('[hidden], svg, #executions, #how')) one.remove();
      for (const one of part.querySelectorAll('time')) one.textContent = one.dateTime;
      return part.textContent.replace(/\s+/g, ' ');
    };
    const reply = await fetch(location.href, { headers: { Accept: 'text/html' } });
    return wordsOf(document) === wordsOf(new DOMParser().parseFromString(await reply.text(), 'text/html'));
  });
  const sql = (text) => dashboard.stack.cluster.sql(text);
  const hook = (await dashboard.call(other, 'POST', '/api/webhooks', { url: 'https://hook.example.com/in', events: ['webhook.disabled'] })).json.id;
  const set = (to) => sql(`update sluice.webhook set ${to} where id = '${hook}'`);
  const { id: connection } = (await dashboard.call(other, 'GET', '/api/connections?integration_id=notion')).json.connections[0];
  let flow;
  const changes = {
    'a flow waits': async () => (flow = await dashboard.startTasks(other, { maxResults: 1 })),
    'it is rejected': () => dashboard.call(other, 'POST', `/api/flows/${flow}/reject`, {}),
    'an endpoint fails': () => set('failures = 3, failing_since = now()'),
    'it still fails': () => set('failures = 4'),
    'it is off': () => set("off_at = now(), off_reason = 'failing'"),
    'it is switched on': () => dashboard.call(other, 'PATCH', `/api/webhooks/${hook}`, { enabled: true }),
    'a connection is deleted': () => dashboard.call(other, 'DELETE', `/api/connections/${connection}`),
  };
  for (const [what, change] of Object.entries(changes)) {
    await change();
    for (const page of pages) await until(`${what}: ${page.url()} is fresh`, () => agree(page));
  }
  await visit.end();
});

test('a pressed button is disabled until the answer; while the connection is lost, the buttons of a decision are disabled', async () => {
  const visit = await dashboard.signIn(account);
  const id = await dashboard.startTasks(account, { maxResults: 1 });
  await visit.goto(`/flows/${id}`);
  const approve = visit.page.getByRole('button', { name: APPROVE });
  let isBroken = true;
  await visit.page.route(/\/flows\/[0-9a-f-]+(\/events.*)?$/, (route) => (isBroken ? route.abort('connectionreset') : route.continue()));
  await visit.page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await announces(visit, LOST);
  assert.equal(await approve.isDisabled(), true);
  isBroken = false;
  await announces(visit, '');
  assert.equal(await approve.isDisabled(), false);
  // the same as while a form waits for its answer
  await visit.page.evaluate(() => document.querySelector('main form').addEventListener('submit', (event) => event.preventDefault()));
  await approve.click();
  await until('it is disabled', () => approve.isDisabled());
  assert.equal(await visit.page.getByRole('button', { name: 'Reject' }).isDisabled(), true);
  visit.problems = visit.problems.filter((one) => !one.includes('ERR_CONNECTION_RESET'));
  await visit.end();
});
