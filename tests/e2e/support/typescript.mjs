// A vendor's interface, extracted from the types of npm packages with TypeScript's own compiler.
import { readFileSync } from 'node:fs';
import ts from 'typescript';

// The exported types of a declaration file: name -> {members: [{name, isOptional}], link}. A member
// of a union is optional if one of the union's types lacks it. link: the page that "@see" names.
export class Types {
  constructor(file) {
    this.program = ts.createProgram([file], { skipLibCheck: true, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext });
    this.checker = this.program.getTypeChecker();
    const module = this.checker.getSymbolAtLocation(this.program.getSourceFile(file));
    this.exports = new Map(this.checker.getExportsOfModule(module).map((one) => [one.name, one]));
  }

  target(symbol) {
    return symbol.flags & ts.SymbolFlags.Alias ? this.checker.getAliasedSymbol(symbol) : symbol;
  }

  typeOf(name) {
    return this.checker.getDeclaredTypeOfSymbol(this.target(this.exports.get(name)));
  }

  linkOf(name) {
    const [declaration] = this.target(this.exports.get(name)).declarations ?? [];
    return declaration?.getFullText().match(/@see \{@link ([^}\s]+)\}/)?.[1];
  }

  members(type) {
    const parts = (type.isUnion() ? type.types : [type]).map((one) => new Map(this.checker.getPropertiesOfType(one).map((each) => [each.name, Boolean(each.flags & ts.SymbolFlags.Optional)])));
    const names = [...new Set(parts.flatMap((one) => [...one.keys()]))];
    return names.map((name) => ({ name, isOptional: parts.some((one) => one.get(name) ?? true) }));
  }

  // The parameters of a method of a class, over all its overloads: [{name, isOptional, type}]
  parameters(className, method) {
    const property = this.checker.getPropertyOfType(this.typeOf(className), method);
    if (!property) return [];
    const type = this.checker.getTypeOfSymbol(property);
    return type.getCallSignatures().flatMap((one) =>
      one.getParameters().map((each) => ({ name: each.name, isOptional: Boolean(each.valueDeclaration.questionToken), type: this.checker.getTypeOfSymbol(each) })));
  }
}

const bodyOf = (members) => ({
  required: members.some((one) => !one.isOptional),
  content: { 'application/json': { schema: {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(members.map(({ name }) => [name, {}])),
    required: members.filter((one) => !one.isOptional).map(({ name }) => name),
  } } },
});
const queryOf = (members) => members.map(({ name, isOptional }) => ({ in: 'query', name, required: !isOptional }));

// Discord: each route is a comment. The "@see" of a request's type is the anchor on a page that our
// action names.
export function discordDescription(folder, actions) {
  const paths = {};
  const routes = readFileSync(`${folder}/_generated_/rest/v10/interfaces.d.ts`, 'utf8');
  for (const [, method, path] of routes.matchAll(/^ +\* - ([A-Z]+) +`([^`]+)`/gm)) paths[path] = { ...paths[path], [method.toLowerCase()]: {} };
  const types = new Types(`${folder}/rest/v10/index.d.ts`);
  const taken = [...types.exports.keys()].filter((name) => /(JSONBody|Query)$/.test(name)).map((name) => [name, anchorOf(types.linkOf(name))]);
  for (const { docs_url: link, request } of actions) {
    const named = (end) => taken.find(([name, anchor]) => anchor === anchorOf(link) && name.startsWith(`REST${request.method[0]}${request.method.slice(1).toLowerCase()}`) && name.endsWith(end))?.[0];
    const operation = Object.entries(paths).find(([path]) => shapeOf(path) === shapeOf(request.path))?.[1][request.method.toLowerCase()];
    if (!operation) continue;
    const [query, body] = ['Query', 'JSONBody'].map(named);
    operation.parameters = query ? queryOf(types.members(types.typeOf(query))) : [];
    if (body) operation.requestBody = bodyOf(types.members(types.typeOf(body)));
  }
  return { servers: [{ url: '/' }], paths };
}

// Pages have moved, but the part after # has not changed.
const anchorOf = (page = '') => page.split('#')[1];
const shapeOf = (path) => path.replace(/\$?\{[^}]*\}/g, '{}');

const snake = (name) => name.replace(/[A-Z]+(?![a-z])|[A-Z]/g, (one, at) => `${at ? '_' : ''}${one.toLowerCase()}`);
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

// GitLab: calls every method of its client package, with "{}" for each argument, without sending
// the requests. The other parameters are in the types of "options".
export async function gitlabDescription(folder) {
  const { BaseResource: _base, ...client } = await import(`${folder}/dist/index.mjs`);
  const types = new Types(`${folder}/dist/index.d.mts`);
  const paths = {};
  const note = (method, path, members) => {
    const item = (paths[decodeURIComponent(path)] ??= {});
    const former = item[method];
    item[method] = former ? former.map((one) => ({ ...one, isOptional: one.isOptional || !members.some((each) => each.name === one.name) })) : [];
    for (const one of members) if (!item[method].some((each) => each.name === one.name)) item[method].push({ ...one, isOptional: one.isOptional || Boolean(former) });
  };
  for (const [className, Class] of Object.entries(client)) {
    if (typeof Class !== 'function' || !Class.prototype || !types.exports.has(className)) continue;
    let one, seen;
    const keep = (method) => async (path, { searchParams, body } = {}) => {
      const names = body instanceof FormData ? [...body.keys()] : [...new URLSearchParams(searchParams ?? '').keys(), ...Object.keys(JSON.parse(typeof body === 'string' ? body : JSON.stringify(body ?? {})))];
      seen ??= { method, path: new URL(`${one.url}/${path}`).pathname.replace('/api/v4', '').replace(/\/+/g, '/'), names };
      return { body: {}, headers: {}, status: 200 };
    };
    try {
      one = new Class({ token: 't', host: 'https://gitlab.invalid', requesterFn: () => Object.fromEntries(METHODS.map((method) => [method, keep(method)])) });
    } catch {
      continue; // not a resource
    }
    for (let at = Class.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at))
      for (const name of Object.getOwnPropertyNames(at).filter((each) => each !== 'constructor' && typeof one[each] === 'function')) {
        const parameters = types.parameters(className, name);
        const isOptions = (each) => each.name === 'options' || each.name.startsWith('__');
        const options = parameters.filter(isOptions);
        const values = [...new Map(parameters.map((each) => [each.name, isOptions(each)])).values()];
        for (const of of options.length > 0 ? [{}, ...['projectId', 'groupId', 'pipelineId'].map((each) => ({ [each]: '{}' }))] : [{}]) {
          seen = undefined;
          await Promise.resolve().then(() => one[name](...values.map((is) => (is ? of : '{}')))).catch(() => {});
          if (!seen) continue;
          const more = options.flatMap((each) => types.members(types.checker.getNonNullableType(each.type))).filter((each) => !(each.name in of));
          if (more.some((each) => each.name === 'perPage' || each.name === 'pagination')) more.push({ name: 'page' }, { name: 'per_page' });
          note(seen.method, seen.path, [...seen.names.filter((each) => !(each in of)).map((each) => ({ name: snake(each), isOptional: false })), ...more.map((each) => ({ name: snake(each.name), isOptional: true }))]);
        }
      }
  }
  const operationOf = (method, members) => (method === 'get' ? { parameters: queryOf(members) } : { parameters: queryOf(members.map((one) => ({ ...one, isOptional: true }))), requestBody: bodyOf(members) });
  for (const item of Object.values(paths)) for (const [method, members] of Object.entries(item)) item[method] = operationOf(method, members);
  return { servers: [{ url: '/' }], paths };
}
