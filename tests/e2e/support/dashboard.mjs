// What the dashboard's tests share: a deployment whose mail app is connected through a strict OAuth
// server (npm oidc-provider) that the emulated mail provider believes, people with a session, and
// what is looked at on every page that came.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Browser } from './browser.mjs';
import { until } from './client.mjs';
import { Stack, credentials } from './stack.mjs';

export const TEMPLATE = 'unread_mail_to_tasks';
const catalogDir = new URL('catalog', import.meta.url).pathname;

export class Dashboard {
  static async start(options = {}) {
    const dashboard = new Dashboard();
    try {
      dashboard.stack = await Stack.start({ postgres: { max_connections: 100 } });
      dashboard.provider = dashboard.stack.provider;
      dashboard.server = await dashboard.stack.serve(options);
      dashboard.base = dashboard.server.base;
      const ready = join(dashboard.stack.dir, 'provider', 'ready.json');
      dashboard.taskParent = JSON.parse(await readFile(ready, 'utf8')).task_parent;
      dashboard.browser = await Browser.start();
    } catch (error) {
      await dashboard.stop();
      throw error;
    }
    return dashboard;
  }

  // An account with mail and notes connected (or what apps names), and its key.
  account(name, options = { apps: ['gmail', 'notion'] }) {
    return this.stack.account(name, options);
  }

  async signIn(account, options = {}) {
    const visit = await this.browser.visit(this.base, options);
    await visit.goto('/sign-in');
    await visit.page.getByLabel('API key').fill(account.key);
    await visit.press('Sign in');
    return visit;
  }

  call(account, method, path, body, headers) {
    return this.server.call(account.key, method, path, body, headers);
  }

  async start(account, flowTemplate, input) {
    const reply = await this.call(account, 'POST', '/api/flows/start', { flowTemplate, input, triggerType: 'agent' });
    assert.equal(reply.status, 200, reply.text);
    return reply.json.flowId;
  }

  // The mail-to-tasks flow, with its pages waiting for approval.
  async startTasks(account, input = {}) {
    const id = await this.start(account, TEMPLATE, { taskParent: this.taskParent, maxResults: 2, ...input });
    await this.reaches(account, id, 'waiting');
    return id;
  }

  reaches(account, id, status) {
    return until(`flow ${id} is ${status}`, async () => {
      const { json } = await this.call(account, 'GET', `/api/flows/${id}`);
      return json.flow.status === status && json;
    }, 60_000);
  }

  async pagesMade() {
    const ledger = await this.provider.control('GET', '/ledger');
    return ledger.entries.filter((entry) => entry.path === '/v1/pages').map((entry) => entry.marker);
  }

  get pages() {
    return this.browser.exchanges.filter(
      (one) => one.url.startsWith(this.base) && /^text\/html/.test(one.headers['content-type'] ?? ''),
    );
  }

  // What holds for everything that was exchanged: nothing from elsewhere (but `elsewhere`), guards on
  // each page, and no secret in a body, a header or a URL. shown: a page that may show one of them.
  judge(secrets, { elsewhere = [], shown = () => false } = {}) {
    assert.ok(this.pages.length > 0);
    for (const page of this.pages) {
      const policy = page.headers['content-security-policy'] ?? '';
      for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"])
        assert.ok(policy.includes(part), `${page.url}: ${policy}`);
      assert.doesNotMatch(policy, /unsafe|\*/);
      assert.equal(page.headers['cache-control'], 'no-store', page.url);
      assert.equal(page.headers['x-content-type-options'], 'nosniff', page.url);
      assert.equal(page.headers['referrer-policy'], 'same-origin', page.url);
    }
    for (const one of this.browser.exchanges) {
      assert.ok([this.base, ...elsewhere].some((origin) => one.url.startsWith(`${origin}/`)), `asked for ${one.url}`);
      if (!one.url.startsWith(this.base)) continue;
      assert.ok(one.status < 500, `${one.method} ${one.url}: ${one.status}`);
      const text = `${one.url}\n${JSON.stringify(one.headers)}\n${one.body}`;
      for (const [name, secret] of Object.entries(secrets))
        assert.ok(!text.includes(secret) || shown(one, name), `${name} is in what came from ${one.url}`);
    }
  }

  async stop() {
    await this.browser?.stop();
    await this.stack?.stopWell(assert);
  }
}

export { catalogDir, credentials };
