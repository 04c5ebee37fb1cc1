// Executions of Gmail actions with a third-party emulator of Gmail (npm `emulate`), served by nginx
// with TLS. Features that the emulator lacks (OR, -from:, newer_than:, getProfile, checks of
// tokens) are left out here, and tested with our own provider.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Emulator } from './support/emulator.mjs';
import { makeCertificates, startNginx } from './support/nginx.mjs';
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

let stack, emulator, nginx, server, account, google;

before(async () => {
  stack = await Stack.start({ catalog: false, provider: false });
  const seed = join(stack.dir, 'seed.yaml');
  await writeFile(seed, SEED);
  emulator = await Emulator.start('google', seed, stack.dir);
  const tls = await makeCertificates(stack.dir);
  nginx = await startNginx(
    stack.dir,
    (own) => `
  upstream emulator { server 127.0.0.1:${emulator.port}; keepalive 8; }
  server {
    listen 127.0.0.1:${own} ssl;
    ssl_certificate ${tls.certFile}; ssl_certificate_key ${tls.keyFile};
    ssl_protocols TLSv1.2 TLSv1.3;
    location / { proxy_pass http://emulator; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }`,
  );
  server = await stack.serve({ provider: { url: `https://127.0.0.1:${nginx.port}`, caFile: tls.caFile } });
  account = await stack.account('emulated', { apps: [] });
  google = await googleClient(`${emulator.url}/`);
  await stack.connect(account.id, 'gmail', { access_token: `token-of-${USER}` });
});

after(async () => {
  await nginx?.stop();
  await emulator?.process.stop();
  await stack?.stopWell(assert);
});

// Google's own client reads the same mailbox to check what was done.
async function googleClient(rootUrl) {
  const { gmail, auth } = await import('@googleapis/gmail');
  const client = new auth.OAuth2();
  client.setCredentials({ access_token: `token-of-${USER}` });
  const { users } = gmail({ version: 'v1', auth: client, rootUrl });
  return {
    get: async (id, format = 'full') => (await users.messages.get({ userId: 'me', id, format })).data,
    list: async (query) => (await users.messages.list({ userId: 'me', ...query })).data.messages ?? [],
    raw: async (id) => {
      const { data } = await users.messages.get({ userId: 'me', id, format: 'raw' });
      return Buffer.from(data.raw, 'base64url').toString();
    },
  };
}
const headerOf = (message, name) => message.payload.headers.find((one) => one.name.toLowerCase() === name)?.value;
const idsOf = (list) => list.map((one) => one.id).sort();

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
  const seen = (await google.get('msg_first')).labelIds;
  assert.ok(seen.includes('STARRED') && !seen.includes('UNREAD') && seen.includes('INBOX'), seen.join());
});

test("Google's own client reads what was sent, with exactly the same content", async () => {
  const input = {
    to: ['Ada Lovelace <ada@example.org>', 'ben@example.org'],
    cc: 'Größe <groesse@example.org>',
    subject: 'Übersicht: 50 % „fertig“ – und eine Zeile, die so lang ist, dass sie gefaltet werden muss, zweimal 😀',
    text: 'Erste Zeile äöü €\n.\nFrom here on\n=3D not encoded\n\n' + 'x'.repeat(1200),
    html: '<p>Erste <b>Zeile</b> äöü €</p>',
  };
  const sent = await succeeds('send_message', input, { confirm: true });
  const message = await google.get(sent.id);
  assert.ok(message.labelIds.includes('SENT'), message.labelIds.join());
  const raw = await google.raw(sent.id);
  assert.match(raw, /^To: .*ada@example\.org.*ben@example\.org/ims);
  const decoded = (text) => text.replace(/\?=\s+=\?/g, '?==?').replace(/=\?utf-8\?(b|q)\?([^?]*)\?=/gi, (_, kind, body) =>
    Buffer.from(kind.toLowerCase() === 'b' ? Buffer.from(body, 'base64') : Buffer.from(body.replaceAll('_', ' ').replace(/=([0-9A-F]{2})/gi, (__, hex) => String.fromCharCode(parseInt(hex, 16))), 'latin1')).toString());
  const headers = decoded(raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]/g, ' '));
  assert.ok(headers.includes(`Subject: ${input.subject}`), headers);
  assert.ok(headers.includes('Größe <groesse@example.org>'), headers);
  for (const line of raw.split('\r\n')) assert.ok(Buffer.byteLength(line) <= 998, 'RFC 5322 2.1.1');
  // the parts in Google's form
  const parts = [message.payload, ...(message.payload.parts ?? [])];
  const text = parts.find((part) => part.mimeType === 'text/plain')?.body?.data;
  assert.equal(Buffer.from(text ?? '', 'base64url').toString().replaceAll('\r\n', '\n').trimEnd(), input.text);
  assert.ok((await google.list({ labelIds: ['SENT'] })).some((one) => one.id === sent.id));
});

test('a file of the call is a part of the mail', async () => {
  const bytes = Buffer.from([...Array(256).keys()]);
  const body = { to: 'ada@example.org', subject: 'With a file', text: 'See below.', confirmed: true, files: [{ name: 'all bytes.bin', data: bytes.toString('base64') }] };
  const reply = await server.call(account.key, 'POST', '/api/tools/gmail_send_message/execute', body);
  assert.equal(reply.status, 200, reply.text);
  const raw = await google.raw(reply.json.data.id);
  const part = raw.slice(raw.indexOf('Content-Disposition: attachment'));
  assert.match(part, /filename="all bytes\.bin"/);
  assert.ok(part.replaceAll('\r\n', '').includes(bytes.toString('base64')), part);
});

test('a reply stays in its conversation', async () => {
  const first = await google.get('msg_first');
  const sent = await succeeds('reply_to_message',
    { to: 'anna@example.org', subject: 'Offsite in March', text: 'Yes.', threadId: first.threadId, inReplyTo: headerOf(first, 'message-id') ?? '<first@example.org>' },
    { confirm: true });
  assert.equal((await google.get(sent.id)).threadId, first.threadId);
  assert.match(await google.raw(sent.id), /^Subject: Re: Offsite in March\r$/m);
  const thread = await succeeds('get_thread', { id: first.threadId });
  assert.deepEqual(idsOf(thread.messages), ['msg_first', sent.id].sort());
});

test('trash and back', async () => {
  const blocked = await execute('trash_message', { id: 'msg_second' });
  assert.deepEqual([blocked.status, blocked.json.error_code], [409, 'policy_blocked']);
  await succeeds('trash_message', { id: 'msg_second' }, { confirm: true });
  let { labelIds } = await google.get('msg_second');
  assert.ok(labelIds.includes('TRASH') && !labelIds.includes('INBOX'), labelIds.join());
  assert.ok(!idsOf(await google.list({ labelIds: ['INBOX'] })).includes('msg_second'));
  assert.ok(!idsOf((await succeeds('list_messages', { labelIds: ['INBOX'] })).messages).includes('msg_second'));
  await succeeds('untrash_message', { id: 'msg_second' }, { confirm: true });
  ({ labelIds } = await google.get('msg_second'));
  assert.ok(!labelIds.includes('TRASH'), labelIds.join());
});

test('each write is made once, however often it is requested', async () => {
  const before = (await google.list({ labelIds: ['SENT'] })).length;
  const input = { to: 'ben@example.org', subject: 'only one of these', text: 'x' };
  const replies = await Promise.all(Array.from({ length: 10 }, () => execute('send_message', input, { confirm: true, idempotency_key: 'ten' })));
  assert.equal(new Set(replies.map((reply) => reply.text)).size, 1);
  assert.equal((await google.list({ labelIds: ['SENT'] })).length, before + 1);
});

test('an unknown id is a failure that says why', async () => {
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
