// A decision's form is sent twice without a script. The second answer says what was decided, and
// does not report a failure.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until } from './support/client.mjs';
import { formsOf, Pages } from './support/pages.mjs';
import { TASK_PAGE } from './support/provider.mjs';
import { Stack } from './support/stack.mjs';

let stack, server, account, pages;
before(async () => {
  stack = await Stack.start({ catalog: false });
  server = await stack.serve();
  account = await stack.account('twice', { apps: ['gmail', 'notion'] });
  pages = new Pages(server.base);
  assert.equal((await pages.signIn(account.key)).status, 200);
});
after(() => stack?.stopWell(assert));

// The page of a flow that waits for a decision.
async function waiting() {
  const input = { maxResults: 1, taskParent: { page_id: TASK_PAGE } };
  const { flowId } = (await server.call(account.key, 'POST', '/api/flows/start', { flowTemplate: 'unread_mail_to_tasks', input })).json;
  await until('it waits', async () => (await server.call(account.key, 'GET', `/api/flows/${flowId}`)).json.flow.status === 'waiting');
  return { id: flowId, page: await pages.go(`/flows/${flowId}`) };
}

// The form of the decision, found by its button, which HTML does not distinguish from others.
const decides = (page) => formsOf(page.text).find((one) => one.buttons.some((words) => words.startsWith('Approve')));
const send = (page, action) => {
  const form = decides(page);
  return pages.ask(form.action.replace(/approve$/, action.slice(1)), { method: 'POST', fields: form.fields });
};

for (const [action, other, word] of [['/approve', '/reject', 'approved'], ['/reject', '/approve', 'rejected']])
  test(`${word} twice`, async () => {
    const { id, page } = await waiting();
    const replies = await Promise.all([send(page, action), send(page, action)]);
    assert.deepEqual(replies.map((one) => one.status).sort(), [200, 303]);
    await until('it has ended', async () => !['running', 'waiting'].includes((await server.call(account.key, 'GET', `/api/flows/${id}`)).json.flow.status));
    for (const reply of [replies.find((one) => one.status === 200), await send(page, action)]) {
      assert.equal(reply.status, 200);
      assert.match(reply.text, new RegExp(`<h1>Already ${word}</h1>`));
      assert.match(reply.text, new RegExp(`You already ${word} this, <time datetime="20`));
    }
    const key = await stack.key(account.id);
    const another = new Pages(server.base);
    await until('this address may sign in', async () => (await another.signIn(key)).status === 200);
    const { csrf } = formsOf((await another.go('/')).text)[0].fields;
    const form = decides(page);
    const theirs = await another.ask(`/flows/${id}${action}`, { method: 'POST', fields: { ...form.fields, csrf } });
    assert.match(theirs.text, new RegExp(`This was already ${word} by <strong>${account.key.slice(0, 10)}…</strong>, <time`));
    const wrong = await send(page, other);
    assert.equal(wrong.status, 409);
    assert.match(wrong.text, new RegExp(`<h1>Already ${word}</h1>`));
    const told = await stack.cluster.sql(`select count(*) from sluice.audit_event where kind = 'flow.${word}' and details::json->>'flow_id' = '${id}'`);
    assert.equal(told, '1');
  });
