// approve, cancel, resume, a timer that fires and a step that completes, combined in pairs, sent in
// both orders, on one node and on two. The answers and the end of the flow are those of one of the
// two serial orders, and as many mails are sent as in that order.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pause, until } from './support/client.mjs';
import { Stack } from './support/stack.mjs';

const WORK_MS = 250;
// Offsets of the other event from its nominal time.
const SHIFTS_MS = [-120, -50, -20, -5, 5, 30];

let stack, account, one, two;

before(async () => {
  stack = await Stack.start({ postgres: { max_connections: 100 } });
  account = await stack.account('matrix', { apps: ['probe'] });
  [one, two] = await Promise.all([stack.serve(), stack.serve()]);
});
after(() => stack?.stopWell(assert));

const post = (server, path, body = {}) => server.call(account.key, 'POST', `/api/flows/${path}`, body);
const view = async (id) => (await one.call(account.key, 'GET', `/api/flows/${id}`)).json;
const at = (time) => pause(Math.max(0, time - Date.now()));

async function start(server, input, flowTemplate = 'probe_race') {
  const reply = await post(server, 'start', { flowTemplate, input });
  assert.equal(reply.status, 200, reply.text);
  return reply.json.flowId;
}

const reaches = (id, ...statuses) =>
  until(`it is ${statuses.join(' or ')}`, async () => {
    const flow = await view(id);
    return statuses.includes(flow.flow.status) && flow;
  });

// How a flow reaches the point where the two events meet: {id, time}. time is when the event that
// is not a request happens by itself.
const SCENES = {
  'waiting for approval': async (server, subject) => {
    const id = await start(server, { subject });
    await reaches(id, 'waiting');
    return { id, time: Date.now() };
  },
  'whose approval expires': async (server, subject) => {
    const id = await start(server, { subject, expires: 0.6 });
    const { steps } = await reaches(id, 'waiting', 'failed'); // It has already failed if the first check came too late.
    return { id, time: Date.parse(steps.find((step) => step.stepKey === 'ask').expiresAt) };
  },
  'whose approval has expired': async (server, subject) => {
    const id = await start(server, { subject, expires: 0.1 });
    await reaches(id, 'failed');
    return { id, time: Date.now() };
  },
  'whose wait ends': async (server, subject) => {
    const time = Date.now() + 700;
    const id = await start(server, { subject, until: new Date(time).toISOString() });
    await reaches(id, 'waiting');
    return { id, time };
  },
  'whose step completes': async (server, subject) => {
    const id = await start(server, { subject, ms: WORK_MS });
    return { id, time: Date.now() + WORK_MS };
  },
};

// [scene, requests, possible ends: the answers in the order of the requests, status, current step].
// With one request, the other event comes from the scene.
const PAIRS = [
  ['waiting for approval', ['approve', 'cancel'], ['200 200 cancelled *', '409 200 cancelled *']],
  ['waiting for approval', ['approve', 'resume'], ['200 200 completed send', '200 409 completed send']],
  ['waiting for approval', ['approve', 'approve'], ['200 409 completed send', '409 200 completed send']],
  ['waiting for approval', ['cancel', 'resume'], ['200 200 cancelled ask', '200 409 cancelled ask']],
  ['waiting for approval', ['cancel', 'cancel'], ['200 200 cancelled ask']],
  ['whose approval has expired', ['cancel', 'resume'], ['200 200 cancelled ask', '200 409 cancelled ask']],
  // The request that loses finds the flow running, or waiting again. A flow that waits again is not
  // approved a second time.
  ['whose approval has expired', ['resume', 'resume'], ['200 409 failed ask', '409 200 failed ask', '200 200 failed ask']],
  ['whose approval has expired', ['approve', 'resume'], ['409 200 failed ask', '200 200 completed send']],
  ['whose approval expires', ['approve'], ['200 completed send', '409 failed ask']],
  ['whose approval expires', ['cancel'], ['200 cancelled ask']],
  ['whose approval expires', ['resume'], ['200 failed ask', '409 failed ask']],
  ['whose wait ends', ['approve'], ['409 waiting ask', '200 completed send']],
  ['whose wait ends', ['cancel'], ['200 cancelled *']],
  ['whose wait ends', ['resume'], ['200 waiting ask', '409 waiting ask']],
  ['whose step completes', ['approve'], ['409 waiting ask', '200 completed send']],
  ['whose step completes', ['cancel'], ['200 cancelled *']],
  ['whose step completes', ['resume'], ['409 waiting ask', '200 waiting ask']],
];

async function race(scene, requests, ends, servers, shift, subject) {
  const { id, time } = await SCENES[scene](servers[0], subject);
  await at(time + (requests.length === 1 ? shift : 0));
  const statuses = await Promise.all(
    requests.map(async (verb, i) => {
      if (requests.length === 2 && shift !== 0 && i === (shift < 0 ? 1 : 0)) await pause(Math.abs(shift) / 10);
      return (await post(servers[i ? 1 : servers.length - 1], `${id}/${verb}`)).status;
    }),
  );
  const seen = async () => {
    const { flow } = await view(id);
    return [[...statuses, flow.status, flow.currentStep], [...statuses, flow.status, '*']].map((one) => one.join(' '));
  };
  let last;
  await until('it ends as a serial order does', async () => {
    last = await seen();
    return last.some((one) => ends.includes(one));
  }).catch((error) => {
    throw new Error(`${error.message}: ${last}`);
  });
  return { id, subject, seen, statuses, requests, end: last[0] };
}

let names = 0;
for (const [scene, requests, ends] of PAIRS)
  test(`a flow ${scene}: ${requests.join(' and ')}`, async (t) => {
    const runs = [];
    for (const shift of SHIFTS_MS)
      for (const servers of [[one, one], [one, two], [two, one], [two, two]])
        runs.push(race(scene, requests, ends, servers, shift, `race ${++names}`));
    const raced = await Promise.all(runs);
    const mails = new Map();
    for (const { marker } of await stack.provider.ledger()) mails.set(marker, (mails.get(marker) ?? 0) + 1);
    for (const { subject, seen, statuses, requests: verbs, end } of raced) {
      // A flow that failed and was resumed may still change. All others stay as they are.
      if (scene !== 'whose approval has expired') assert.ok((await seen()).includes(end), `${end} did not last`);
      const isApproved = verbs.some((verb, i) => verb === 'approve' && statuses[i] === 200);
      const count = mails.get(subject) ?? 0;
      if (end.includes('completed')) assert.equal(count, 1, end);
      else assert.ok(count <= (isApproved ? 1 : 0), `${count} mails: ${end}`);
    }
    const kinds = new Map();
    for (const { end } of raced) kinds.set(end, (kinds.get(end) ?? 0) + 1);
    t.diagnostic([...kinds].map(([end, count]) => `${count} x ${end}`).join(', '));
  });

test('a flow whose deadline passes while a step completes', async () => {
  const runs = [];
  for (const ms of [960, 970, 980, 990, 995, 1000, 1010, 1030])
    for (const server of [one, two])
      runs.push((async () => {
        const { flow, steps } = await reaches(await start(server, { ms }, 'probe_race_deadline'), 'failed');
        const [work, rest] = steps;
        const failed = flow.currentStep === 'work' ? work : rest;
        assert.equal(failed.error.code, 'timeout', JSON.stringify(steps));
        assert.equal(work.status, flow.currentStep === 'work' ? 'failed' : 'completed');
      })());
  await Promise.all(runs);
});
