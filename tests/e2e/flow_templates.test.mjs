// Runs the built-in templates against the emulated provider, and against third-party emulators of
// Gmail, Slack and GitHub (npm `emulate`), with the pages in our emulated notes app.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { WAIT_MS_MAX, until } from './support/client.mjs';
import { Mcp } from './support/mcp.mjs';
import { Emulator } from './support/emulator.mjs';
import { makeCertificates, startNginx } from './support/nginx.mjs';
import { Stack, credentials } from './support/stack.mjs';

const USER = 'mailbox@example.com';
const SEED = `google:
  users:
    - { email: ${USER}, name: Mail Box }
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
      label_ids: [INBOX, UNREAD]
      date: 2026-11-02T10:00:00Z
    - id: msg_read
      user_email: ${USER}
      from: billing@example.net
      to: ${USER}
      subject: Invoice 16
      body_text: Thank you.
      label_ids: [INBOX]
      date: 2026-10-02T10:00:00Z
tokens:
  slack-token: { login: developer, scopes: [chat:write, channels:read] }
  github-token: { login: octocat, scopes: [repo] }
slack:
  users: [{ name: developer, email: dev@example.com }]
  channels: [{ name: general }]
github:
  users: [{ login: octocat }]
  repos: [{ owner: octocat, name: hello, auto_init: true }, { owner: octocat, name: quiet, auto_init: true }]
`;
const LINK = 'https://mail.google.com/mail/#all/';
const DATABASE = '8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d20';
const SOURCE = '8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d21';
let stack, server, account, emulators, nginx, foreign, mailbox, parent;

before(async () => {
  stack = await Stack.start({ catalog: false });
  server = await stack.serve();
  account = await stack.account('Demo', { apps: ['gmail', 'notion'] });
  parent = JSON.parse(await readFile(join(stack.dir, 'provider', 'ready.json'), 'utf8')).task_parent;

  const seed = join(stack.dir, 'seed.yaml');
  await writeFile(seed, SEED);
  emulators = await Promise.all(['google', 'slack', 'github'].map((service) => Emulator.start(service, seed, stack.dir)));
  const [google, slack, github] = emulators.map((one) => one.url);
  const tls = await makeCertificates(stack.dir);
  nginx = await startNginx(
    stack.dir,
    (own) => `
  server {
    listen 127.0.0.1:${own} ssl;
    ssl_certificate ${tls.certFile}; ssl_certificate_key ${tls.keyFile};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location /gmail { proxy_pass ${google}; }
    location /api { proxy_pass ${slack}; }
    location /search { proxy_pass ${github}; }
    location /repos { proxy_pass ${github}; }
    location /v1 { proxy_pass ${stack.provider.url}; }
  }`,
  );
  const url = `https://127.0.0.1:${nginx.port}`;
  const args = ['https://slack.com', 'https://api.github.com'].flatMap((origin) => ['--origin-override', `${origin}=${url}`]);
  foreign = await stack.serve({ provider: { url, caFile: tls.caFile }, args });
  mailbox = await stack.account('Mailbox', { apps: [] });
  await stack.connect(mailbox.id, 'gmail', { access_token: `token-of-${USER}` });
  await stack.connect(mailbox.id, 'notion', credentials.notion);
  await stack.connect(mailbox.id, 'slack', { access_token: 'slack-token' });
  await stack.connect(mailbox.id, 'github', { access_token: 'github-token' });
});
after(async () => {
  await nginx?.stop();
  await Promise.all((emulators ?? []).map((one) => one.process.stop()));
  await stack?.stopWell(assert);
});

// A flow of an account on a server, followed by long polls.
class Flow {
  static async start(at, { key }, flowTemplate, input) {
    const reply = await at.call(key, 'POST', '/api/flows/start', { flowTemplate, input, triggerType: 'agent' });
    assert.equal(reply.status, 200, reply.text);
    return Object.assign(new Flow(), { at, key, id: reply.json.flowId });
  }

  async reaches(status) {
    for (let etag, end = Date.now() + WAIT_MS_MAX; ; ) {
      assert.ok(Date.now() < end, `${status} was not reached: ${JSON.stringify(this.view)}`);
      const headers = { 'if-none-match': etag };
      const wait = etag ? '?wait=5' : '';
      const reply = await this.at.call(this.key, 'GET', `/api/flows/${this.id}${wait}`, undefined, headers);
      if (reply.status !== 304) this.view = reply.json;
      etag = reply.headers.get('etag');
      if (this.view.flow.status === status) return this.view;
      assert.ok(['running', 'waiting'].includes(this.view.flow.status), reply.text);
    }
  }

  step(key) {
    return this.view.steps.find((step) => step.stepKey === key);
  }

  async tell(what, body) {
    const reply = await this.at.call(this.key, 'POST', `/api/flows/${this.id}/${what}`, body);
    assert.equal(reply.status, 200, reply.text);
    return (this.view = reply.json);
  }
}

const pagesMade = async () => (await stack.provider.ledger()).filter((entry) => entry.path === '/v1/pages');

async function readPage(at, { key }, id) {
  const page = await at.execute(key, 'notion', 'get_page', { page_id: id });
  assert.equal(page.status, 200, page.text);
  const blocks = await at.execute(key, 'notion', 'get_block_children', { block_id: id });
  assert.equal(blocks.status, 200, blocks.text);
  return { page: page.json.output, blocks: blocks.json.output.results };
}

test('summary: counts, senders, subjects, oldest and newest, links', async () => {
  const flow = await Flow.start(server, account, 'unread_mail_summary', { maxResults: 5 });
  await flow.reaches('completed');
  const { summary } = flow.view.flow.context;
  assert.equal(summary.query, 'is:unread');
  assert.deepEqual([summary.counts.mails, summary.counts.hasMore], [5, true]);
  assert.equal(summary.mails.length, 5);
  assert.equal(summary.senders.length, 5);
  const received = summary.mails.map((mail) => mail.received).sort();
  assert.deepEqual([summary.oldest, summary.newest], [received[0], received[4]]);
  for (const [at, mail] of summary.mails.entries()) {
    assert.deepEqual(Object.keys(mail), ['id', 'from', 'subject', 'received', 'snippet', 'link']);
    assert.equal(mail.link, LINK + mail.id);
    assert.equal(summary.subjects[at], mail.subject);
  }
  assert.equal(flow.step('read').output.length, 5);
});

test('summary: a query, a chosen connection, nothing found', async () => {
  const id = await stack.connect(account.id, 'gmail', credentials.gmail, ['--label', 'second']);
  for (const mailConnectionId of [id, Number(id)]) {
    const flow = await Flow.start(server, account, 'unread_mail_summary', { query: 'subject:nothinglikeit', mailConnectionId });
    await flow.reaches('completed');
    assert.deepEqual(flow.view.flow.context.summary, {
      query: 'subject:nothinglikeit', counts: { mails: 0, estimated: 0, hasMore: false }, oldest: null, newest: null, senders: [], subjects: [], mails: [],
    });
  }
  const flow = await Flow.start(server, account, 'unread_mail_summary', { mailConnectionId: 1 });
  await flow.reaches('failed');
  assert.equal(flow.step('list').error.code, 'integration_not_connected');
});

// A new connection for the first mailbox does not help if the second one is dead.
test('a step that needs a connection says which, and how to go on', async () => {
  const bare = await stack.account('Two mailboxes', { apps: [] });
  const failed = async (input) => {
    const flow = await Flow.start(server, bare, 'unread_mail_summary', { maxResults: 1, ...input });
    await flow.reaches('failed');
    return [flow, flow.step('list').error];
  };
  const next = (input) => ({ tool: 'sluice.connect_app', input: { integration_id: 'gmail', ...input } });
  let [flow, error] = await failed({});
  assert.deepEqual([error.code, error.outcome, error.recommended_next_action], ['integration_not_connected', 'not_done', next({})]);
  assert.match(error.hint, /Connect the app, then resume the flow/);
  await stack.connect(bare.id, 'gmail', credentials.gmail);
  await until('the flow continues', async () => {
    await flow.tell('resume');
    return (await flow.reaches('completed').catch(() => null))?.flow.status === 'completed';
  });
  const second = await stack.connect(bare.id, 'gmail', { access_token: 'of nobody' }, ['--label', 'second']); // words: ok
  const call = (connectionId) => server.call(bare.key, 'POST', '/api/tools/gmail_list_labels/execute', { arguments: {}, ...connectionId });
  // The app refuses the credential. From then on the connection counts as dead.
  for (const _ of [1, 2]) {
    [flow, error] = await failed({ mailConnectionId: second });
    assert.deepEqual([error.code, error.recommended_next_action], ['reauth_required', next({ force_reconnect: true, connection_id: second })]);
    assert.match(error.hint, /Reconnect the (app|account).* [Tt]hen resume the flow/);
    assert.doesNotMatch(error.hint, /request|key|POST/);
    const { canonical } = (await call({ connectionId: second })).json;
    assert.deepEqual(canonical.recommended_next_action, next({ force_reconnect: true, connection_id: second }));
  }
  const link = await server.call(bare.key, 'POST', '/api/connect/sessions', error.recommended_next_action.input);
  assert.equal(link.status, 201, link.text);
  assert.match(await (await fetch(link.json.url)).text(), /second/);
  const capabilities = { elicitation: { url: {} } };
  const asked = await new Mcp(server.base, bare.key).ask('tools/call',
    { name: 'run_action', arguments: { integration_id: 'gmail', action_id: 'list_labels', input: {}, connection_id: second } }, { capabilities });
  assert.match(await (await fetch(asked.result.inputRequests.connection.params.url)).text(), /second/);
  const first = (await call({})).json;
  assert.equal(first.ok, true, JSON.stringify(first));
});

const originOf = (item) => item.input.children[0].paragraph.rich_text[0].text.content;

// parent: the flow's input; expected: the parent that is sent.
async function mailToTasks(at, who, taskParent, expected, { mails }) {
  const before = (await pagesMade()).length;
  const flow = await Flow.start(at, who, 'unread_mail_to_tasks', { maxResults: mails, taskParent });
  await flow.reaches('waiting');
  assert.equal(flow.view.flow.currentStep, 'approve_tasks');
  const shown = flow.step('approve_tasks').input;
  assert.equal(shown.title, `Create ${mails} task ${mails === 1 ? 'page' : 'pages'} in Notion`);
  assert.equal(shown.items.length, mails);
  for (const item of shown.items) {
    assert.deepEqual([item.stepKey, item.tool], ['create_tasks', 'notion_create_page']);
    assert.match(originOf(item), /^From .+, received \d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
    assert.deepEqual(item.input.parent, expected);
  }
  assert.equal((await pagesMade()).length, before, 'nothing is written before the approval');
  await flow.tell('approve', { stepKey: 'approve_tasks', note: 'fine' });
  await flow.reaches('completed');
  const made = (await pagesMade()).slice(before);
  const sorted = (list) => list.map((one) => JSON.stringify(one)).sort();
  const { created } = flow.view.flow.context;
  assert.deepEqual([made.length, created.count, created.pages.length], [mails, mails, mails]);
  assert.deepEqual(sorted(created.pages.map((page) => page.title)), sorted(shown.items.map((item) => item.input.title)));
  // each page has the content that the approval showed
  for (const [index, { id, title }] of created.pages.entries()) {
    const { page, blocks } = await readPage(at, who, id);
    const wanted = shown.items[index].input;
    assert.equal(page.plain_title ?? title, wanted.title);
    const texts = blocks.map((block) => block.paragraph.rich_text[0].text);
    assert.deepEqual(texts.map((text) => text.content), wanted.children.map((child) => child.paragraph.rich_text[0].text.content));
    assert.ok(texts[2].link.url.startsWith(LINK));
  }
  return { flow, shown };
}

test('mail to tasks: a rate limit on one of five pages only delays it', async () => {
  const limit = { match: { method: 'POST', path_prefix: '/v1/pages' }, skip: 2, count: 1, action: { status: 429, retry_after: 1 } };
  await stack.provider.faults([limit]);
  await mailToTasks(server, account, parent, parent, { mails: 5 });
  await stack.provider.faults([]);
});

test('mail to tasks: the pages are those of the approval, below a page and in a database', async () => {
  await mailToTasks(server, account, parent, parent, { mails: 4 });
  await mailToTasks(server, account, parent.page_id, parent, { mails: 2 });
  const source = { data_source_id: SOURCE };
  await mailToTasks(server, account, source, source, { mails: 1 });
  await mailToTasks(server, account, { database_id: DATABASE }, source, { mails: 1 });
  // A second data source in the database changes nothing, since the first was already there.
  const more = { parent: { database_id: DATABASE }, title: 'Ideas', properties: { Name: { title: {} } } };
  const made = await server.execute(account.key, 'notion', 'create_data_source', more, { confirm: true });
  assert.equal(made.status, 200, made.text);
  await mailToTasks(server, account, { type: 'database_id', database_id: DATABASE }, source, { mails: 1 });
});

test('mail to tasks: without mail there is no question, and after a rejection there is no page', async () => {
  const before = (await pagesMade()).length;
  const none = await Flow.start(server, account, 'unread_mail_to_tasks', { query: 'subject:nothinglikeit', taskParent: parent });
  await none.reaches('completed');
  assert.deepEqual([none.step('approve_tasks').status, none.step('create_tasks').status], ['skipped', 'skipped']);
  assert.deepEqual(none.view.flow.context.created, { count: 0, pages: [] });
  const rejected = await Flow.start(server, account, 'unread_mail_to_tasks', { maxResults: 1, taskParent: parent });
  await rejected.reaches('waiting');
  await rejected.tell('reject');
  await rejected.reaches('cancelled');
  assert.equal((await pagesMade()).length, before);
});

test('a mail, a wait, a reminder: both are shown before the first is sent', async () => {
  const input = { to: 'ben@example.org', subject: 'Offer', text: 'Have you seen it?', remindAfter: 3600 };
  const flow = await Flow.start(server, account, 'mail_with_reminder', input);
  await flow.reaches('waiting');
  const { summary, items: [mail, reminder, ...more] } = flow.step('approve_mails').input;
  assert.match(summary, /the reminder 3600 seconds later,/);
  assert.deepEqual(more, []);
  assert.deepEqual(mail, { stepKey: 'send', tool: 'gmail_send_message', input: { to: input.to, subject: 'Offer', text: input.text } });
  assert.deepEqual([reminder.stepKey, reminder.conditional, reminder.input.subject], ['remind', true, 'Reminder: Offer']);
  await flow.tell('approve');
  await until('it rests', async () => (await flow.reaches('waiting')).flow.currentStep === 'pause');
  const sent = (await stack.provider.ledger()).filter((entry) => entry.path.endsWith('/messages/send'));
  assert.equal(sent.length, 1);
  const rests = Date.parse(flow.step('pause').wakeAt) - Date.parse(flow.step('send').completedAt);
  assert.ok(rests > 3590_000 && rests < 3610_000, `${rests} ms`);
  await flow.tell('cancel');
  const { remindAfter, ...untimed } = input;
  const patient = await Flow.start(server, account, 'mail_with_reminder', untimed);
  await patient.reaches('waiting');
  assert.match(patient.step('approve_mails').input.summary, /the reminder three days later,/);
  await patient.tell('cancel');
});

test('a third party’s Gmail: summary', async () => {
  const flow = await Flow.start(foreign, mailbox, 'unread_mail_summary', {});
  await flow.reaches('completed');
  const { summary } = flow.view.flow.context;
  assert.equal(summary.counts.mails, 2);
  assert.deepEqual([...summary.subjects].sort(), ['Invoice 17', 'Offsite in March']);
  assert.ok(summary.senders.some((sender) => sender.includes('anna@example.org')), JSON.stringify(summary));
  assert.deepEqual([summary.oldest, summary.newest].map((time) => Date.parse(time)), [
    Date.parse('2026-11-01T10:00:00Z'), Date.parse('2026-11-02T10:00:00Z'),
  ]);
});

test('a third party’s Gmail: mail to tasks', async () => {
  const { shown } = await mailToTasks(foreign, mailbox, parent, parent, { mails: 2 });
  assert.deepEqual(shown.items.map((item) => item.input.title).sort(), ['Invoice 17', 'Offsite in March']);
  assert.deepEqual(shown.items.map((item) => originOf(item).split(', received ')[1]).sort(), ['2026-11-01 10:00 UTC', '2026-11-02 10:00 UTC']);
});

test('a digest is posted to Slack, once the start is confirmed', async () => {
  const slack = emulators[1];
  const { channels } = await slack.call('slack-token', 'POST', '/api/conversations.list', {});
  const channel = channels.find((one) => one.name === 'general').id;
  const messages = async () =>
    (await slack.call('slack-token', 'POST', '/api/conversations.history', { channel })).messages.filter((one) => one.blocks);
  const none = await Flow.start(foreign, mailbox, 'unread_mail_to_slack', { channel, confirm: true, query: 'subject:nothinglikeit' });
  await none.reaches('completed');
  assert.equal(none.step('post').status, 'skipped');
  assert.deepEqual(await messages(), []);
  const flow = await Flow.start(foreign, mailbox, 'unread_mail_to_slack', { channel, confirm: true });
  await flow.reaches('completed');
  const [message, ...more] = await messages();
  assert.deepEqual(more, []);
  assert.equal(message.text, '2 mails');
  const text = JSON.stringify(message.blocks);
  for (const part of ['Invoice 17', 'Offsite in March', 'anna@example.org', `${LINK}msg_first`]) assert.ok(text.includes(part), text);
});

test('stale issues get a comment after an approval', async () => {
  const github = emulators[2];
  for (const title of ['One', 'Two'])
    await github.call('github-token', 'POST', '/repos/octocat/hello/issues', { title });
  const comments = async (number) =>
    (await github.call('github-token', 'GET', `/repos/octocat/hello/issues/${number}/comments`)).map((one) => one.body);
  // That emulator ignores updated:<.
  const input = { owner: 'octocat', repo: 'hello', untouchedSince: '2100-01-01', comment: 'Is this still wanted?' };
  const none = await Flow.start(foreign, mailbox, 'nudge_stale_issues', { ...input, repo: 'quiet' });
  await none.reaches('completed');
  assert.equal(none.step('comment').status, 'skipped');
  const flow = await Flow.start(foreign, mailbox, 'nudge_stale_issues', input);
  await flow.reaches('waiting');
  const { title, items } = flow.step('approve_comments').input;
  assert.equal(title, 'Comment on 2 issues of octocat/hello');
  assert.deepEqual(items.map((item) => [item.tool, item.input.issue_number, item.input.body]).sort(), [
    ['github_create_issue_comment', 1, input.comment], ['github_create_issue_comment', 2, input.comment],
  ]);
  assert.deepEqual(await comments(1), []);
  await flow.tell('approve');
  await flow.reaches('completed');
  for (const number of [1, 2]) assert.deepEqual(await comments(number), [input.comment]);
});
