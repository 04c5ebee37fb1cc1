// Shared code of the tests of the dashboard: a deployment whose mail app is connected through a
// strict OAuth server (npm oidc-provider) that the emulated mail provider trusts, people with a
// session, and checks of every page that was received.
import assert from 'node:assert/strict';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Browser } from './browser.mjs';
import { until } from './client.mjs';
import { Pages } from './pages.mjs';
import { Stack } from './stack.mjs';

export const TEMPLATE = 'unread_mail_to_tasks';
export const APPROVE = /^Approve(?! and)/; // the button that stays on the flow's page
export const PHONE = { viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true };
// The menu of pages.
export const menu = (visit) => visit.page.getByRole('navigation', { name: 'Pages' });
const MAIL_SCOPE = 'https://www.googleapis.com/auth/gmail.modify';
const ROOT = new URL('../../../', import.meta.url).pathname;

export class Dashboard {
  // options: oidc (connects the mail app there), apps (with oidc: further manifests),
  // withoutBrowser, and the options of Stack.serve
  static async start({ oidc = false, apps = [], withoutBrowser = false, ...options } = {}) {
    const dashboard = new Dashboard();
    try {
      dashboard.stack = await Stack.start({ postgres: { max_connections: 100 } });
      dashboard.provider = dashboard.stack.provider;
      if (oidc) Object.assign(options, await dashboard.#startOidc(apps));
      dashboard.server = await dashboard.stack.serve(options);
      dashboard.oidc?.allowRedirect(`${dashboard.server.base}/connect/callback`);
      dashboard.base = dashboard.server.base;
      const ready = join(dashboard.stack.dir, 'provider', 'ready.json');
      dashboard.taskParent = JSON.parse(await readFile(ready, 'utf8')).task_parent;
      if (!withoutBrowser) dashboard.browser = await Browser.start();
    } catch (error) {
      await dashboard.stop();
      throw error;
    }
    return dashboard;
  }

  // The mail app's own manifest, with the test's authorization and token endpoints.
  async #startOidc(apps) {
    const { Oidc, clientOf } = await import('./oidc.mjs');
    this.oidc = await Oidc.start({ ttl: 3600, scopes: [MAIL_SCOPE] });
    this.oidc.onToken = async (token) => {
      this.tokens = [...(this.tokens ?? []), token];
      await this.provider.control('POST', '/token', { token: `gmail=${token},modify` });
    };
    const mail = JSON.parse(await readFile(join(ROOT, 'contrib/integrations/gmail.json'), 'utf8'));
    Object.assign(mail.auth, {
      authorize_url: `${this.oidc.url}/auth`,
      token_url: `${this.oidc.url}/token`,
      scopes: ['openid', 'offline_access', MAIL_SCOPE],
      token_auth: 'basic',
    });
    const folder = join(this.stack.dir, 'catalog');
    await mkdir(folder);
    await writeFile(join(folder, 'gmail.json'), JSON.stringify(mail));
    for (const app of apps) await writeFile(join(folder, `${app.integration_id}.json`), JSON.stringify(app));
    await copyFile(join(ROOT, 'tests/e2e/support/catalog/probe.json'), join(folder, 'probe.json'));
    const env = { SLUICE_CATALOG: folder };
    await this.stack.must(['oauth-clients', 'set', 'gmail', '--client-id', 'sluice', '--client-secret-file', '-'], {
      env,
      input: `${clientOf('sluice').client_secret}\n`,
    });
    return { env, args: ['--allow-host', '127.0.0.1'] };
  }

  // An account and its key, with mail and notes connected, or with the given apps.
  account(name, options = { apps: ['gmail', 'notion'] }) {
    return this.stack.account(name, options);
  }

  // Creates another key of an account, with all scopes or the given ones: {id, as}, its id and the
  // account with that key.
  async keyOf(own, name, scopes) {
    const made = JSON.parse(await this.stack.must(['keys', 'create', own.id, '--name', name, ...(scopes ? ['--scopes', scopes] : []), '--json']));
    return { id: made.id, as: { ...own, key: made.key } };
  }

  // A person on the overview page, whose session was made without the sign-in form. The form has
  // its own tests.
  async signIn(account, options = {}) {
    const pages = new Pages(this.base);
    // An address may sign in ten times in a burst, then once per second.
    await until('the sign-in is answered', async () => (await pages.signIn(account.key)).status !== 429);
    const visit = await this.browser.visit(this.base, options);
    await visit.context.addCookies([...pages.cookies].map(([name, value]) => ({ name, value, url: this.base, httpOnly: true, sameSite: 'Lax' })));
    await visit.goto('/');
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

  // The mail-to-tasks flow, which waits for the approval of its pages.
  async startTasks(account, input = {}) {
    const id = await this.start(account, TEMPLATE, { taskParent: this.taskParent, maxResults: 2, ...input });
    await this.reaches(account, id, 'waiting');
    return id;
  }

  reaches(account, id, status) {
    return until(`flow ${id} is ${status}`, async () => {
      const { json } = await this.call(account, 'GET', `/api/flows/${id}`);
      return json.flow.status === status && json;
    });
  }

  // Stores the counts that a server would have written for an account in the last hours
  // (exec/tally.c): rows of [app, action, outcome, error code, calls], each repeated for that
  // number of hours. said: the message of the last failure. buckets: the calls by duration. ago:
  // the age of the latest rows in hours.
  async counted({ id }, rows, hours = 3, ago = 0) {
    const values = rows.map(([app, action, outcome, code, calls, said, bucket = 5]) => {
      const buckets = Array.from({ length: 16 }, (_, i) => (outcome !== 'blocked' && i === bucket ? calls : 0));
      return `('${app}', '${action}', '${outcome}', '${code}', ${calls}::bigint, '{${buckets}}'::int[], ${said ? `'${said.replaceAll("'", "''")}'` : 'null'})`;
    });
    await this.stack.cluster.sql(`insert into sluice.tally (account_id, slot, integration_id, action_id, outcome, error_code, is_hour, calls, ms_sum, buckets, last)
      select '${id}', slot, app, action, outcome, code, false, calls, calls * 40, buckets, (extract(epoch from slot) * 1000000)::bigint || ' ' || said
      from (values ${values}) v (app, action, outcome, code, calls, buckets, said), generate_series(${ago}, ${ago + hours - 1}) n,
        lateral (select date_bin('5 min', now(), 'epoch') - n * interval '1 hour' as slot) s on conflict do nothing`);
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

  // Checks all exchanges: nothing comes from other sites (except `elsewhere`), each page has its
  // security headers, and no body, header or URL contains a secret. shown: whether a page may show
  // a secret.
  judge(secrets, { elsewhere = [], shown = () => false } = {}) { // words: ok
    assert.ok(this.pages.length > 0);
    for (const page of this.pages) {
      const policy = page.headers['content-security-policy'] ?? '';
      for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"])
        assert.ok(policy.includes(part), `${page.url}: ${policy}`);
      assert.doesNotMatch(policy, /unsafe|\*/);
      // the reference is public
      const keeps = /\/docs(\/|$)/.test(page.url) && page.status !== 404 ? 'private, no-cache' : 'no-store';
      assert.equal(page.headers['cache-control'], keeps, page.url);
      assert.equal(page.headers['x-content-type-options'], 'nosniff', page.url);
      assert.equal(page.headers['referrer-policy'], 'same-origin', page.url);
    }
    for (const one of this.browser.exchanges) {
      assert.ok([this.base, ...elsewhere].some((origin) => `${one.url}/`.startsWith(`${origin}/`)), `requested ${one.url}`);
      if (!one.url.startsWith(this.base)) continue;
      assert.ok(one.status < 500, `${one.method} ${one.url}: ${one.status}`);
      const text = `${one.url}\n${JSON.stringify(one.headers)}\n${one.body}`;
      for (const [name, secret] of Object.entries(secrets))
        assert.ok(!text.includes(secret) || shown(one, name), `${name} is in the reply of ${one.url}`);
    }
  }

  async stop() {
    await this.browser?.stop();
    await this.oidc?.stop();
    await this.stack?.stopWell(assert);
  }
}
