// Signing out ends the session wherever its cookie was copied to: on every worker and node, without
// delay, with all its open requests. The servers would cache a session for an hour, so they see a
// change only if they are notified.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { Pages } from './support/pages.mjs';
import { TASK_PAGE } from './support/provider.mjs';
import { Stack } from './support/stack.mjs';

let stack, workers, other, account, flow;
before(async () => {
  stack = await Stack.start({ catalog: false });
  account = await stack.account('leaving', { apps: ['gmail', 'notion'] });
  workers = await stack.serve({ args: ['--cache-time', '1h', '--workers', '2'] });
  other = await stack.serve({ args: ['--cache-time', '1h'] });
  const input = { maxResults: 1, taskParent: { page_id: TASK_PAGE } };
  flow = (await other.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input })).json.flowId;
  await until('it waits', async () => (await other.call(account.key, 'GET', `/api/flows/${flow}`)).json.flow.status === 'waiting');
});
after(() => stack?.stopWell(assert));

async function signedIn() {
  const pages = new Pages(workers.base);
  const page = await pages.signIn(account.key);
  assert.equal(page.status, 200, page.text);
  return pages;
}

// Each request opens its own connection, so every worker gets some of them.
const look = (cookie, server = workers) => fetch(`${server.base}/flows`, { redirect: 'manual', headers: { cookie, connection: 'close' } });

async function looks(cookie) {
  const replies = await Promise.all([...Array.from({ length: 24 }, () => look(cookie)), look(cookie, other)]);
  return replies.map((reply) => reply.status);
}

async function stream(cookie, server) {
  const reply = await fetch(`${server.base}/flows/${flow}/events`, { headers: { cookie, connection: 'close' } });
  assert.equal(reply.status, 200);
  const one = { isOver: false };
  one.end = (async () => {
    for await (const part of reply.body) one.text = (one.text ?? '') + Buffer.from(part).toString();
    one.isOver = true;
  })();
  return one;
}

const streams = (cookie) => Promise.all([...Array.from({ length: 8 }, () => stream(cookie, workers)), stream(cookie, other)]);
const endOf = (open) => Promise.all(open.map((one) => one.end));

test('no copy of the cookie works after signing out, and streams end', async () => {
  const pages = await signedIn(), another = await signedIn();
  const stolen = pages.cookie, kept = another.cookie;
  assert.ok((await looks(stolen)).every((status) => status === 200));
  assert.ok((await looks(kept)).every((status) => status === 200));
  const open = await streams(stolen), others = await streams(kept);
  const done = await pages.press(await pages.go('/'), 'Sign out', {}, { follow: false });
  assert.equal(done.status, 303);
  await until('no worker and no node accepts it', async () => (await looks(stolen)).every((status) => status === 303));
  await endOf(open);
  assert.ok((await looks(kept)).every((status) => status === 200), 'another session of the key has ended');
  assert.ok(others.every((one) => !one.isOver));
  // a node that starts later also knows of the sign-out, and the key itself still works
  const late = await stack.serve();
  assert.equal((await look(stolen, late)).status, 303);
  assert.equal((await look(kept, late)).status, 200);
  assert.equal((await late.call(account.key, 'GET', '/api/flows')).status, 200);
  await late.stop();
  await another.press(await another.go('/'), 'Sign out');
  await endOf(others);
});

test('signing out everywhere ends all sessions of the key, and no other', async () => {
  const key = await stack.key(account.id);
  const one = await signedIn(), two = await signedIn(), third = new Pages(workers.base);
  await until('this address may sign in', async () => (await third.signIn(key)).status === 200);
  const copies = [one.cookie, two.cookie], theirs = third.cookie;
  const open = (await Promise.all(copies.map(streams))).flat();
  const done = await one.press(await one.go('/sign-out'), 'Sign out everywhere');
  assert.match(done.text, /You are signed out/);
  await until('all have ended', async () => (await Promise.all(copies.map(looks))).flat().every((status) => status === 303));
  await endOf(open);
  assert.ok((await looks(theirs)).every((status) => status === 200));
  const again = await signedIn();
  assert.ok((await looks(again.cookie)).every((status) => status === 200));
});

test('without a session, or twice, signing out asks to sign in', async () => {
  const pages = await signedIn();
  const page = await pages.go('/'), cookie = pages.cookie;
  await pages.press(page, 'Sign out');
  await until('no worker accepts the session', async () => (await looks(cookie)).every((status) => status === 303));
  const form = { method: 'POST', headers: { cookie, origin: workers.base } };
  for (const path of ['/sign-out', '/sign-out/everywhere']) {
    const reply = await pages.ask(path, form);
    assert.equal(reply.status, 401, reply.text);
    assert.match(reply.text, /session has ended/);
  }
  assert.equal((await pages.ask('/sign-out')).status, 303);
});

test('while the database is unreachable, the page does not claim that the session has ended', async () => {
  const pages = await signedIn();
  const page = await pages.go('/'), cookie = pages.cookie;
  await stack.cluster.down('fast');
  const refused = await pages.press(page, 'Sign out');
  assert.equal(refused.status, 503, refused.text);
  await stack.cluster.up();
  await until('the session still exists', async () => (await look(cookie, other)).status === 200);
  await until('and is then ended', async () => (await pages.press(page, 'Sign out', {}, { follow: false })).status === 303);
  await until('for good', async () => (await looks(cookie)).every((status) => status === 303));
});
