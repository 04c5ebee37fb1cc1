// A 2xx that is not what the action returns (a login page, a block page, another kind of JSON) is
// not a success, wherever an action runs: alone, in a batch, page by page, or in a flow. The tests
// check what is then known about a write, and its key. Every "too fast" reply also says until when.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { startDev, until } from './support/dev.mjs';

const PAGE = '<!DOCTYPE html><html><head><title>Welcome to Airport WiFi</title></head><body>Sign in</body></html>';
const THREADS = '/gmail/v1/users/me/threads', SEND = '/gmail/v1/users/me/messages/send', PAGES = '/v1/pages';

let dev;
before(async () => (dev = await startDev({ args: ['--connection-limits', 'on'] })));
after(async () => {
  const end = await dev.stop();
  assert.deepEqual([end.code, end.signal], [0, null], end.log);
});
beforeEach(() => dev.faults([]));

const answer = (path_prefix, body, more = {}) => dev.faults([{ match: { path_prefix }, count: -1, action: { status: 200, body }, ...more }]);
const hits = async () => (await dev.control('GET', '/faults')).rules[0].hits;
const mail = (subject, more = {}) => dev.execute('gmail', 'send_message', { to: 'ada@example.com', subject, text: 'x' }, { confirm: true, ...more });

function assertUnreadable({ status, json, text }, message) {
  assert.deepEqual([status, json.status, json.error_code], [500, 'failed', 'execution_failed'], text);
  assert.match(json.message, message);
  assert.equal(json.display.summary, json.message);
  assert.equal('output' in json, false);
}

test('a read fails, once, and says what it got', async () => {
  for (const [body, message] of [
    [PAGE, /HTTP 200 with a web page.*"Welcome to Airport WiFi"/],
    ['nothing here', /not the JSON that the action returns: "nothing here"/],
    [[], /an array, not the object/],
    [{ error: { code: 500, message: 'Backend Error' } }, /Gmail: Backend Error/],
  ]) {
    await answer(THREADS, body);
    const reply = await dev.execute('gmail', 'list_threads', {});
    assertUnreadable(reply, message);
    assert.match(reply.json.hint, /^Nothing was (changed|done)/);
    assert.equal(await hits(), 1, 'it is not called again');
  }
  await answer(THREADS, {});
  assert.deepEqual((await dev.execute('gmail', 'list_threads', {})).json.output.threads, []);
});

test('a write has an unknown outcome, and its key stays bound', async () => {
  await answer(SEND, PAGE, { action: { status: 200, body: PAGE, executed: true } });
  const first = await mail('lost on the way', { idempotency_key: 'unreadable' });
  assertUnreadable(first, /web page/);
  assert.match(first.json.hint, /^The outcome is unknown/);
  await dev.faults([]);
  const again = await mail('lost on the way', { idempotency_key: 'unreadable' });
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.deepEqual([again.status, again.json], [500, first.json]);
  assert.equal((await dev.ledger()).filter((write) => write.marker === 'lost on the way').length, 1);
  await answer(SEND, { labelIds: [] });
  assertUnreadable(await mail('without an id'), /without body\.id/);
  const tool = await dev.call('POST', '/api/tools/gmail_send_message/execute', { arguments: { to: 'ada@example.com', subject: 's', text: 't' }, confirmed: true });
  assert.deepEqual(tool.json.error, { type: 'provider', code: 'reply_unreadable', message: tool.json.canonical.message, retryable: false });
});

test('an action that returns nothing accepts an empty body, but not a page', async () => {
  const sent = (await mail('to be deleted')).json.output.id;
  const remove = () => dev.execute('gmail', 'delete_message', { id: sent }, { confirm: true });
  await answer('/gmail/v1/users/me/messages/', PAGE);
  assertUnreadable(await remove(), /web page/);
  await dev.faults([]);
  assert.equal((await remove()).json.output.deleted, true);
});

test('a dry run sends nothing, so it does not change', async () => {
  await answer(SEND, PAGE);
  const reply = await mail('dry', { dry_run: true });
  assert.deepEqual([reply.status, reply.json.dry_run], [200, true], reply.text);
  assert.equal(await hits(), 0);
});

test('a later page that cannot be read ends the pages there', async () => {
  await answer(THREADS, PAGE, { skip: 1 });
  const reply = await dev.execute('gmail', 'list_threads', { maxResults: 2 }, { max_pages: 3 });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.json.pages.read, 1);
  assert.match(reply.json.pages.stopped, /HTTP 200 with a web page/);
  assert.ok(reply.json.pages.next.pageToken);
  assert.equal(reply.json.output.threads.length, 2);
});

test('an item of a batch fails alone; one that was too fast gets the time for the next', async () => {
  await dev.faults([
    { match: { path_prefix: THREADS }, count: -1, action: { status: 200, body: PAGE } },
    { match: { path_prefix: SEND }, count: -1, action: { status: 429 } },
  ]);
  const { json } = await dev.call('POST', '/api/executions/batch', {
    executions: [
      { integration_id: 'gmail', action_id: 'list_threads', input: {} },
      { integration_id: 'gmail', action_id: 'send_message', input: { to: 'ada@example.com', subject: 'fast', text: 'x' }, confirm: true },
      { integration_id: 'gmail', action_id: 'list_labels', input: {} },
    ],
  });
  const [page, fast, well] = json.results;
  assert.deepEqual([page.status, page.summary.error_code, well.status], [500, 'execution_failed', 200]);
  assert.deepEqual([fast.status, fast.summary.error_code, fast.retry_after, fast.summary.retry_after], [500, 'rate_limited', 30, 30]);
});

async function startFlow() {
  const started = await dev.call('POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input: { maxResults: 1, taskParent: dev.taskParent } });
  const path = `/api/flows/${started.json.flowId}`;
  const reaches = (status) =>
    until(`it is ${status}`, async () => {
      const { json } = await dev.call('GET', path);
      return json.flow.status === status && json;
    });
  return { reaches, approve: () => dev.call('POST', `${path}/approve`, {}), resume: () => dev.call('POST', `${path}/resume`, {}) };
}

test('a step of a flow fails in the same way, and continues once it is resumed', async () => {
  const { reaches, approve, resume } = await startFlow();
  await reaches('waiting');
  // only the write: before it the name of the page is read, as it was for the approval
  await dev.faults([{ match: { method: 'POST', path_prefix: PAGES }, count: -1, action: { status: 200, body: PAGE } }]);
  await approve();
  const failed = await reaches('failed');
  const { error } = failed.steps.find((step) => step.status === 'failed');
  assert.deepEqual([error.code, error.retryable], ['execution_failed', false]);
  assert.match(error.message, /web page/);
  assert.match(error.hint, /outcome is unknown/);
  assert.equal(await hits(), 1, 'a write is not sent again');
  await dev.faults([]);
  assert.equal((await resume()).status, 200);
  await reaches('completed');
});

test('a step that was too fast says until when', async () => {
  await dev.faults([{ match: { path_prefix: PAGES }, count: -1, action: { status: 429 } }]);
  const { reaches, approve } = await startFlow();
  await reaches('waiting');
  await approve();
  const { error } = (await reaches('failed')).steps.find((step) => step.status === 'failed');
  assert.deepEqual([error.code, error.retry_after], ['rate_limited', 30], JSON.stringify(error));
});

// Must be the last test: it leaves the connection rate-limited (for 600 s).
test('the limits in one reply also apply to another without them', async () => {
  await dev.faults([
    { match: { path_prefix: PAGES }, count: -1, action: { status: 429, hold: true } },
    { match: { path_prefix: '/v1/users' }, count: -1, action: { status: 429, retry_after: 600 } },
  ]);
  const late = dev.execute('notion', 'create_page', { parent: dev.taskParent, properties: { title: { title: [{ text: { content: 'late' } }] } } }, { confirm: true });
  await until('it is under way', async () => (await hits()) === 1);
  assert.equal((await dev.execute('notion', 'get_self', {})).headers.get('retry-after'), '600');
  await dev.faults([]);
  const reply = await late;
  assert.deepEqual([reply.status, reply.json.error_code], [500, 'rate_limited'], reply.text);
  const seconds = Number(reply.headers.get('retry-after'));
  assert.ok(seconds > 30 && seconds <= 600, `Retry-After: ${seconds}`);
  assert.equal(reply.json.retry_after, seconds);
});
