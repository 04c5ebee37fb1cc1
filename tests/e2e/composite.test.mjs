// Actions that read before they answer or write: lists whose items are read in addition (the
// manifest's `each`), and a reply made from the message that it answers (`when`, `then`).
import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { until } from './support/client.mjs';
import { startDev } from './support/dev.mjs';
import { Mcp } from './support/mcp.mjs';
import { Pages } from './support/pages.mjs';
import { makeFolder } from './support/process.mjs';

const TEMPLATE = {
  key: 'reply_after_approval',
  name: 'Reply after approval',
  description: 'Replies to messages once a person approves.',
  input: { type: 'object', additionalProperties: false, required: ['ids'], properties: { ids: { type: 'array', items: { type: 'string' }, description: 'Ids of messages.' } } },
  steps: [
    { key: 'ask', type: 'approval', title: 'Reply', summary: 'Replies', expires_in: 3600 },
    { key: 'reply', type: 'tool_call', tool: 'gmail_reply_to_message', confirmed_by: 'approval:ask', for_each: 'input.ids', concurrency: 1, input: { id: '${item}', text: 'Count me in.' } },
  ],
};
let dev, catalog;
before(async () => {
  catalog = await makeFolder();
  await mkdir(join(catalog, 'templates'));
  await writeFile(join(catalog, 'templates', `${TEMPLATE.key}.json`), JSON.stringify(TEMPLATE));
  dev = await startDev({ args: ['--catalog', catalog] });
});
after(async () => {
  await rm(catalog, { recursive: true, force: true });
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

test('a reply to a mail with odd headers is sent', async () => {
  const raw = 'From: List <list@example.org>\r\nTo: sam.rivera@example.com\r\nSubject: Odd\u0001 plans\r\nMessage-ID: <no-at-sign>\r\nReferences: <a@example.org>\t<b@example.org><c@example.org>\r\n\r\nHello.\r\n';
  await dev.control('POST', '/mail', { raw });
  const [{ id }] = (await runs('search_messages', { query: 'from:list@example.org subject:Odd' })).output.messages;
  const { headers } = (await runs('get_message', { id: (await runs('reply_to_message', { id, text: 'x' }, { confirm: true })).output.id })).output.payload;
  const header = (name) => headers.find((one) => one.name.toLowerCase() === name)?.value;
  assert.equal(header('references'), '<a@example.org> <b@example.org> <c@example.org>');
  assert.equal(header('in-reply-to'), undefined);
  assert.equal(header('subject'), 'Re: Odd  plans');
});

test('a mail that was sent only as a copy is answered to its recipients', async () => {
  // an empty list of recipients writes no To
  const { id } = (await runs('send_message', { to: ', ,', bcc: 'ben@example.org', subject: 'Quiet', text: 'x' }, { confirm: true })).output;
  const reply = (await runs('reply_to_message', { id, text: 'y' }, { confirm: true })).output;
  assert.match((await messageOf(reply.id)).To, /^ben@example\.org$/);
});

test('a reply with a wrong address is refused before its message is read', async () => {
  const started = await requests();
  for (const more of [{ confirm: true }, { dry_run: true }]) {
    const { json } = await dev.execute('gmail', 'reply_to_message', { id: mail(4), text: 'x', cc: 'bob smith' }, more);
    assert.deepEqual([json.error_code, json.retryable], ['validation_error', false], JSON.stringify(json));
    assert.match(json.message, /^The request cannot be made from this input: cc: bob smith is not an email address\. Nothing was sent\.$/);
  }
  assert.equal(await requests(), started);
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

test('a list has texts and attachments if they are asked for', async () => {
  const { output } = await runs('search_messages', { query: 'INV-4217', text: true });
  const whole = (await runs('get_message', { id: output.messages[0].id })).output;
  const { id, threadId, from, to, subject, date, labelIds, text, attachments } = whole;
  assert.deepEqual(output.messages[0], { id, threadId, from, to, subject, date, labelIds, text, attachments });
  assert.match(text, /INV-4217/);
  assert.equal(attachments[0].filename, 'invoice-INV-4217.pdf');
  // a message without a file has no list of files
  const [plain] = (await runs('search_messages', { query: 'subject:Thursday', text: true })).output.messages;
  assert.ok(plain.text.length > 0);
  assert.equal('attachments' in plain, false);
});

// ---- forwarding ----

const rawOf = async (id) => Buffer.from((await runs('get_message', { id, format: 'raw' })).output.raw, 'base64url').toString('latin1');
const bodyOf = (raw) => raw.slice(raw.indexOf('\r\n\r\n') + 4);

test('a message is forwarded with its attachments, byte for byte', async () => {
  const [{ id }] = (await runs('search_messages', { query: 'INV-4217' })).output.messages;
  const started = await requests();
  const { output, display } = await runs('forward_message', { id, to: 'ben@example.org', cc: ['anna@example.org'], text: 'Please pay this, Ben. Grüße' }, { confirm: true });
  assert.equal(await requests(), started + 3);
  assert.equal(display.summary, 'To ben@example.org: Invoice INV-4217 for November');
  const made = await messageOf(output.id);
  assert.deepEqual([made.To, made.Cc, made.Subject], ['ben@example.org', 'anna@example.org', 'Fwd: Invoice INV-4217 for November']);
  const original = (await runs('get_message', { id })).output, sentOne = (await runs('get_message', { id: output.id })).output;
  assert.match(sentOne.text, new RegExp(`^Please pay this, Ben\\. Grüße\\s+-+ Forwarded message -+\\s+From: ${original.from.replace(/[.+]/g, '\\$&')}\\s`));
  assert.deepEqual(sentOne.attachments.map(({ filename, size }) => [filename, size]), original.attachments.map(({ filename, size }) => [filename, size]));
  assert.ok((await rawOf(output.id)).includes(bodyOf(await rawOf(id))));
});

test('a forwarded mail is forwarded again, with another subject', async () => {
  const [{ id }] = (await runs('search_messages', { query: 'INV-4217' })).output.messages;
  const first = (await runs('forward_message', { id, to: 'ben@example.org' }, { confirm: true })).output.id;
  const second = (await runs('forward_message', { id: first, to: 'mira@example.org' }, { confirm: true })).output.id;
  assert.equal((await messageOf(second)).Subject, 'Fwd: Invoice INV-4217 for November');
  const third = (await runs('forward_message', { id: second, to: 'mira@example.org', subject: 'Look' }, { confirm: true })).output.id;
  const { subject, attachments } = (await runs('get_message', { id: third })).output;
  assert.deepEqual([subject, attachments.map(({ filename }) => filename)], ['Look', ['invoice-INV-4217.pdf']]);
});

test('a mail with an odd subject is forwarded', async () => {
  await dev.control('POST', '/mail', { raw: 'From: a@example.org\r\nTo: sam.rivera@example.com\r\nSubject: Strange\u0001 plans\r\nMessage-ID: <s@example.org>\r\n\r\nHello.\r\n' });
  const [{ id }] = (await runs('search_messages', { query: 'subject:Strange' })).output.messages;
  const { output } = await runs('forward_message', { id, to: 'ben@example.org' }, { confirm: true });
  assert.equal((await messageOf(output.id)).Subject, 'Fwd: Strange  plans');
});

test('a large message is forwarded, and nothing is sent if it cannot be read', async () => {
  const file = Buffer.alloc(1_500_000, 'sluice ').toString('base64').replace(/.{76}/g, '$&\r\n');
  const raw = `From: a@example.org\r\nTo: sam.rivera@example.com\r\nSubject: Large\r\nMessage-ID: <large@example.org>\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename="large.bin"\r\nContent-Transfer-Encoding: base64\r\n\r\n${file}\r\n`;
  await dev.control('POST', '/mail', { raw });
  const [{ id }] = (await runs('search_messages', { query: 'subject:Large' })).output.messages;
  const { output } = await runs('forward_message', { id, to: 'ben@example.org' }, { confirm: true });
  assert.ok((await rawOf(output.id)).includes(bodyOf(raw)));
  await dev.faults([{ match: { path_prefix: `/gmail/v1/users/me/messages/${id}` }, count: 1, action: { status: 404, body: '{"error": {"message": "No such mail"}}' } }]);
  const failed = await dev.execute('gmail', 'forward_message', { id, to: 'ben@example.org' }, { confirm: true });
  assert.deepEqual([failed.json.status, failed.json.outcome], ['failed', 'not_done'], failed.text);
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

// ---- consent: a person sees who will receive a reply ----

const ODD = 'From: Anna Keller <anna.keller@example.com>\r\nReply-To: "Anna Keller <anna.keller@example.com>, " <eve@attacker.example>\r\nTo: sam.rivera@example.com\r\nSubject: Lunch\r\nMessage-ID: <l@example.org>\r\n\r\nHello.\r\n';
async function odd() {
  await dev.control('POST', '/mail', { raw: ODD });
  return (await runs('search_messages', { query: 'subject:Lunch' })).output.messages[0].id;
}
const FORM = { capabilities: { elicitation: { form: {} } } };
const ask = (id, more, caps = FORM, rest = {}) => new Mcp(dev.base, dev.key).ask('tools/call', { name: 'run_action', arguments: { integration_id: 'gmail', action_id: 'reply_to_message', input: { id, text: 'Yes.', ...more } }, ...rest }, caps).then(({ result }) => result);
const formOf = (result) => result.inputRequests.confirmation.params.message;
const wordsOf = (result) => formOf(result).split('(not sent):')[1];
const unread = (id) => dev.faults([{ match: { path_prefix: `/gmail/v1/users/me/messages/${id}` }, action: { status: 500, body: '{}' } }]);

test('a wrong address is refused instead of asking a person', async () => {
  const result = await ask(mail(4), { cc: 'bob smith' });
  assert.equal(result.inputRequests, undefined);
  assert.match(JSON.stringify(result), /cc: bob smith is not an email address/);
});

test('a form names the address that receives the reply, and the reply goes there', async () => {
  const id = await odd();
  const result = await ask(id);
  assert.equal(wordsOf(result), '\nid: "Goes to eve@attacker.example. Answers Lunch, from Anna Keller <anna.keller@example.com>"');
  const { confirmation } = { confirmation: { action: 'accept', content: { confirm: true } } };
  await ask(id, {}, FORM, { requestState: result.requestState, inputResponses: { confirmation } });
  const made = (await dev.control('GET', '/state/messages')).messages.filter((one) => one.Subject === 'Re: Lunch');
  assert.deepEqual(made.map((one) => one.To.includes('<eve@attacker.example>')), [true]);
  assert.match(wordsOf(await ask(mail(4))), /^\nid: "Goes to anna\.keller@example\.com\. Answers /);
  // its own mail is answered to its recipients; a recipient of the input is used as it is
  assert.match(wordsOf(await ask(made[0].id)), /^\nid: "Goes to eve@attacker\.example\. /);
  assert.equal(wordsOf(await ask(id, { to: 'ben@example.org' })), '\nid: "Answers Lunch, from Anna Keller <anna.keller@example.com>"');
});

test('a form says that the recipient could not be read', async () => {
  const id = await odd();
  await unread(id);
  assert.equal(wordsOf(await ask(id)), '\nid: (could not be read)\nTo: "whoever sent the message"');
  assert.equal(wordsOf(await ask(id, { to: 'ben@example.org' })), '\nid: (could not be read)');
  assert.match(JSON.stringify(await ask(id, {}, {})), /unread.{0,9}id/);
});

test('a long text or a long list of recipients hides no recipient', async () => {
  const long = await ask(await odd(), { text: 'x'.repeat(32 * 1024 - 250) });
  assert.match(JSON.stringify(long), /larger than a form can show/);
  const id = await odd();
  await unread(id);
  const copies = await ask(id, { cc: Array.from({ length: 4000 }, () => 'x') });
  assert.match(JSON.stringify(copies), /larger than a form can show|maxItems|at most/);
  await dev.faults([]);
  const many = Array.from({ length: 40 }, (_, at) => `someone${at}@example.org`).join(', ');
  await dev.control('POST', '/mail', { raw: `From: a@example.org\r\nReply-To: ${many}\r\nTo: sam.rivera@example.com\r\nSubject: Many\r\nMessage-ID: <m@example.org>\r\n\r\nHello.\r\n` });
  const [found] = (await runs('search_messages', { query: 'subject:Many' })).output.messages;
  assert.match(wordsOf(await ask(found.id)), /^\nid: "Goes to more addresses than fit here: someone0@example\.org, .*\.\.\."$/);
});

test('an approval names the recipient of each reply, or says that it was not read', async () => {
  const ids = [await odd(), mail(4), mail(5), mail(6)];
  const { json } = await dev.call('POST', '/api/flows/start', { flowTemplate: TEMPLATE.key, input: { ids } });
  const read = async () => (await dev.call('GET', `/api/flows/${json.flowId}`)).json;
  const { steps } = await until('the approval begins', async () => ((now) => now.flow.status === 'waiting' && now)(await read()));
  const { items, domains } = steps.find(({ input }) => input?.items).input;
  assert.match(items[0].shows.id, /^Goes to eve@attacker\.example\. /);
  // three reads at most: the fourth is named as unread
  assert.deepEqual(items.map(({ unread }) => unread), [undefined, undefined, undefined, ['id']]);
  assert.deepEqual(domains, ['']);
  const pages = new Pages(dev.base);
  await pages.signIn(dev.key);
  const { text } = await pages.ask(`/flows/${json.flowId}`);
  assert.match(text, /Goes to eve@attacker\.example\. /);
  assert.match(text, /whoever sent the message/);
  assert.equal(text.match(/<small>\(not read\)<\/small>/g)?.length, 1);
  assert.equal((await dev.call('POST', `/api/flows/${json.flowId}/approve`, {})).status, 200);
  await until('it has ended', async () => (await read()).flow.status === 'completed');
  assert.equal((await sent()).length, 4);
});
