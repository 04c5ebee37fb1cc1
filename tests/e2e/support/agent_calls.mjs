// The tasks of agent_tasks.test.mjs: what a person asks, and the calls that an agent makes for it.
// Each call is an object {tool, args}, or {person} for what a person does in between, which costs
// the agent nothing. A text that begins with "=" is a JMESPath expression over r, the replies to
// the calls so far. Any other name or identifier must be in the request, in the tool list or in a
// reply, since the agent knows nothing else. agent_tasks.test.mjs checks that.
//
// ask: what the person asks. before: the calls that the task took at commit 307286f0, before the
// tools were reworked. searches: everything that the first call searches for today. saved: the
// positions in `before` of the calls that are not needed today. together: positions of calls that
// one call of run_actions makes today, when the first of them is due: all their inputs are known
// then. now: all calls that the task takes today, if they do not follow from the others. recorded: the calls and bytes
// (arguments and text content) of `before`, as printed by this command, which runs `before` with
// the program of that commit:
//     SLUICE_AGENT_TASKS=before SLUICE_BIN=PROGRAM SLUICE_RELEASE_BIN=PROGRAM \
//         node --test tests/e2e/agent_tasks.test.mjs
// reached: whether the task is done, given the text of all replies, the flow, and what the apps
// have recorded. account, removed, hasLongMail: what differs from the usual account and
// mailbox.
const find = (query) => ({ tool: 'search_actions', args: { query } });
const describe = (integration_id, action_id) => ({ tool: 'describe_action', args: { integration_id, action_id } });
const template = (key) => ({ tool: 'describe_action', args: { template: key } });
const run = (integration_id, action_id, input, more) => ({ tool: 'run_action', args: { integration_id, action_id, input, ...more } });
const write = (integration_id, action_id, input, more) => run(integration_id, action_id, input, { confirm: true, ...more });
const start = (key, input, more) => ({ tool: 'start_flow', args: { template: key, input, ...more } });
const settled = { wait: 60 };
const findAll = (...queries) => ({ tool: 'search_actions', args: { queries } });
const follow = { tool: 'get_flow', args: { flow_id: '=r[?flowId] | [0].flowId', wait: 60 } };
const rest = (uri) => ({ tool: 'resources/read', args: { uri } });
const approve = { person: 'approve', flow: '=r[?flowId] | [0].flowId' };

const id = (at) => `=r[-1].output.messages[${at}].id`;
const mail = (at) => run('gmail', 'get_message', { id: id(at) });
const read = (query) => run('gmail', 'search_messages', { query, text: true });
const list = (query, more) => [find('list unread mails'), describe('gmail', 'list_messages'), run('gmail', 'list_messages', { query, ...more })];
const channels = [find('post a message to a channel'), describe('slack', 'post_message'), run('slack', 'list_channels', {})];
const named = (name) => `=r[?output && action_id=='list_channels'] | [0].output.channels[?name=='${name}'] | [0].id`;
const tasks = [find('tasks in a database'), run('notion', 'search', { query: 'Tasks' })];
const source = "=r[?output && action_id=='search'] | [0].output.results[?object=='data_source'] | [0].id";
const query = (input) => [describe('notion', 'query_data_source'), run('notion', 'query_data_source', { data_source_id: source, ...input })];
const page = (title) => `=r[?output && action_id=='query_data_source'] | [0].output.results[?plain_title=='${title}'] | [0].id`;
const payments = [find('refund a payment'), describe('stripe', 'create_refund'), find('list payments of customers'), run('stripe', 'list_payments', {})];
const paid = (email) => `=r[?output && action_id=='list_payments'] | [0].output.data[?receipt_email=='${email}'] | [0].id`;
const SATURDAY = { to: 'ben@example.org', subject: 'Saturday', text: 'Hi Ben, I will come. Sam' };
const sent = (marker) => ({ ledger }) => ledger.some((one) => one.path.endsWith('/messages/send') && one.marker === marker);
const says = (...texts) => ({ text }) => texts.every((one) => text.includes(one));
const posted = (channel, text) => ({ slack }) => slack.some((one) => one.method === 'chat.postMessage' && one.channel === channel && one.text.includes(text));

export const TASKS = [
  {
    name: 'answer an unread mail',
    ask: 'Anna sent me a mail that I have not read. Answer it: I have no more points.',
    before: [...list('is:unread from:anna'), mail(0), find('reply to a mail'), describe('gmail', 'reply_to_message'),
      write('gmail', 'reply_to_message', { threadId: '=r[3].output.threadId', inReplyTo: '=r[3].output.messageIdHeader', to: '=r[3].output.from', subject: '=r[3].output.subject', text: 'Hi Anna, I have no more points. Sam' })],
    now: [findAll('list unread mails', 'reply to a mail'), run('gmail', 'list_messages', { query: 'is:unread from:anna', details: true }),
      write('gmail', 'reply_to_message', { id: '=r[-1].output.messages[0].id', text: 'Hi Anna, I have no more points. Sam' })],
    recorded: [7, 23688],
    reached: sent('Re: Draft agenda for Thursday'),
  },
  {
    name: 'sum up the unread mails',
    ask: 'What are my 5 newest unread mails about?',
    before: [...list('is:unread', { maxResults: 5 }), ...[0, 1, 2, 3, 4].map((at) => run('gmail', 'get_message', { id: `=r[2].output.messages[${at}].id` }))],
    now: [find('list unread mails'), run('gmail', 'list_messages', { query: 'is:unread', maxResults: 5, details: true })],
    recorded: [8, 22382],
    reached: says('Draft agenda for Thursday', 'build 8841 failed'),
  },
  {
    name: 'sum up by the template',
    ask: 'Give me a summary of all my unread mails.',
    before: [find('summary of unread mails'), template('unread_mail_summary'), start('unread_mail_summary', {}), follow],
    now: [find('summary of unread mails'), start('unread_mail_summary', {}, settled)],
    recorded: [4, 44291],
    reached: ({ text, flow }) => flow.status === 'completed' && text.includes('build 8841 failed'),
  },
  {
    name: 'find a mail and its attachment',
    ask: 'Which file did Northwind send with invoice INV-4217?',
    before: [find('search mails'), describe('gmail', 'search_messages'), run('gmail', 'search_messages', { query: 'INV-4217' }), mail(0)],
    now: [find('search mails'), read('INV-4217')],
    recorded: [4, 12608],
    reached: says('invoice-INV-4217.pdf'),
  },
  {
    name: 'send a mail',
    ask: 'Write to mira.santos@example.com, subject Contract: section 4 is fine.',
    before: [find('send a mail'), describe('gmail', 'send_message'), write('gmail', 'send_message', { to: 'mira.santos@example.com', subject: 'Contract', text: 'Hi Mira, section 4 is fine. Sam' })],
    saved: [1],
    recorded: [3, 10549],
    reached: sent('Contract'),
  },
  {
    name: 'send a mail after a question',
    ask: 'Draft the text of a mail to ben@example.org about the handbook and ask me before you send it.',
    before: [find('send a mail'), describe('gmail', 'send_message'), ...[run, write].map((one) => one('gmail', 'send_message', { to: 'ben@example.org', subject: 'The handbook', text: 'Hi Ben, I will mend the link. Sam' }))],
    saved: [1],
    recorded: [4, 11189],
    reached: ({ ledger }) => ledger.length === 1 && ledger[0].marker === 'The handbook',
  },
  {
    name: 'write a draft',
    ask: 'Prepare a draft to anna.keller@example.com, subject Offsite: we need a yes by Friday.',
    before: [find('write a draft of a mail'), describe('gmail', 'create_draft'), write('gmail', 'create_draft', { to: 'anna.keller@example.com', subject: 'Offsite', text: 'Hi Anna, we need a yes by Friday. Sam' })],
    saved: [1],
    recorded: [3, 10357],
    reached: ({ ledger }) => ledger.length === 1 && ledger[0].path.endsWith('/drafts'),
  },
  {
    name: 'mark mails as read',
    ask: 'Mark the 3 newest unread mails as read.',
    before: [...list('is:unread', { maxResults: 3 }), ...[0, 1, 2].map((at) => write('gmail', 'mark_as_read', { id: `=r[2].output.messages[${at}].id` }))],
    searches: ['list unread mails', 'mark a mail as read'],
    saved: [1],
    together: [3, 4, 5],
    recorded: [6, 11445],
    reached: ({ ledger }) => ledger.length === 3 && ledger.every((one) => one.path.endsWith('/modify')),
  },
  {
    name: 'file a mail under a label',
    ask: 'File the mail with INV-4217 under my label Receipts.',
    before: [find('put a label on a mail'), run('gmail', 'list_labels', {}), find('search mails'), run('gmail', 'search_messages', { query: 'INV-4217' }), describe('gmail', 'modify_labels'),
      write('gmail', 'modify_labels', { id: '=r[3].output.messages[0].id', addLabelIds: ["=r[1].output.labels[?name=='Receipts'] | [0].id"] })],
    searches: ['put a label on a mail', 'search mails', 'list labels'],
    saved: [2, 4],
    together: [1, 3],
    recorded: [6, 18449],
    reached: ({ ledger }) => ledger.length === 1 && ledger[0].path.endsWith('0003/modify'),
  },
  {
    name: 'forward a mail',
    ask: 'Forward the mail with INV-4217 to ben@example.org.',
    before: [find('forward a mail'), run('gmail', 'search_messages', { query: 'INV-4217' }), mail(0), describe('gmail', 'send_message'),
      write('gmail', 'send_message', { to: 'ben@example.org', subject: "=join('', ['Fwd: ', r[2].output.subject])", text: '=r[2].output.text' })],
    now: [findAll('search mails', 'forward a mail'), run('gmail', 'search_messages', { query: 'INV-4217' }), write('gmail', 'forward_message', { id: id(0), to: 'ben@example.org' })],
    recorded: [5, 14729],
    reached: sent('Fwd: Invoice INV-4217 for November'),
  },
  {
    name: 'make a page of a mail',
    ask: 'Make a page in my Notion database Tasks of the mail with INV-4217.',
    before: [find('search mails'), run('gmail', 'search_messages', { query: 'INV-4217' }), mail(0), find('create a page in a database'), describe('notion', 'create_page'), run('notion', 'search', { query: 'Tasks' }),
      write('notion', 'create_page', { parent: { data_source_id: source }, title: '=r[2].output.subject', markdown: '=r[2].output.text' })],
    now: [findAll('search mails', 'create a page in a database', 'search notion'),
      { tool: 'run_actions', args: { actions: [read('INV-4217').args, run('notion', 'search', { query: 'Tasks' }).args] }, result: 0 }, { result: 1 },
      write('notion', 'create_page', { parent: { data_source_id: source }, title: '=r[1].output.messages[0].subject', markdown: '=r[1].output.messages[0].text' })],
    recorded: [7, 28206],
    reached: ({ ledger }) => ledger.length === 1 && ledger[0].path === '/v1/pages' && ledger[0].marker === 'Invoice INV-4217 for November',
  },
  {
    name: 'list what is open',
    ask: 'Which pages of my Notion database Tasks are not Done?',
    before: [...tasks, ...query({ filter: { property: 'Status', status: { does_not_equal: 'Done' } } })],
    searches: ['search notion', 'query a data source'],
    saved: [2],
    recorded: [4, 32914],
    reached: says('Prepare the offsite in March'),
  },
  {
    name: 'finish a task',
    ask: 'Set the Status of Prepare the offsite in March in my Notion database Tasks to Done.',
    before: [...tasks, ...query(), describe('notion', 'update_page'), write('notion', 'update_page', { page_id: page('Prepare the offsite in March'), properties: { Status: { status: { name: 'Done' } } } })],
    searches: ['search notion', 'query a data source', 'update a page'],
    saved: [2, 4],
    recorded: [6, 41729],
    reached: ({ ledger }) => ledger.length === 1 && ledger[0].method === 'PATCH' && ledger[0].path.endsWith('000000000001'),
  },
  {
    name: 'comment on a task',
    ask: 'Comment on Prepare the offsite in March in my Notion database Tasks: the house is booked.',
    before: [...tasks, ...query(), find('comment on a page'), describe('notion', 'create_comment'), write('notion', 'create_comment', { page_id: page('Prepare the offsite in March'), text: 'The house is booked.' })],
    searches: ['search notion', 'query a data source', 'comment on a page'],
    saved: [2, 4, 5],
    recorded: [7, 44990],
    reached: ({ ledger }) => ledger.length === 1 && ledger[0].path === '/v1/comments',
  },
  {
    name: 'read a page',
    ask: 'What does the Notion page Prepare the offsite in March say?',
    before: [find('read the text of a page'), run('notion', 'search', { query: 'Prepare the offsite' }), describe('notion', 'get_page_markdown'),
      run('notion', 'get_page_markdown', { page_id: "=r[1].output.results[?plain_title=='Prepare the offsite in March'] | [0].id" })],
    searches: ['search notion', 'read the text of a page'],
    saved: [2],
    recorded: [4, 11184],
    reached: says('The house at the lake is free from 10 to 12 March.'),
  },
  {
    name: 'post to a channel',
    ask: 'Post to the Slack channel general: lunch is at noon.',
    before: [...channels, write('slack', 'post_message', { channel: named('general'), text: 'Lunch is at noon.' })],
    now: [find('post a message to a channel'), write('slack', 'post_message', { channel: '#general', text: 'Lunch is at noon.' })],
    recorded: [4, 14334],
    reached: posted('general', 'Lunch is at noon.'),
  },
  {
    name: 'read a channel',
    ask: 'What is new in the Slack channel support?',
    before: [find('read messages of a channel'), describe('slack', 'list_messages'), run('slack', 'list_channels', {}), run('slack', 'list_messages', { channel: named('support') }), run('slack', 'list_users', {})],
    searches: ['read messages of a channel', 'list channels', 'list users of slack'],
    saved: [1],
    together: [2, 4],
    recorded: [5, 18377],
    reached: says('Jenny Rosen asks for her money back', 'Ben Okafor'),
  },
  {
    name: 'answer in a thread',
    ask: 'Answer to INV-4217 in the Slack channel billing: it is paid.',
    before: [...channels, find('read messages of a channel'), run('slack', 'list_messages', { channel: named('billing') }),
      write('slack', 'post_message', { channel: named('billing'), thread_ts: "=r[-1].output.messages[?contains(text, 'INV-4217')] | [0].ts", text: 'It is paid.' })],
    searches: ['post a message to a channel', 'list channels', 'read messages of a channel'],
    saved: [1, 3],
    recorded: [6, 21535],
    reached: ({ slack }) => slack.length === 1 && slack[0].thread_ts === '1793700060.000100',
  },
  {
    name: 'post what a mail says',
    ask: 'Tell the Slack channel billing what the mail with INV-4217 says.',
    before: [find('search mails'), run('gmail', 'search_messages', { query: 'INV-4217' }), mail(0), ...channels,
      write('slack', 'post_message', { channel: named('billing'), text: '=r[2].output.text' })],
    now: [findAll('search mails', 'post a message to a channel'), read('INV-4217'), write('slack', 'post_message', { channel: '#billing', text: '=r[1].output.messages[0].text' })],
    recorded: [7, 24912],
    reached: posted('billing', '1,249.00 EUR'),
  },
  {
    name: 'a digest to a channel',
    ask: 'Post a digest of my unread mails to the Slack channel general.',
    before: [find('post a digest of unread mails to a channel'), template('unread_mail_to_slack'), run('slack', 'list_channels', {}), start('unread_mail_to_slack', { channel: named('general'), confirm: true }), follow],
    now: [find('post a digest of unread mails to a channel'), start('unread_mail_to_slack', { channel: '#general', confirm: true }, settled)],
    recorded: [5, 42891],
    reached: posted('general', 'build 8841 failed'),
  },
  {
    name: 'tasks after an approval',
    ask: 'Make pages in my Notion database Tasks of the 3 newest unread mails, after I have approved them.',
    before: [find('turn unread mails into tasks after approval'), template('unread_mail_to_tasks'), run('notion', 'search', { query: 'Tasks' }),
      start('unread_mail_to_tasks', { maxResults: 3, taskParent: { data_source_id: source } }), follow, approve, follow],
    now: [findAll('turn unread mails into tasks after approval', 'search notion'), run('notion', 'search', { query: 'Tasks' }),
      start('unread_mail_to_tasks', { maxResults: 3, taskParent: { data_source_id: source } }, settled), approve, follow],
    recorded: [6, 58830],
    reached: ({ ledger, flow }) => flow.status === 'completed' && ledger.filter((one) => one.path === '/v1/pages').length === 3,
  },
  {
    name: 'what waits for an approval',
    ask: 'Prepare pages in my Notion database Tasks of the 5 newest unread mails, and tell me what I have to approve.',
    before: [find('turn unread mails into tasks after approval'), template('unread_mail_to_tasks'), run('notion', 'search', { query: 'Tasks' }), start('unread_mail_to_tasks', { maxResults: 5, taskParent: { data_source_id: source } }), follow],
    now: [findAll('turn unread mails into tasks after approval', 'search notion'), run('notion', 'search', { query: 'Tasks' }),
      start('unread_mail_to_tasks', { maxResults: 5, taskParent: { data_source_id: source } }, settled)],
    recorded: [5, 40017],
    reached: ({ text, flow, ledger }) => flow.status === 'waiting' && ledger.length === 0 && text.includes('Can you review the contract?'),
  },
  {
    name: 'what is in the calendar',
    ask: 'What is in my calendar from 2027-03-01 to 2027-03-05?',
    before: [find('events in the calendar'), describe('google_calendar', 'list_events'), run('google_calendar', 'list_events', { timeMin: '2027-03-01T00:00:00Z', timeMax: '2027-03-05T00:00:00Z' })],
    saved: [1],
    recorded: [3, 14094],
    reached: says('Planning', 'Design review'),
  },
  {
    name: 'make an appointment',
    ask: 'Put Lunch with Ben into my calendar, 2027-03-04 from 12:00 to 13:00.',
    before: [find('create an event in the calendar'), describe('google_calendar', 'create_event'),
      write('google_calendar', 'create_event', { summary: 'Lunch with Ben', start: { dateTime: '2027-03-04T12:00:00Z' }, end: { dateTime: '2027-03-04T13:00:00Z' } })],
    saved: [1],
    recorded: [3, 14662],
    reached: ({ events }) => events.some((one) => one.summary === 'Lunch with Ben'),
  },
  {
    name: 'cancel an appointment',
    ask: 'Remove Offsite budget from my calendar.',
    before: [find('delete an event'), find('events in the calendar'), run('google_calendar', 'list_events', {}), describe('google_calendar', 'delete_event'), write('google_calendar', 'delete_event', { eventId: "=r[2].output.items[?summary=='Offsite budget'] | [0].id" })],
    searches: ['delete an event', 'events in the calendar'],
    saved: [1, 3],
    recorded: [5, 18241],
    reached: ({ events }) => events.length === 2,
  },
  {
    name: 'refund a payment',
    ask: 'Refund the whole payment of jenny.rosen@example.com.',
    before: [...payments, ...[run, write].map((one) => one('stripe', 'create_refund', { payment_intent: paid('jenny.rosen@example.com') }))],
    searches: ['refund a payment', 'list payments of customers'],
    saved: [1, 2],
    recorded: [6, 19989],
    reached: ({ stripe }) => stripe.length === 1 && stripe[0].amount === 124900,
  },
  {
    name: 'mend a call that failed',
    ask: 'Refund 60 EUR to tom.berg@example.com, or all of the payment if it was less.',
    before: [...payments, write('stripe', 'create_refund', { payment_intent: paid('tom.berg@example.com'), amount: 6000 }), write('stripe', 'create_refund', { payment_intent: paid('tom.berg@example.com') })],
    searches: ['refund a payment', 'list payments of customers'],
    saved: [1, 2],
    recorded: [6, 20121],
    reached: ({ stripe }) => stripe.length === 1 && stripe[0].amount === 5900,
  },
  {
    name: 'connect an app',
    account: ['gmail'],
    ask: 'Post to the Slack channel general: I am ill today. I have not connected Slack yet.',
    before: [find('post a message to a channel'), describe('slack', 'post_message'), run('slack', 'list_channels', {}), { tool: 'connect_app', args: '=r[2].recommended_next_action.input' }, { person: 'connect', app: 'slack' }, run('slack', 'list_channels', {}),
      write('slack', 'post_message', { channel: "=r[-1].output.channels[?name=='general'] | [0].id", text: 'I am ill today.' })],
    now: [find('post a message to a channel'), write('slack', 'post_message', { channel: '#general', text: 'I am ill today.' }), { tool: 'connect_app', args: '=r[1].recommended_next_action.input' }, { person: 'connect', app: 'slack' },
      write('slack', 'post_message', { channel: '#general', text: 'I am ill today.' })],
    recorded: [6, 15353],
    reached: posted('general', 'I am ill today.'),
  },
  {
    name: 'send from one of two mailboxes',
    account: [['gmail', 'former'], ['gmail', 'work', 'ya29.demo-gmail-readonly'], ['gmail', 'private']],
    removed: 'former',
    ask: 'Write to ben@example.org from my private mailbox, subject Saturday: I will come.',
    before: [find('send a mail'), describe('gmail', 'send_message'), write('gmail', 'send_message', SATURDAY),
      write('gmail', 'send_message', SATURDAY, { connection_id: "=split(split(r[-1].hint, ' (private)')[0], ' ')[-1]" })],
    recorded: [4, 11266],
    now: [find('send a mail'), write('gmail', 'send_message', SATURDAY, { connection_id: 'private' })],
    reached: sent('Saturday'),
  },
  {
    name: 'read on where an output was cut',
    hasLongMail: true,
    ask: 'Read the mail with the log of the night build to its end: which test failed last?',
    before: [find('search mails'), run('gmail', 'search_messages', { query: 'night' }), mail(0), rest('=r[2].output.cuts[-1].more')],
    now: [find('search mails'), read('night'), { tool: 'read_result', args: { execution_id: '=r[1].execution_id', pointer: "=r[1].output.cuts[?ends_with(pointer, 'text')] | [0].pointer", offset: "=r[1].output.cuts[?ends_with(pointer, 'text')] | [0].kept" } }],
    recorded: [4, 64884],
    reached: says('the last test that failed is test_night_999'),
  },
];

// The calls of a task that are made today, with the positions that they have in `before`. A call
// that is not needed is null. The reply to one that was made together with others is that call's
// result.
export function callsNow({ before, now, searches, saved = [], together = [] }) {
  if (now) return now;
  return before.map((call, at) => {
    if (saved.includes(at)) return null;
    if (at === 0 && searches) return { tool: 'search_actions', args: { queries: searches } };
    if (!together.includes(at)) return call;
    const result = together.indexOf(at);
    return { tool: 'run_actions', args: result === 0 && { actions: together.map((one) => before[one].args) }, result };
  });
}
