/* The time line: a canvas that zooms and pans; units as tracks, nested by block, layer, operator and row; marks; counters. */
class TimeLine {
  constructor(holder, { meta, data }) {
    this.meta = meta; this.data = data; this.holder = holder;
    this.gutter = 172; this.drawn = 0; this.selected = null; this.kinds = new Set(["power", "pool"]);
    this.view = { a: 0, b: Math.max(1, meta.duration) };
    this.tracks = this.split();
    this.usedPhases = this.phasesUsed();
    this.patterns = null;
    this.build();
    this.layout();
    this.draw();
  }

  /* Slices of each unit as start and end, time busy before each, and where blocks, layers and operators begin. */
  split() {
    const { meta, data } = this, tracks = [];
    const cut = new Set(data.cut);
    let first = 0;
    meta.units.forEach((name, unit) => {
      const n = meta.count[unit];
      if (!n) return;
      const t = { name, n, first, open: false, start: new Float64Array(n), end: new Float64Array(n), busy: new Float64Array(n + 1), cut };
      for (const key of ["op", "block", "layer", "turn", "rows", "pj", "bytes"]) t[key] = data[key].subarray(first, first + n);
      let at = 0;
      for (let i = 0; i < n; i++) {
        t.start[i] = at + data.gap[first + i];
        at = t.end[i] = t.start[i] + data.length[first + i];
        t.busy[i + 1] = t.busy[i] + data.length[first + i];
      }
      const heads = [[], [], []], names = meta.ops.name, NONE = 4294967295;
      for (let i = 0; i < n; i++) {
        const block = !i || t.block[i] !== t.block[i - 1];
        const layer = block || t.layer[i] !== t.layer[i - 1] || t.turn[i] !== t.turn[i - 1];
        const now = t.op[i] === NONE ? -1 : names[t.op[i]], then = i && t.op[i - 1] !== NONE ? names[t.op[i - 1]] : -1;
        if (block) heads[0].push(i);
        if (layer) heads[1].push(i);
        if (layer || now !== then) heads[2].push(i);
      }
      t.heads = heads.map(list => Int32Array.from(list));
      tracks.push(t);
      first += n;
    });
    return tracks;
  }

  phase(t, i) {
    const block = t.block[i], op = t.op[i];
    if (block !== 4294967295 && this.meta.blocks.prefill[block]) return this.meta.phases.indexOf("prefill");
    return op === 4294967295 ? this.meta.phases.indexOf("") : this.meta.ops.phase[op];
  }

  tone(t, i) { return look(this.meta.looks[this.phase(t, i)]); }

  phasesUsed() {
    const used = new Set();
    for (const t of this.tracks) for (const i of t.heads[2]) { used.add(this.phase(t, i)); if (used.size === this.meta.phases.length) return used; }
    return used;
  }

  seconds(ticks, digits = 4) { return si(ticks * this.meta.tick_ps * 1e-12, "s", digits); }

  build() {
    const button = (text, title, act) => make("button", { type: "button", title, onclick: act }, text);
    const toggles = [["power", "power"], ["pool", "pools"], ["store", "stores"], ["queue", "queues"]].filter(([kind]) => this.meta.counters.some(c => c.kind === kind));
    this.canvas = make("canvas", { tabindex: "0", role: "application", "aria-label": "Time line of the run. Keys: W and S zoom, A and D move, E expands, 0 fits, N and P step through tokens." });
    this.where = make("span", { class: "quiet" });
    this.holder.append(
      make("div", { class: "bar" },
        button("Zoom in", "W", () => this.zoom(.5)), button("Zoom out", "S", () => this.zoom(2)), button("Fit", "0", () => this.fitAll()),
        button("Expand units", "E", () => this.expand()),
        ...toggles.map(([kind, text]) => { const box = make("input", { type: "checkbox", onchange: () => { this.kinds.has(kind) ? this.kinds.delete(kind) : this.kinds.add(kind); this.layout(); this.draw(); } }); box.checked = this.kinds.has(kind); return make("label", {}, box, text); }),
        make("span", { class: "spacer" }), this.where),
      make("div", { class: "legend", style: "margin:0 0 8px" }),
      make("div", { class: "stage" }, this.canvas),
      make("p", { class: "quiet hint" }, "Click the picture, then scroll to zoom and drag to move (", make("kbd", {}, "Ctrl"), " + scroll always zooms). ",
        ...["W", "S", "A", "D"].map(k => make("kbd", {}, k)), " zoom and move, ", make("kbd", {}, "N"), " ", make("kbd", {}, "P"), " next and previous token, ", make("kbd", {}, "E"),
        " all levels, ", make("kbd", {}, "0"), " fits. Click a unit's name to open it, double-click a slice to zoom to it, Shift + drag to zoom to a span."));
    const c = this.canvas;
    c.addEventListener("wheel", e => this.wheel(e), { passive: false });
    c.addEventListener("keydown", e => this.key(e));
    c.addEventListener("pointerdown", e => this.press(e));
    c.addEventListener("pointermove", e => this.move(e));
    c.addEventListener("pointerup", e => this.release(e));
    c.addEventListener("pointerleave", () => tip(null));
    c.addEventListener("dblclick", e => { const hit = this.hit(e.offsetX, e.offsetY); if (hit && hit.span) { const [a, b] = hit.span, pad = (b - a) * .1; this.look(a - pad, b + pad); } });
    new ResizeObserver(() => { if (c.parentElement.clientWidth !== this.lastWidth) { this.layout(); this.draw(); } }).observe(c.parentElement);
  }

  /* Lanes from the top down, each with its place. */
  layout() {
    const lanes = []; let y = 0;
    const add = (height, lane) => { lanes.push({ y, height, ...lane }); y += height; };
    if (this.meta.counters.length) add(34, { what: "overview" });
    add(26, { what: "ruler" });
    for (const marks of this.meta.marks) if (marks.kind === "commit") add(22, { what: "marks", label: "tokens committed", list: [marks] });
    const rest = this.meta.marks.filter(marks => marks.kind !== "commit");
    if (rest.length) add(20, { what: "marks", label: "events", list: rest });
    for (const t of this.tracks) {
      add(7, { what: "space" });
      const levels = t.open ? [0, 1, 2, 3] : [0, 2];
      levels.forEach((level, i) => add(level === 2 ? 22 : 16, { what: "slices", track: t, level, head: i === 0, count: levels.length }));
    }
    const shown = this.meta.counters.filter(c => this.kinds.has(c.kind));
    if (shown.length) add(10, { what: "space" });
    for (const counter of shown) add(46, { what: "counter", counter });
    add(6, { what: "space" });
    this.lanes = lanes; this.height = y;
    const made = fit(this.canvas, y);
    this.pen = made.pen; this.width = made.width; this.lastWidth = this.canvas.parentElement.clientWidth;
    this.patterns = this.meta.looks.map(index => hatched(this.pen, index));
    const legend = this.holder.querySelector(".legend");
    legend.replaceChildren(...[...this.usedPhases].sort((a, b) => a - b).map(i => {
      const swatch = make("canvas", { width: 26, height: 14 }), pen = swatch.getContext("2d");
      pen.fillStyle = hatched(pen, this.meta.looks[i]); pen.fillRect(0, 0, 26, 14);
      return make("span", {}, swatch, this.meta.phases[i] || "other");
    }));
  }

  X(t) { return this.gutter + (t - this.view.a) / (this.view.b - this.view.a) * (this.width - this.gutter); }
  T(x) { return this.view.a + (x - this.gutter) / (this.width - this.gutter) * (this.view.b - this.view.a); }

  look(a, b) {
    const least = 40, most = this.meta.duration || 1;
    let span = Math.min(Math.max(b - a, least), most * 1.02);
    const middle = (a + b) / 2;
    a = middle - span / 2; b = middle + span / 2;
    if (a < -span * .02) { b += -span * .02 - a; a = -span * .02; }
    if (b > most + span * .02) { a -= b - most - span * .02; b = most + span * .02; }
    this.view = { a, b };
    this.queue();
  }
  fitAll() { this.look(0, this.meta.duration); }
  zoom(factor, at = (this.view.a + this.view.b) / 2) { this.look(at - (at - this.view.a) * factor, at + (this.view.b - at) * factor); }
  pan(share) { const d = (this.view.b - this.view.a) * share; this.look(this.view.a + d, this.view.b + d); }
  expand() { const open = !this.tracks.every(t => t.open); for (const t of this.tracks) t.open = open; this.layout(); this.draw(); }
  step(way) {
    const commits = this.meta.marks.find(m => m.kind === "commit"); if (!commits) return;
    const middle = (this.view.a + this.view.b) / 2, span = this.view.b - this.view.a;
    const found = way > 0 ? commits.time.find(t => t > middle + span * 1e-6) : [...commits.time].reverse().find(t => t < middle - span * 1e-6);
    if (found !== undefined) { const wide = Math.min(span, this.meta.duration / 4); this.look(found - wide / 2, found + wide / 2); }
  }
  queue() { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.draw(); }); } }

  wheel(e) {
    if (!(e.ctrlKey || e.metaKey || document.activeElement === this.canvas)) return;
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 33 : e.deltaMode === 2 ? 400 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan((e.deltaX || e.deltaY) * unit / 1200);
    else this.zoom(Math.exp(Math.max(-300, Math.min(300, e.deltaY * unit)) / 320), this.T(Math.max(this.gutter, e.offsetX)));
  }
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = { w: () => this.zoom(.6), s: () => this.zoom(1 / .6), a: () => this.pan(-.2), d: () => this.pan(.2), arrowleft: () => this.pan(-.2), arrowright: () => this.pan(.2),
      "+": () => this.zoom(.6), "-": () => this.zoom(1 / .6), "0": () => this.fitAll(), home: () => this.fitAll(), e: () => this.expand(), n: () => this.step(1), p: () => this.step(-1), escape: () => this.canvas.blur() }[e.key.toLowerCase()];
    if (act) { e.preventDefault(); tip(null); act(); }
  }
  press(e) {
    if (e.button) return;
    const lane = this.lane(e.offsetY);
    if (e.offsetX < this.gutter) { if (lane && lane.track) { lane.track.open = !lane.track.open; this.layout(); this.draw(); } return; }
    this.canvas.setPointerCapture(e.pointerId);
    this.drag = { x: e.offsetX, view: { ...this.view }, range: e.shiftKey || (lane && lane.what === "ruler"), overview: lane && lane.what === "overview", moved: false, now: e.offsetX };
    if (this.drag.overview) this.jump(e.offsetX);
  }
  jump(x) {
    const at = (x - this.gutter) / (this.width - this.gutter) * this.meta.duration, half = (this.view.b - this.view.a) / 2;
    this.look(at - half, at + half);
  }
  move(e) {
    const d = this.drag;
    if (!d) { this.hover(e); return; }
    if (Math.abs(e.offsetX - d.x) > 3) d.moved = true;
    d.now = e.offsetX;
    tip(null);
    if (d.overview) this.jump(e.offsetX);
    else if (d.range) this.queue();
    else if (d.moved) { const shift = (d.x - e.offsetX) / (this.width - this.gutter) * (d.view.b - d.view.a); this.look(d.view.a + shift, d.view.b + shift); }
  }
  release(e) {
    const d = this.drag; this.drag = null;
    if (!d) return;
    if (d.range && d.moved) { const [x0, x1] = [Math.min(d.x, e.offsetX), Math.max(d.x, e.offsetX)]; this.look(this.T(x0), this.T(x1)); }
    else if (!d.moved && !d.overview) { const hit = this.hit(e.offsetX, e.offsetY); this.selected = hit && hit.span ? hit : null; this.queue(); }
  }
  lane(y) { return this.lanes.find(lane => y >= lane.y && y < lane.y + lane.height); }

  hover(e) {
    const hit = this.hit(e.offsetX, e.offsetY);
    tip(hit ? e : null, hit && hit.title, hit && hit.rows);
  }

  /* Position of the first group of a level that ends after a time. */
  firstAfter(t, heads, time) {
    let low = 0, high = heads ? heads.length : t.n;
    const n = high;
    while (low < high) {
      const mid = (low + high) >> 1, last = heads ? (mid + 1 < n ? heads[mid + 1] : t.n) - 1 : mid;
      if (t.end[last] > time) high = mid; else low = mid + 1;
    }
    return low;
  }

  /* What lies under a point: title, rows of a table, and the span of a slice. */
  hit(x, y) {
    const lane = this.lane(y);
    if (!lane || x < this.gutter) return null;
    const time = this.T(x), pixel = (this.view.b - this.view.a) / (this.width - this.gutter);
    if (lane.what === "marks") return this.hitMark(lane, time, pixel);
    if (lane.what === "counter") {
      const c = lane.counter, i = upper(c.time, time) - 1;
      if (i < 0) return null;
      return { title: c.name, rows: [[c.low ? "at most" : "value", amount(c.value[i], c.unit)], ["at least", c.low ? amount(c.low[i], c.unit) : null], ["from", this.seconds(c.time[i], 6)], ["at", this.seconds(time, 6)]] };
    }
    if (lane.what !== "slices") return null;
    const t = lane.track, heads = lane.level < 3 ? t.heads[lane.level] : null, k = this.firstAfter(t, heads, time - pixel);
    const n = heads ? heads.length : t.n;
    if (k >= n) return null;
    const first = heads ? heads[k] : k, last = heads ? (k + 1 < n ? heads[k + 1] : t.n) - 1 : k;
    if (t.start[first] > time + pixel) return null;
    return this.about(t, lane.level, first, last);
  }
  hitMark(lane, time, pixel) {
    let best = null;
    for (const marks of lane.list) {
      const i = upper(marks.time, time);
      for (const j of [i - 1, i]) {
        if (j < 0 || j >= marks.time.length) continue;
        const away = Math.abs(marks.time[j] - time);
        if (away < 6 * pixel && (!best || away < best.away)) best = { away, marks, j };
      }
    }
    if (!best) return null;
    const { marks, j } = best;
    const title = marks.kind === "commit" ? `${marks.value[j]} token${marks.value[j] === 1 ? "" : "s"} committed` : marks.kind;
    return { title, rows: [["at", this.seconds(marks.time[j], 6)], ["request", marks.request[j]], [marks.kind === "commit" ? "tokens" : "value", marks.value[j]], [marks.kind === "commit" ? "drafted" : "extra", marks.extra[j] || null]] };
  }
  about(t, level, first, last) {
    const { meta } = this, NONE = 4294967295, op = t.op[first], block = t.block[first];
    const ps = (t.end[last] - t.start[first]) * meta.tick_ps;
    let pj = 0, bytes = 0, rows = 0, cut = false;
    for (let i = first; i <= last; i++) { pj += t.pj[i]; bytes += t.bytes[i]; rows += t.rows[i]; cut = cut || t.cut.has(t.first + i); }
    const label = block === NONE ? "" : `${meta.blocks.labels[meta.blocks.label[block]]} · block ${meta.blocks.id[block]}`;
    const layer = t.layer[first] === NONE ? null : t.layer[first], turn = t.turn[first] === NONE ? 0 : t.turn[first];
    const name = op === NONE ? "row" : meta.ops.names[meta.ops.name[op]];
    const title = level === 0 ? label || "row" : level === 1 ? (layer === null ? "outside the layers" : `layer ${layer}`) + (turn ? `, pass ${turn}` : "") : name;
    const size = key => level > 1 && op !== NONE && meta.ops[key] && meta.ops[key][op] ? meta.ops[key][op] : null;
    const shape = [["m", size("m")], ["k", size("k")], ["n", size("n")]].filter(([, v]) => v).map(([k, v]) => `${k} ${v}`).join(", ");
    const useful = block !== NONE && meta.blocks.total[block] ? `${meta.blocks.useful[block]} of ${meta.blocks.total[block]} rows` : null;
    return { span: [t.start[first], t.end[last]], track: t, first, last, title, rows: [
      ["unit", t.name], ["phase", meta.phases[this.phase(t, first)] || "other"], ["block", level ? label : null], ["request", block === NONE ? null : meta.blocks.request[block]],
      ["layer of the block", level > 1 ? layer : null], ["pass", level > 1 && turn ? turn : null],
      ["start", this.seconds(t.start[first], 7)], ["time", this.seconds(t.end[last] - t.start[first])], ["busy", last > first ? `${plain(100 * (t.busy[last + 1] - t.busy[first]) / Math.max(1, t.end[last] - t.start[first]))} %` : null],
      ["shape", shape], ["KV length", size("kv")], ["operands", bytes ? si(bytes, "B") : null], ["rate", bytes && ps ? si(bytes / ps * 1e12, "B/s") : null],
      ["dynamic energy", pj ? si(pj * 1e-12, "J") : null], ["dynamic power", pj && ps ? si(pj / ps, "W") : null],
      ["rows", rows > 1 ? whole(rows) : null], ["useful", level === 0 ? useful : null], ["ended", cut ? "cut, or still running" : null]] };
  }

  draw() {
    const began = performance.now(), { pen, width } = this;
    this.drawn = 0;
    pen.clearRect(0, 0, width, this.height);
    pen.fillStyle = "#fff"; pen.fillRect(0, 0, width, this.height);
    this.drawGrid();
    for (const lane of this.lanes) {
      pen.save();
      pen.beginPath(); pen.rect(this.gutter, lane.y, width - this.gutter, lane.height); pen.clip();
      if (lane.what === "overview") this.drawOverview(lane);
      if (lane.what === "ruler") this.drawRuler(lane);
      if (lane.what === "marks") this.drawMarks(lane);
      if (lane.what === "slices") this.drawSlices(lane);
      if (lane.what === "counter") this.drawCounter(lane);
      pen.restore();
      this.drawName(lane);
    }
    pen.strokeStyle = "#d8dee4"; pen.lineWidth = 1; pen.beginPath(); pen.moveTo(this.gutter - .5, 0); pen.lineTo(this.gutter - .5, this.height); pen.stroke();
    if (this.drag && this.drag.range && this.drag.moved) {
      pen.fillStyle = "rgba(0,114,178,.14)"; pen.fillRect(Math.min(this.drag.x, this.drag.now), 0, Math.abs(this.drag.now - this.drag.x), this.height);
    }
    if (this.selected) this.drawSelected();
    const from = Math.max(0, this.view.a), to = Math.min(this.meta.duration, this.view.b);
    this.where.textContent = `${this.seconds(from)} to ${this.seconds(to)}, ${this.seconds(to - from)} shown`;
    this.ms = performance.now() - began;
  }
  drawName(lane) {
    const { pen } = this;
    pen.textBaseline = "middle"; pen.textAlign = "left"; pen.fillStyle = "#1b1f24";
    if (lane.what === "slices" && lane.head) {
      const t = lane.track, y = lane.y + 8;
      pen.font = `600 12px ${FONT}`; pen.fillText(clipped(pen, t.name, this.gutter - 34), 24, y);
      pen.fillStyle = "#59636e"; pen.beginPath();
      if (t.open) { pen.moveTo(9, y - 3); pen.lineTo(17, y - 3); pen.lineTo(13, y + 3); } else { pen.moveTo(10, y - 4); pen.lineTo(16, y); pen.lineTo(10, y + 4); }
      pen.fill();
    } else if (lane.what === "slices") {
      pen.fillStyle = "#59636e"; pen.font = `11px ${FONT}`;
      const busy = lane.track.busy[lane.track.n] / Math.max(1, this.meta.duration);
      const text = lane.track.open ? ["block", "layer", "operator", "row"][lane.level] : `busy ${plain(Math.round(busy * 1000) / 10)} %`;
      pen.fillText(text, 24, lane.y + lane.height / 2);
    } else if (lane.what === "counter") {
      const c = lane.counter;
      pen.font = `12px ${FONT}`; pen.fillText(clipped(pen, c.name, this.gutter - 34), 24, lane.y + 14);
      pen.fillStyle = "#59636e"; pen.font = `11px ${FONT}`; pen.fillText(clipped(pen, `0 to ${amount(top(c), c.unit, 3)}`, this.gutter - 34), 24, lane.y + 31);
    } else if (lane.what === "marks") { pen.font = `12px ${FONT}`; pen.fillText(lane.label, 24, lane.y + lane.height / 2); }
    else if (lane.what === "ruler") { pen.fillStyle = "#59636e"; pen.font = `11px ${FONT}`; pen.fillText("time", 24, lane.y + lane.height / 2); }
    else if (lane.what === "overview") { pen.fillStyle = "#59636e"; pen.font = `11px ${FONT}`; pen.fillText("whole run, power", 24, lane.y + lane.height / 2); }
  }
  ticks() {
    const span = this.view.b - this.view.a, rough = span / Math.max(3, (this.width - this.gutter) / 130) * this.meta.tick_ps;
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough) / this.meta.tick_ps, found = [];
    for (let i = Math.ceil(this.view.a / step); i * step <= this.view.b; i++) found.push(i * step);
    return { found, step };
  }
  drawGrid() {
    const { pen } = this;
    pen.strokeStyle = "#eaeef2"; pen.lineWidth = 1; pen.beginPath();
    const from = this.lanes.find(lane => lane.what === "ruler").y;
    for (const t of this.ticks().found) { const x = Math.round(this.X(t)) + .5; if (x > this.gutter) { pen.moveTo(x, from + 20); pen.lineTo(x, this.height); } }
    pen.stroke();
  }
  drawRuler(lane) {
    const { pen } = this, { found, step } = this.ticks();
    const size = step * this.meta.tick_ps * 1e-12, unit = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"], [1e-12, "ps"]].find(([s]) => Math.max(size, this.view.b * this.meta.tick_ps * 1e-15) >= s * .999) || [1e-12, "ps"];
    pen.font = `11px ${FONT}`; pen.textBaseline = "middle"; pen.fillStyle = "#59636e"; pen.strokeStyle = "#8c959f";
    for (const t of found) {
      const x = this.X(t), text = `${trim((t * this.meta.tick_ps * 1e-12 / unit[0]).toFixed(Math.max(0, Math.min(9, -Math.floor(Math.log10(size / unit[0]) + 1e-9)))))} ${unit[1]}`;
      pen.beginPath(); pen.moveTo(Math.round(x) + .5, lane.y + 20); pen.lineTo(Math.round(x) + .5, lane.y + 26); pen.stroke();
      const half = pen.measureText(text).width / 2;
      if (x - half > this.gutter && x + half < this.width) { pen.textAlign = "center"; pen.fillText(text, x, lane.y + 11); }
    }
    pen.textAlign = "left";
  }
  drawOverview(lane) {
    const { pen, width, gutter } = this, c = this.meta.counters.find(entry => entry.name === "total power") || this.meta.counters[0], most = top(c) || 1;
    const X = t => gutter + t / (this.meta.duration || 1) * (width - gutter);
    pen.fillStyle = "#c9d4de"; pen.beginPath(); pen.moveTo(gutter, lane.y + 32);
    for (let i = 0; i < c.time.length; i++) { const y = lane.y + 32 - 28 * c.value[i] / most; pen.lineTo(X(c.time[i]), y); pen.lineTo(X(c.time[i + 1] ?? this.meta.duration), y); }
    pen.lineTo(width, lane.y + 32); pen.fill();
    const a = X(Math.max(0, this.view.a)), b = X(Math.min(this.meta.duration, this.view.b));
    pen.fillStyle = "rgba(255,255,255,.72)"; pen.fillRect(gutter, lane.y, a - gutter, 32); pen.fillRect(b, lane.y, width - b, 32);
    pen.strokeStyle = "#0072b2"; pen.lineWidth = 1.5; pen.strokeRect(a + .75, lane.y + 1.5, Math.max(2, b - a - 1.5), 30);
  }
  drawMarks(lane) {
    const { pen } = this, y = lane.y + lane.height / 2;
    lane.list.forEach((marks, kind) => {
      const index = lane.list.length > 1 || marks.kind !== "commit" ? kind : 0;
      let last = -9;
      for (let i = upper(marks.time, this.view.a) - 1; i < marks.time.length; i++) {
        if (i < 0) continue;
        const x = this.X(marks.time[i]);
        if (x > this.width + 4) break;
        if (x < this.gutter - 4 || x - last < 3) continue;
        last = x; this.drawn++;
        if (marks.kind === "commit") {
          pen.fillStyle = "#1b1f24"; pen.beginPath(); pen.moveTo(x - 4, lane.y + 4); pen.lineTo(x + 4, lane.y + 4); pen.lineTo(x, lane.y + 11); pen.fill();
          pen.fillRect(x - .5, lane.y + 10, 1, 9);
          const next = i + 1 < marks.time.length ? this.X(marks.time[i + 1]) : this.width;
          if (next - x > 30) { pen.font = `11px ${FONT}`; pen.textBaseline = "middle"; pen.fillText(`+${marks.value[i]}`, x + 7, y); }
        } else {
          pen.fillStyle = COLOURS[index % COLOURS.length]; pen.strokeStyle = "#1b1f24"; pen.lineWidth = .5;
          marker(pen, MARKERS[index % MARKERS.length], x, y, 4); pen.fill(); pen.stroke();
        }
      }
    });
  }
  drawSlices(lane) {
    const { pen, view } = this, t = lane.track, level = lane.level, heads = level < 3 ? t.heads[level] : null, n = heads ? heads.length : t.n;
    const perPixel = (view.b - view.a) / (this.width - this.gutter), y = lane.y + 1, h = lane.height - 2;
    pen.font = `11px ${FONT}`; pen.textBaseline = "middle"; pen.textAlign = "left";
    for (let k = this.firstAfter(t, heads, view.a); k < n;) {
      const first = heads ? heads[k] : k, begin = t.start[first];
      if (begin >= view.b) break;
      const last = heads ? (k + 1 < n ? heads[k + 1] : t.n) - 1 : k;
      const x0 = Math.max(this.X(begin), this.gutter), x1 = Math.min(this.X(t.end[last]), this.width);
      if (x1 - x0 >= 1.5) { this.slice(t, level, k, first, last, x0, x1, y, h); k++; this.drawn++; continue; }
      // all that begins within this pixel is one mark, as dark as the pixel is busy
      const pixel = Math.max(this.gutter, Math.floor(x0)), until = this.T(pixel + 1);
      let low = k + 1, high = n;
      while (low < high) { const mid = (low + high) >> 1; if (t.start[heads ? heads[mid] : mid] >= until) high = mid; else low = mid + 1; }
      const stop = heads ? (low < n ? heads[low] : t.n) : low, share = Math.min(1, (t.busy[stop] - t.busy[first]) / perPixel);
      let longest = first;
      for (let s = 1; s <= 6; s++) { const i = first + Math.floor((stop - 1 - first) * s / 6); if (t.end[i] - t.start[i] > t.end[longest] - t.start[longest]) longest = i; }
      pen.globalAlpha = .25 + .75 * share;
      pen.fillStyle = level < 2 ? "#9fb0c0" : this.tone(t, longest).colour;
      pen.fillRect(pixel, y, 1, h);
      pen.globalAlpha = 1;
      this.drawn++;
      k = low;
    }
  }
  slice(t, level, k, first, last, x0, x1, y, h) {
    const { pen, meta } = this, wide = x1 - x0, NONE = 4294967295;
    let text = "", ink = "#1b1f24";
    if (level < 2) {
      pen.fillStyle = level === 0 ? (k & 1 ? "#d3dde7" : "#e3eaf1") : (k & 1 ? "#e9eef3" : "#f5f7fa");
      if (level === 0) text = t.block[first] === NONE ? "" : `${meta.blocks.labels[meta.blocks.label[t.block[first]]]} ${meta.blocks.id[t.block[first]]}`;
      else text = t.layer[first] === NONE ? "" : (t.turn[first] && t.turn[first] !== NONE ? `pass ${t.turn[first]} ` : "") + `layer ${t.layer[first]}`;
    } else {
      const phase = this.phase(t, first);
      pen.fillStyle = wide > 5 ? this.patterns[phase] : this.tone(t, first).colour;
      if (DARK.has(this.tone(t, first).colour)) ink = "#fff";
      text = t.op[first] === NONE ? "" : meta.ops.names[meta.ops.name[t.op[first]]];
    }
    pen.fillRect(x0, y, wide, h);
    if (wide > 4) { pen.strokeStyle = level < 2 ? "#b6c2cd" : "rgba(0,0,0,.55)"; pen.lineWidth = .6; pen.strokeRect(x0 + .3, y + .3, wide - .6, h - .6); }
    if (wide > 26 && text) {
      const shown = clipped(pen, text, wide - 8);
      if (shown) {
        if (level >= 2 && this.tone(t, first).hatch) { pen.fillStyle = this.tone(t, first).colour; pen.fillRect(x0 + 3, y + 2, pen.measureText(shown).width + 4, h - 4); }
        pen.fillStyle = ink; pen.fillText(shown, x0 + 5, y + h / 2 + .5);
      }
    }
  }
  drawCounter(lane) {
    const { pen, view } = this, c = lane.counter, most = top(c) || 1, base = lane.y + lane.height - 5, high = lane.height - 11;
    const Y = v => base - high * Math.max(0, v) / most, from = Math.max(0, upper(c.time, view.a) - 1), colour = { power: "#D55E00", pool: "#0072B2", store: "#009E73", queue: "#7F7F7F" }[c.kind];
    const path = values => {
      let x = 0, lastPixel = -1, peak = 0;
      const points = [];
      for (let i = from; i < c.time.length && c.time[i] <= view.b; i++) {
        x = Math.max(this.gutter, this.X(c.time[i]));
        const end = Math.min(this.width, i + 1 < c.time.length ? this.X(c.time[i + 1]) : this.width), pixel = Math.floor(x);
        if (pixel === lastPixel && end - x < 1) { if (values[i] > peak) { peak = values[i]; points[points.length - 1][2] = peak; } points[points.length - 1][1] = end; continue; }
        lastPixel = pixel; peak = values[i]; points.push([x, end, values[i]]);
      }
      return points;
    };
    const points = path(c.value);
    pen.beginPath(); pen.moveTo(points.length ? points[0][0] : this.gutter, base);
    for (const [a, b, v] of points) { pen.lineTo(a, Y(v)); pen.lineTo(b, Y(v)); }
    pen.lineTo(points.length ? points[points.length - 1][1] : this.gutter, base); pen.closePath();
    pen.globalAlpha = .22; pen.fillStyle = colour; pen.fill(); pen.globalAlpha = 1;
    pen.strokeStyle = colour; pen.lineWidth = 1.1; pen.beginPath();
    points.forEach(([a, b, v], i) => { i ? pen.lineTo(a, Y(v)) : pen.moveTo(a, Y(v)); pen.lineTo(b, Y(v)); }); pen.stroke();
    pen.strokeStyle = "#d8dee4"; pen.beginPath(); pen.moveTo(this.gutter, base + .5); pen.lineTo(this.width, base + .5); pen.stroke();
    this.drawn += points.length;
  }
  drawSelected() {
    const { pen } = this, [a, b] = this.selected.span, x0 = this.X(a), x1 = this.X(b);
    pen.strokeStyle = "#1b1f24"; pen.lineWidth = 1; pen.setLineDash([4, 3]); pen.beginPath();
    for (const x of [x0, x1]) if (x > this.gutter) { pen.moveTo(Math.round(x) + .5, 60); pen.lineTo(Math.round(x) + .5, this.height); }
    pen.stroke(); pen.setLineDash([]);
    const text = this.seconds(b - a), at = Math.max(this.gutter + 4, Math.min(this.width - 90, (x0 + x1) / 2 - 20)), ruler = this.lanes.find(lane => lane.what === "ruler");
    pen.font = `600 11px ${FONT}`; const w = pen.measureText(text).width + 10;
    pen.fillStyle = "#1b1f24"; pen.fillRect(at, ruler.y + 3, w, 16); pen.fillStyle = "#fff"; pen.textBaseline = "middle"; pen.textAlign = "left"; pen.fillText(text, at + 5, ruler.y + 11.5);
  }

  check() {
    const found = {}, rows = this.tracks.reduce((sum, t) => sum + t.rows.reduce((a, b) => a + b, 0), 0);
    found.rows = rows === this.meta.all_rows;
    const span = () => this.view.b - this.view.a, fire = (type, options) => this.canvas.dispatchEvent(type === "wheel" ? new WheelEvent(type, { bubbles: true, cancelable: true, ...options }) : new KeyboardEvent(type, { bubbles: true, cancelable: true, ...options }));
    this.fitAll(); this.draw();
    found.drawn_all = this.drawn; found.all_ms = Math.round(this.ms * 10) / 10;
    found.order = this.tracks.every(t => { for (let i = 1; i < t.n; i++) if (t.start[i] < t.end[i - 1]) return false; return t.n === 0 || t.end[t.n - 1] <= this.meta.duration; });
    const before = span();
    fire("wheel", { deltaY: -400, ctrlKey: true, clientX: 600, clientY: 100 }); this.draw();
    found.wheel = span() < before * .5; found.drawn_wheel = this.drawn;
    const then = { ...this.view };
    fire("keydown", { key: "w" }); found.key_zoom = span() < (then.b - then.a) * .7;
    const left = this.view.a; fire("keydown", { key: "a" }); found.key_pan = this.view.a < left || left <= 0;
    fire("keydown", { key: "0" }); found.key_fit = Math.abs(span() - before) < before * .01;
    fire("keydown", { key: "e" }); found.opened = this.tracks.every(t => t.open) && this.lanes.filter(lane => lane.what === "slices").length === 4 * this.tracks.length;
    const t = this.tracks.reduce((a, b) => b.n > a.n ? b : a, this.tracks[0]);
    if (t) {
      const i = t.n >> 1, wide = Math.max(40, (t.end[i] - t.start[i]) * 4);
      this.look(t.start[i] - wide, t.end[i] + wide); this.draw();
      const lane = this.lanes.find(entry => entry.track === t && entry.level === 3), hit = this.hit(this.X((t.start[i] + t.end[i]) / 2), lane.y + 8);
      found.hit = Boolean(hit) && hit.rows.some(([key, value]) => key === "unit" && value === t.name) && hit.rows.some(([key]) => key === "time");
      found.tooltip = hit ? [hit.title, ...hit.rows.filter(row => row[1] !== null && row[1] !== "").map(row => row.join(": "))].join("; ") : "";
      found.zoomed_ms = Math.round(this.ms * 10) / 10;
      found.pixels = [...this.pen.getImageData(this.gutter + 10, 0, Math.min(400, this.canvas.width - this.gutter - 20), this.canvas.height).data].some((v, j) => j % 4 < 3 && v < 200);
    }
    for (const each of this.tracks) each.open = false;
    this.layout(); this.fitAll(); this.draw();
    return found;
  }
}
/* First index whose value is above a time. */
function upper(list, time) { let low = 0, high = list.length; while (low < high) { const mid = (low + high) >> 1; if (list[mid] > time) high = mid; else low = mid + 1; } return low; }
function top(counter) { if (counter.most === undefined) counter.most = counter.value.reduce((a, b) => Math.max(a, b), 0); return counter.most; }
/* A value of a counter: prefixes where the unit takes them. */
function amount(value, unit, digits = 4) { return unit === "bytes" ? si(value, "B", digits) : unit === "W" ? si(value, unit, digits) : `${plain(Number(value.toPrecision(digits)))} ${unit}`; }
