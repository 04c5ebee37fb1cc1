// Tables of sentences and conditions: a page is compared with the state of what it shows, and each
// sentence of its table is there if and only if its condition holds. dashboard_truth.test.mjs and
// dashboard_states.test.mjs have the tables; ROUTES says which of them has which page.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { formsOf, Pages } from './pages.mjs';

// The pages that each file's tables compare, with the buttons that are pressed late; and those that
// have no sentence about a state of an object.
export const ROUTES = {
  truth: `GET /, GET /approvals, GET /flows, GET /flows/{id}, GET /flows/{id}/cancel, GET /flows/{id}/again, GET /connections,
    GET /connections/{id}, GET /integrations/{id}, GET /keys, GET /keys/{id}, GET /keys/{id}/revoke, GET /audit, POST /flows/{id}/approve,
    POST /flows/{id}/reject, POST /flows/{id}/resume, POST /flows/{id}/cancel, POST /keys/{id}/revoke`,
  states: `GET /webhooks, GET /webhooks/{id}, GET /webhooks/{id}/edit, GET /webhooks/{id}/roll, GET /webhooks/{id}/delete, GET /connect/{token},
    GET /users, GET /users/{id}, GET /users/{id}/erase, GET /connections/{id}/delete, GET /integrations, GET /integrations/{id}/actions/{action},
    GET /integrations/{id}/client/delete, GET /executions, GET /executions/{id}, GET /executions/{id}/again,
    POST /webhooks/{id}/edit, POST /webhooks/{id}/switch, POST /webhooks/{id}/test, POST /webhooks/{id}/roll, POST /webhooks/{id}/delete,
    POST /webhooks/{id}/replay, POST /webhooks/{id}/deliveries/{event}/replay, POST /connect/{token}, POST /connect/{token}/go,
    POST /users/{id}/erase, POST /connections/{id}/default, POST /connections/{id}/label, POST /connections/{id}/delete,
    POST /connections/{id}/test, POST /integrations/{id}/connect, POST /integrations/{id}/client, POST /integrations/{id}/client/delete,
    POST /executions/{id}/again`,
  // the reader's session
  'no state: sessions': 'GET /sign-in, POST /sign-in, GET /sign-out, POST /sign-out, POST /sign-out/everywhere',
  // forms that make a new object
  'no state: forms': 'GET /flows/new, POST /flows/new, POST /flows/{id}/again, GET /keys/new, POST /keys/new, GET /webhooks/new, POST /webhooks/new, GET /connect/callback',
  // streams without sentences, files, and the reference
  'no state: others': 'GET /flows/{id}/events, GET /events, GET /keys/{id}/events, GET /audit.csv, GET /assets/{name}, GET /docs, GET /docs/{operation}',
};

const matches = (pattern, path) => new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
const routesOf = (file) => ROUTES[file].split(',').map((route) => route.trim());

// The routes of src/web/web.c, as "GET /flows/{id}".
async function routes() {
  const source = await readFile(new URL('../../../src/web/web.c', import.meta.url), 'utf8');
  return [...source.matchAll(/\{HTTP_METHOD_(\w+), "([^"]+)"/g)].map(([, method, path]) => `${method} ${path}`);
}

// A new page is in a table, or in the list of those without a state.
export async function checkRoutes() {
  assert.deepEqual(Object.keys(ROUTES).flatMap(routesOf).sort(), (await routes()).sort());
}

// The readable text of a page's main part, without what is hidden.
export const textOf = (page) =>
  (page.text.split('<main')[1] ?? page.text)
    .replace(/<section[^>]* hidden[\s\S]*?<\/section>|<svg[\s\S]*?<\/svg>|<[^>]*>/g, ' ')
    .replaceAll('&quot;', '"')
    .replace(/\s+/g, ' ');

// Returns what is wrong, as texts. table: [text or pattern, whether the page has to contain it]
const faultsOf = (words, table, where) =>
  table.flatMap(([sentence, isTrue]) => {
    const isThere = typeof sentence === 'string' ? words.includes(sentence) : sentence.test(words);
    return isThere === Boolean(isTrue) ? [] : [`${where}: ${sentence} is ${isThere ? 'there' : 'missing'}: ${words}`];
  });

export const compare = (words, table, where) => assert.deepEqual(faultsOf(words, table, where), []);

// A person who reads pages without a script.
export class Reader extends Pages {
  static asked = []; // of all readers

  async ask(path, options) {
    Reader.asked.push([options?.method ?? 'GET', new URL(path, this.base).pathname]);
    return super.ask(path, options);
  }

  async look(path, status = 200) {
    const page = await this.ask(path);
    assert.equal(page.status, status, `${path}: ${page.text}`);
    return { ...page, words: textOf(page) };
  }

  // Brings an object into each of its states, as another person does, and compares its pages.
  // states: [name, change, late presses], a late press: [path of a page that was displayed before
  // the change, the name of its button or a pattern, fields, sentences of the answer]. facts: asks
  // for the present state. tables: [path, facts => [status, table], the reader if it is another one];
  // they also hold after each late press. A table is of [sentence, whether it is true].
  async walk({ states, facts, tables }, what) {
    const faults = [];
    const check = async (where) => {
      const it = await facts();
      for (const [path, about, who = this] of tables) {
        const [status, table] = about(it);
        const page = await who.ask(path);
        faults.push(...faultsOf(`${page.status} ${textOf(page)}`, [[new RegExp(`^${status} `), true], ...table], `${what}, ${where}, ${path}${who === this ? '' : ' of another'}`));
      }
    };
    for (const [name, change, ...late] of states) {
      const displayed = [];
      for (const [path] of late) displayed.push(await this.look(path));
      await change();
      await check(name);
      for (const [i, [, button, fields, sentences]] of late.entries()) {
        const named = formsOf(displayed[i].text).flatMap(({ buttons }) => buttons).find((one) => button.test?.(one));
        const reply = await this.press(displayed[i], named ?? button, fields);
        faults.push(...faultsOf(`${reply.status} ${textOf(reply)}`, [[/^5/, false], ...sentences], `${what}, ${name}, a late "${button}"`));
        await check(`${name}, after a late "${button}"`);
      }
    }
    assert.deepEqual(faults, []);
  }
}

// Checks that this file's tests have asked for all pages that ROUTES says they compare.
export function checkAsked(file) {
  for (const route of routesOf(file)) {
    const [method, pattern] = route.split(' ');
    assert.ok(Reader.asked.some(([one, path]) => one === method && matches(pattern, path)), `${route} was not compared`);
  }
}
