// The README and the other documents of the tree are correct: paths, commands, flags, settings with
// their defaults, endpoints, metrics, make targets. dev_text.test.mjs runs their curl lines, and
// deploy.test.mjs the files of contrib/deploy.
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { before, test } from 'node:test';
import { must } from './support/process.mjs';

const root = new URL('../..', import.meta.url).pathname;
const bin = process.env.SLUICE_BIN;
const pages = ['README.md', ...globSync('{contrib,bench,src,tests}/**/README.md', { cwd: root, exclude: (name) => name.endsWith('node_modules') })];
const texts = new Map();
let source;

before(async () => {
  for (const page of pages) texts.set(page, await readFile(join(root, page), 'utf8'));
  source = (await Promise.all(globSync('src/**/*.[ch]', { cwd: root }).map((file) => readFile(join(root, file), 'utf8')))).join('\n');
});

// Every page's findings, reported together.
function none(found) {
  assert.deepEqual([...new Set(found)], []);
}
const overPages = (look) => pages.flatMap((page) => look(texts.get(page), page).map((what) => `${page}: ${what}`));
// Whether the source counts the metric of this name. A string that only reads a metric does not
// count.
const isMetric = (name) => new RegExp(`METRIC_INIT\\(\\s*"${name}"`).test(source);
const ticked = (text) => [...text.replaceAll(/^```.*?^```/gms, '').matchAll(/`([^`\n]+(?:\n[^`\n]+)?)`/g)].map(([, one]) => one.replace('\n', ' '));
const blocks = (text) => [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block]) => block);
const rows = (text) => text.split('\n').filter((line) => line.startsWith('| ')).map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()).slice(1, -1));
const section = (page, heading) => {
  const whole = texts.get(page);
  const begin = whole.indexOf(`\n${heading}\n`);
  assert.ok(begin >= 0, `${page}: ${heading}`);
  const text = whole.slice(begin + heading.length + 2);
  const end = text.search(/^##+ /m);
  return end < 0 ? text : text.slice(0, end);
};

test('pages were found', () => {
  for (const page of ['README.md', 'src/README.md', 'src/api/README.md', 'tests/README.md', 'contrib/deploy/README.md', 'contrib/integrations/README.md', 'contrib/templates/README.md', 'bench/provider/README.md', 'bench/scenarios/README.md'])
    assert.ok(pages.includes(page), page);
});

test('the README is short', () => {
  assert.ok(texts.get('README.md').split('\n').length <= 151);
});

test('every link and picture has a target', () => {
  none(overPages((text, page) => {
    const shown = text.replaceAll(/^```.*?^```/gms, '').replaceAll(/`[^`\n]+`/g, ''); // code is not a link
    const links = [...shown.matchAll(/\]\(([^)\s]+)\)|(?:src|href|srcset)="([^"]+)"/g)].map(([, a, b]) => a ?? b);
    return links.filter((link) => !/^(https?:|#)/.test(link) && !existsSync(join(root, dirname(page), link.replace(/#.*/, ''))));
  }));
});

test('every named page exists', () => {
  none(overPages((text, page) => {
    const names = [...text.matchAll(/[\w./-]+\.md\b/g)].map(([name]) => name);
    return names.filter((name) => ![root, join(root, dirname(page))].some((dir) => existsSync(join(dir, name))));
  }));
});

// A text counts as a path of this tree if its first part is a folder here, or a room. Built files
// need not exist.
test('every path exists', () => {
  const rooms = globSync('src/*/', { cwd: root }).map((path) => relative('src', path).replace(/\/$/, ''));
  const folders = ['src', 'tests', 'bench', 'contrib', 'deps', 'sql', 'deploy'];
  none(overPages((text) => ticked(text).filter((one) => /^[\w.-]+(\/[\w.<>*-]*)+$/.test(one)).filter((path) => {
    const first = path.split('/')[0];
    const pattern = path.replaceAll(/<[^>]*>/g, '*').replace(/\/$/, '');
    if (folders.includes(first)) return globSync(pattern, { cwd: root }).length === 0;
    return rooms.includes(first) && /\.[ch]$/.test(path) && !existsSync(join(root, 'src', path));
  })));
});

test('the tour names every room in the order of src/ROOMS, and existing files', async () => {
  const tour = rows(section('src/README.md', '## Rooms')).filter(([room]) => /^`\w+`$/.test(room));
  const all = (await readFile(join(root, 'src/ROOMS'), 'utf8')).split('\n').filter((line) => /^\w+ *\|/.test(line)).map((line) => line.split('|')[0].trim());
  const present = all.filter((room) => existsSync(join(root, 'src', room)));
  assert.deepEqual(tour.map(([room]) => room.replaceAll('`', '')), present);
  none(tour.flatMap(([room, , files]) => ticked(files).map((file) => `src/${room.replaceAll('`', '')}/${file}`)).filter((file) => !existsSync(join(root, file))));
});

test('the settings are those of `sluice serve --help`, with their defaults', async () => {
  const help = await must(bin, ['serve', '--help']);
  const settings = help.slice(help.indexOf('\nsettings:\n'), help.indexOf('\nEach setting'));
  const wanted = [...settings.matchAll(/^ {2}--(\S+) (\S+)(?: {3}\((.*)\))?\n((?: {6}.*\n?)+)/gm)].map(
    ([, name, value, otherwise, text]) => [`\`${name}\` ${value}`, otherwise ? `\`${otherwise}\`` : '', text.trim().split(/\s+/).join(' ')],
  );
  assert.ok(wanted.length > 40, help);
  const said = rows(section('contrib/deploy/README.md', '## Configuration')).filter(([first]) => first.startsWith('`'));
  assert.deepEqual(said, wanted);
});

// A setting that nothing reads was added only in part.
test('every setting is read outside of its list', async () => {
  const list = await readFile(join(root, 'src/config/settings.h'), 'utf8');
  const members = [...list.matchAll(/^ +X\((\w+),/gm)].map(([, name]) => name);
  assert.ok(members.length > 40, `${members.length} settings`);
  none(members.filter((name) => !new RegExp(`(->|\\.)${name}\\b`).test(source)));
});

// "sluice keys create ...", in backticks or at the start of a command in a block.
function commandsOf(text) {
  const lines = blocks(text).flatMap((block) => block.replaceAll(/\\\n\s*/g, ' ').replaceAll(/#.*$/gm, '').split(/[\n|;]|\$\(/));
  return [...ticked(text), ...lines].map((one) => one.trim()).filter((one) => /^(build\/)?sluice [a-z-]/.test(one));
}

test('every command, verb and flag is known to `sluice help`', async () => {
  const [all, helps, found] = [await must(bin, ['help']), new Map(), []];
  let count = 0;
  for (const [page, text] of texts)
    for (const line of commandsOf(text)) {
      const [, command, verb] = line.match(/sluice ([a-z-]+)(?: ([a-z]+)(?![\w-]))?/);
      const flags = line.match(/(?<= )--[a-z-]+/g) ?? [];
      count++;
      if (command === 'help') continue;
      if (!new RegExp(`^ {2}${command}[ a-z]`, 'm').test(all)) {
        found.push(`${page}: ${line}`);
        continue;
      }
      if (!helps.has(command)) helps.set(command, await must(bin, [command, '--help']));
      const help = helps.get(command);
      const verbs = [...help.matchAll(new RegExp(`^usage: sluice ${command} ([a-z]+)`, 'gm'))].map(([, one]) => one);
      if (verb && !verbs.includes(verb)) found.push(`${page}: ${line}`);
      for (const flag of flags) if (flag !== '--help' && !new RegExp(`^ {2}${flag}( |$)`, 'm').test(help)) found.push(`${page}: ${line}: ${flag}`);
    }
  assert.ok(count > 20, `${count} commands`);
  none(found);
});

test('flags by themselves are settings, or options of some command', async () => {
  let all = '';
  for (const command of ['serve', 'dev', 'migrate', 'accounts', 'keys', 'connections', 'oauth-clients', 'catalog', 'flow', 'doctor', 'healthcheck', 'top'])
    all += await must(bin, [command, '--help']);
  const isKnown = (flag) => new RegExp(`^ {2}${flag}( |$)`, 'm').test(all);
  none(['README.md', 'src/api/README.md', 'contrib/deploy/README.md'].flatMap((page) => ticked(texts.get(page))).flatMap((one) => one.match(/^--[a-z-]+/) ?? []).filter((flag) => flag !== '--config' && !isKnown(flag)));
});

test('man pages and completions have every command, flag and setting', async () => {
  const settings = [...(await must(bin, ['serve', '--help'])).matchAll(/^ {2}--([a-z-]+) [A-Z]/gm)].map(([, name]) => name);
  const page = await must(bin, ['help', '--man']);
  for (const command of ['serve', 'accounts', 'doctor']) assert.match(page, new RegExp(`^\\.SS ${command}$`, 'm'));
  assert.match(page, /^\.B \\-\\-credential\\-file \\fIFILE\\fR$/m);
  const conf = await must(bin, ['help', '--man-conf']);
  const has = (name) => conf.includes(`\n.B ${name.replaceAll('-', '\\-')} \\fI`);
  none(settings.filter((name) => name !== 'config' && !has(name)));
  const complete = async (...words) => {
    const script = `eval "$(${bin} help --bash)"; COMP_WORDS=(sluice "$@"); COMP_CWORD=$#; _sluice; echo "\${COMPREPLY[*]}"`;
    return (await must('bash', ['-c', script, '-', ...words])).trim();
  };
  assert.equal(await complete('ac'), 'accounts');
  assert.equal(await complete('accounts', 'e'), 'enable export erase');
  assert.equal(await complete('accounts', 'create', 'x', '--ag'), '--again');
  assert.equal(await complete('serve', '--work'), '--workers');
  assert.equal(await complete('serve', 'x'), '');
  // the commands for the other shells, which tests/operators/package.sh runs, are the same
  const [zsh, fish] = [await must(bin, ['help', '--zsh']), await must(bin, ['help', '--fish'])];
  for (const name of settings) assert.ok(zsh.includes(` '--${name}:`) && fish.includes(` -l ${name} -d '`), name);
});

test('the table of the interface matches openapi.json, with its scopes', async () => {
  const { paths } = JSON.parse(await readFile(join(root, 'src/api/openapi.json'), 'utf8'));
  const wanted = new Map();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries(methods))
      if (/^(get|post|put|patch|delete)$/.test(method))
        wanted.set(`${method.toUpperCase()} ${path}`, operation['x-scope'] ?? (operation.security.length === 0 ? 'no key' : path === '/mcp' ? 'by tool' : 'any'));
  const said = new Map();
  for (const [requests, , scope] of rows(section('src/api/README.md', '## Requests')))
    for (const request of ticked(requests).filter((one) => one.includes(' /'))) said.set(request, scope);
  assert.deepEqual([...said].sort(), [...wanted].sort());
});

test('a row of the interface names the query parameters of its requests', async () => {
  const document = JSON.parse(await readFile(join(root, 'src/api/openapi.json'), 'utf8'));
  const deref = (one) => (one.$ref ? one.$ref.slice(2).split('/').reduce((at, key) => at[key], document) : one);
  const said = rows(section('src/api/README.md', '## Requests'));
  none(Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters = [] }]) => {
      const [, text = ''] = said.find(([requests]) => ticked(requests).includes(`${method.toUpperCase()} ${path}`)) ?? [];
      const names = parameters.map(deref).filter((one) => one.in === 'query').map((one) => one.name);
      return names.filter((name) => !new RegExp(`\`${name}[=\`]`).test(text)).map((name) => `${method} ${path}: ${name}`);
    }),
  ));
});

test('the types of the steps of a flow are documented as they are', async () => {
  const [, table] = (await readFile(join(root, 'src/flow/template_step.c'), 'utf8')).match(/step_types\[\] = \{(.*?)\};/s);
  const types = [...table.matchAll(/"(\w+)"/g)].map(([, name]) => name);
  assert.ok(types.length >= 4, table);
  const [, , said] = rows(section('contrib/templates/README.md', '## Steps')).find(([member]) => member === '`type`');
  assert.deepEqual(ticked(said), types);
  const contract = await readFile(join(root, 'src/api/openapi.json'), 'utf8');
  const enums = [...contract.matchAll(/"enum": (\[[^\]]*"tool_call"[^\]]*\])/g)].map(([, list]) => JSON.parse(list));
  assert.ok(enums.length >= 2);
  for (const one of enums) assert.deepEqual(one, types);
});

test('the table of alarms and the alerts name the same metrics, which the Grafana dashboard shows; every metric that the alerts, the dashboard or top name exists', async () => {
  const names = (text) => new Set([...text.matchAll(/\b(?:sluice|process)_[a-z_]+/g)].map(([name]) => name.replace(/_(bucket|sum|count)$/, '')));
  const read = (name) => readFile(join(root, 'contrib/observability', name), 'utf8');
  const alerts = names((await read('alerts.yml')).replaceAll(/^ *description:.*$/gm, ''));
  const [, table] = texts.get('contrib/deploy/README.md').split('Metrics worth an alarm');
  assert.deepEqual([...alerts].sort(), [...names(rows(table).map(([metric]) => metric).join())].sort());
  const dashboard = JSON.parse(await read('grafana.json'));
  const shown = names(dashboard.panels.flatMap((panel) => panel.targets ?? []).map((target) => target.expr).join());
  assert.ok(shown.size > 30, `${shown.size} metrics`);
  none([...alerts].filter((name) => !shown.has(name)));
  const top = names(await readFile(join(root, 'src/cli/top_command.c'), 'utf8'));
  assert.ok(top.size > 20, `${top.size} metrics`);
  none([...alerts, ...shown, ...top].filter((name) => !isMetric(name)));
});

test('metrics and make targets exist', async () => {
  const makefile = await readFile(join(root, 'Makefile'), 'utf8');
  const targets = new Set([...makefile.matchAll(/^\.PHONY: (.*)$/gm)].flatMap(([, names]) => names.split(' ')));
  none(overPages((text) => [
    ...ticked(text).filter((one) => /^sluice_[a-z_]+$/.test(one) && !source.includes(`"${one}"`)),
    ...[...text.matchAll(/`make ([a-z0-9-]+)/g)].map(([, target]) => target).filter((target) => !targets.has(target)),
  ]));
});
