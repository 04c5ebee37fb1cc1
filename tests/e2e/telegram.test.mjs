// A credential in the path, as Telegram requires: it arrives complete, percent-encoded as one
// segment. It appears in no dry run, reply, log, metric or row of the database.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { freePort } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

const TOKEN = '12345678:AAF-s3cr3t_t0ken/../x?y';
const ENCODED = encodeURIComponent(TOKEN);
const calls = [];
let stack, server, account, standIn, answer;

// Starts a server with the most verbose log.
const serve = (url) =>
  stack.serve({
    args: ['--origin-override', `https://api.telegram.org=${url}`, '--allow-host', '127.0.0.1', '--log-level', 'trace'],
  });

before(async () => {
  standIn = createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const { method, url, headers } = request;
      calls.push({ method, url, type: headers['content-type'], body: Buffer.concat(parts).toString() });
      const { status, body } = answer;
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
  });
  await new Promise((listening) => standIn.listen(0, '127.0.0.1', listening));
  stack = await Stack.start({ catalog: false, provider: false });
  account = await stack.account('a', { apps: [] });
  await stack.connect(account.id, 'telegram', { api_key: TOKEN });
  const url = `http://127.0.0.1:${standIn.address().port}`;
  server = await serve(url);
});
after(async () => {
  standIn?.close();
  await stack?.stopWell(assert);
});

const hidden = (text, where) => {
  for (const secret of [TOKEN, ENCODED, 's3cr3t_t0ken']) assert.ok(!text.includes(secret), `the token is in ${where}`);
};

test('the token is in the path, as one segment', async () => {
  answer = { status: 200, body: { ok: true, result: { message_id: 7, chat: { id: 5 } } } };
  const reply = await server.execute(account.key, 'telegram', 'send_message', { chat_id: 5, text: 'a b', reply_to_message_id: 3 }, { confirm: true });
  assert.equal(reply.json.status, 'succeeded', reply.text);
  assert.equal(reply.json.output.message_id, 7);
  const call = calls.pop();
  assert.deepEqual([call.method, call.url], ['POST', `/bot${ENCODED}/sendMessage`]);
  assert.deepEqual(JSON.parse(call.body), { chat_id: 5, text: 'a b', reply_parameters: { message_id: 3 } });
  hidden(reply.text, 'the reply');

  answer = { status: 200, body: { ok: true, result: [] } };
  await server.execute(account.key, 'telegram', 'get_updates', { offset: -1, allowed_updates: ['message'] });
  assert.equal(calls.pop().url, `/bot${ENCODED}/getUpdates?offset=-1&allowed_updates=%5B%22message%22%5D`);
});

test('a file is sent together with its fields', async () => {
  answer = { status: 200, body: { ok: true, result: { message_id: 8, chat: { id: 5 } } } };
  const files = [{ name: 'a.txt', contentType: 'text/plain', data: 'aGVsbG8=' }];
  const body = { arguments: { chat_id: 5, caption: 'c' }, files, confirmed: true };
  const reply = await server.call(account.key, 'POST', '/api/tools/telegram_send_document/execute', body);
  assert.equal(reply.status, 200, reply.text);
  const call = calls.pop();
  assert.match(call.type, /^multipart\/form-data; boundary=/);
  assert.match(call.body, /name="chat_id"\r\n\r\n5\r\n/);
  assert.match(call.body, /name="caption"\r\n\r\nc\r\n/);
  assert.match(call.body, /name="document"; filename="a.txt"\r\nContent-Type: text\/plain\r\n\r\nhello\r\n/);
});

test('a dry run masks it', async () => {
  const reply = await server.execute(account.key, 'telegram', 'get_me', {}, { dry_run: true });
  assert.equal(reply.status, 200, reply.text);
  assert.match(reply.text, /"url":"https:\/\/api\.telegram\.org\/\*\*\*\/getMe"/);
  hidden(reply.text, 'the dry run');
  assert.equal(calls.length, 0);
});

test('errors are distinguished, and never quote it', async () => {
  for (const [status, body, code, text] of [
    [401, { ok: false, error_code: 401, description: 'Unauthorized' }, 'unauthorized', /refused the bot's token/],
    [404, { ok: false, error_code: 404, description: 'Not Found' }, 'unauthorized', /does not know a bot with this token/],
    [403, { ok: false, error_code: 403, description: 'Forbidden: bot was blocked by the user' }, 'forbidden', /blocked/],
    [400, { ok: false, error_code: 400, description: 'Bad Request: chat not found' }, 'validation_error', /chat not found/],
    [400, { ok: false, description: 'Bad Request: upgraded', parameters: { migrate_to_chat_id: -1007 } }, 'validation_error', /use chat_id -1007/],
    [409, { ok: false, description: 'Conflict: webhook' }, 'execution_failed', /webhook/],
    [429, { ok: false, description: 'Too Many Requests', parameters: { retry_after: 9 } }, 'rate_limited', /limits/],
    [500, { ok: false }, 'execution_failed', /./],
  ]) {
    answer = { status, body };
    const again = await stack.account('another', { apps: [] });
    await stack.connect(again.id, 'telegram', { api_key: TOKEN });
    const reply = await server.execute(again.key, 'telegram', 'send_message', { chat_id: 5, text: 'x' }, { confirm: true });
    assert.equal(reply.json.error_code, code, reply.text);
    assert.match(`${reply.json.message} ${reply.json.hint ?? ''}`, text);
    hidden(reply.text, `the reply to ${status}`);
    if (status === 429) assert.equal(reply.headers.get('retry-after'), '9');
  }
  calls.length = 0;
});

test('an unreachable provider is reported without it', async () => {
  const other = await serve(`http://127.0.0.1:${await freePort()}`);
  const reply = await other.execute(account.key, 'telegram', 'get_me', {});
  assert.deepEqual([reply.status, reply.json.error_code], [500, 'execution_failed'], reply.text);
  hidden(reply.text, 'the reply');
  hidden(other.log, 'the log');
});

test('it is in no log, metric, catalog page or row', async () => {
  hidden(await server.metrics(), 'the metrics');
  const detail = await server.call(account.key, 'GET', '/api/actions/telegram/send_message');
  hidden(detail.text, 'the action');
  hidden(await stack.cluster.dump(), 'the database');
  hidden(server.log, 'the log');
});
