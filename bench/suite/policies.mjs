// A key's policy of 20 rules: what it costs, against a key without one in the same repetition. 18
// rules are about other apps; the conditions of the other two are evaluated for each call of Gmail.
import { basename } from 'node:path';

const OTHERS = ['airtable', 'asana', 'discord', 'dropbox', 'github', 'google_calendar', 'google_drive', 'hubspot', 'jira', 'linear', 'notion', 'outlook_mail', 'salesforce', 'sendgrid', 'slack', 'stripe', 'trello', 'zendesk'];
const policy = {
  default: 'allow',
  rules: [
    ...OTHERS.map((app) => ({ tools: [`${app}_*`, `!${app}_list_*`], side_effect: ['write', 'delete'], decision: 'confirm' })),
    { tools: ['gmail_*'], when: 'input.maxResults > `400`', decision: 'deny', reason: 'too many at once' },
    { tools: ['gmail_*'], when: "input.query && contains(input.query, 'salary')", decision: 'deny', reason: 'not about salaries' },
  ],
};

async function keyWithPolicy(stage) {
  const name = 'twenty-rules';
  const ask = async (method, path, body, status) => {
    const reply = await stage.server.call(stage.account.key, method, path, body);
    if (reply.status !== status) throw new Error(reply.text);
    return reply.json;
  };
  await ask('PUT', `/api/policies/${name}`, { policy }, 200);
  return (await ask('POST', '/api/keys', { name, scopes: ['read', 'execute'], policy: name }, 201)).key;
}

export async function measurePolicy(stage, scenario) {
  const name = basename(scenario, '.json');
  stage.policyKey ??= await keyWithPolicy(stage);
  await stage.settle();
  const base = await stage.load(scenario, { name: `${name}_without_policy` });
  await stage.settle();
  const value = await stage.load(scenario, { key: stage.policyKey, name: `${name}_with_policy` });
  return { base: base.per_second, value: value.per_second };
}
