// Compares a GraphQL request of ours with a vendor's schema, in the form of GraphQL Code
// Generator's types: `type Issue = {...}`, and `type QueryIssuesArgs = {...}` for the arguments of
// a field.

// name -> member -> {type: its named type, isRequired}
export function readTypes(text) {
  const types = new Map();
  for (const [, name, body] of text.matchAll(/^(?:export )?type (\w+) = (?:\w+ & )*\{\n([^]*?)^\};/gm))
    types.set(name, new Map([...body.matchAll(/^ {2}(\w+)(\?)?: ([^]*?);$/gm)].map(([, member, optional, type]) =>
      [member, { type: named(type), isRequired: !optional }])));
  return types;
}

// Maybe<Array<Scalars["String"]>> is String.
function named(type) {
  const words = type.match(/\w+/g).filter((word) => !['Maybe', 'InputMaybe', 'Array', 'Scalars'].includes(word));
  return words[0];
}

// {root, variables: [[name, type, isRequired]], selections: [{name, args: [[name, variable, null or [[name, ...]]]], selections}]}
export function parse(query) {
  const tokens = query.match(/\$\w+|\w+|"[^"]*"|[{}()[\]:!,=]/g).filter((token) => token !== ',');
  let at = 0;
  const take = (expected) => {
    if (expected && tokens[at] !== expected) throw new Error(`${query}: "${expected}" is missing before "${tokens[at]}"`);
    return tokens[at++];
  };
  const list = (open, close, item) => {
    const items = [];
    if (tokens[at] !== open) return items;
    for (take(open); tokens[at] !== close; ) items.push(item());
    take(close);
    return items;
  };
  const variable = () => {
    const name = take().slice(1);
    take(':');
    while (tokens[at] === '[') take();
    const type = take();
    let isRequired = false;
    for (; ['!', ']'].includes(tokens[at]); take()) isRequired = tokens[at] === '!';
    return [name, type, isRequired];
  };
  const argument = () => {
    const name = take();
    take(':');
    if (tokens[at] === '{') return [name, list('{', '}', argument)];
    const value = take();
    return [name, value.startsWith('$') ? value.slice(1) : null];
  };
  const selection = () => ({ name: take(), args: list('(', ')', argument), selections: list('{', '}', selection) });
  const root = take();
  return { root, variables: list('(', ')', variable), selections: list('{', '}', selection) };
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);

export function differences(types, { query, variables }) {
  const found = [];
  const operation = parse(query);
  const declared = new Map(operation.variables.map(([name, type, isRequired]) => [name, { type, isRequired }]));
  const used = new Set();

  // the arguments of the field that `owner` names, whose members are known
  const checkArguments = (owner, known, args) => {
    for (const [arg, from] of args) {
      const wanted = known.get(arg);
      if (!wanted) found.push(`${owner} takes no ${arg}`);
      else if (Array.isArray(from)) checkArguments(wanted.type, types.get(wanted.type) ?? new Map(), from);
      else if (from && !declared.has(from)) found.push(`$${from} is not declared`);
      else if (from && declared.get(from).type !== wanted.type) found.push(`$${from} is ${declared.get(from).type}, ${owner} takes ${wanted.type}`);
      if (from && !Array.isArray(from)) used.add(from);
    }
    const given = new Set(args.map(([arg]) => arg));
    for (const [arg, { isRequired }] of known) if (isRequired && !given.has(arg)) found.push(`${owner} requires ${arg}`);
  };
  const checkSelections = (owner, selections) => {
    for (const one of selections) {
      const field = types.get(owner).get(one.name);
      if (!field) {
        found.push(`${owner} has no ${one.name}`);
        continue;
      }
      checkArguments(`${owner}.${one.name}`, types.get(`${owner}${capital(one.name)}Args`) ?? new Map(), one.args);
      const isObject = types.has(field.type);
      if (isObject !== one.selections.length > 0) found.push(`${owner}.${one.name} is ${isObject ? 'an object' : 'not an object'}`);
      else if (isObject) checkSelections(field.type, one.selections);
    }
  };
  checkSelections(capital(operation.root), operation.selections);

  for (const [name, { type, isRequired }] of declared) {
    if (!used.has(name)) found.push(`$${name} is not used`);
    if (isRequired && variables?.[name] === undefined) found.push(`$${name} is not sent`);
    const value = variables?.[name];
    if (!types.has(type) || typeof value !== 'object') continue;
    for (const member of Object.keys(value)) if (!types.get(type).has(member)) found.push(`${type} has no ${member}`);
    for (const [member, wanted] of types.get(type)) if (wanted.isRequired && !(member in value)) found.push(`${type} requires ${member}`);
  }
  for (const name of Object.keys(variables ?? {})) if (!declared.has(name)) found.push(`the variable ${name} is not declared`);
  return found;
}
