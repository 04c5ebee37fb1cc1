// Compares a request of sluice with a recorded one, and returns a line for each difference.

const isObject = (value) => value !== null && typeof value === 'object';
const join = (path, key) => (/^\d+$/.test(key) ? `${path}[${key}]` : `${path}.${key}`);

// [["body.a[0].b", value, [keys]]]; an empty object or array is a leaf.
function leavesOf(value, path, keys = [], out = []) {
  const entries = isObject(value) ? Object.entries(value) : [];
  if (entries.length === 0) out.push([path, value, keys]);
  for (const [key, one] of entries) leavesOf(one, join(path, key), [...keys, key], out);
  return out;
}

// [["body.line_items[0].price", "x"]] from pairs "line_items[0][price]" = "x"; repeated names
// become an array.
function pairsOf(pairs, path) {
  const counts = new Map();
  for (const [name] of pairs) counts.set(name, (counts.get(name) ?? 0) + 1);
  const seen = new Map();
  return pairs.map(([name, value]) => {
    const nth = seen.get(name) ?? 0;
    seen.set(name, nth + 1);
    const keys = name.match(/[^[\]]+/g) ?? [name];
    const isList = name.endsWith('[]') || counts.get(name) > 1;
    return [[...keys, ...(isList ? [String(nth)] : [])].reduce(join, path), value];
  });
}

function parseJson(text) {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

// The leaves of a recorded body, which is an object, JSON or a form as text, or another text.
function recordedBody(body) {
  if (body === null || body === undefined || body === '') return { leaves: [] };
  if (typeof body !== 'string') return { leaves: Object.keys(body).length ? leavesOf(body, 'body') : [] };
  const json = /^\s*[[{]/.test(body) && parseJson(body);
  if (json) return { leaves: leavesOf(json.value, 'body') };
  if (/^[^=&\s]+=[^\s]*$/.test(body)) return { leaves: pairsOf([...new URLSearchParams(body)], 'body') };
  return { leaves: [['body', body]] };
}

// The body that the server sent. isText: all values are strings, whatever their type was.
function sentBody({ headers, body }) {
  const type = headers['content-type'] ?? '';
  const text = body.toString('utf8');
  if (text === '') return { leaves: [] };
  const json = /json/.test(type) && parseJson(text);
  if (json) return { leaves: isObject(json.value) && Object.keys(json.value).length === 0 ? [] : leavesOf(json.value, 'body') };
  if (/x-www-form-urlencoded/.test(type)) return { leaves: pairsOf([...new URLSearchParams(text)], 'body'), isText: true };
  if (/multipart/.test(type)) return { leaves: pairsOf(partsOf(text, type), 'body'), isText: true };
  return { leaves: [['body', text]], isText: true };
}

// [name, text] of each part. A file is represented by its text.
function partsOf(text, type) {
  const boundary = type.match(/boundary="?([^";]+)/)[1];
  const parts = text.split(`--${boundary}`).slice(1, -1);
  return parts.map((part, i) => {
    const [head, ...rest] = part.replace(/^\r\n/, '').split('\r\n\r\n');
    return [head.match(/name="([^"]*)"/)?.[1] ?? String(i), rest.join('\r\n\r\n').replace(/\r\n$/, '')];
  });
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
const plainPath = (path) => path.split('/').map(decode).join('/');

// A GraphQL document is represented by its root fields: "mutation issueCreate".
export function rootsOf(query) {
  const tokens = query.replace(/"(?:[^"\\]|\\.)*"|#[^\n]*/g, '').match(/\w+|[{}():]/g) ?? [];
  const kind = ['mutation', 'subscription'].includes(tokens[0]) ? tokens[0] : 'query';
  const fields = [];
  let depth = 0;
  for (const [i, token] of tokens.slice(tokens.indexOf('{') + 1).entries()) {
    if ('{('.includes(token)) depth++;
    else if ('})'.includes(token)) depth--;
    else if (depth === 0 && token !== ':' && tokens[tokens.indexOf('{') + 2 + i] !== ':') fields.push(token);
  }
  return `${kind} ${fields.join(' ')}`;
}

const sameText = (a, b) => String(a) === String(b);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function compareLeaves(ours, theirs, isEqual, found) {
  const left = new Map(theirs);
  for (const [at, value] of ours) {
    if (!left.has(at)) found.push({ at, ours: value });
    else if (!isEqual(value, left.get(at), at)) found.push({ at, ours: value, recorded: left.get(at) });
    left.delete(at);
  }
  for (const [at, recorded] of left) found.push({ at, recorded });
}

// seen: {method, path, query: [[name, value]], headers, body (bytes)}; base: the origin's base path, which a recording
// may leave out. [{at, ours?, recorded?}]
export function requestDifferences(recording, seen, base) {
  const found = [];
  if (seen.method !== recording.method) found.push({ at: 'method', ours: seen.method, recorded: recording.method });
  const [path, recorded] = [plainPath(seen.path), plainPath(recording.path)];
  if (path !== recorded && path !== base + recorded) found.push({ at: 'path', ours: path, recorded });
  const recordedQuery = Object.entries(recording.query ?? {}).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  compareLeaves(pairsOf(seen.query, 'query'), pairsOf(recordedQuery, 'query'), sameText, found);
  const ours = sentBody(seen);
  const isGraphql = seen.path.endsWith('/graphql');
  const isEqual = (a, b, at) =>
    isGraphql && at === 'body.query' ? rootsOf(a) === rootsOf(b) : ours.isText ? sameText(a, b) : same(a, b);
  compareLeaves(ours.leaves, recordedBody(recording.body).leaves, isEqual, found);
  return found;
}

const covers = (excuse, at) => at === excuse || at.startsWith(`${excuse}.`) || at.startsWith(`${excuse}[`);
const show = (value) => {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
};

// differs: [{at, why, ours?}]. Returns lines: differences that are not excused, and unused excuses.
export function unexcused(found, differs = []) {
  const lines = [];
  const used = new Set();
  for (const { at, ours, recorded } of found) {
    const excuse = differs.find((one) => covers(one.at, at));
    if (excuse) used.add(excuse);
    if (!excuse) lines.push(`${at}: sent ${show(ours)}, recorded ${show(recorded)}`);
    else if ('ours' in excuse && !same(excuse.ours, ours)) lines.push(`${at}: sent ${show(ours)}, "differs" says ${show(excuse.ours)}`);
  }
  for (const one of differs) if (!used.has(one)) lines.push(`${one.at}: does not differ (any more), take it out of "differs"`);
  return lines;
}

// Changed recordings that must not match a correct replay: [what was changed, recording].
export function changedRecordings(recording) {
  const change = (what, more) => [what, { ...recording, ...more }];
  const changed = [
    change('method', { method: recording.method === 'PUT' ? 'PATCH' : 'PUT' }),
    change('path', { path: `${recording.path}x` }),
    change('query.sluice_odd', { query: { ...recording.query, sluice_odd: '1' } }),
  ];
  for (const name of Object.keys(recording.query ?? {})) {
    const { [name]: value, ...rest } = recording.query;
    changed.push(change(`query.${name}`, { query: { ...rest, [name]: `${value}x` } }), change(`query.${name}`, { query: rest }));
  }
  const { body } = recording;
  if (typeof body === 'string') return [...changed, change('body', { body: `${body}x` })];
  if (isObject(body) && !Array.isArray(body)) changed.push(change('body.sluice_odd', { body: { ...body, sluice_odd: 1 } }));
  for (const [at, value, keys] of body ? leavesOf(body, 'body') : []) {
    if (isObject(value)) continue;
    const isDocument = at === 'body.query' && recording.path.endsWith('/graphql');
    const copy = structuredClone({ body });
    const holder = keys.slice(0, -1).reduce((node, key) => node[key], copy.body);
    holder[keys.at(-1)] = isDocument ? '{ sluiceOdd { id } }' : typeof value === 'string' ? `${value}x` : 'sluice odd';
    changed.push(change(at, copy));
  }
  return changed;
}
