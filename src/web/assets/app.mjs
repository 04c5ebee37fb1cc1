// Keeps a page that says so (data-live on an element of it) fresh: by server-sent events where they
// come through, by asking again where they do not; and tells times as the reader's clock does.
// Everything works without this file.
// In the reader's own time, where it can; the page has it in UTC.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const localize = (part) => {
  for (const time of part.querySelectorAll('time')) {
    time.title = time.textContent;
    time.textContent = clock.format(new Date(time.dateTime));
  }
};
localize(document);

const live = document.querySelector('[data-live]');

if (live) {
  const { live: events, version } = live.dataset;
  let shown = version;

  // The same page again; only the part that is live is put in, and only when it has changed.
  const refresh = async () => {
    const reply = await fetch(location.pathname, { headers: { Accept: 'text/html' } });
    if (!reply.ok || reply.redirected) return location.reload();
    const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
    const fresh = page.querySelector('[data-live]');
    if (!fresh) return location.reload();
    if (fresh.dataset.version === shown) return;
    shown = fresh.dataset.version;
    // what somebody has opened or is typing stays
    const opened = new Set([...live.querySelectorAll('details[open]')].map((one) => one.id));
    for (const one of fresh.querySelectorAll('details')) one.open = one.open || opened.has(one.id);
    const typed = live.querySelector('textarea')?.value;
    const focused = live.contains(document.activeElement) ? document.activeElement.id : null;
    localize(fresh);
    live.replaceChildren(...fresh.childNodes);
    const field = live.querySelector('textarea');
    if (field && typed) field.value = typed;
    if (focused) document.getElementById(focused)?.focus();
    if (fresh.dataset.over !== undefined) stop();
  };

  let source;
  let timer;
  const poll = () => (timer ??= setInterval(refresh, 3000));
  const stop = () => {
    source?.close();
    clearInterval(timer);
  };

  if (live.dataset.over === undefined) {
    source = new EventSource(events);
    source.onmessage = refresh;
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) poll();
    };
  }
}
