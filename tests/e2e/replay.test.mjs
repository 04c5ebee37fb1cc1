// Compares every manifest with what the vendors really sent (tests/e2e/replay/README.md): the real
// server runs an action, a provider of the tests answers with a recording, and the request, the
// outcome, the output, the next page and the display must match the recording and the case. Then it
// tests the vendors' documented errors. Without the corpus, the recordings are skipped. Errors, and
// the rules for cases, do not need it. APP=github and CASE=<recording or action> select a part.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { TreeInterpreter, compile } from '@jmespath-community/jmespath';
import { changedRecordings, requestDifferences, unexcused } from './replay/compare.mjs';
import { copiedProblems } from './replay/copied.mjs';
import { documentedProblems } from './replay/documented.mjs';
import { apps, caseWith, casesOf, corpusRecordingsOf, errorsOf, inputOf, isCorpusThere, isReference, manifestFile, manifestOf, monthOf, nonesOf, recordingsOf, unusedOf } from './replay/recordings.mjs';
import { Stage } from './replay/stage.mjs';
import { fits, isSamePath } from './replay/fit.mjs';
import { isWriting, markProblems, proven, readmeProblems, withMember } from './replay/marks.mjs';
import { completed, shorteningApps } from './replay/shortened.mjs';
import { errorProblems, schemaProblems, successProblems } from './replay/verdict.mjs';

const { APP, CASE } = process.env;
const chosen = apps.filter((app) => !APP || app === APP);
const isChosen = (one) => !CASE || [one.action, ...(one.recordings ?? [])].some((name) => name === CASE || name.startsWith(`${CASE}#`));
const skip = isCorpusThere ? false : 'the corpus of recordings is not here';

// The lines contain everything a reader needs; a stack trace adds nothing.
function fail(lines) {
  if (lines.length === 0) return;
  const error = new assert.AssertionError({ message: lines.join('\n') });
  error.stack = '';
  throw error;
}

const actionOf = (manifest, id) => manifest.actions.find((one) => one.action_id === id);
// If several recordings share an id, the id without ~2 names the first that fits the action.
function named(manifest, recordings, one, id) {
  const action = actionOf(manifest, one.action);
  const all = [...recordings.values()].filter((each) => each.id === id || each.id.startsWith(`${id}~`));
  return (action && all.find((each) => fits(manifest, action, each))) ?? all[0];
}

// Returns the case with its recordings, and with the values that it takes from them.
function prepared(manifest, recordings, one) {
  const wants = one.recordings.map((id) => named(manifest, recordings, one, id) ?? assert.fail(`there is no recording ${id}`));
  return { ...caseWith(one, wants), wants };
}

// A documented error with current times: {epoch+30} and {time+30} are half a minute in the future.
function timed({ status, headers, body }) {
  const now = Date.now();
  const at = (form, ahead) => (form === 'epoch' ? Math.floor(now / 1000) + ahead : new Date(now + 1000 * ahead).toJSON());
  return JSON.parse(JSON.stringify({ status, headers, body }).replace(/\{(epoch|time)\+(\d+)\}/g, (_, form, ahead) => at(form, Number(ahead))));
}

const wanted = [];
const plan = chosen.map((app) => {
  const manifest = manifestOf(app);
  const recordings = isCorpusThere ? recordingsOf(app) : new Map();
  const cases = casesOf(app).filter(isChosen).map((one) => {
    if (!isCorpusThere) return one;
    try {
      const whole = prepared(manifest, recordings, one);
      wanted.push((whole.lane = { app, params: whole.params }));
      return whole;
    } catch (problem) {
      return { ...one, problem };
    }
  });
  const errors = errorsOf(app).filter(isChosen);
  // A connection whose credential was refused is not used again.
  for (const one of errors) wanted.push((one.lane = { app, params: one.params, own: ['reauth_required', 'unauthorized'].includes(one.error_code) ? one.line : 'errors' }));
  return { app, manifest, recordings, cases, errors };
});

let stage;
before(async () => {
  if (wanted.length > 0) stage = await Stage.start(wanted);
});
after(() => stage?.stopWell(assert));

function replyOf(recording) {
  const { status, headers, reply } = recording;
  const text = typeof reply === 'string' ? reply : JSON.stringify(reply);
  return { status, headers, body: status === 204 ? undefined : text };
}

// Runs the case. The provider answers with the recordings in order, to requests that fit them.
// {lines, input, ...}
async function replay({ manifest }, one, change = (reply) => reply) {
  const { wants, input } = one;
  const base = stage.laneOf(one.lane).base.pathname.replace(/\/$/, '');
  const found = [];
  const answer = (request, nth) => {
    if (!wants[nth]) return undefined;
    found.push(...requestDifferences(wants[nth], request, base).map((each) => ({ ...each, nth })));
    return unexcused(found, one.differs).some((line) => !line.includes('does not differ')) ? undefined : change(replyOf(wants[nth]));
  };
  const taken = await stage.run(one.lane, one.action, input, answer, one);
  const lines = unexcused(found, one.differs);
  if (taken.seen.length < wants.length) lines.push(`${taken.seen.length} of ${wants.length} requests were made`);
  if (taken.seen.length > wants.length) lines.push(`a request more: ${taken.seen[wants.length].method} ${taken.seen[wants.length].path}`);
  const action = actionOf(manifest, one.action);
  const outcome = one.error_code ? errorProblems(one, taken) : successProblems(action, one, taken);
  return { ...taken, lines: lines.length > 0 && found.length > 0 ? lines : [...lines, ...outcome], input, wants, base };
}

// The next page is requested by running the action again with another input.
async function nextProblems(one, { summary, input, seen }) {
  const next = summary.pages?.next;
  if (!next) return [];
  const { json } = await stage.run(one.lane, one.action, { ...input, ...next }, () => undefined, { query: '?dry_run=true' });
  const request = json?.request;
  if (!request) return [`pages.next is not an input: ${JSON.stringify(json)}`];
  const url = new URL(request.url);
  const [former] = seen;
  const isSame = request.body === (former.body.toString() || null) && url.pathname === former.path && url.searchParams.toString() === new URLSearchParams(former.query).toString();
  return isSame ? ['the next page has the same request'] : [];
}

// If a recording is changed at one position, the comparison must report that.
function controlProblems(one, { seen, wants, base }) {
  return wants.flatMap((recording, nth) => {
    const usual = unexcused(requestDifferences(recording, seen[nth], base), one.differs);
    return changedRecordings(recording)
      .filter(([what]) => !(one.differs ?? []).some(({ at }) => at === what || what.startsWith(`${at}.`) || what.startsWith(`${at}[`)))
      .filter(([, changed]) => unexcused(requestDifferences(changed, seen[nth], base), one.differs).length <= usual.length)
      .map(([what]) => `control: a changed ${what} is not noticed`);
  });
}

// If the reply is changed, its result must not match the case.
async function replyControlProblems(each, one) {
  if (one.error_code || actionOf(each.manifest, one.action).response?.body === 'none') return [];
  const odd = (reply) => (reply.body ? { ...reply, body: reply.body.trimStart().startsWith('[') ? '[{"odd":[]}]' : '{"odd":[]}' } : { ...reply, status: 500 });
  const { lines } = await replay(each, one, odd);
  return lines.length > 0 ? [] : ['control: another reply is not noticed: give the action response.required or an output_schema with required members, or the case a summary'];
}

// {date, source}: proof that an action's request matched the recorded one, and that sluice accepted
// the vendor's reply as a success.
function proofOf(one, { wants, seen, base }) {
  const isElsewhere = wants.some((recording, nth) => seen[nth].method !== recording.method || !isSamePath(seen[nth].path, recording.path, base));
  if (one.error_code || isElsewhere) return undefined;
  const date = wants.map(monthOf).sort()[0];
  return { date, source: `recording ${one.recordings.join(' ')}` };
}

// action_id -> the latest of its proofs; if several are equally late, the first in the file.
function metOf({ manifest, cases }) {
  const wanted = new Map(manifest.actions.map((action) => [action.action_id, undefined]));
  for (const { action, proves } of cases) if (proves && !(wanted.get(action)?.date >= proves.date)) wanted.set(action, proves);
  return wanted;
}

// Retried replies take time, so both suites run concurrently.
describe('through the real server', { concurrency: 2 }, () => {
  describe('recorded', { concurrency: 5 }, () => {
    for (const each of plan)
      describe(each.app, { concurrency: 1 }, () => {
        const controlled = new Set();
        for (const one of each.cases)
          test(`${one.action} ${one.recordings.join(' ')} (${each.app}.jsonl:${one.line})`, { skip }, async () => {
            if (one.problem) throw one.problem;
            const taken = await replay(each, one);
            fail(taken.lines);
            fail(controlProblems(one, taken));
            fail(await nextProblems(one, taken));
            if (!controlled.has(one.action)) fail(await replyControlProblems(each, one));
            controlled.add(one.action);
            one.proves = proofOf(one, taken);
          });
        test('"met" is what these cases prove', { skip: skip || (CASE && 'a part of the cases') }, () => fail(markProblems(each.app, 'met', metOf(each))));
      });
  });

  describe('documented errors', { concurrency: 5 }, () => {
    for (const { app, errors } of plan)
      describe(app, { concurrency: 1 }, () => {
        for (const one of errors)
          test(`${one.action} ${one.status} ${one.error_code} (errors/${app}.jsonl:${one.line})`, async () => {
            const { status, headers = {}, body } = timed(one);
            const text = typeof body === 'string' ? body : JSON.stringify(body ?? '');
            const type = typeof body === 'string' ? 'text/plain' : 'application/json';
            const reply = { status, headers: { 'content-type': type, ...headers }, body: body === undefined ? undefined : text };
            fail(errorProblems(one, await stage.run(one.lane, one.action, one.input, () => reply, one)));
          });
      });
  });
});

// ---- rules for cases and errors; no corpus is needed ----

const CASE_KEYS = ['recording', 'action', 'input', 'params', 'differs', 'next', 'summary', 'output', 'error_code', 'retry_after', 'hint', 'message', 'reconnect', 'files', 'query'];
const ERROR_KEYS = ['action', 'input', 'params', 'status', 'headers', 'body', 'source', 'seen', 'quote', 'error_code', 'retry_after', 'hint', 'message', 'reconnect', 'files'];
const CODES = ['unauthorized', 'forbidden', 'reauth_required', 'rate_limited', 'timeout', 'validation_error', 'unsupported_operation', 'execution_failed'];
const OURS = ['recordings', 'app', 'line'];
const refers = (value) => isReference(value) || (value !== null && typeof value === 'object' && Object.values(value).some(refers));

function formProblems(manifest, one, keys, file) {
  const lines = [];
  const complain = (text) => lines.push(`${file}:${one.line}: ${text}`);
  const { params, ...own } = one;
  for (const key of Object.keys(own)) if (![...keys, ...OURS].includes(key)) complain(`"${key}" is not a member of a case`);
  const action = actionOf(manifest, one.action);
  if (!action) return [...lines, `${file}:${one.line}: there is no action ${one.action}`];
  if (!refers(one.input)) for (const problem of schemaProblems(action.input_schema, one.input, 'input')) complain(problem);
  if (one.error_code && !CODES.includes(one.error_code)) complain(`"${one.error_code}" is not an error_code of an action`);
  for (const { at, why, ...more } of one.differs ?? []) {
    if (!/^(method|path|query|body|headers)([.[]|$)/.test(at ?? '')) complain(`"at": "${at}" is not a position in a request`);
    if (!why || why.length < 8) complain(`"differs" at ${at} has no reason`);
    if (Object.keys(more).some((key) => key !== 'ours')) complain(`"differs" has at, why and maybe ours`);
  }
  return lines;
}

// Marks that no case confirms.
function unbacked({ actions }, cases) {
  const isBacked = ({ action_id: id, met }) =>
    cases.some((one) => one.action === id && !one.error_code && met.source === `recording ${one.recordings.join(' ')}`);
  return actions.filter((one) => one.met && !isBacked(one)).map((one) => `${one.action_id} is marked as met by "${one.met.source}", but no case of it says so`);
}

test('a mark without its case is noticed', () => {
  const met = { date: '2026-04', source: 'recording x/a#0' };
  const cases = [{ action: 'a', recordings: ['x/a#0'] }];
  assert.deepEqual(unbacked({ actions: [{ action_id: 'a', met }, { action_id: 'b' }] }, cases), []);
  for (const other of [[], [{ ...cases[0], action: 'b' }], [{ ...cases[0], recordings: ['x/a#1'] }], [{ ...cases[0], error_code: 'forbidden' }]])
    assert.equal(unbacked({ actions: [{ action_id: 'a', met }] }, other).length, 1);
});

test('marks are written in place, and nothing else changes', () => {
  for (const app of chosen) {
    const text = readFileSync(manifestFile(app), 'utf8');
    for (const { action_id: id, met, checked } of manifestOf(app).actions) {
      const other = { date: '2026-11', source: 'recording of {a "test"}' };
      const marked = withMember(text, id, 'met', other, ['description', 'docs_url', 'checked']);
      assert.deepEqual(JSON.parse(marked).actions.find((one) => one.action_id === id).met, other);
      assert.equal(withMember(marked, id, 'met', met, ['description', 'docs_url', 'checked']), text, id);
      if (checked) assert.equal(withMember(text, id, 'checked', checked, []), text, id);
    }
  }
});

describe('cases and errors are well-formed', () => {
  for (const app of chosen)
    test(app, () => {
      const manifest = manifestOf(app);
      const seen = new Set();
      const lines = casesOf(app).flatMap((one) => {
        const name = `${one.action} ${one.recordings.join(' ')} ${JSON.stringify(one.input)}`;
        const twice = seen.has(name) ? [`${app}.jsonl:${one.line}: ${name} occurs twice`] : [];
        seen.add(name);
        return [...twice, ...formProblems(manifest, one, CASE_KEYS, `${app}.jsonl`)];
      });
      for (const one of errorsOf(app)) {
        lines.push(...formProblems(manifest, one, ERROR_KEYS, `errors/${app}.jsonl`));
        if (refers([one.input, one.params ?? {}])) lines.push(`errors/${app}.jsonl:${one.line}: a documented error has no recording to name values of: make them up`);
        if (!(one.status >= 200 && one.error_code)) lines.push(`errors/${app}.jsonl:${one.line}: status and error_code are needed`);
      }
      fail([...lines, ...unbacked(manifest, casesOf(app))]);
    });
});

test('a documented error without its source, its day or its quote is noticed, and so is a status without a case or a reason', () => {
  const seen = { line: 1, source: 'example.com/errors', seen: '2026-11-23', quote: 'invalid_grant' };
  const none = { ...seen, none: 'The page of errors names no such reply.' };
  const errors = [401, 403, 404, 429, 503].map((status) => ({ ...seen, status }));
  const problems = (first, more = [{ ...none, status: 409 }], rest = errors.slice(1)) => documentedProblems('x.jsonl', [first, ...rest], more);
  const [one] = errors;
  assert.deepEqual(problems(one), []);
  assert.deepEqual(problems(one, [{ ...none, status: 409, quote: undefined }]), []);
  for (const source of ['npm @x/y@1.2.3 dist/errors.json', 'recording x/list#0']) assert.deepEqual(problems({ ...one, source }), []);
  for (const member of ['source', 'seen', 'quote']) assert.match(problems({ ...one, [member]: undefined }).join(), new RegExp(`^x.jsonl:1: "${member}"`));
  for (const other of [{ source: 'https://example.com/errors' }, { source: 'the errors page' }, { seen: 'today' }, { seen: '2026-02-30' }, { seen: '9999-01-01' }, { quote: 'x'.repeat(101) }])
    assert.equal(problems({ ...one, ...other }).length, 1, JSON.stringify(other));
  assert.match(problems(one, []).join(), /there is no line for 409/);
  assert.match(problems(one, [{ ...none, status: 409 }], errors.slice(1, 4)).join(), /there is no line for 5xx/);
  assert.match(problems(one, [{ ...none, status: 409 }, { ...none, status: '5xx' }]).join(), /there is a case for 5xx/);
  for (const other of [{ none: 'no' }, { source: undefined }, { seen: undefined }, { action: 'x' }]) assert.equal(problems(one, [{ ...none, status: 409, ...other }]).length, 1, JSON.stringify(other));
});

// Rules for which no source has an example.
const UNSEEN = {
  google_drive: ['teamDriveHierarchyTooDeep'],
  outlook_calendar: ['ErrorQuotaExceeded'],
  outlook_mail: ['ErrorQuotaExceeded'],
};

describe('every error rule of an app has a documented error', () => {
  // Truth in JMESPath: null, false, "", [] and {} are false, 0 is not.
  const isTrue = (value) => value === 0 || (value && typeof value === 'object' ? Object.keys(value).length > 0 : Boolean(value));
  for (const app of chosen)
    test(app, () => {
      const own = manifestOf(app).errors.filter((rule) => typeof rule !== 'string').map(({ when }) => when);
      const scopes = errorsOf(app).map(({ status, headers = {}, body = null, input }) => ({ status, headers, body, input }));
      const unmet = own.filter((when) => !scopes.some((scope) => isTrue(TreeInterpreter.search(compile(when), scope))));
      const isUnseen = (when) => (UNSEEN[app] ?? []).some((part) => when.includes(part));
      fail(unmet.filter((when) => !isUnseen(when)).map((when) => `errors/${app}.jsonl: no case matches the rule ${when}`));
      assert.equal(unmet.length, (UNSEEN[app] ?? []).length, 'a rule of UNSEEN has a case');
    });
});

describe('documented errors say where they were read', () => {
  for (const app of chosen)
    test(app, () => {
      // The http app has no vendor that documents its answers.
      fail(documentedProblems(`errors/${app}.jsonl`, errorsOf(app), nonesOf(app), app !== 'http'));
    });
});

test('contrib/integrations/README.md lists what is unproven', () => {
  const problems = readmeProblems();
  const { total, met, checked, either } = proven();
  console.log(`figure: ${met} of ${total} actions are met, ${checked} are checked, ${Math.round((100 * either) / total)} % are one or the other`);
  fail(problems);
});

// ---- values of recordings, which must not be in the repository ----

const recorded = {
  method: 'GET',
  path: '/v1/items/1234567.json',
  query: { 'page.size': '5' },
  body: 'a[b]=text+of+three',
  reply: { items: [{ id: 'it_0123456789' }], '@next': 'https://example.com/?token=t-42&n=1' },
};

test('a case names values of its recording, and one that does not exist is refused', () => {
  const values = {
    'path[0]': 'v1',
    'query["page.size"]': '5',
    'body.a.b': 'text of three',
    'reply.items[-1].id': 'it_0123456789',
    '/v2/${path[1]}/${reply.items[0].id}': '/v2/items/it_0123456789',
  };
  for (const [at, value] of Object.entries(values)) assert.deepEqual(inputOf({ a: [{ $: at }] }, recorded), { a: [value] });
  assert.equal(inputOf({ $: 'path[-1]', part: '^(.*)\\.json$', as: 'number' }, recorded), 1234567);
  assert.equal(inputOf({ $: 'reply.@next', part: 'token=([^&]+)' }, recorded), 't-42');
  assert.deepEqual(inputOf({ $: 'path[0]', other: 1 }, recorded), { $: 'path[0]', other: 1 });
  for (const odd of [{ $: 'path[3]' }, { $: 'reply.items.at' }, { $: 'query.page' }, { $: '${body.a.c}' }, { $: 'path[0]', part: '(x)' }, { $: 'path[0]', as: 'number' }])
    assert.throws(() => inputOf([odd], recorded), /of the recording|the recording has no/, JSON.stringify(odd));
});

test('a value that a case copies from its recording is noticed', () => {
  const problems = (one) => copiedProblems('x.jsonl', { line: 1, ...one }, [recorded]).length;
  const copies = [{ input: { id: 1234567 } }, { input: { a: ['text of three'] } }, { params: { id: 'it_0123456789' } }, { differs: [{ at: 'path', why: 'x', ours: '/v2/it_0123456789' }] }, { summary: 'it_0123456789 is there' }];
  for (const one of copies) assert.equal(problems(one), 1, JSON.stringify(one));
  const others = [{ input: { id: { $: 'path[2]' }, page: '5', name: 'items' } }, { input: { id: 1234568 } }, { summary: 'text of three' }];
  for (const one of others) assert.equal(problems(one), 0, JSON.stringify(one));
});

describe('no value of a recording is copied', () => {
  for (const app of chosen)
    test(app, { skip }, () => {
      const manifest = manifestOf(app);
      const recordings = recordingsOf(app);
      const lines = casesOf(app).flatMap((one) => copiedProblems(`${app}.jsonl`, one, one.recordings.map((id) => named(manifest, recordings, one, id))));
      fail([...lines, ...errorsOf(app).flatMap((one) => copiedProblems(`errors/${app}.jsonl`, one, [...recordings.values()]))]);
    });
});

// A manifest's rules for ids are those that the vendor documents. They are not relaxed for a
// recording's ids.
describe('ids that the corpus has shortened are completed, and need to be', () => {
  const twilio = { path: '/a/SM' + '1'.repeat(30) + '.json', query: { t: 'PASM' + '0'.repeat(30) }, body: 'Sid=SM' + '1'.repeat(30), reply: { SM: 'SM' + '1'.repeat(30), whole: 'CA' + '2'.repeat(32), word: 'SM11' } };

  test('the same id stays equal in request and reply, and complete ids, names and words do not change', () => {
    const long = 'SM00' + '1'.repeat(30);
    const { path, query, body, reply } = completed('twilio', twilio);
    assert.deepEqual([path, query.t, body, reply], [`/a/${long}.json`, 'PASM' + '0'.repeat(32), `Sid=${long}`, { ...twilio.reply, SM: long }]);
    assert.deepEqual(completed('twilio', completed('twilio', twilio)), completed('twilio', twilio));
    assert.equal(completed('stripe', twilio), twilio);
    const words = ['data.recordComments:read', 'application/json', 'recAbcdefghij0123'];
    const { reply: ids } = completed('airtable', { path: '/', reply: [...words, 'appBase123456'] });
    assert.deepEqual(ids, [...words, 'app0000Base123456']);
  });

  for (const app of shorteningApps.filter((one) => chosen.includes(one)))
    test(app, { skip }, () => {
      const manifest = manifestOf(app);
      const refused = (recordings) => casesOf(app).filter((one) => schemaProblems(actionOf(manifest, one.action).input_schema, prepared(manifest, recordings, one).input, 'input').length > 0);
      assert.deepEqual(refused(recordingsOf(app)), []);
      assert.ok(refused(corpusRecordingsOf(app)).length > 0, 'the manifest accepts the shortened ids');
      const paths = (recordings) => new Set([...recordings.values()].map((one) => one.path)).size;
      assert.equal(paths(recordingsOf(app)), paths(corpusRecordingsOf(app)), 'two ids became one');
    });
});

// ---- every recording is used, or has a reason for not being used ----

describe('every recording has a case or a reason', () => {
  for (const app of chosen)
    test(app, { skip }, () => {
      const manifest = manifestOf(app);
      const recordings = recordingsOf(app);
      const used = new Set(casesOf(app).flatMap((one) => one.recordings.map((id) => named(manifest, recordings, one, id)?.id)));
      const reasons = unusedOf(app);
      const lines = [];
      const excused = new Map();
      for (const { why, recordings: ids, fits: known = [], line } of reasons) {
        if (!why) lines.push(`unused/${app}.jsonl:${line}: "why" is missing`);
        for (const id of ids) {
          if (!recordings.has(id)) lines.push(`unused/${app}.jsonl:${line}: there is no recording ${id}`);
          else if (used.has(id)) lines.push(`unused/${app}.jsonl:${line}: ${id} has a case`);
          excused.set(id, known);
        }
      }
      for (const recording of recordings.values()) {
        if (used.has(recording.id)) continue;
        const open = manifest.actions.filter((action) => fits(manifest, action, recording)).map((one) => one.action_id);
        const known = excused.get(recording.id);
        if (!known) lines.push(`${recording.id}: ${recording.method} ${recording.path} has neither case nor reason${open.length ? `; it fits ${open.join(', ')}` : ''}`);
        else for (const action of open) if (!known.includes(action)) lines.push(`${recording.id}: ${recording.method} ${recording.path} fits ${action} and has no case ("fits": ["${action}"] next to "why" if it cannot have one)`);
      }
      fail(lines);
    });
});
