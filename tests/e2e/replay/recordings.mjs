// The data of the replay: the recordings of the corpus, the cases, the documented errors, and the
// unused recordings, with the reason.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { completed } from './shortened.mjs';

const here = new URL('.', import.meta.url).pathname;
const corpora = process.env.SLUICE_CORPORA ?? new URL('../../../../shared/corpora', import.meta.url).pathname;
const manifestFolder = new URL('../../../contrib/integrations/', import.meta.url).pathname;

export const folder = join(corpora, 'recordings');
export const isCorpusThere = existsSync(folder);
export const apps = readdirSync(manifestFolder).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5)).sort();
export const manifestFile = (app) => join(manifestFolder, `${app}.json`);
export const manifestOf = (app) => JSON.parse(readFileSync(manifestFile(app), 'utf8'));

function linesOf(file) {
  if (!existsSync(file)) return [];
  const rows = readFileSync(file, 'utf8').split('\n').map((text, i) => ({ text, line: i + 1 })).filter((row) => row.text.trim());
  return rows.map((row) => {
    try {
      return { ...JSON.parse(row.text), line: row.line };
    } catch (error) {
      throw new Error(`${file}:${row.line}: ${error.message}`);
    }
  });
}

// The corpus has both Outlook apps in one file.
const isOfCalendar = ({ path }) => /^\/v1\.0\/me\/(calendar|event)/.test(path);
const corpusOf = (app) =>
  /^outlook_/.test(app)
    ? linesOf(join(folder, 'outlook_mail.jsonl')).filter((one) => isOfCalendar(one) === (app === 'outlook_calendar'))
    : linesOf(join(folder, `${app}.jsonl`));

// id -> recording, as in the corpus. If several have the same id, the second one is called
// "<id>~2".
export function corpusRecordingsOf(app) {
  const all = new Map();
  for (const { line, ...one } of corpusOf(app)) {
    let id = one.id;
    for (let n = 2; all.has(id); n++) id = `${one.id}~${n}`;
    all.set(id, { ...one, id, line });
  }
  return all;
}

// The recordings of an app, with the vendor's ids at their full length.
export const recordingsOf = (app) => new Map([...corpusRecordingsOf(app)].map(([id, one]) => [id, completed(app, one)]));

// A line with only `params` sets the parameters of the connection for later lines.
function withParams(lines) {
  let params;
  return lines.flatMap((one) => {
    if (Object.keys(one).sort().join() !== 'line,params') return [{ params, ...one }];
    params = one.params;
    return [];
  });
}

export const casesOf = (app) =>
  withParams(linesOf(join(here, `${app}.jsonl`))).map((one) => ({ ...one, app, recordings: [one.recording].flat() }));
const documentedOf = (app) => withParams(linesOf(join(here, 'errors', `${app}.jsonl`))).map((one) => ({ ...one, app }));
export const errorsOf = (app) => documentedOf(app).filter((one) => !('none' in one));
// [{status, none: the reason why it has no case, source, seen}]
export const nonesOf = (app) => documentedOf(app).filter((one) => 'none' in one);
// [{why, recordings, fits?}]
export const unusedOf = (app) => linesOf(join(here, 'unused', `${app}.jsonl`));

// The month of the recording according to its headers: "2026-04".
export function monthOf(recording) {
  const { date, 'x-ratelimit-reset': reset } = recording.headers;
  const at = date ? new Date(date) : new Date(Number(reset) * 1000);
  return at.getUTCFullYear() === 2026 ? at.toISOString().slice(0, 7) : '2026';
}

// "body.records[0].fields" of a value: {is: whether it exists, value}. [-1] is the last item of an
// array. A name with dots is quoted: 'reply["@odata.nextLink"]'.
export function valueAt(root, path) {
  let value = root;
  for (const [, quoted, plain] of path.matchAll(/"([^"]*)"|([^.[\]]+)/g)) {
    const name = quoted ?? plain;
    const key = Array.isArray(value) && name.startsWith('-') ? String(value.length + Number(name)) : name;
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, key)) return { is: false };
    value = value[key];
  }
  return { is: true, value };
}

// {items: {0: {price: "x"}}} from the form "items[0][price]=x".
function formOf(text) {
  const form = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const keys = name.match(/[^[\]]+/g);
    keys.slice(0, -1).reduce((node, key) => (node[key] ??= {}), form)[keys.at(-1)] = value;
  }
  return form;
}

// The parts that cases refer to: the path as its segments, a form as an object.
function sourceOf({ path, query, body, reply }) {
  const isForm = typeof body === 'string' && /^[^=&\s{]+=/.test(body);
  return { path: path.split('/').slice(1).map(decodeURIComponent), query, body: isForm ? formOf(body) : body, reply };
}

function valueNamed(path, source) {
  const { is, value } = valueAt(source, path);
  if (!is) throw new Error(`the recording has no ${path}`);
  return value;
}

function partOf(value, pattern, path) {
  const part = typeof value === 'string' ? value.match(new RegExp(pattern))?.[1] : undefined;
  if (part === undefined) throw new Error(`${path} of the recording has no part ${pattern}`);
  return part;
}

function numberOf(value, path) {
  if (!/^-?\d+$/.test(value)) throw new Error(`${path} of the recording is not a number: ${JSON.stringify(value)}`);
  return Number(value);
}

// {"$": path, "part"?, "as"?} or {"$": "text ${path} text"}
function referred({ $: path, part, as }, source) {
  if (path.includes('${')) return path.replace(/\$\{([^}]*)\}/g, (_, name) => String(valueNamed(name, source)));
  const whole = valueNamed(path, source);
  const value = part === undefined ? whole : partOf(whole, part, path);
  return as === 'number' ? numberOf(value, path) : value;
}

export const isReference = (value) => typeof value?.$ === 'string' && Object.keys(value).every((key) => ['$', 'part', 'as'].includes(key));

// A value of a case. {"$": "body.name"} is replaced by that value of the recorded request, and
// {"$": "path[-1]"} by the last segment of its path. Throws if the recording has none.
export function inputOf(input, recording) {
  if (Array.isArray(input)) return input.map((one) => inputOf(one, recording));
  if (input === null || typeof input !== 'object') return input;
  if (isReference(input)) return referred(input, sourceOf(recording));
  return Object.fromEntries(Object.entries(input).map(([key, one]) => [key, inputOf(one, recording)]));
}

// A case with the values that it takes from its recordings: sent values come from the first, and
// returned values from the last.
export function caseWith(one, recordings) {
  const whole = { ...one };
  for (const name of ['input', 'params', 'differs']) if (one[name]) whole[name] = inputOf(one[name], recordings[0]);
  for (const name of ['next', 'output', 'summary']) if (one[name]) whole[name] = inputOf(one[name], recordings.at(-1));
  return whole;
}
