// src/api/openapi.json as client generators need it: our own rules, and spectral's.
// openapi.test.mjs compares the document with the server, and clients.test.mjs runs generated
// clients. Each rule is checked with a document that breaks it.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Ajv2020 from 'ajv/dist/2020.js';
import { closed, isObject, operations, replySchemas, requestSchemas, resolve, responses } from './support/document.mjs';
import { run } from './support/process.mjs';

const spectral = new URL('node_modules/@stoplight/spectral-cli/dist/index.js', import.meta.url).pathname;
let document, dir;

before(async () => {
  document = JSON.parse(await readFile(new URL('../../src/api/openapi.json', import.meta.url), 'utf8'));
  dir = await mkdtemp(join(tmpdir(), 'sluice-e2e-'));
});
after(() => rm(dir, { recursive: true, force: true }));

const short = (schema) => JSON.stringify(schema).slice(0, 200);
const text = (value) => typeof value === 'string' && /\S.*[.!]$/s.test(value);

// Every content of a request or reply: {name, type, content}.
function contents(of) {
  const bodies = operations(of).filter(({ operation }) => operation.requestBody);
  return [
    ...bodies.map(({ path, method, operation }) => ({ name: `${method} ${path} body`, content: operation.requestBody.content })),
    ...responses(of).map(({ name, response }) => ({ name, content: response.content ?? {} })),
  ].flatMap(({ name, content }) => Object.entries(content).map(([type, one]) => ({ name, type, content: one })));
}

// The examples of a content or a parameter, as values.
const examplesOf = (of, { example, examples = {} }) => [
  ...(example === undefined ? [] : [example]),
  ...Object.values(examples).map((one) => resolve(of, one).value),
];

// Refusals that any request may get, by the kind of operation.
function statusesOf({ operation }) {
  const every = ['400', '408', '413', '414', '417', '431', '500', '503'];
  const keyed = operation.security.length > 0 ? ['401', '403', '429'] : [];
  return [...every, ...keyed, ...(operation.requestBody ? ['415'] : [])];
}

// The texts that each rule reports about a document.
const rules = {
  'every operation has a summary, a description that names its scope, and a name for a function': (of) => {
    const all = operations(of);
    const names = all.map(({ operation }) => operation.operationId);
    return all.flatMap(({ path, method, operation }) => {
      const { operationId, summary, description, 'x-scope': scope } = operation;
      const isName = /^[a-z][A-Za-z0-9]*$/.test(operationId) && names.indexOf(operationId) === names.lastIndexOf(operationId);
      const isScoped = scope ? description?.includes(`Needs the scope \`${scope}\`.`) : operation.security.length === 0 || /the scopes of the operations that they run|Any scope is enough/.test(description);
      return isName && summary && text(description) && isScoped ? [] : [`${method} ${path}`];
    });
  },
  'every schema, parameter and header that has a name has a description': (of) =>
    ['schemas', 'parameters', 'headers'].flatMap((kind) =>
      Object.entries(of.components[kind]).filter(([, one]) => !text(one.description)).map(([name]) => `${kind} ${name}`)),
  'every operation has examples of what goes in and what comes out': (of) =>
    contents(of).filter(({ content }) => examplesOf(of, content).length === 0).map(({ name, type }) => `${name} ${type}`),
  'every example matches its schema': (of) => {
    const strict = closed(of);
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(strict, 'contract');
    return contents(strict).flatMap(({ name, content }) => {
      const validate = ajv.compile(JSON.parse(JSON.stringify(content.schema).replaceAll('"#/', '"contract#/')));
      return examplesOf(strict, content).flatMap((one) => (validate(one) ? [] : [`${name}: ${ajv.errorsText(validate.errors)}`]));
    });
  },
  'each path parameter has an example': (of) =>
    operations(of).flatMap(({ path, operation }) =>
      operation.parameters.map((one) => resolve(of, one)).filter((one) => one.required && examplesOf(of, one).length === 0).map((one) => `${path} ${one.name}`)),
  'replies allow more members': (of) => [...replySchemas(of)].filter((one) => one.additionalProperties === false || 'unevaluatedProperties' in one).map(short),
  'an object of any members says so': (of) =>
    [...replySchemas(of), ...requestSchemas(of)].filter((one) => isObject(one) && !one.properties && one.additionalProperties === undefined).map(short),
  'no member has a default: generators would make it required': (of) =>
    [...replySchemas(of), ...requestSchemas(of)].flatMap((one) => Object.values(one.properties ?? {}).filter((member) => member.default !== undefined)).map(short),
  'no member of an object is null alone: openapi-fetch leaves it out': (of) =>
    [...replySchemas(of)].flatMap((one) => Object.values(one.properties ?? {}).filter((member) => member.type === 'null' || member.const === null)).map(short),
  'listed values have a type': (of) =>
    [...replySchemas(of), ...requestSchemas(of)].filter((one) => ('enum' in one || 'const' in one) && !one.type).map(short),
  'schemas have names of types, which are not global ones': (of) =>
    Object.keys(of.components.schemas).filter((name) => !/^[A-Z][A-Za-z0-9]*$/.test(name) || name in globalThis),
  'recommended_next_action has one shape': (of) =>
    [...replySchemas(of)].map((one) => one.properties?.recommended_next_action).filter((one) => one && one.$ref !== '#/components/schemas/RecommendedAction').map(short),
  'executions are distinguished by their status': (of) =>
    ['SucceededExecution', 'BlockedExecution', 'FailedExecution'].filter((name) => {
      const { required, properties } = of.components.schemas[name];
      return !required.includes('status') || typeof properties.status.const !== 'string';
    }),
  'refusals are listed wherever they occur': (of) =>
    operations(of).flatMap((one) => statusesOf(one).filter((status) => !one.operation.responses[status]).map((status) => `${one.method} ${one.path} ${status}`)),
};

// How each rule is broken.
const breaks = {
  'every operation has a summary, a description that names its scope, and a name for a function': (of) => {
    of.paths['/api/flows'].get.description = 'The newest first.';
  },
  'every schema, parameter and header that has a name has a description': (of) => {
    delete of.components.schemas.FlowStep.description;
  },
  'every operation has examples of what goes in and what comes out': (of) => {
    delete of.components.responses.FlowNotFound.content['application/json'].example;
  },
  'every example matches its schema': (of) => {
    of.components.examples.ExecutionFailed.value.unexpected = 1;
  },
  'each path parameter has an example': (of) => {
    delete of.components.parameters.FlowId.example;
  },
  'replies allow more members': (of) => {
    of.components.schemas.Display.additionalProperties = false;
  },
  'an object of any members says so': (of) => {
    delete of.components.schemas.ExecutionRequest.properties.input.additionalProperties;
  },
  'no member has a default: generators would make it required': (of) => {
    of.components.schemas.ExecutionRequest.properties.confirm.default = false;
  },
  'no member of an object is null alone: openapi-fetch leaves it out': (of) => {
    of.components.schemas.BlockedExecution.properties.execution_id = { type: 'null' };
  },
  'listed values have a type': (of) => {
    delete of.components.schemas.FlowStatus.type;
  },
  'schemas have names of types, which are not global ones': (of) => {
    of.components.schemas.Error = {};
  },
  'recommended_next_action has one shape': (of) => {
    of.components.schemas.BlockedExecution.properties.recommended_next_action = { type: 'object', additionalProperties: true };
  },
  'executions are distinguished by their status': (of) => {
    of.components.schemas.FailedExecution.properties.status = { type: 'string' };
  },
  'refusals are listed wherever they occur': (of) => {
    delete of.paths['/api/search'].get.responses['429'];
  },
};

for (const [name, rule] of Object.entries(rules))
  test(name, () => {
    assert.deepEqual(rule(document), []);
    const broken = structuredClone(document);
    breaks[name](broken);
    assert.notDeepEqual(rule(broken), []);
  });

test('spectral reports nothing', async () => {
  const ruleset = join(dir, 'ruleset.json');
  await writeFile(ruleset, JSON.stringify({ extends: ['spectral:oas'] })); // the recommended rules
  const lint = async (of) => {
    const file = join(dir, 'document.json');
    await writeFile(file, JSON.stringify(of, null, 2));
    return run(process.execPath, [spectral, 'lint', '--fail-severity', 'hint', '-r', ruleset, file]);
  };
  const { code, stdout, stderr } = await lint(document);
  assert.equal(code, 0, stdout + stderr);
  const poor = { ...document, paths: { '/healthz': structuredClone(document.paths['/healthz']) } };
  delete poor.paths['/healthz'].get.description;
  assert.match((await lint(poor)).stdout, /warning +operation-description/);
});
