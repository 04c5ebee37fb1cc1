// Pastes the commands that `sluice dev` prints for a new user, and those in the README and
// contrib/deploy/README.md, into a shell, whole, as a new user would.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { startDev, until } from './support/dev.mjs';
import { must, run } from './support/process.mjs';

let dev;
before(async () => {
  dev = await startDev();
});
after(async () => {
  const end = await dev?.stop();
  assert.deepEqual([end?.code, end?.signal], [0, null], end?.log.slice(-30000));
});

const pagesMade = async () => (await dev.ledger()).filter((entry) => entry.path === '/v1/pages');

// Runs the shell lines, which print JSON, one value per line.
async function paste(lines) {
  return (await must('bash', ['-euc', lines])).trim().split('\n').map((line) => JSON.parse(line));
}

const page = (path) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
const blocksOf = (text, kind) => [...text.matchAll(new RegExp(`^\`\`\`${kind}\n(.*?)^\`\`\``, 'gms'))].map(([, block]) => block);

// Checks that the answer contains every member of the shortened answer.
function contains(answer, part, at = '') {
  if (Array.isArray(part) || (part && typeof part === 'object')) {
    for (const [name, value] of Object.entries(part)) contains(answer?.[name], value, `${at}/${name}`);
    return;
  }
  assert.deepEqual(answer, part, at);
}

test('the README', async () => {
  const readme = await page('README.md');
  // the rest of that page is for a separate machine: tests/operators/first_day.sh
  const [accounts] = (await page('contrib/deploy/README.md')).split('## Configuration');
  const links = blocksOf(accounts, 'sh').filter((block) => block.includes('curl'));
  const lines = [...blocksOf(readme, 'sh'), ...links]
    .filter((block) => block.includes('curl'))
    .join('\n')
    .replace('$(cat .sluice/api_key)', dev.key)
    .replaceAll('http://127.0.0.1:8080', dev.base)
    .replaceAll(/(^|; )curl -s /gm, "$1curl -sw '\\n' ");
  const [read, blocked, sent, waiting, approved, link, ...more] = await paste(lines);
  assert.deepEqual(more, []);
  const shown = blocksOf(readme, 'json').flatMap((block) => block.trim().split(/\n(?=\{)/).map((one) => JSON.parse(one)));
  assert.deepEqual(shown.map((one) => one.status ?? one.flow.status), ['succeeded', 'blocked', 'succeeded', 'waiting', 'running']);
  [read, blocked, sent, waiting, approved].forEach((answer, i) => contains(answer, shown[i], `answer ${i + 1}`));
  assert.equal(approved.flow.id, waiting.flow.id);
  assert.ok(link.url.startsWith(`${dev.base}/connect/`) && link.expires_at, JSON.stringify(link));
  assert.equal((await fetch(link.url)).status, 200);
  await until('the pages are made', async () => {
    const { json } = await dev.call('GET', `/api/flows/${waiting.flow.id}`);
    return json.flow.status === 'completed';
  });
});

test('read, blocked write, confirmed write, a flow that waits and goes on', async () => {
  const printed = dev.log.slice(dev.log.indexOf('SLUICE_KEY='), dev.log.indexOf('`sluice catalog show'));
  assert.equal(printed.match(/^# /gm).length, 5, printed);
  const before = (await pagesMade()).length;
  const [read, blocked, written, waiting, approved, ...more] = await paste(printed);
  assert.deepEqual(more, []);
  assert.equal(read.status, 'succeeded');
  assert.ok(read.output.threads.length > 0);
  assert.deepEqual([blocked.status, blocked.error_code], ['blocked', 'policy_blocked']);
  assert.equal(written.status, 'succeeded');

  assert.deepEqual([waiting.flow.status, waiting.flow.currentStep], ['waiting', 'approve_tasks']);
  const { items } = waiting.steps.find((step) => step.stepKey === 'approve_tasks').input;
  assert.equal(items.length, 3);
  assert.equal(approved.flow.id, waiting.flow.id);
  const ended = await until('the flow has ended', async () => {
    const { json } = await dev.call('GET', `/api/flows/${waiting.flow.id}`);
    return json.flow.status === 'completed' && json;
  });
  assert.equal((await pagesMade()).length - before, 4);
  for (const [index, page] of ended.flow.context.created.pages.entries()) {
    assert.equal(page.title, items[index].input.title);
    const read = await dev.execute('notion', 'get_page', { page_id: page.id });
    assert.equal(read.json.status, 'succeeded', read.text);
  }
});

// Runs the line of the banner as printed, and then the command that it is an example of.
test("an operator's command reaches its database by --data", async () => {
  const sluice = (...args) => run(process.env.SLUICE_BIN, args, { env: { DATABASE_URL: '' } });
  const [, line] = /^Operator commands use this database with --data: sluice (accounts list --data .*)$/m.exec(dev.log);
  const listed = await sluice(...line.split(' '));
  assert.equal(listed.code, 0, listed.stderr);
  const data = line.split(' ').at(-1);
  const created = await sluice('accounts', 'create', 'Acme', '--data', data);
  assert.equal(created.code, 0, created.stderr);
  const [, id] = /^account ([0-9a-f-]{36})\n/.exec(created.stdout);
  const again = await sluice('accounts', 'create', 'Acme', '--data', data);
  assert.deepEqual([again.code, again.stdout], [1, '']);
  assert.ok(again.stderr.includes(`an account "Acme" already exists (${id}); --again creates another one`), again.stderr);
  const second = await sluice('accounts', 'create', 'Acme', '--again', '--json', '--data', data);
  assert.notEqual(JSON.parse(second.stdout).account_id, id);
  const key = await sluice('keys', 'create', id, '--data', data);
  assert.equal((await dev.call('GET', '/api/integrations', undefined, { authorization: `Bearer ${key.stdout.trim()}` })).status, 200);
  // --data also gives the master key and the address for calls: the credential is tested with the
  // emulated provider
  const added = await run(process.env.SLUICE_BIN, ['connections', 'add', id, 'gmail', '--credential-file', '-', '--data', data], {
    env: { DATABASE_URL: '' }, input: JSON.stringify({ access_token: 'unknown here' }),
  });
  assert.equal(added.code, 0, added.stderr);
  const nowhere = await sluice('accounts', 'list', '--data', '/tmp');
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /^sluice accounts list: \/tmp has no data of `sluice dev`/);
});
