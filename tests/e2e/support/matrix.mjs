// Every route of the server, as the server lists them, with ids in every possible position: for
// tests that a caller cannot reach what it must not.
import { randomUUID } from 'node:crypto';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const FILL = { integration_id: 'gmail', action_id: 'list_labels', tool_name: 'gmail_list_labels', key: 'unread_mail_summary' };

function parametersOf(document, operation) {
  return (operation.parameters ?? []).map((one) =>
    one.$ref === undefined ? one : one.$ref.slice(2).split('/').reduce((at, key) => at[key], document),
  );
}

// The members of a body that name something.
function bodiesOf(path, id) {
  const run = { integration_id: 'gmail', action_id: 'list_labels', input: {} };
  const plain = { ...run, arguments: {}, connectionId: id, connection_id: id, flowTemplate: id, stepKey: id, id };
  if (path.endsWith('/execute')) return [{ arguments: {}, connectionId: id }];
  if (path.endsWith('/batch')) return [{ executions: [run, { ...run, idempotency_key: id }, { ...run, input: { id } }] }];
  return path === '/api/executions' ? [plain, { ...plain, idempotency_key: id }, { ...plain, input: { id } }] : [plain];
}

// [{method, path, route, body?, isPathId}]: one request for each position of an id in each route.
// isPathId: the path names an object of the account by that id.
export function requestsWith(document, id) {
  const requests = [];
  for (const [route, item] of Object.entries(document.paths)) {
    if (!route.startsWith('/api/')) continue;
    for (const method of METHODS.filter((one) => item[one] !== undefined)) {
      const parameters = parametersOf(document, { parameters: [...(item.parameters ?? []), ...(item[method].parameters ?? [])] });
      const names = [...route.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const fill = (values) => route.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? FILL[name] ?? randomUUID()));
      const bodies = method === 'get' ? [undefined] : bodiesOf(route, id);
      const add = (path, isPathId) =>
        bodies.forEach((body) => requests.push({ method: method.toUpperCase(), route, path, body, isPathId }));
      for (const name of names) add(fill({ [name]: id }), FILL[name] === undefined);
      if (names.every((name) => FILL[name] !== undefined)) add(fill({}), false);
      for (const { name } of parameters.filter((one) => one.in === 'query'))
        add(`${fill(Object.fromEntries(names.map((one) => [one, FILL[one] ?? id])))}?${name}=${encodeURIComponent(id)}`, names.some((one) => FILL[one] === undefined));
    }
  }
  return requests;
}
