// Converts times to the reader's time zone, and refreshes the element with data-live, if the page has
// one: on server-sent events, or by polling where the stream cannot be opened. That element consists
// of blocks with an id (id) and a version (data-version). A block is updated in place when its version
// changes, unless the update would move what the pointer is on or lose typed or selected text: then a
// bar says that there is news, and its button applies it. The pages work without this file.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const localize = (part) => {
  for (const time of part.querySelectorAll('time')) {
    time.title = time.textContent;
    time.textContent = clock.format(new Date(time.dateTime));
  }
};
localize(document);

// A form that came back in the answer to another address (again.c): the address bar gets its own.
const { path } = document.querySelector('main').dataset;
if (path) history.replaceState(null, '', path);

// A double click sends the form once.
const sent = new WeakMap();
document.addEventListener('submit', (event) => {
  if (event.timeStamp - sent.get(event.target) < 1000) event.preventDefault();
  else sent.set(event.target, event.timeStamp);
});

const live = document.querySelector('[data-live]');
if (live) keepFresh();

function keepFresh() {
  const blocksOf = (part) => [...part.querySelectorAll('[data-version]')];
  const byId = (part, id) => id && part.querySelector(`#${CSS.escape(id)}`);
  const isInView = ({ top, bottom }) => bottom > 8 && top < innerHeight;
  const aimedAt = () => [...document.querySelectorAll(':hover')].at(-1)?.closest('a, button, input, select, textarea, summary, label');

  /* ---- the bar: outside of data-live; there from the start, so that screen readers announce its text ---- */

  const bar = document.createElement('div');
  const text = bar.appendChild(document.createElement('p'));
  const show = bar.appendChild(document.createElement('button'));
  bar.className = 'news';
  text.setAttribute('role', 'status');
  show.textContent = 'Show it';
  show.hidden = true;
  document.querySelector('main').prepend(bar);

  // false: the bar covers what the pointer is on or what has the focus; it goes to the upper edge then.
  const isFree = () => {
    const { left, right, top, bottom } = bar.getBoundingClientRect();
    return ![aimedAt(), document.activeElement].some((one) => {
      const rect = one && one !== document.body && !bar.contains(one) && one.getBoundingClientRect();
      return rect && rect.right > left && rect.left < right && rect.bottom > top && rect.top < bottom;
    });
  };
  const say = (words, canShow) => {
    if (text.textContent === words) return;
    text.textContent = words;
    show.hidden = !canShow || !words;
    bar.classList.remove('above');
    if (words && !isFree()) bar.classList.add('above');
  };

  /* ---- updating a block in place ---- */

  const isSame = (one, other) => one.nodeName === other.nodeName && (one.id ?? '') === (other.id ?? '');
  // Nodes that both versions have are kept, and with them focus, selection, typed text and open details.
  const morph = (old, now) => {
    if (old.isEqualNode(now)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = now.data);
    for (const { name, value } of now.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (name !== 'open' && !now.hasAttribute(name)) old.removeAttribute(name);
    let at = old.firstChild;
    for (const child of [...now.childNodes]) {
      let match = at;
      while (match && !isSame(match, child)) match = match.nextSibling;
      if (!match) old.insertBefore(child, at);
      else {
        while (at !== match) {
          const next = at.nextSibling;
          at.remove();
          at = next;
        }
        at = match.nextSibling;
        morph(match, child);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // The reading position: what has the focus, or else the first block in the window.
  const reading = () => {
    const focused = document.activeElement;
    if (live.contains(focused) && isInView(focused.getBoundingClientRect())) return focused;
    return blocksOf(live).find((block) => isInView(block.getBoundingClientRect()));
  };
  // Makes a change and scrolls so that what the pointer is on, or else the reading position, does not
  // move in the window. false: that is not possible, and the change is undone. The first position is
  // kept across calls, since each scrolling is rounded and the errors would add up.
  let rest;
  const attempt = (change, undo) => {
    const aimed = aimedAt();
    const one = aimed ?? reading();
    if (!one) return change(), true;
    const shift = ({ left, top }) => [one.getBoundingClientRect().left - left, one.getBoundingClientRect().top - top];
    const isThere = (position) => one.isConnected && shift(position).every((distance) => Math.abs(distance) < 1);
    if (rest?.one !== one || !isThere(rest.position)) rest = { one, position: one.getBoundingClientRect() };
    const [x, y] = [scrollX, scrollY];
    change();
    if (one.isConnected) scrollBy(0, shift(rest.position)[1]);
    if (!aimed || isThere(rest.position)) return true;
    undo();
    scrollTo(x, y);
    return false;
  };
  // The reader uses this block: the pointer is on one of its controls, a field is edited, or text is selected.
  const isBusy = (block) => {
    const [aimed, marked] = [aimedAt(), getSelection()];
    if (!marked.isCollapsed && marked.containsNode(block, true)) return true;
    if (!block.querySelector('form, .button')) return false;
    const fields = [...block.querySelectorAll('textarea, input, select')];
    return block.contains(aimed) || block.contains(document.activeElement) || fields.some(({ value, defaultValue }) => defaultValue !== undefined && value !== defaultValue);
  };

  /* ---- news ---- */

  let latest; // the last page fetched, while some of its changes are not applied

  // Applies the fetched page. isAsked: the bar's button was pressed, so nothing is held back. Returns the
  // new blocks; changes that are held back are announced in the bar.
  const apply = (fresh, isAsked) => {
    const added = [];
    let waits;
    const put = (change, undo, mayNot) => {
      if (isAsked) change();
      else if (mayNot || !attempt(change, undo)) waits ??= 'This page has changed.';
    };
    for (const old of blocksOf(live)) {
      if (byId(fresh, old.id)) continue;
      const next = old.nextSibling;
      const parent = old.parentNode;
      put(() => old.remove(), () => parent.insertBefore(old, next), old.getBoundingClientRect().top < innerHeight || isBusy(old));
    }
    for (const now of blocksOf(fresh)) {
      const old = byId(live, now.id);
      if (!old) {
        const copy = now.cloneNode(true);
        const before = byId(live, now.previousElementSibling?.id);
        const parent = before?.parentNode ?? byId(live, now.parentNode.id) ?? live;
        const next = before ? before.nextSibling : parent.firstChild;
        put(() => parent.insertBefore(copy, next), () => copy.remove(), next?.getBoundingClientRect().top < innerHeight);
        if (!copy.isConnected) waits = now.dataset.news ?? waits;
        added.push(copy);
      } else if (old.dataset.version !== now.dataset.version) {
        const was = old.cloneNode(true);
        put(() => morph(old, now.cloneNode(true)), () => morph(old, was), isBusy(old));
      }
    }
    live.dataset.live = fresh.dataset.live;
    latest = waits && fresh;
    say(waits ?? '', true);
    return added;
  };

  show.addEventListener('click', () => {
    const [first] = apply(latest, true);
    const target = first ?? blocksOf(live)[0];
    const heading = target.querySelector('[tabindex="-1"]') ?? document.querySelector('main');
    target.scrollIntoView();
    heading.focus({ preventScroll: true });
  });
  // The pointer, focus or selection moved: changes that were held back may be possible now.
  for (const event of ['pointerover', 'focusout', 'selectionchange'])
    document.addEventListener(event, () => latest && apply(latest));

  /* ---- fetching the page: one request at a time ---- */

  let asking;
  let askAgain;
  let isOver = live.dataset.over !== undefined;
  const end = (words) => {
    isOver = true;
    source?.close();
    if (words) say(words, false);
  };
  const ask = async () => {
    const reply = await fetch(live.dataset.page, { headers: { Accept: 'text/html' } });
    if (reply.redirected) return end('Your session has ended. Send your form to sign in again; what you typed is kept.');
    if (reply.status === 404) return end('This flow no longer exists.');
    if (!reply.ok) throw new Error(`${reply.status}`);
    const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
    const fresh = page.querySelector('[data-live]');
    localize(fresh);
    apply(fresh);
    if (fresh.dataset.over !== undefined) end();
  };
  const refresh = () => {
    askAgain = Boolean(asking);
    asking ??= ask().catch(later).finally(() => {
      asking = undefined;
      if (askAgain) refresh();
    });
  };

  /* ---- the stream ---- */

  const AGAIN_MS_MAX = 10_000;
  const LOST_MS = 5_000; // shorter interruptions are not announced
  const LOST = 'Connection lost, retrying.';
  let source;
  let timer;
  let lost;
  let tries = 0;
  const listen = () => {
    if (isOver || document.hidden) return;
    source?.close();
    source = new EventSource(live.dataset.live);
    source.onmessage = refresh;
    source.onopen = () => {
      tries = 0;
      clearTimeout(lost);
      lost = undefined;
      if (text.textContent === LOST) say('');
    };
    source.onerror = () => {
      lost ??= setTimeout(() => !isOver && !latest && say(LOST, false), LOST_MS);
      if (source.readyState === EventSource.CLOSED) later();
    };
  };
  // Exponential back-off with jitter, so that browsers do not all return at once after a restart.
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (isOver || document.hidden) return;
      refresh();
      listen();
    }, Math.min(AGAIN_MS_MAX, 1000 * 2 ** tries++) * (0.5 + Math.random() / 2));
  }
  // A page in the background closes its stream: browsers allow six connections per site (HTTP/1.1).
  document.addEventListener('visibilitychange', () => (document.hidden ? source?.close() : listen()));
  listen();
}
