// Tells times as the reader's clock does, and keeps a page that says so (data-live on an element of
// it) fresh: by server-sent events where they come through, by asking again where they do not. The
// part that is live is made of blocks with an id and a version. Only blocks of another version are
// changed, in place, and none so that what somebody aims at moves, or what is typed or marked goes:
// a bar announces such news, and shows them when it is pressed. Everything works without this file.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const localize = (part) => {
  for (const time of part.querySelectorAll('time')) {
    time.title = time.textContent;
    time.textContent = clock.format(new Date(time.dateTime));
  }
};
localize(document);

// A form that was shown again in answer to another address has its own in the address bar.
const { path } = document.querySelector('main').dataset;
if (path) history.replaceState(null, '', path);

// The second click of a double click sends nothing.
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

  /* ---- the bar: outside of what is replaced, and there before it says something ---- */

  const bar = document.createElement('div');
  const text = bar.appendChild(document.createElement('p'));
  const show = bar.appendChild(document.createElement('button'));
  bar.className = 'news';
  text.setAttribute('role', 'status');
  show.textContent = 'Show it';
  show.hidden = true;
  document.querySelector('main').prepend(bar);

  // At the edge of the window where it covers nothing that may be pressed now.
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

  /* ---- changing a block and nothing else ---- */

  const isSame = (one, other) => one.nodeName === other.nodeName && (one.id ?? '') === (other.id ?? '');
  // Nodes that are in both stay the ones they are, with focus, marks and what is typed or opened.
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

  // What is read now: what has the focus, or the first block in the window.
  const reading = () => {
    const focused = document.activeElement;
    if (live.contains(focused) && isInView(focused.getBoundingClientRect())) return focused;
    return blocksOf(live).find((block) => isInView(block.getBoundingClientRect()));
  };
  // What is aimed at or read stays where it is in the window; false: it cannot, and nothing is changed.
  // The place is remembered, since each scrolling is rounded.
  let rest;
  const attempt = (change, undo) => {
    const aimed = aimedAt();
    const one = aimed ?? reading();
    if (!one) return change(), true;
    const shift = ({ left, top }) => [one.getBoundingClientRect().left - left, one.getBoundingClientRect().top - top];
    const isThere = (place) => one.isConnected && shift(place).every((distance) => Math.abs(distance) < 1);
    if (rest?.one !== one || !isThere(rest.place)) rest = { one, place: one.getBoundingClientRect() };
    const [x, y] = [scrollX, scrollY];
    change();
    if (one.isConnected) scrollBy(0, shift(rest.place)[1]);
    if (!aimed || isThere(rest.place)) return true;
    undo();
    scrollTo(x, y);
    return false;
  };
  // Somebody is at it: about to press, writing, marking.
  const isBusy = (block) => {
    const [aimed, marked] = [aimedAt(), getSelection()];
    if (!marked.isCollapsed && marked.containsNode(block, true)) return true;
    if (!block.querySelector('form, .button')) return false;
    const fields = [...block.querySelectorAll('textarea, input, select')];
    return block.contains(aimed) || block.contains(document.activeElement) || fields.some(({ value, defaultValue }) => defaultValue !== undefined && value !== defaultValue);
  };

  /* ---- news ---- */

  let latest; // the page as it was last asked for, while some of it is not shown

  // Returns the blocks that are not there yet; those that had to wait make the bar say so.
  const apply = (fresh, isAsked) => {
    const added = [];
    let waits;
    const put = (change, undo, mayNot) => {
      if (isAsked) change();
      else if (mayNot || !attempt(change, undo)) waits ??= 'This page has changed.';
    };
    for (const old of blocksOf(live)) {
      if (byId(fresh, old.id)) continue;
      const place = old.nextSibling;
      const parent = old.parentNode;
      put(() => old.remove(), () => parent.insertBefore(old, place), old.getBoundingClientRect().top < innerHeight || isBusy(old));
    }
    for (const now of blocksOf(fresh)) {
      const old = byId(live, now.id);
      if (!old) {
        const copy = now.cloneNode(true);
        const before = byId(live, now.previousElementSibling?.id);
        const parent = before?.parentNode ?? byId(live, now.parentNode.id) ?? live;
        const place = before ? before.nextSibling : parent.firstChild;
        put(() => parent.insertBefore(copy, place), () => copy.remove(), place?.getBoundingClientRect().top < innerHeight);
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
  // what was aimed at is no more
  for (const event of ['pointerover', 'focusout', 'selectionchange'])
    document.addEventListener(event, () => latest && apply(latest));

  /* ---- asking: once at a time ---- */

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
    if (reply.redirected) return end('Your session has ended. What you have typed is kept when you send it: sign in again then.');
    if (reply.status === 404) return end('It is not there any more.');
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
  const LOST_MS = 5_000; // a connection that is gone for less is not spoken of
  const LOST = 'The connection is lost; trying again.';
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
  // Not all at once after a restart, and less often the longer it takes.
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (isOver || document.hidden) return;
      refresh();
      listen();
    }, Math.min(AGAIN_MS_MAX, 1000 * 2 ** tries++) * (0.5 + Math.random() / 2));
  }
  // a page in the background holds no connection: a browser has six for a site
  document.addEventListener('visibilitychange', () => (document.hidden ? source?.close() : listen()));
  listen();
}
