// The proofs of an action in its manifest: `met` (a recording, by replay.test.mjs) and `checked`
// (the vendor's description, by descriptions.test.mjs), and the list of unproven actions in
// contrib/integrations/README.md. With `make met`, the tests write these in place and keep the form
// of text that people wrote.
import { readFileSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { apps, manifestFile, manifestOf } from './recordings.mjs';

export const isWriting = process.env.SLUICE_MET === 'write';
const readme = new URL('../../../contrib/integrations/README.md', import.meta.url).pathname;

// Matches the sticky pattern at `at` in the text, and returns the end of the match.
function after(pattern, text, at) {
  pattern.lastIndex = at;
  pattern.exec(text);
  return pattern.lastIndex;
}
const [STRING, SPACE, WORD, PLAIN] = [/"(?:[^"\\]|\\.)*"/y, /\s*/y, /[^\s,\]}]+/y, /[^"{}[\]]*/y];
const endOfString = (text, at) => after(STRING, text, at);
const afterSpace = (text, at) => after(SPACE, text, at);

function endOfValue(text, at) {
  if (text[at] === '"') return endOfString(text, at);
  if (!'{['.includes(text[at])) return after(WORD, text, at);
  for (let depth = 0; ; at = after(PLAIN, text, at)) {
    if (text[at] === '"') at = endOfString(text, at);
    else if ('{['.includes(text[at++])) depth++;
    else if (--depth === 0) return at;
  }
}

// [{key, from, value, to}] of the object at `at`: where the key begins, and where its value begins
// and ends.
function membersOf(text, at) {
  const members = [];
  for (at = afterSpace(text, at + 1); text[at] === '"'; ) {
    const from = at;
    at = endOfString(text, at);
    const key = JSON.parse(text.slice(from, at));
    const value = afterSpace(text, afterSpace(text, at) + 1);
    const to = endOfValue(text, value);
    members.push({ key, from, value, to });
    at = afterSpace(text, to);
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return members;
}

const itemsOf = (text, at) => {
  const items = [];
  for (at = afterSpace(text, at + 1); text[at] !== ']'; ) {
    items.push(at);
    at = afterSpace(text, endOfValue(text, at));
    if (text[at] === ',') at = afterSpace(text, at + 1);
  }
  return items;
};

// The text of a manifest with the action's member set, after one of `anchors`, or removed if the
// value is undefined.
export function withMember(text, actionId, key, value, anchors) {
  const { value: list } = membersOf(text, afterSpace(text, 0)).find((one) => one.key === 'actions');
  for (const item of itemsOf(text, list)) {
    const members = membersOf(text, item);
    const id = members.find((one) => one.key === 'action_id');
    if (JSON.parse(text.slice(id.value, id.to)) !== actionId) continue;
    const index = members.findIndex((one) => one.key === key);
    const old = members[index];
    const shown = value && JSON.stringify(value, null, 1).replace(/\n\s*/g, ' ').replace(/^\{ /, '{').replace(/ \}$/, '}');
    if (old && value) return text.slice(0, old.value) + shown + text.slice(old.to);
    if (old) return text.slice(0, members[index - 1].to) + text.slice(old.to);
    if (!value) return text;
    const anchor = members.findLast((one) => anchors.includes(one.key));
    const gap = text.slice(members[0].to, members[1].from); // comma and white space between two members
    return `${text.slice(0, anchor.to)}${gap}"${key}": ${shown}${text.slice(anchor.to)}`;
  }
  throw new Error(`there is no action ${actionId}`);
}

const BEHIND = { checked: ['description', 'docs_url'], met: ['description', 'docs_url', 'checked'] };

// wanted: action_id -> value or undefined. Returns a line for each difference. In writing mode, it
// changes the manifest and returns none.
export function markProblems(app, key, wanted) {
  const lines = [];
  let text = readFileSync(manifestFile(app), 'utf8');
  for (const action of manifestOf(app).actions) {
    if (!wanted.has(action.action_id) || isDeepStrictEqual(action[key], wanted.get(action.action_id))) continue;
    const value = wanted.get(action.action_id);
    if (isWriting) text = withMember(text, action.action_id, key, value, BEHIND[key]);
    else lines.push(`${action.action_id}: "${key}" is ${JSON.stringify(action[key])}, the tests say ${JSON.stringify(value)}; run make met APP=${app}`);
  }
  if (isWriting) writeFileSync(manifestFile(app), text);
  return lines;
}

// ---- what is unproven ----

const BEGIN = '<!-- what follows is written by `make met` -->\n';
const END = '<!-- end of what `make met` writes -->\n';

function unprovenText() {
  const all = apps.map((app) => ({ app, actions: manifestOf(app).actions }));
  const rows = all
    .map(({ app, actions }) => [app, actions.filter((one) => !one.met && !one.checked).map((one) => `\`${one.action_id}\``)])
    .filter(([, names]) => names.length > 0)
    .map(([app, names]) => `| ${app} | ${names.join(', ')} |\n`);
  return `These are made from the vendor's documentation alone. All others are proven against a recorded reply of the vendor, or compared with
its machine-readable description:

| app | unproven |
| --- | --- |
${rows.join('')}`;
}

export function readmeProblems() {
  const text = readFileSync(readme, 'utf8');
  const [begin, end] = [text.indexOf(BEGIN) + BEGIN.length, text.indexOf(END)];
  if (begin < BEGIN.length || end < begin) return ['contrib/integrations/README.md has no place for what is unproven'];
  const wanted = unprovenText();
  if (text.slice(begin, end) === wanted) return [];
  if (isWriting) writeFileSync(readme, text.slice(0, begin) + wanted + text.slice(end));
  return isWriting ? [] : ['contrib/integrations/README.md: what is unproven has changed; run make met'];
}

export const proven = () => {
  const actions = apps.flatMap((app) => manifestOf(app).actions);
  return { total: actions.length, met: actions.filter((one) => one.met).length, checked: actions.filter((one) => one.checked).length, either: actions.filter((one) => one.met || one.checked).length };
};
