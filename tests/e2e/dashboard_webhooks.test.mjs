// What people do with webhooks on the dashboard, without JavaScript: make one and see its secret
// once, find out why events do not arrive, have them sent again, test, switch, roll and delete it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Webhook as Standard } from 'standardwebhooks';
import { until } from './support/client.mjs';
import { Dashboard } from './support/dashboard.mjs';
import { Scripted } from './support/scripted.mjs';

let dashboard, receiver, own, status = 204;
const got = []; // {headers, body}: messages at the receiver

before(async () => {
  receiver = await Scripted.start(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    got.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
    reply.writeHead(status).end();
  });
  dashboard = await Dashboard.start({ args: ['--webhook-host', '127.0.0.1', '--webhook-timeout', '2s'] });
  own = await dashboard.account('events');
});
after(async () => {
  await dashboard?.stop();
  await receiver?.stop();
});

const api = async (method, path, body) => (await dashboard.call(own, method, path, body)).json;
const person = (as = own) => dashboard.signIn(as, { javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
const verifies = (secret, { headers, body }) => {
  try {
    return new Standard(secret).verify(body, headers) !== null;
  } catch {
    return false;
  }
};
const hasten = ({ id }) => dashboard.stack.cluster.sql(`update sluice.delivery set due_at = now() where webhook_id = '${id}' and status = 'pending'`);

// Posts a form as a client that does not validate forms.
async function post(visit, path, fields = {}) {
  const cookie = (await visit.context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  const csrf = await visit.page.locator('[name=csrf]').first().inputValue();
  const reply = await fetch(dashboard.base + path, { method: 'POST', redirect: 'manual', headers: { cookie, origin: dashboard.base }, body: new URLSearchParams({ csrf, ...fields }) });
  return { status: reply.status, text: await reply.text() };
}

test('a webhook is made with a form that says what is wrong, and its secret is shown once', async () => {
  const visit = await person();
  await visit.press('Flows');
  await visit.press('Webhooks');
  await visit.sees('No webhooks');
  await visit.press('New webhook');
  await visit.page.getByLabel('URL').fill('http://agent.example.com/in');
  await visit.page.getByLabel('Description').fill('The <b>agent</b>');
  await visit.page.getByLabel('Events').selectOption('some');
  await visit.page.getByRole('checkbox', { name: /^flow\.waiting/ }).check();
  await visit.press('Create the webhook');
  // what was typed stays, with the fault at its field
  assert.match(await visit.page.locator('#fault-url').innerText(), /^url must begin with https:\/\//);
  assert.equal(await visit.page.getByLabel('Description').inputValue(), 'The <b>agent</b>');
  assert.equal(await visit.page.getByRole('checkbox', { name: /^flow\.waiting/ }).isChecked(), true);
  await visit.page.getByLabel('URL').fill(`${receiver.url}/in`);
  await visit.page.getByRole('checkbox', { name: /^flow\.waiting/ }).uncheck();
  await visit.press('Create the webhook');
  assert.match(await visit.page.locator('#fault-events').innerText(), /^events must be an array of the kinds/);
  await visit.page.getByRole('checkbox', { name: /^flow\.waiting/ }).check();
  await visit.press('Create the webhook');
  assert.equal(await visit.title(), 'The new webhook');
  const secret = await visit.page.locator('#secret').innerText();
  assert.match(secret, /^whsec_/);
  await visit.press('To the webhook');
  assert.equal(await visit.title(), 'The <b>agent</b>');
  assert.ok(!(await visit.text()).includes(secret));
  // a second one with this URL is refused
  const again = await post(visit, '/webhooks/new', { url: `${receiver.url}/in`, which: 'all' });
  assert.equal(again.status, 409);
  assert.match(again.text, /another webhook of the account has this url/);
  const [made] = (await api('GET', '/api/webhooks')).items;
  assert.deepEqual([made.url, made.description, made.events, made.enabled], [`${receiver.url}/in`, 'The <b>agent</b>', ['flow.waiting'], true]);
  // its first event
  const flow = await dashboard.startTasks(own);
  await until('the message has arrived', () => got.length > 0);
  assert.ok(verifies(secret, got[0]));
  await until('the page has it', async () => {
    await visit.page.reload();
    return (await visit.page.locator('section:has(#deliveries)').innerText()).includes('delivered');
  });
  const row = visit.page.locator('section:has(#deliveries) tbody tr');
  assert.match(await row.innerText(), /flow\.waiting[\s\S]*Task pages in Notion for unread mails[\s\S]*answered 204[\s\S]*1 attempt/);
  assert.equal(await row.getByRole('link').getAttribute('href'), `/flows/${flow}`);
  // an event of an end user says whose it is, and leads to that user's page
  const headers = { 'sluice-user': 'ada&co' };
  const { json } = await dashboard.call(own, 'POST', '/api/flows/start', { flowTemplate: 'probe_approve', input: { subject: 'hers' } }, headers);
  await until('the page has it', async () => {
    await visit.page.reload();
    return (await row.count()) === 2;
  });
  assert.match(await row.first().innerText(), /of the user ada&co/);
  await visit.press(await row.first().getByRole('link').innerText());
  assert.equal(`${new URL(visit.page.url()).pathname}${new URL(visit.page.url()).search}`, `/flows/${json.flowId}?user=ada%26co`);
  assert.equal(await visit.page.locator('.problem').count(), 0);
  await visit.page.goBack();
  // changed: all events, another description
  await visit.press('Edit');
  assert.equal(await visit.page.getByLabel('Events').inputValue(), 'some');
  await visit.page.getByLabel('Events').selectOption('all');
  await visit.page.getByLabel('Description').fill('');
  await visit.press('Save');
  await visit.sees('Webhook changed.');
  await visit.sees('all, also those of later versions');
  const [changed] = (await api('GET', '/api/webhooks')).items;
  assert.deepEqual([changed.events, changed.description], [null, null]);
  // a form that was opened before another person's change does not undo it
  await visit.press('Edit');
  await visit.page.getByLabel('Description').fill('mine');
  await api('PATCH', `/api/webhooks/${changed.id}`, { description: 'theirs', events: ['flow.waiting'] });
  for (let n = 0; n < 2; n++) {
    await visit.press('Save');
    await visit.sees(/Nothing was changed: the webhook has the rev \d+, not \d+: it was changed, or its secret was rolled, since it was read/);
    assert.equal(await visit.page.getByLabel('Description').inputValue(), 'mine');
  }
  assert.equal((await api('GET', `/api/webhooks/${changed.id}`)).description, 'theirs');
  await visit.press('Edit it as it is now');
  assert.equal(await visit.page.getByLabel('Description').inputValue(), 'theirs');
  await visit.page.getByLabel('Description').fill('mine');
  await visit.press('Save');
  const { description, events } = await api('GET', `/api/webhooks/${changed.id}`);
  assert.deepEqual([description, events], ['mine', ['flow.waiting']]);
  await visit.end();
});

test('events that do not arrive: why, on the overview too, until they are sent again', async () => {
  const [hook] = (await api('GET', '/api/webhooks')).items;
  const visit = await person();
  status = 500;
  const before = got.length;
  const arrived = async () => (await api('GET', `/api/webhooks/${hook.id}/deliveries?status=delivered`)).items.length;
  const earlier = await arrived();
  await dashboard.startTasks(own);
  for (let n = 1; n <= 3; n++) {
    await until(`attempt ${n} has failed`, async () => (await api('GET', `/api/webhooks/${hook.id}`)).failures >= n);
    await dashboard.stack.cluster.sql(`update sluice.webhook set paused_until = null where id = '${hook.id}'`);
    await hasten(hook);
  }
  await visit.goto('/');
  const item = visit.page.locator(`#webhook-${hook.id}`);
  assert.match(await item.innerText(), /^Events do not arrive at http:\/\/127\.0\.0\.1:\d+\/in\s+It has not accepted the last \d+ attempts/);
  await visit.press(`Details of the webhook ${hook.url}`);
  await visit.sees('No message has been accepted since');
  await visit.press('Pending');
  assert.match(await visit.page.locator('section:has(#deliveries) tbody tr').innerText(), /the endpoint answered 500[\s\S]*[3-9] attempts, the next/);
  assert.equal(await visit.page.getByRole('button', { name: /^Send flow\.waiting/ }).count(), 0, 'it is sent anyway');
  await visit.fits();
  // given up, and sent again, all of them and one
  await dashboard.stack.cluster.sql(`update sluice.delivery set status = 'failed', due_at = null, ended_at = now() where webhook_id = '${hook.id}' and status = 'pending'`);
  status = 204;
  await visit.press('Failed');
  await visit.page.getByLabel('Send failed events again').selectOption('1');
  await visit.press('Send again', visit.page.locator('form.inline'));
  assert.equal(await visit.title(), 'Sent again');
  await visit.sees('1 of the events that failed in this time are sent again.');
  await until('it has arrived', async () => (await arrived()) === earlier + 1);
  await visit.goto(`/webhooks/${hook.id}`);
  const sent = got.length;
  await visit.page.getByRole('button', { name: /^Send flow\.waiting/ }).first().click();
  await visit.sees('The event was queued to be sent again.');
  await until('it arrives again', () => got.length > sent);
  assert.ok(sent > before);
  await until('it no longer fails', async () => (await api('GET', `/api/webhooks/${hook.id}`)).failures === 0);
  await visit.goto('/');
  assert.equal(await item.count(), 0);
  // off because of a 410, which only a person can change
  await dashboard.stack.cluster.sql(`update sluice.webhook set off_at = now(), off_reason = 'answered_410' where id = '${hook.id}'`);
  await visit.goto('/');
  assert.match(await item.innerText(), /switched off, because the endpoint answered 410/);
  await visit.goto(`/webhooks/${hook.id}`);
  await visit.sees('because the endpoint answered 410');
  assert.equal((await post(visit, `/webhooks/${hook.id}/replay`, { hours: '1' })).status, 409);
  await visit.press('Switch on');
  await visit.press('Switch off');
  await visit.sees('This webhook was switched off.');
  await visit.goto('/');
  assert.equal(await item.count(), 0, 'a person switched it off');
  await visit.end();
});

test('a test, a rolled secret, and the end of a webhook', async () => {
  const [hook] = (await api('GET', '/api/webhooks')).items;
  await api('PATCH', `/api/webhooks/${hook.id}`, { enabled: true });
  const visit = await person();
  await visit.goto(`/webhooks/${hook.id}`);
  await visit.press('Send a test');
  assert.equal(await visit.title(), 'The test was accepted');
  await visit.sees(/answered 204 after \d+ ms/);
  status = 503;
  await visit.press('Back to the webhook');
  await visit.press('Send a test');
  assert.equal(await visit.title(), 'The test failed');
  await visit.sees('the endpoint answered 503');
  status = 204;
  await visit.press('Back to the webhook');
  await visit.press('Roll the secret');
  const fields = { rev: await visit.page.locator('[name=rev]').inputValue(), overlap_s: '3600' };
  await visit.page.getByLabel('The present secret signs, too, for').selectOption('3600');
  await visit.press('Roll the secret');
  assert.equal(await visit.title(), 'The new secret');
  const secret = await visit.page.locator('#secret').innerText();
  await visit.press('To the webhook');
  await visit.sees('the old one signs, too, until');
  // the same form again rolls nothing: the former secret still signs
  for (const overlap_s of ['3600', '0']) {
    const twice = await post(visit, `/webhooks/${hook.id}/roll`, { ...fields, overlap_s });
    assert.equal(twice.status, 409);
    assert.match(twice.text, /it was changed, or its secret was rolled, since it was read/);
  }
  const before = got.length;
  await visit.press('Send a test');
  await until('the test has arrived', () => got.length > before);
  assert.ok(verifies(secret, got.at(-1)));
  assert.equal(got.at(-1).headers['webhook-signature'].split(' ').length, 2);
  // a key that only reads looks, and changes nothing
  const reader = await person((await dashboard.keyOf(own, 'reader', 'read')).as);
  await reader.goto(`/webhooks/${hook.id}`);
  assert.deepEqual(await reader.page.locator('main').getByRole('button').allInnerTexts(), []);
  await reader.goto('/webhooks');
  assert.equal(await reader.page.getByRole('link', { name: 'New webhook' }).count(), 0);
  for (const path of ['new', ...['edit', 'switch', 'test', 'roll', 'delete', 'replay', `deliveries/${hook.id}/replay`].map((verb) => `${hook.id}/${verb}`)])
    assert.equal((await post(reader, `/webhooks/${path}`)).status, 403, path);
  await reader.end();
  // another account finds nothing, and a user has no webhooks
  const stranger = await person(await dashboard.account('stranger', { apps: [] }));
  for (const path of [`/webhooks/${hook.id}`, `/webhooks/${hook.id}/roll`, '/webhooks/1', `/webhooks/${hook.id}?status=none`]) {
    await stranger.goto(path);
    await stranger.sees('There is no page at this address.');
  }
  assert.equal((await post(stranger, `/webhooks/${hook.id}/delete`)).status, 404);
  await stranger.end();
  await visit.goto('/webhooks?user=ada');
  assert.doesNotMatch(await visit.text(), /127\.0\.0\.1/);
  await visit.goto('/webhooks');
  assert.equal(await visit.page.locator('tbody tr').count(), 1);
  await visit.press(hook.url);
  await visit.press('Delete');
  await visit.press('Delete the webhook');
  await visit.sees('Webhook deleted.');
  await visit.sees('No webhooks');
  assert.deepEqual((await api('GET', '/api/webhooks')).items, []);
  await visit.end();
});
