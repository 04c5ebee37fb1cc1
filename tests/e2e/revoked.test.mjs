// What is open for long ends with its key, and says why: event streams, long polls, a page's stream.
// The servers would believe a key for an hour: what they know they were told.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { TASK_PAGE } from './support/provider.mjs';
import { Stack } from './support/stack.mjs';

const REFUSED = '{"error":"Missing or invalid API key"}';

let stack, servers, account, flow;
before(async () => {
  stack = await Stack.start();
  account = await stack.account('watching', { apps: ['gmail', 'notion'] });
  const args = ['--cache-time', '1h'];
  servers = [await stack.serve({ args }), await stack.serve({ args })];
  const input = { maxResults: 1, taskParent: { page_id: TASK_PAGE } };
  const started = await servers[0].call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input });
  assert.equal(started.status, 200, started.text);
  flow = started.json.flowId;
  await until('it waits', async () => (await view(account.key)).json.flow.status === 'waiting');
});
after(() => stack?.stopWell(assert));

const view = (key) => servers[0].call(key, 'GET', `/api/flows/${flow}`);

// {text, hasBegun, end}: what has come so far, and a promise of its end.
async function open(server, path, headers) {
  const reply = await fetch(server.base + path, { headers });
  const stream = { status: reply.status, text: '', isOver: false };
  stream.end = (async () => {
    for await (const part of reply.body) stream.text += Buffer.from(part).toString();
    stream.isOver = true;
  })();
  return stream;
}

async function watch(key) {
  const headers = { Authorization: `Bearer ${key}` };
  const tag = (await view(key)).headers.get('etag');
  const streams = await Promise.all(servers.map((one) => open(one, `/api/flows/${flow}/events`, headers)));
  const polls = servers.map((one) => one.call(key, 'GET', `/api/flows/${flow}?wait=60`, undefined, { 'If-None-Match': tag }));
  await until('the streams have begun', async () => streams.every((one) => one.text.includes('"status":"waiting"')));
  return { streams, polls };
}

async function allEnd({ streams, polls }) {
  for (const poll of await Promise.all(polls)) {
    assert.equal(poll.status, 401);
    assert.equal(poll.text, REFUSED);
    assert.equal(poll.headers.get('www-authenticate'), 'Bearer');
  }
  for (const stream of streams) {
    await stream.end;
    assert.ok(stream.text.endsWith(`event: error\ndata: ${REFUSED}\n\n`), stream.text.slice(-200));
  }
}

test('with a key that is revoked', async () => {
  const { id, key } = JSON.parse(await stack.must(['keys', 'create', account.id, '--json']));
  const open = await watch(key), others = await watch(account.key);
  await stack.must(['keys', 'revoke', account.id, id]);
  await allEnd(open);
  // another key of the account goes on, and hears of what changes
  assert.ok(others.streams.every((one) => !one.isOver));
  assert.equal((await servers[1].call(account.key, 'POST', `/api/flows/${flow}/approve`)).status, 200);
  for (const poll of await Promise.all(others.polls)) assert.equal(poll.status, 200);
  for (const stream of others.streams) {
    await stream.end;
    assert.match(stream.text.trim().split('\n\n').at(-1), /"status":"completed"/);
  }
});

test("with a key that expires, an account that is disabled, a session's key", async () => {
  const input = { maxResults: 1, taskParent: { page_id: TASK_PAGE } };
  flow = (await servers[0].call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input })).json.flowId;
  await until('it waits', async () => (await view(account.key)).json.flow.status === 'waiting');

  const short = await stack.key(account.id, ['--expires', '15s']);
  await allEnd(await watch(short));

  const form = await fetch(`${servers[0].base}/sign-in`);
  const csrf = /name="csrf" value="([^"]+)"/.exec(await form.text())?.[1];
  const signedIn = await fetch(`${servers[0].base}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { Origin: servers[0].base, Cookie: (form.headers.get('set-cookie') ?? '').split(';')[0] },
    body: new URLSearchParams({ key: account.key, ...(csrf ? { csrf } : {}) }),
  });
  assert.equal(signedIn.status, 303);
  const cookie = signedIn.headers.getSetCookie().map((one) => one.split(';')[0]).join('; ');
  const page = await open(servers[0], `/flows/${flow}/events`, { Cookie: cookie });
  assert.equal(page.status, 200);
  await until('the page is told', async () => page.text.includes('data: changed'));

  const watched = await watch(account.key);
  await stack.must(['accounts', 'disable', account.id]);
  await allEnd(watched);
  await page.end;
});
