// Debian's Chromium, driven by playwright-core. Each Visit is a person with their own browser (a
// context). All its requests go through a proxy that records every exchange, so that tests can
// check each byte that was received, with JavaScript and without. Every complaint of the browser
// (errors in the console, violations of the content security policy, exceptions) fails the visit
// when it ends.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, request as send } from 'node:http';
import { constants, gunzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';

const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const WAIT_MS = 180_000;
const WIDTH = 1000;
// Read as text for the pages, since an import would run it in this process.
const AXE = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
export const COLOR_RULES = ['color-contrast', 'link-in-text-block']; // axe-core's rules that another color scheme may break

// Works on a truncated reply, too.
const unpack = (body) => gunzipSync(body, { finishFlush: constants.Z_SYNC_FLUSH });

// Forwards each exchange and records its {url, method, status, headers, body, bytes}: the body as
// the page reads it, unpacked, and the number of bytes that were transferred.
class Recorder {
  exchanges = [];

  static async start() {
    const recorder = new Recorder();
    recorder.server = createServer((request, response) => recorder.#forward(request, response));
    // nothing under test speaks TLS to the browser
    recorder.server.on('connect', (request, socket) => {
      recorder.exchanges.push({ url: `https://${request.url}`, method: 'CONNECT', status: 0, headers: {}, body: Buffer.alloc(0), bytes: 0 });
      socket.destroy();
    });
    await new Promise((resolve) => recorder.server.listen(0, '127.0.0.1', resolve));
    recorder.url = `http://127.0.0.1:${recorder.server.address().port}`;
    return recorder;
  }

  #forward(request, response) {
    const { hostname, port, pathname, search } = new URL(request.url);
    const headers = { ...request.headers };
    delete headers['proxy-connection'];
    const onward = send({ hostname, port, path: pathname + search, method: request.method, headers, agent: false }, (reply) => {
      const parts = [];
      const one = { url: request.url, method: request.method, status: reply.statusCode, headers: reply.headers };
      one.raw = reply.rawHeaders;
      reply.on('data', (part) => parts.push(part));
      reply.on('close', () => {
        const body = Buffer.concat(parts);
        this.exchanges.push({ ...one, bytes: body.length, body: reply.headers['content-encoding'] === 'gzip' && body.length > 0 ? unpack(body) : body });
      });
      response.writeHead(reply.statusCode, reply.rawHeaders);
      reply.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

export class Browser {
  static async start() {
    const browser = new Browser();
    browser.recorder = await Recorder.start();
    browser.chromium = await chromium.launch({
      executablePath: PROGRAMS.find((one) => existsSync(one)),
      args: process.getuid() === 0 ? ['--no-sandbox'] : [],
      proxy: { server: browser.recorder.url },
    });
    return browser;
  }

  // All exchanges of all visits.
  get exchanges() {
    return this.recorder.exchanges;
  }

  // options: as playwright's newContext; base: the server's URL
  async visit(base, options = {}) {
    const context = await this.chromium.newContext({
      baseURL: base,
      viewport: { width: WIDTH, height: 900 },
      reducedMotion: 'reduce',
      ...options,
    });
    context.setDefaultTimeout(WAIT_MS);
    return Visit.of(context, await context.newPage(), base);
  }

  async stop() {
    await this.chromium?.close();
    await this.recorder?.stop();
  }
}

export class Visit {
  // Complaints about pages of other sites, such as an authorization server, are not counted.
  static async of(context, page, base) {
    const visit = Object.assign(new Visit(), { context, page, problems: [], navigations: 0 });
    await context.exposeBinding('sluiceViolation', (source, text) => visit.problems.push(`policy: ${text}`));
    await context.addInitScript(() =>
      addEventListener('securitypolicyviolation', (event) =>
        globalThis.sluiceViolation(`${event.violatedDirective} ${event.blockedURI}`),
      ),
    );
    page.on('pageerror', (error) => visit.problems.push(`exception: ${error.message}`));
    // A test that expects a question sets `answer`.
    page.on('dialog', (dialog) => {
      if (visit.answer) return visit.answer(dialog);
      visit.problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on('console', (message) => {
      // Error pages (401, 404, ...) also count as pages.
      const isPage = message.location().url === page.url() && /status of 4\d\d/.test(message.text());
      const isOurs = page.url().startsWith(base);
      if (['error', 'warning'].includes(message.type()) && isOurs && !isPage) visit.problems.push(`console: ${message.text()}`);
    });
    page.on('framenavigated', (frame) => frame === page.mainFrame() && visit.navigations++);
    return visit;
  }

  goto(path) {
    return this.page.goto(path);
  }

  // Presses a button or follows a link, and waits for the page that it opens.
  async press(name, within = this.page) {
    const target = within.getByRole('button', { name }).or(within.getByRole('link', { name, exact: true })).first();
    await Promise.all([this.page.waitForNavigation(), target.click()]);
  }

  // A click waits until the page that it opens begins to arrive, not until all of it is there.
  async text() {
    await this.page.waitForLoadState('domcontentloaded');
    return this.page.locator('main').innerText();
  }

  async title() {
    return this.page.locator('h1').innerText();
  }

  async sees(pattern) {
    const text = await this.text();
    if (typeof pattern === 'string') assert.ok(text.includes(pattern), `${this.page.url()} lacks "${pattern}":\n${text}`);
    else assert.match(text, pattern, this.page.url());
  }

  // axe-core's findings on the page in its present state, as texts. rules: checks only these rules.
  async findings(rules) {
    const options = { resultTypes: ['violations'], ...(rules && { runOnly: rules }) };
    const check = `axe.run(document, ${JSON.stringify(options)})`;
    const isThere = await this.page.evaluate('globalThis.axe !== undefined'); // left by an earlier check of the page
    const { violations } = await this.page.evaluate(isThere ? check : `${AXE};${check}`);
    return violations.map(({ id, nodes }) => `${this.page.url()}: ${id}: ${nodes.map((node) => `${node.html}\n${node.failureSummary}`).join('\n')}`);
  }

  async isAccessible(rules) {
    assert.deepEqual(await this.findings(rules), []);
  }

  async fits() {
    // measured in playwright's own JavaScript world, which needs no script in the page
    const [wide, inner] = await this.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= inner, `${this.page.url()} is ${wide} wide in ${inner}`);
  }

  async end() {
    await this.context.close();
    assert.deepEqual(this.problems, []);
  }
}
