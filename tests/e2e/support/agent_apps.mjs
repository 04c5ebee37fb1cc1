// Slack and Stripe as agent_tasks.test.mjs needs them, with the members that the vendors return, so
// that the sizes of replies are real. Each keeps what was done.
const WHEN = 1793700000;
const TEAM = 'T0NORTHWIND';

const person = ([id, name, real_name]) => ({
  id, team_id: TEAM, name, deleted: false, color: '9f69e7', real_name, tz: 'Europe/Berlin', tz_label: 'Central European Time', tz_offset: 3600,
  profile: {
    title: '', phone: '', skype: '', real_name, real_name_normalized: real_name, display_name: name, display_name_normalized: name, fields: null,
    status_text: '', status_emoji: '', status_emoji_display_info: [], status_expiration: 0, avatar_hash: 'g1b2c3d4e5f6', email: `${name}@example.com`,
    image_24: `https://avatars.example.com/${id}_24.png`, image_48: `https://avatars.example.com/${id}_48.png`, image_192: `https://avatars.example.com/${id}_192.png`,
    status_text_canonical: '', team: TEAM,
  },
  is_admin: false, is_owner: false, is_primary_owner: false, is_restricted: false, is_ultra_restricted: false, is_bot: false, is_app_user: false,
  updated: WHEN, is_email_confirmed: true, who_can_share_contact_card: 'EVERYONE',
});
const PEOPLE = [['U0SAM00001', 'sam', 'Sam Rivera'], ['U0ANNA0002', 'anna', 'Anna Keller'], ['U0BEN00003', 'ben', 'Ben Okafor'], ['U0MIRA0004', 'mira', 'Mira Santos']].map(person);

const channel = ([id, name, purpose]) => ({
  id, name, is_channel: true, is_group: false, is_im: false, is_mpim: false, is_private: false, created: WHEN, is_archived: false, is_general: name === 'general',
  unlinked: 0, name_normalized: name, is_shared: false, is_org_shared: false, is_pending_ext_shared: false, pending_shared: [], context_team_id: TEAM,
  updated: WHEN * 1000, parent_conversation: null, creator: 'U0SAM00001', is_ext_shared: false, shared_team_ids: [TEAM], pending_connected_team_ids: [],
  is_member: true, topic: { value: '', creator: '', last_set: 0 }, purpose: { value: purpose, creator: 'U0SAM00001', last_set: WHEN },
  properties: { tabs: [{ type: 'files', label: '', id: 'files' }], tabz: [{ type: 'files' }], use_case: 'random' }, previous_names: [], num_members: 4,
});
const CHANNELS = [['C0GENERAL1', 'general', 'Company news'], ['C0BILLING2', 'billing', 'Invoices and refunds'], ['C0SUPPORT3', 'support', 'Questions of customers'], ['C0HIRING04', 'hiring', 'Candidates']].map(channel);

const message = (user, at, text, more) => ({
  user, type: 'message', ts: `${WHEN + at}.000100`, client_msg_id: `7d3f1c52-0000-4000-8000-${String(at).padStart(12, '0')}`, text, team: TEAM, ...more,
  blocks: [{ type: 'rich_text', block_id: `b${at}`, elements: [{ type: 'rich_text_section', elements: [{ type: 'text', text }] }] }],
});
const HISTORY = {
  C0GENERAL1: [message('U0BEN00003', 40, 'The office is closed on Friday.'), message('U0ANNA0002', 20, 'The offsite is booked.')],
  C0BILLING2: [message('U0MIRA0004', 60, 'Has anyone paid INV-4217 yet?'), message('U0ANNA0002', 30, 'The October numbers are in.')],
  C0SUPPORT3: [message('U0BEN00003', 90, 'Jenny Rosen asks for her money back for order 4217.'), message('U0MIRA0004', 70, 'Two tickets are open.')],
};

export class Slack {
  constructor() {
    this.reset();
  }

  reset() {
    this.done = [];
  }

  answer(url, given) {
    const input = { ...Object.fromEntries(url.searchParams), ...given };
    const method = url.pathname.replace('/api/', '');
    const known = CHANNELS.find(({ id, name }) => id === input.channel || (method === 'chat.postMessage' && input.channel === `#${name}`));
    if (method === 'users.list') return { ok: true, members: PEOPLE, cache_ts: WHEN, response_metadata: { next_cursor: '' } };
    if (method === 'conversations.list') return { ok: true, channels: CHANNELS, response_metadata: { next_cursor: '' } };
    if (!known) return { ok: false, error: 'channel_not_found' };
    if (method === 'conversations.history') return { ok: true, messages: HISTORY[known.id] ?? [], has_more: false, pin_count: 0, response_metadata: { next_cursor: '' } };
    this.done.push({ method, channel: known.name, text: [input.text, JSON.stringify(input.blocks), input.name].join(' '), thread_ts: input.thread_ts});
    if (method === 'chat.postMessage') {
      const posted = message('U0SAM00001', 100, input.text, { bot_id: 'B0SLUICE01', app_id: 'A0SLUICE01', ...(input.thread_ts && { thread_ts: input.thread_ts }) });
      return { ok: true, channel: known.id, ts: posted.ts, message: posted };
    }
    return { ok: true };
  }
}

// A payment with all members of the API of 2026.
const payment = (id, amount, email, description) => ({
  id: `pi_${id}`, object: 'payment_intent', amount, amount_capturable: 0, amount_details: { tip: {} }, amount_received: amount, application: null,
  application_fee_amount: null, automatic_payment_methods: { allow_redirects: 'always', enabled: true }, canceled_at: null, cancellation_reason: null,
  capture_method: 'automatic_async', client_secret: `pi_${id}_secret_demo`, confirmation_method: 'automatic', created: WHEN, currency: 'eur',
  customer: `cus_${id}`, customer_account: null, description, excluded_payment_method_types: null, last_payment_error: null, latest_charge: `ch_${id}`,
  livemode: false, metadata: {}, next_action: null, on_behalf_of: null, payment_method: `pm_${id}`, payment_method_configuration_details: null,
  payment_method_options: { card: { installments: null, mandate_options: null, network: null, request_three_d_secure: 'automatic' } },
  payment_method_types: ['card'], processing: null, receipt_email: email, review: null, setup_future_usage: null, shipping: null, source: null,
  statement_descriptor: null, statement_descriptor_suffix: null, status: 'succeeded', transfer_data: null, transfer_group: null,
});
const PAYMENTS = [
  payment('3QxA1Jenny0000000000001', 124900, 'jenny.rosen@example.com', 'Order 4217'),
  payment('3QxB2Tom000000000000002', 5900, 'tom.berg@example.com', 'Order 4218'),
  payment('3QxC3Ida000000000000003', 32000, 'ida.lund@example.com', 'Order 4219'),
];

export class Stripe {
  constructor() {
    this.reset();
  }

  reset() {
    this.done = [];
  }

  // Returns {error} for a refused request.
  answer(url, form) {
    if (url.pathname === '/v1/payment_intents') return { object: 'list', data: PAYMENTS, has_more: false, url: url.pathname };
    const fault = (text, param, code) => ({ error: { type: 'invalid_request_error', message: text, param, code } });
    const paid = PAYMENTS.find(({ id }) => id === form.payment_intent);
    if (url.pathname !== '/v1/refunds' || !paid) return fault(`No such payment_intent: '${form.payment_intent}'`, 'payment_intent', 'resource_missing');
    const amount = Number(form.amount ?? paid.amount);
    if (amount > paid.amount) return fault(`Refund amount (€${amount / 100}) is greater than unrefunded amount on charge (€${paid.amount / 100})`, 'amount', 'charge_amount_too_large');
    this.done.push({ payment: paid.id, amount });
    const id = paid.id.slice(3);
    return {
      id: `re_${id}`, object: 'refund', amount, balance_transaction: `txn_${id}`, charge: paid.latest_charge, created: WHEN + 300, currency: 'eur',
      destination_details: { card: { reference_status: 'pending', reference_type: 'acquirer_reference_number', type: 'refund' }, type: 'card' },
      metadata: {}, payment_intent: paid.id, reason: form.reason ?? null, receipt_number: null, source_transfer_reversal: null, status: 'succeeded', transfer_reversal: null,
    };
  }
}
