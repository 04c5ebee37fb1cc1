// Actions that read before they answer or write: lists whose items are read in addition (the
// manifest's `each`), and a reply made from the message that it answers (`when`, `then`).
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { startDev } from './support/dev.mjs';

let dev;
before(async () => (dev = await startDev()));
after(async () => {
  const end = await dev.stop();
  assert.deepEqual([end.code, end.signal], [0, null], end.log);
});
beforeEach(() => dev.control('POST', '/reset'));

const mail = (k) => `19a4b6c7d8e9${k.toString(16).padStart(4, '0')}`;
const mailPath = (k) => `/gmail/v1/users/me/messages/${mail(k)}`;
const requests = async () => (await dev.control('GET', '/counters')).requests;
async function runs(action, input, more) {
  const reply = await dev.execute('gmail', action, input, more);
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
}
const sent = async () => (await dev.ledger()).filter((entry) => entry.path.endsWith('/messages/send'));
const messageOf = async (id) => (await dev.control('GET', '/state/messages')).messages.find((one) => one.id === id);

test('a list has senders, subjects, dates and snippets if they are asked for', async () => {
  const started = await requests();
  const plain = (await runs('list_messages', { labelIds: ['INBOX'], maxResults: 12 })).output;
  assert.equal(await requests(), started + 1);
  for (const one of plain.messages) assert.deepEqual(Object.keys(one), ['id', 'threadId']);
  const { output, execution_id } = await runs('list_messages', { labelIds: ['INBOX'], maxResults: 12, details: true });
  assert.equal(await requests(), started + 2 + 12);
  assert.deepEqual(output.messages.map(({ id }) => id), plain.messages.map(({ id }) => id));
  for (const one of output.messages) {
    const { from, to, subject, date, labelIds, snippet } = (await runs('get_message', { id: one.id })).output;
    assert.deepEqual(one, { id: one.id, threadId: one.threadId, from, to, subject, date, labelIds, snippet });
  }
  const stored = await dev.call('GET', `/api/executions/${execution_id}`);
  assert.deepEqual(stored.json.output, output);
  const found = (await runs('search_messages', { query: 'INV-4217', details: true })).output.messages;
  assert.match(found[0].subject, /INV-4217/);
});

test('the reads of items are part of one execution', async () => {
  const count = async () => (await dev.call('GET', '/api/executions?limit=100')).json.executions.length;
  const started = await count();
  await runs('list_messages', { maxResults: 5, details: true });
  assert.equal(await count(), started + 1);
});

test('an item that cannot be read keeps its id and says why', async () => {
  await dev.faults([{ match: { path_prefix: mailPath(2) }, action: { status: 404, body: '{"error": {"message": "No such mail"}}' } }]);
  const { messages } = (await runs('list_messages', { labelIds: ['INBOX'], maxResults: 4, details: true })).output;
  const [lost] = messages.filter(({ id }) => id === mail(2));
  assert.deepEqual(Object.keys(lost), ['id', 'threadId', 'not_read']);
  assert.match(lost.not_read, /No such mail/);
  assert.equal(messages.filter(({ subject }) => subject).length, messages.length - 1);
});

test('at most 50 items are read, also of several pages', async () => {
  const started = await requests();
  const { messages } = (await runs('list_messages', { maxResults: 40, details: true }, { max_pages: 2 })).output;
  assert.ok(messages.length > 50, String(messages.length));
  assert.equal(await requests(), started + 2 + 50);
  assert.equal(messages.filter(({ from }) => from).length, 50);
  assert.equal(messages[50].not_read, 'Only the first 50 are read.');
});

test('a dry run names the reads that would follow', async () => {
  const started = await requests();
  const reply = await dev.execute('gmail', 'list_messages', { details: true }, { dry_run: true });
  assert.deepEqual(reply.json.each, { action_id: 'get_message', max: 50 });
  assert.equal((await dev.execute('gmail', 'list_messages', {}, { dry_run: true })).json.each, undefined);
  assert.equal(await requests(), started);
});

test('a reply needs the id and a text', async () => {
  const first = (await runs('get_message', { id: mail(4) })).output;
  const { output, display } = await runs('reply_to_message', { id: mail(4), text: 'Count me in.' }, { confirm: true });
  assert.equal(output.threadId, first.threadId);
  const made = await messageOf(output.id);
  assert.deepEqual([made.To, made.Subject, made.text.trim()], [first.from, `Re: ${first.subject}`, 'Count me in.']);
  assert.ok(display.summary.includes(`Re: ${first.subject}`), display.summary);
  const headers = (await runs('get_message', { id: output.id })).output.payload.headers;
  const header = (name) => headers.find((one) => one.name.toLowerCase() === name)?.value;
  assert.equal(header('in-reply-to'), first.messageIdHeader);
  assert.ok(header('references').endsWith(first.messageIdHeader));
  // the account's own mail is answered to its recipient
  const again = await runs('reply_to_message', { id: output.id, text: 'One more thing.' }, { confirm: true });
  assert.deepEqual([(await messageOf(again.output.id)).To, (await messageOf(again.output.id)).Subject], [first.from, `Re: ${first.subject}`]);
});

test('a reply goes where Reply-To says, unless the call says otherwise', async () => {
  const raw = 'From: List <list@example.org>\r\nReply-To: "Ada, of the list" <ada@example.org>\r\nTo: sam.rivera@example.com\r\nSubject: Re: Plans\r\nMessage-ID: <p@example.org>\r\n\r\nHello.\r\n';
  await dev.control('POST', '/mail', { raw });
  const [{ id }] = (await runs('search_messages', { query: 'subject:Plans' })).output.messages;
  const reply = async (more) => messageOf((await runs('reply_to_message', { id, text: 'x', ...more }, { confirm: true })).output.id);
  const own = await reply({});
  assert.match(own.To, /ada@example\.org/);
  assert.equal(own.Subject, 'Re: Plans');
  assert.match((await reply({ to: 'ben@example.org' })).To, /^ben@example\.org$/);
});

test('a reply whose parts are given reads nothing', async () => {
  const started = await requests();
  await runs('reply_to_message', { threadId: mail(4), inReplyTo: `<${mail(4)}@mail.example.com>`, to: 'anna.keller@example.com', subject: 'Offsite in March', text: 'Yes.' }, { confirm: true });
  assert.equal(await requests(), started + 1);
  const neither = await dev.execute('gmail', 'reply_to_message', { text: 'x' }, { confirm: true });
  assert.deepEqual([neither.status, neither.json.error_code], [409, 'validation_error'], neither.text);
});

test('nothing is sent if the message cannot be read', async () => {
  const key = { confirm: true, idempotency_key: 'reply' };
  const input = { id: mail(4), text: 'Count me in.' };
  await dev.faults([{ match: { path_prefix: mailPath(4) }, count: 1, action: { status: 404, body: '{"error": {"message": "No such mail"}}' } }]);
  const failed = await dev.execute('gmail', 'reply_to_message', input, key);
  assert.equal(failed.json.status, 'failed', failed.text);
  assert.match(failed.json.message, /No such mail.* Nothing was done\./);
  assert.deepEqual(await sent(), []);
  // the key is free, and is then bound to the one reply
  const done = await runs('reply_to_message', input, key);
  assert.deepEqual(await runs('reply_to_message', input, key), done);
  assert.equal((await sent()).length, 1);
});

test('a reply is confirmed, and its dry run says that the message would be read', async () => {
  const started = await requests();
  const input = { id: mail(4), text: 'Count me in.' };
  const blocked = await dev.execute('gmail', 'reply_to_message', input);
  assert.deepEqual([blocked.status, blocked.json.error_code], [409, 'policy_blocked']);
  const { request, then } = (await dev.execute('gmail', 'reply_to_message', input, { dry_run: true })).json;
  assert.deepEqual([request.method, new URL(request.url).pathname], ['GET', mailPath(4)]);
  assert.deepEqual([then.length, then[0].method], [1, 'POST']);
  const whole = (await dev.execute('gmail', 'reply_to_message', { threadId: mail(4), inReplyTo: '<x@y>', to: 'a@example.org', subject: 's', text: 'x' }, { dry_run: true })).json;
  assert.deepEqual([whole.request.method, whole.then], ['POST', undefined]);
  assert.equal(await requests(), started);
});
