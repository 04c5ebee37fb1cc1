// The apps of agent_tasks.test.mjs and a server in front of them: the emulated provider (Gmail,
// Notion), Google Calendar of npm `emulate`, in this process, and Slack and Stripe of
// agent_apps.mjs. reset() restores their state, so tasks do not depend on one another.
import { createEmulator } from 'emulate';
import { Slack, Stripe } from './agent_apps.mjs';
import { freePort } from './process.mjs';
import { Scripted } from './scripted.mjs';
import { Stack, credentials } from './stack.mjs';

const USER = 'sam.rivera@example.com';
const CALENDAR = 'ya29.demo-calendar';
const CREDENTIALS = { ...credentials, slack: { access_token: 'xoxb-demo' }, google_calendar: { access_token: CALENDAR }, stripe: { token: 'sk_demo' } };
const at = (day, hour) => `2027-03-0${day}T${hour}:00.000Z`;
const event = (id, summary, day, from, to) => ({
  id, summary, user_email: USER, calendar_id: 'primary', start_date_time: at(day, from), end_date_time: at(day, to),
  attendees: [{ email: USER, response_status: 'accepted' }, { email: 'anna.keller@example.com', response_status: 'needsAction' }],
});
const GOOGLE = {
  users: [{ email: USER, name: 'Sam Rivera' }],
  calendars: [{ id: 'primary', user_email: USER, summary: USER, primary: true, selected: true, time_zone: 'UTC' }],
  calendar_events: [event('evt_planning', 'Planning', 1, '09:00', '10:00'), event('evt_offsite', 'Offsite budget', 2, '13:00', '14:00'), event('evt_review', 'Design review', 3, '15:00', '16:00')],
};

export class AgentStage {
  static async start() {
    const stage = new AgentStage();
    stage.slack = new Slack();
    stage.stripe = new Stripe();
    stage.stack = await Stack.start({ catalog: false });
    stage.http = await Scripted.start((request, reply, url) => stage.#answer(request, reply, url));
    stage.google = await createEmulator({ service: 'google', port: await freePort(), seed: { tokens: { [CALENDAR]: { login: USER, scopes: [] } }, google: GOOGLE } });
    const origins = { 'slack.com': stage.http.url, 'api.stripe.com': stage.http.url, 'www.googleapis.com': stage.google.url.replace('localhost', '127.0.0.1') };
    stage.server = await stage.stack.serve({ args: Object.entries(origins).flatMap(([host, url]) => ['--origin-override', `https://${host}=${url}`]) });
    return stage;
  }

  async #answer(request, reply, url) {
    let text = '';
    for await (const part of request) text += part;
    const given = text.startsWith('{') ? JSON.parse(text) : Object.fromEntries(new URLSearchParams(text));
    const body = (url.pathname.startsWith('/api/') ? this.slack : this.stripe).answer(url, given);
    reply.writeHead(body.error && body.ok === undefined ? 400 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  // A new account: {id, person, agent}: the keys of a person, and of an agent that may not approve.
  // apps: the connected ones, as APP or [APP, LABEL, TOKEN].
  async account(name, apps) {
    const { id, key: person } = await this.stack.account(name, { apps: [] });
    for (const one of apps) await this.connect(id, ...[one].flat());
    return { id, person, agent: await this.stack.key(id, ['--scopes', 'read,execute']) };
  }

  connect(account, app, label, token) {
    return this.stack.connect(account, app, token ? { access_token: token } : CREDENTIALS[app], label ? ['--label', label] : []);
  }

  // Removes the account's connection of that label. If it was its app's default, there is none then.
  async disconnect({ person }, label) {
    const { connections } = (await this.server.call(person, 'GET', '/api/connections')).json;
    await this.server.call(person, 'DELETE', `/api/connections/${connections.find((one) => one.label === label).id}`);
  }

  async reset() {
    await this.stack.provider.control('POST', '/reset');
    this.google.reset();
    this.slack.reset();
    this.stripe.reset();
  }

  async events() {
    const reply = await fetch(`${this.google.url}/calendar/v3/calendars/primary/events`, { headers: { authorization: `Bearer ${CALENDAR}` } });
    return (await reply.json()).items;
  }

  async stopWell(assert) {
    await this.http.stop();
    await this.stack.stopWell(assert);
    await this.google.close();
  }
}
