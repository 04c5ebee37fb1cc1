// A headless browser for the dashboard: it keeps cookies, reads forms from the page, and follows
// redirects within the site.

const unescape = (text) =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
// The words of an element, with the text for screen readers and without icons.
const words = (body) => unescape(body.replace(/<svg[\s\S]*?<\/svg>|<\/?span[^>]*>/g, '').trim());
const attributes = (tag) =>
  Object.fromEntries([...tag.matchAll(/([\w-]+)(?:="([^"]*)")?/g)].slice(1).map(([, name, value]) => [name, unescape(value ?? '')]));

// The forms of a page: {action, method, fields, names, buttons}.
export function formsOf(text) {
  return [...text.matchAll(/<form ([^>]*)>([\s\S]*?)<\/form>/g)].map(([, head, body]) => {
    const { action, method } = attributes(`form ${head}`);
    const inputs = [...body.matchAll(/<input ([^>]*)>/g)].map(([, input]) => attributes(`input ${input}`));
    const selects = [...body.matchAll(/<select ([^>]*)>/g)].map(([, select]) => attributes(`select ${select}`).name);
    const isTyped = (one) => one.value !== undefined && one.type !== 'checkbox';
    const fields = Object.fromEntries(inputs.filter(isTyped).map((one) => [one.name, one.value]));
    const buttons = [...body.matchAll(/<button([^>]*)>([\s\S]*?)<\/button>/g)].map(([, button, label]) => attributes(`button ${button}`)['aria-label'] ?? words(label));
    return { action, method, fields, names: [...inputs.map((one) => one.name), ...selects], buttons };
  });
}

// The target of the link with that text, or with that name for assistive technology.
export function linkOf(text, label) {
  const link = [...text.matchAll(/<a ([^>]*)>([\s\S]*?)<\/a>/g)].find(([, head, body]) => (attributes(`a ${head}`)['aria-label'] ?? words(body)) === label);
  if (!link) throw new Error(`no link "${label}" in: ${text}`);
  return attributes(`a ${link[1]}`).href;
}

export class Pages {
  constructor(base) {
    this.base = base;
    this.cookies = new Map();
  }

  get cookie() {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  }

  // Sends one request and follows no redirect: {status, location, text, headers}.
  async ask(path, { method = 'GET', fields, headers = {} } = {}) {
    const init = { method, redirect: 'manual', headers: { ...headers } };
    if (this.cookies.size > 0) init.headers.cookie ??= this.cookie;
    if (method === 'POST') init.body = new URLSearchParams(fields ?? {});
    const reply = await fetch(new URL(path, this.base), init);
    for (const line of reply.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return { status: reply.status, location: reply.headers.get('location'), headers: reply.headers, text: await reply.text() };
  }

  // Like ask(), but follows redirects within the site. path is the last path.
  async go(path, options) {
    let reply = await this.ask(path, options);
    for (let hops = 0; reply.location?.startsWith('/') && hops < 5; hops++) {
      path = reply.location;
      reply = await this.ask(path);
    }
    return { ...reply, path };
  }

  // Fills in and submits the form that has a button with this name for assistive technology.
  async press(page, button, fields = {}, { follow = true } = {}) {
    const form = formsOf(page.text).find((one) => one.buttons.includes(button));
    if (!form) throw new Error(`no button "${button}" in: ${page.text}`);
    for (const name of Object.keys(fields))
      if (!form.names.includes(name)) throw new Error(`no field "${name}" in the form with "${button}"`);
    const options = { method: 'POST', fields: { ...form.fields, ...fields } };
    return follow ? this.go(form.action, options) : this.ask(form.action, options);
  }

  async signIn(key) {
    return this.press(await this.ask('/sign-in'), 'Sign in', { key });
  }
}
