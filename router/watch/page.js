/* page - shows what /events sends: one object each time, the whole state of the cluster (watch_json.h).
 * Whatever comes from there is set as text, never as HTML. */
'use strict';

const RATE_WINDOW_MS = 4000;  // rates are of so long
const LINKS_MAX = 256;        // pairs of workers with a line
const LABEL_AT = 0.3;         // of a curve's way: where those from one worker are apart
const TRY_AGAIN_MS = 2000;
const SVG = 'http://www.w3.org/2000/svg';

const at = id => document.getElementById(id);

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/* ---- figures for people ---- */

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

function bytes(n) {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024 || unit === 'GiB') return (n < 10 && unit !== 'B' ? n.toFixed(1) : whole.format(n)) + ' ' + unit;
    n /= 1024;
  }
}

function span(us) {
  if (us < 1000) return us + ' µs';
  const ms = us / 1000;
  if (ms < 1000) return (ms < 10 ? ms.toFixed(1) : whole.format(ms)) + ' ms';
  const s = ms / 1000;
  return s < 60 ? s.toFixed(s < 10 ? 2 : 1) + ' s' : Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
}

function percent(part, all) {
  return all > 0 ? Math.min(100, 100 * part / all) : 0;
}

/* How fast counters grow: each has a few points of the last seconds. A counter that fell began again; one that comes while
 * others have been seen began at 0. */
const points = new Map();

function rate(key, value, now, seen) {
  let list = points.get(key) || (seen ? [{ now: seen, value: 0 }] : []);
  if (list.length && value < list[list.length - 1].value) list = [];
  list.push({ now, value });
  while (list.length > 2 && now - list[1].now >= RATE_WINDOW_MS) list.shift();
  points.set(key, list);
  const first = list[0];
  return now > first.now ? 1000 * (value - first.value) / (now - first.now) : 0;
}

/* The children of a list, one for each key: made once, then updated, and removed when their key is gone. */
function keyed(parent, items, keyOf, create, update) {
  const old = parent.kept || new Map(), kept = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = old.get(key);
    old.delete(key);
    if (!node) node = create(item);
    kept.set(key, node);
    update(node, item);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of old.values()) node.remove();
  parent.kept = kept;
}

/* ---- workers ---- */

const BLOCKS = [['active', 'in use'], ['inbound', 'arriving'], ['pinned', 'being sent'], ['cached', 'cached'], ['quarantined', 'held by a transfer']];

function makeTop(card) {
  const top = card.appendChild(make('header'));
  card.title_ = top.appendChild(make('h4'));
  card.word = top.appendChild(make('span', 'word'));
  card.reason = card.appendChild(make('p', 'reason'));
}

/* A bar under its name and its figures. */
function makeGauge(card, className, title, role) {
  const gauge = card.appendChild(make('div', 'gauge ' + className));
  gauge.appendChild(make('span', 'name', title));
  gauge.text = gauge.appendChild(make('span', 'text'));
  gauge.bar = gauge.appendChild(make('div', 'bar'));
  gauge.bar.setAttribute('role', role);
  return gauge;
}

function makeFigure(card, title) {
  const box = card.figures.appendChild(make('div'));
  const value = make('dd');
  box.append(make('dt', '', title), value);
  return value;
}

function makeCard(worker) {
  const card = make('article'), context = worker.role === 'context';
  makeTop(card);
  card.pool = makeGauge(card, 'pool', 'KV blocks', 'img');
  card.parts = BLOCKS.map(([name]) => card.pool.bar.appendChild(make('i', 'k-' + name)));
  card.prefill = makeGauge(card, 'prefill', 'Prefill', 'progressbar');
  card.prefill.bar.setAttribute('aria-label', 'Prompts that are being computed');
  card.done = card.prefill.bar.appendChild(make('i', 's-prefill'));
  card.figures = card.appendChild(make('dl', 'figures'));
  card.running = makeFigure(card, 'running');
  card.waiting = makeFigure(card, 'waiting');
  card.speed = makeFigure(card, context ? 'KV out/s' : 'KV in/s');
  card.total = makeFigure(card, context ? 'KV out' : 'KV in');
  return card;
}

function updatePool(card, pool) {
  BLOCKS.forEach(([name], i) => { card.parts[i].style.width = percent(pool[name], pool.all) + '%'; });
  const used = pool.all - pool.free - pool.cached;
  setText(card.pool.text, whole.format(used) + ' used · ' + whole.format(pool.cached) + ' cached of ' + whole.format(pool.all));
  card.pool.bar.setAttribute('aria-label', 'KV blocks: ' + card.pool.text.textContent);
}

/* A generation worker shows prompts only if it computes them itself: others have a context worker that shows them. */
function updatePrefill(card, worker, isShown) {
  card.prefill.hidden = !isShown;
  card.done.style.width = percent(worker.prompt_done, worker.prompt_tokens) + '%';
  card.prefill.bar.setAttribute('aria-valuenow', Math.round(percent(worker.prompt_done, worker.prompt_tokens)));
  setText(card.prefill.text, worker.prompts === 0 ? 'no prompt' : whole.format(worker.prompt_done) + ' of ' +
    whole.format(worker.prompt_tokens) + ' tokens' + (worker.prompts > 1 ? ' · ' + whole.format(worker.prompts) + ' prompts' : ''));
}

function updateTop(card, name, word, reason, good) {
  card.firstChild.className = good ? 'good' : 'bad';
  setText(card.title_, name);
  setText(card.word, word);
  setText(card.reason, reason);
  card.reason.hidden = !reason;
}

function updateCard(card, worker, computesPrompts) {
  const good = worker.state === 'ready' && worker.used, context = worker.role === 'context';
  card.className = 'card ' + worker.role + (good ? ' good' : worker.state === 'no answer' ? ' bad' : '');
  card.dataset.address = worker.address;
  updateTop(card, worker.name, worker.state + (worker.state === 'ready' && !worker.used ? ', not used' : ''), worker.reason, good);
  card.title_.title = worker.address + (worker.transport ? ', KV by ' + worker.transport : '');
  const has = worker.blocks !== undefined;
  for (const node of [card.pool, card.prefill, card.figures]) node.hidden = !has;
  if (!has) return;
  updatePool(card, worker.blocks);
  updatePrefill(card, worker, context || computesPrompts);
  setText(card.running, whole.format(worker.running));
  setText(card.waiting, whole.format(worker.waiting));
  setText(card.speed, bytes(worker.rate));
  setText(card.total, bytes(context ? worker.kv_out : worker.kv_in));
}

const STAGES = [['waiting', 'queue', 'waiting'], ['prefill', 'prefill', 'in prefill'],
  ['transfer', 'transfer', 'in KV transfer'], ['decode', 'decode', 'in decode']];

function makeRouter() {
  const card = make('article');
  makeTop(card);
  const list = card.appendChild(make('ul', 'stages'));
  card.counts = STAGES.map(([, colour, words]) => {
    const row = list.appendChild(make('li'));
    row.appendChild(make('i', 's-' + colour));
    const count = row.appendChild(make('b'));
    row.append(' ' + words);
    return count;
  });
  return card;
}

function updateRouter(state) {
  const router = state.router;
  keyed(at('router-card'), [router], () => 'router', makeRouter, card => {
    const good = router.state === 'ready';
    card.className = 'card router' + (good ? ' good' : ' bad');
    updateTop(card, router.name || 'router', router.state, router.reason, good);
    STAGES.forEach(([name], i) => setText(card.counts[i], whole.format(state.counts[name])));
  });
}

/* ---- the map ---- */

function cardsByAddress() {
  const cards = new Map();
  for (const card of document.querySelectorAll('.card[data-address]')) cards.set(card.dataset.address, card);
  return cards;
}

/* A line from the right edge of one box to the left edge of another, or, where they are below each other, from bottom to top. */
function curve(from, to, box) {
  const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
  if (b.left >= a.right) {
    const x1 = a.right - box.left, y1 = a.top + a.height / 2 - box.top;
    const x2 = b.left - box.left, y2 = b.top + b.height / 2 - box.top, bend = (x2 - x1) / 2;
    const d = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    return { d, x: x1 + 0.34 * (x2 - x1), y: y1 + LABEL_AT * LABEL_AT * (3 - 2 * LABEL_AT) * (y2 - y1) + 4 };
  }
  const x = a.left + a.width / 2 - box.left, y1 = a.bottom - box.top, y2 = b.top - box.top;
  return { d: `M${x} ${y1}L${x} ${y2}`, x: x + 12, y: (y1 + y2) / 2 + 4, isBeside: true };
}

/* Lines of prompts from the router, and of KV between workers; one from column to column where they are below each other. */
function linesOf(state) {
  const cards = cardsByAddress(), router = at('router-card').firstChild, lines = [];
  const ready = role => state.workers.filter(worker => worker.role === role && worker.state === 'ready' && worker.used);
  const contexts = ready('context'), generations = ready('generation'), atWork = new Set();
  for (const request of state.live) {
    if (request.phase === 'transfer' || request.phase === 'prefill') atWork.add(request.context + ' ' + request.generation);
    if (request.phase === 'placed' || request.phase === 'prefill') atWork.add(request.context || request.generation);
  }
  if (isStacked()) {
    lines.push({ key: 'asked', kind: 'asked', from: router, to: at(contexts.length ? 'context-column' : 'generation-column'), on: atWork.size > 0 });
    if (contexts.length && generations.length)
      lines.push({ key: 'moved', kind: 'moved', from: at('context-cards'), to: at('generation-column'), rate: state.moved,
        on: state.moved > 0, used: state.flows.length > 0 });
    return lines;
  }
  for (const worker of contexts.length ? contexts : generations)
    lines.push({ key: worker.address, kind: 'asked', from: router, to: cards.get(worker.address), on: atWork.has(worker.address) });
  const flows = new Map(state.flows.map(flow => [flow.from + ' ' + flow.to, flow]));
  for (const from of contexts)
    for (const to of generations) {
      const key = from.address + ' ' + to.address, flow = flows.get(key), speed = flow ? flow.rate : 0;
      lines.push({ key, kind: 'moved', from: cards.get(from.address), to: cards.get(to.address), rate: speed,
        on: speed > 0 || atWork.has(key), used: flow !== undefined });
    }
  return lines.slice(0, LINKS_MAX);
}

function isStacked() {
  return at('generation-column').getBoundingClientRect().left < at('router-column').getBoundingClientRect().right;
}

function updateLinks(state) {
  const box = at('map').getBoundingClientRect(), lines = linesOf(state);
  for (const line of lines) line.shape = curve(line.from, line.to, box);
  keyed(at('lines'), lines, line => line.key, () => document.createElementNS(SVG, 'path'), (path, line) => {
    path.setAttribute('d', line.shape.d);
    path.setAttribute('class', line.kind + (line.used ? ' used' : '') + (line.on ? ' flowing' : ''));
    path.style.strokeWidth = line.rate > 0 ? Math.min(9, 2.5 + Math.log2(1 + line.rate / 65536)) + 'px' : '';
  });
  keyed(at('labels'), lines.filter(line => line.rate > 0), line => line.key, () => document.createElementNS(SVG, 'text'), (text, line) => {
    text.setAttribute('x', line.shape.x);
    text.setAttribute('y', line.shape.y);
    text.setAttribute('class', line.shape.isBeside ? 'beside' : '');
    setText(text, bytes(line.rate) + '/s');
  });
}

function updateFlows(state, nameOf) {
  at('moves').hidden = state.flows.length === 0;
  keyed(at('flows').tBodies[0], state.flows, flow => flow.from + ' ' + flow.to, () => {
    const row = make('tr');
    for (let i = 0; i < 5; i++) row.appendChild(make('td'));
    return row;
  }, (row, flow) => {
    const cells = [nameOf(flow.from), nameOf(flow.to), bytes(flow.rate) + '/s', bytes(flow.bytes), whole.format(flow.transfers)];
    cells.forEach((text, i) => setText(row.children[i], text));
  });
}

/* ---- requests ---- */

/* Stages as [name, from, length] in microseconds from the arrival. */
function stagesOf(request) {
  if (request.parts)
    return Object.entries(request.parts).map(([name, [from, length]]) => [name, from, length]).filter(stage => stage[2] > 0);
  const placed = request.phase === 'waiting' ? request.age : request.placed, first = request.first_token || request.age;
  const stages = [['route', 0, placed], ['prefill', placed, Math.max(0, first - placed)]];
  if (request.first_token) {
    stages.push(['decode', first, request.age - first]);
    if (request.context && (request.kv_there || request.phase === 'transfer'))
      stages.push(['transfer', first, (request.kv_there || request.age) - first]);
  }
  return stages.filter(stage => stage[2] > 0);
}

function drawStages(strip, stages, total, only) {
  keyed(strip, stages.filter(stage => !only || only.includes(stage[0])), stage => stage[0], stage => make('i', 's-' + stage[0]),
    (part, [, from, length]) => {
      part.style.left = percent(from, total) + '%';
      part.style.width = percent(length, total) + '%';
    });
}

function lengthOf(stages, name) {
  const stage = stages.find(one => one[0] === name);
  return stage ? span(stage[2]) : '–';
}

/* One line for each process that took part, and one for what went between them. */
function lanesOf(request, stages, nameOf) {
  const remote = request.context !== '', told = names => names.filter(name => stages.some(one => one[0] === name))
    .map(name => name + ' ' + lengthOf(stages, name)).join(', ') || '–';
  const lanes = [['router', '', lengthOf(stages, 'route'), ['route']]];
  if (remote) {
    lanes.push(['context worker', nameOf(request.context), told(['queue', 'prefill']), ['queue', 'prefill']]);
    lanes.push(['KV transfer', '', lengthOf(stages, 'transfer') + (request.kv_bytes ? ', ' + bytes(request.kv_bytes) : '') +
      (request.transport ? ' by ' + request.transport : ''), ['transfer']]);
  }
  if (request.generation)
    lanes.push(['generation worker', nameOf(request.generation),
      told(remote ? ['decode'] : ['queue', 'prefill', 'decode']), remote ? ['decode'] : ['queue', 'prefill', 'decode']]);
  return lanes;
}

function drawLanes(box, request, stages, total, nameOf) {
  keyed(box, lanesOf(request, stages, nameOf), lane => lane[0], () => {
    const group = make('div', 'lanes');
    const words = group.appendChild(make('span', 'lane'));
    group.title_ = words.appendChild(make('b'));
    group.rest = words.appendChild(make('span'));
    group.strip = group.appendChild(make('span', 'strip'));
    return group;
  }, (group, [title, name, figures, only]) => {
    setText(group.title_, title);
    setText(group.rest, (name ? ' ' + name : '') + ': ' + figures);
    drawStages(group.strip, stages, total, only);
  });
}

function makeRow() {
  const row = make('li');
  const button = row.appendChild(make('button'));
  button.type = 'button';
  button.setAttribute('aria-expanded', 'false');
  row.who = button.appendChild(make('span', 'who'));
  row.n = row.who.appendChild(make('span'));
  row.name = row.who.appendChild(make('small'));
  row.phase = button.appendChild(make('span', 'phase'));
  row.bar = button.appendChild(make('span', 'bar'));
  row.done = row.bar.appendChild(make('i', 's-prefill'));
  row.bar.setAttribute('role', 'progressbar');
  row.bar.setAttribute('aria-label', 'Prefill');
  row.strip = button.appendChild(make('span', 'strip'));
  row.way = button.appendChild(make('span', 'way'));
  row.context = row.way.appendChild(make('span', 'c-prefill'));
  row.arrow = row.way.appendChild(make('span', 'c-transfer', ' → '));
  row.generation = row.way.appendChild(make('span', 'c-decode'));
  row.sum = button.appendChild(make('span', 'sum'));
  row.more = row.appendChild(make('div', 'more'));
  row.more.hidden = true;
  button.addEventListener('click', () => {
    row.more.hidden = !row.more.hidden;
    button.setAttribute('aria-expanded', String(!row.more.hidden));
    if (row.redraw) row.redraw();
  });
  return row;
}

function updateRow(row, request, total, nameOf) {
  const stages = stagesOf(request);
  const draw = () => { if (!row.more.hidden) drawLanes(row.more, request, stages, total, nameOf); };
  row.dataset.n = request.n;
  row.dataset.id = request.id;
  setText(row.n, '#' + request.n);
  setText(row.name, ' ' + request.id + (request.tenant ? ' · ' + request.tenant : ''));
  row.who.title = request.id;
  setText(row.context, request.context && nameOf(request.context));
  row.arrow.hidden = !request.context || !request.generation;
  setText(row.generation, request.generation && nameOf(request.generation));
  row.way.title = row.way.textContent;
  drawStages(row.strip, stages, total);
  row.redraw = draw;
  draw();
}

const PHASES = { waiting: 'waiting', placed: 'queued', prefill: 'prefill', transfer: 'KV transfer', decode: 'decode' };

function updateLive(row, request, nameOf) {
  const inPrompt = !request.first_token;
  row.phase.className = 'phase p-' + request.phase;
  setText(row.phase, PHASES[request.phase]);
  row.bar.hidden = !inPrompt;
  row.strip.hidden = inPrompt;
  row.done.style.width = percent(request.done, request.prompt) + '%';
  row.bar.setAttribute('aria-valuenow', Math.round(percent(request.done, request.prompt)));
  setText(row.sum, (inPrompt ? whole.format(request.done) + ' of ' + whole.format(request.prompt) + ' prompt tokens'
    : whole.format(request.generated) + (request.generated === 1 ? ' token' : ' tokens')) + ' · ' + span(request.age));
  updateRow(row, request, request.age, nameOf);
}

function updateEnded(row, request, nameOf) {
  const good = request.status === 'OK';
  row.phase.className = good ? 'phase' : 'phase bad';
  setText(row.phase, good ? (request.context ? 'transferred' : 'local') : request.status.toLowerCase().replaceAll('_', ' '));
  row.bar.hidden = true;
  setText(row.sum, whole.format(request.prompt) + ' + ' + whole.format(request.generated) + ' tokens · first ' +
    (request.first_token ? span(request.first_token) : '–') + ' · ' + span(request.total));
  updateRow(row, request, request.total, nameOf);
}

/* ---- the whole ---- */

let seenAt = 0;  // the last event

function addRates(state, now) {
  for (const worker of state.workers)
    if (worker.blocks) worker.rate = rate('w ' + worker.address, worker.role === 'context' ? worker.kv_out : worker.kv_in, now);
  for (const flow of state.flows) flow.rate = rate('f ' + flow.from + ' ' + flow.to, flow.bytes, now, seenAt);
  seenAt = now;
  state.moved = state.workers.reduce((sum, worker) => sum + (worker.role === 'generation' && worker.rate || 0), 0);
}

function show(state) {
  const names = new Map(state.workers.map(worker => [worker.address, worker.name]));
  const nameOf = address => names.get(address) || address;
  const now = performance.now(), counts = state.counts, router = state.router;
  addRates(state, now);
  setText(at('model'), router.model);
  setText(at('state'), router.state);
  at('state').className = 'pill ' + (router.state === 'ready' ? 'good' : 'bad');
  setText(at('running'), whole.format(counts.live - counts.waiting));
  setText(at('waiting'), whole.format(counts.waiting));
  setText(at('tokens'), whole.format(rate('tokens', counts.tokens, now)));
  setText(at('moved'), bytes(state.moved));
  setText(at('ended-count'), whole.format(counts.ended) + (counts.failed ? ' (' + whole.format(counts.failed) + ' failed)' : ''));
  updateRouter(state);
  const contexts = state.workers.filter(worker => worker.role === 'context');
  const splits = contexts.some(worker => worker.state === 'ready' && worker.used);
  at('context-none').hidden = contexts.length > 0;
  for (const role of ['context', 'generation'])
    keyed(at(role + '-cards'), state.workers.filter(worker => worker.role === role), worker => worker.address, makeCard,
      (card, worker) => updateCard(card, worker, !splits));
  updateLinks(state);
  updateFlows(state, nameOf);
  keyed(at('live'), [...state.live].reverse(), request => request.n, makeRow, (row, request) => updateLive(row, request, nameOf));
  keyed(at('ended'), state.ended, request => request.n, makeRow, (row, request) => updateEnded(row, request, nameOf));
  setText(at('live-count'), state.live.length < counts.live ? state.live.length + ' of ' + whole.format(counts.live) + ' shown' : '');
  at('live-none').hidden = state.live.length > 0;
  at('ended-none').hidden = state.ended.length > 0;
  setText(at('about'), 'kvferry ' + router.version + (state.names ? '' : ' · ids of requests are not shown on this port (page_names)'));
  document.body.classList.remove('gone');
}

let source = null, last = null;

function lose(words) {
  setText(at('state'), words);
  at('state').className = 'pill bad';
  document.body.classList.add('gone');
}

function connect() {
  if (source) return;
  source = new EventSource('/events');
  source.onmessage = message => {
    const state = JSON.parse(message.data);
    if (state.error) return lose(state.error);
    last = state;
    show(state);
  };
  source.onerror = () => {
    lose('no connection to the router');
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(() => { if (!document.hidden) connect(); }, TRY_AGAIN_MS);
    }
  };
}

/* A page that nobody sees takes no reader's place. */
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) return connect();
  if (source) source.close();
  source = null;
});
addEventListener('resize', () => { if (last) updateLinks(last); });
connect();
