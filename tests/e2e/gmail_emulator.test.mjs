// The same executions against somebody else's idea of Gmail (npm `emulate`), behind nginx with TLS.
// What that emulator does not do (PROVING.md: OR, -from:, newer_than:, getProfile; any token is
// good) is left out here and tested against our own provider.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { makeCertificates, startNginx } from './support/nginx.mjs';
import { Running, freePort } from './support/process.mjs';
import { Stack } from './support/stack.mjs';

const USER = 'mailbox@example.com';
const SEED = `google:
  users:
    - { email: ${USER}, name: Mail Box }
  labels:
    - { id: Label_ops, user_email: ${USER}, name: Ops/Review }
  messages:
    - id: msg_first
      user_email: ${USER}
      from: Anna Keller <anna@example.org>
      to: ${USER}
      subject: Offsite in March
      body_text: Are you coming? Grüße
      label_ids: [INBOX, UNREAD]
      date: 2026-11-01T10:00:00Z
    - id: msg_second
      user_email: ${USER}
      from: billing@example.net
      to: ${USER}
      subject: Invoice 17
      body_text: Please pay.
      label_ids: [INBOX]
      date: 2026-11-02T10:00:00Z
`;

let stack, emulator, nginx, server, account;

before(async () => {
  stack = await Stack.start({ provider: false });
  const seed = join(stack.dir, 'seed.yaml');
  await writeFile(seed, SEED);
  const port = await freePort();
  const program = new URL('node_modules/emulate/dist/index.js', import.meta.url).pathname;
  const args = [program, 'start', '--service', 'google', '--port', String(port), '--seed', seed];
  emulator = new Running(process.execPath, args, { cwd: stack.dir });
  await until('the emulator answers', async () => {
    emulator.check();
    return (await fetch(`http://127.0.0.1:${port}/gmail/v1/users/me/messages`).catch(() => null)) !== null;
  });
  const tls = await makeCertificates(stack.dir);
  nginx = await startNginx(
    stack.dir,
    (own) => `
  upstream emulator { server 127.0.0.1:${port}; keepalive 8; }
  server {
    listen 127.0.0.1:${own} ssl;
    ssl_certificate ${tls.certFile}; ssl_certificate_key ${tls.keyFile};
    ssl_protocols TLSv1.2 TLSv1.3;
    location / { proxy_pass http://emulator; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }`,
  );
  server = await stack.serve({ provider: { url: `https://127.0.0.1:${nginx.port}`, caFile: tls.caFile } });
  account = await stack.account('emulated', { apps: [] });
  await stack.connect(account.id, 'gmail', { access_token: `token-of-${USER}` });
});

after(async () => {
  await nginx?.stop();
  await emulator?.stop();
  await stack?.stopWell(assert);
});

const execute = (action, input, more) => server.execute(account.key, 'gmail', action, input, more);

async function succeeds(action, input, more) {
  const reply = await execute(action, input, more);
  assert.equal(reply.status, 200, `${action}: ${reply.text}`);
  assert.equal(reply.json.status, 'succeeded');
  const stored = await server.call(account.key, 'GET', `/api/executions/${reply.json.execution_id}`);
  assert.equal(stored.text, reply.text);
  return reply.json.output;
}

test('list and search', async () => {
  const all = await succeeds('list_messages', { labelIds: ['INBOX'], maxResults: 10 });
  assert.deepEqual(all.messages.map((message) => message.id).sort(), ['msg_first', 'msg_second']);
  const found = await succeeds('search_messages', { query: 'from:billing' });
  assert.deepEqual(found.messages.map((message) => message.id), ['msg_second']);
  const subject = await succeeds('search_messages', { query: 'is:unread subject:offsite', maxResults: 1 });
  assert.deepEqual(subject.messages.map((message) => message.id), ['msg_first']);
});

test('get a message', async () => {
  const message = await succeeds('get_message', { id: 'msg_first' });
  const text = JSON.stringify(message);
  assert.match(text, /Offsite in March/);
  assert.match(text, /anna@example\.org/);
});

test('labels', async () => {
  const { labels } = await succeeds('list_labels', {});
  assert.ok(labels.some((label) => label.id === 'Label_ops'));
});

test('a write is blocked, then confirmed, then seen in the mailbox', async () => {
  const input = { to: 'ben@example.org', subject: 'Grüße aus München', text: 'Hello Ben,\n\nÄÖÜ €' };
  const blocked = await execute('send_message', input);
  assert.deepEqual([blocked.status, blocked.json.error_code], [409, 'policy_blocked']);
  const key = { confirm: true, idempotency_key: 'send once' };
  const first = await execute('send_message', input, key);
  assert.equal(first.status, 200, first.text);
  const again = await execute('send_message', input, key);
  assert.equal(again.text, first.text);
  const sent = await succeeds('list_messages', { labelIds: ['SENT'] });
  assert.equal(sent.messages.length, 1);
  const message = await succeeds('get_message', { id: sent.messages[0].id });
  assert.match(JSON.stringify(message), /ben@example\.org/);
});

test('modify labels', async () => {
  await succeeds('modify_labels', { id: 'msg_first', addLabelIds: ['STARRED'], removeLabelIds: ['UNREAD'] }, { confirm: true });
  const message = await succeeds('get_message', { id: 'msg_first' });
  const labels = message.labelIds ?? message.labels;
  assert.ok(labels.includes('STARRED') && !labels.includes('UNREAD'), JSON.stringify(message));
});

test('an unknown id is a failure with the reason', async () => {
  const reply = await execute('get_message', { id: 'msg_nowhere' });
  assert.equal(reply.status, 500, reply.text);
  assert.equal(reply.json.status, 'failed');
  assert.equal(reply.json.error_code, 'execution_failed');
  assert.match(reply.json.message, /not found/i);
});

test('a certificate of an unknown authority is refused before any byte of the request', async () => {
  const stranger = await stack.serve({
    provider: { url: `https://127.0.0.1:${nginx.port}`, caFile: '/etc/ssl/certs/ca-certificates.crt' },
  });
  const reply = await stranger.execute(account.key, 'gmail', 'list_labels', {});
  assert.equal(reply.status, 500, reply.text);
  assert.equal(reply.json.error_code, 'execution_failed');
  assert.match(reply.json.hint, /nothing was sent|no byte|not sent/i);
});
