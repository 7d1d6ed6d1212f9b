/* The explorer of a table: any two columns, coloured by a third, with the front, bands and pinned points. */
class Explorer {
  constructor(holder, { meta }) {
    this.meta = meta; this.holder = holder; this.n = meta.rows;
    this.columns = new Map(meta.table.map(c => [c.name, c]));
    for (const c of meta.table) this.describe(c);
    this.pinned = []; this.hovered = -1; this.sort = { name: null, down: false };
    this.state = { x: meta.x, y: meta.y, colour: meta.colour || "", logx: Boolean(meta.log), logy: Boolean(meta.log), lines: false, front: Boolean(meta.front), filter: meta.filter || "", value: meta.value || "", all: false };
    this.ways();
    this.build(); this.refresh();
  }
  /* Numbers of a column for an axis: values, or the places of its words. */
  describe(c) {
    c.numeric = c.values.every(v => v === null || typeof v === "number");
    c.factor = 1;
    if (c.numeric && ["Hz", "B", "bytes", "B/s", "bytes/s", "ps"].includes(c.unit)) {
      const most = c.values.reduce((a, v) => Math.max(a, Math.abs(v || 0)), 0), [scale, prefix] = c.unit === "ps" ? [[1e12, ""], [1e9, "m"], [1e6, "µ"], [1e3, "n"], [1, "p"]].find(([f]) => most >= f) || [1, "p"] : PREFIXES.find(([f]) => most >= f) || [1, ""];
      if (scale > 1) { c.factor = scale; c.values = c.values.map(v => v === null ? null : Number((v / scale).toPrecision(9))); c.unit = prefix + (c.unit === "ps" ? "s" : c.unit.replace("bytes", "B")); }
    }
    c.levels = [...new Set(c.values.filter(v => v !== null))];
    if (c.numeric) c.levels.sort((a, b) => a - b);
    c.few = c.levels.length <= 8;
    const place = new Map(c.levels.map((v, i) => [v, i]));
    c.at = c.numeric ? c.values : c.values.map(v => v === null ? null : place.get(v));
    c.low = Math.min(...c.at.filter(v => v !== null).concat(Infinity)); c.high = Math.max(...c.at.filter(v => v !== null).concat(-Infinity));
  }
  ways() {
    const guess = name => this.meta.objectives[name] || (/per_s$|utilisation|accepted|fraction|speed|throughput|gain/.test(name) ? "max" : "min");
    this.way = { x: guess(this.state.x), y: guess(this.state.y) };
  }
  title(c) { return c.unit ? `${c.words} (${c.unit})` : c.words; }

  build() {
    const names = this.meta.table.filter(c => c.levels.length > 0);
    const select = (key, list, empty) => {
      const box = make("select", { onchange: () => { this.state[key] = box.value; if (key === "x" || key === "y") this.ways(); if (key === "filter") this.state.value = ""; this.pull(); this.refresh(); } }, empty ? make("option", { value: "" }, empty) : null,
        ...list.map(c => make("option", { value: c.name }, this.title(c) + (c.axis ? " · axis" : ""))));
      box.value = this.state[key];
      this.boxes[key] = box;
      return box;
    };
    const check = (key, text) => { const box = make("input", { type: "checkbox", onchange: () => { this.state[key] = box.checked; this.refresh(); } }); box.checked = this.state[key]; this.boxes[key] = box; return make("label", {}, box, text); };
    this.boxes = {};
    this.canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": "Scatter of the table's rows; arrow keys step through the rows, Enter pins one." });
    this.side = make("aside", {});
    this.grid = make("div", { class: "box long", tabindex: "0" });
    this.count = make("span", { class: "quiet" });
    this.better = ["x", "y"].map(axis => make("button", { type: "button", onclick: () => { this.way[axis] = this.way[axis] === "min" ? "max" : "min"; this.refresh(); } }));
    this.values = make("select", { onchange: () => { this.state.value = this.values.value; this.refresh(); } });
    const words = names.filter(c => c.levels.length > 1 && c.levels.length <= 40 && (!c.numeric || c.axis));
    this.holder.append(
      make("div", { class: "bar" }, make("label", {}, "x", select("x", names)), check("logx", "log"), make("label", {}, "y", select("y", names)), check("logy", "log"),
        make("label", {}, "colour", select("colour", names, "none")), make("label", {}, "only", select("filter", words, "all rows"), this.values)),
      make("div", { class: "bar" }, check("front", "front"), ...this.better, check("lines", "join by colour"), make("span", { class: "spacer" }), this.count,
        make("button", { type: "button", onclick: () => { this.pinned = []; this.refresh(); } }, "Unpin all")),
      make("div", { class: "explorer" }, make("div", {}, make("div", { class: "stage" }, this.canvas), make("div", { class: "legend" })), this.side),
      make("h3", {}, "Rows"), make("div", { class: "bar" }, check("all", "all columns"), make("span", { class: "quiet" }, "click a row to pin it, a heading to sort")), this.grid);
    const c = this.canvas;
    c.addEventListener("pointermove", e => { const i = this.near(e.offsetX, e.offsetY); if (i !== this.hovered) { this.hovered = i; this.draw(); } this.tell(e, i); });
    c.addEventListener("pointerleave", () => { this.hovered = -1; tip(null); this.draw(); });
    c.addEventListener("click", e => { const i = this.near(e.offsetX, e.offsetY); if (i >= 0) this.pin(i); });
    c.addEventListener("keydown", e => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[e.key], shown = this.shown();
      if (move && shown.length) { e.preventDefault(); this.hovered = shown[(Math.max(0, shown.indexOf(this.hovered)) + move + shown.length) % shown.length]; this.draw(); }
      if (e.key === "Enter" && this.hovered >= 0) this.pin(this.hovered);
    });
    new ResizeObserver(() => { if (c.parentElement.clientWidth !== this.lastWidth) this.draw(); }).observe(c.parentElement);
  }
  pull() {
    const c = this.columns.get(this.state.filter);
    this.values.replaceChildren(...(c ? [make("option", { value: "" }, "any")].concat(c.levels.map(v => make("option", { value: String(v) }, plain(v)))) : []));
    this.values.value = this.state.value;
    this.values.hidden = !c;
  }
  refresh() {
    if (!this.values.childElementCount) this.pull();
    const words = { min: "lower", max: "higher" };
    ["x", "y"].forEach((axis, i) => { this.better[i].textContent = `${axis}: ${words[this.way[axis]]} is better`; });
    this.draw(); this.list(); this.panel();
  }
  shown() {
    const x = this.columns.get(this.state.x), y = this.columns.get(this.state.y), f = this.state.value ? this.columns.get(this.state.filter) : null, found = [];
    for (let i = 0; i < this.n; i++) {
      if (f && String(f.values[i]) !== this.state.value) continue;
      const a = x.at[i], b = y.at[i];
      if (a === null || b === null || (this.scale.x.log && a <= 0) || (this.scale.y.log && b <= 0)) continue;
      found.push(i);
    }
    return found;
  }
  axis(c, log, from, to, pad = .05) {
    const other = c.name === this.state.x ? this.columns.get(this.state.y) : this.columns.get(this.state.x), f = this.state.value ? this.columns.get(this.state.filter) : null;
    const useLog = log && c.numeric && c.high > 0;
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < this.n; i++) {
      const v = c.at[i];
      if (v === null || other.at[i] === null || (useLog && v <= 0) || (f && String(f.values[i]) !== this.state.value)) continue;
      const range = c.numeric ? this.range(c.name, i) : null;
      low = Math.min(low, v, range && (!useLog || range[0] > 0) ? range[0] : v); high = Math.max(high, v, range ? range[1] : v);
    }
    if (!c.numeric) { low = 0; high = Math.max(0, c.levels.length - 1); }
    if (!Number.isFinite(low)) { low = 0; high = 1; }
    if (low === high && c.numeric) { const d = useLog ? 2 : Math.abs(low) * .1 || 1; low = useLog ? low / d : low - d; high = useLog ? high * d : high + d; }
    let a = useLog ? Math.log10(low) : low, b = useLog ? Math.log10(high) : high;
    const room = c.numeric ? (b - a) * pad : .5;
    a -= room; b += room;
    if (c.numeric && !useLog && low >= 0 && a < 0) a = 0;
    return { log: useLog, c, at: v => from + ((useLog ? Math.log10(v) : v) - a) / (b - a) * (to - from), ticks: ticksOf(c, useLog, a, b) };
  }
  colour(i) {
    const c = this.columns.get(this.state.colour);
    if (!c) return { fill: "#0072B2", shape: "circle" };
    const v = c.at[i];
    if (v === null) return { fill: "#fff", shape: "circle" };
    if (c.few) { const k = c.levels.indexOf(c.values[i]); return { fill: COLOURS[k % 8], shape: MARKERS[k % 8] }; }
    return { fill: ramp((v - c.low) / (c.high - c.low || 1)), shape: "circle" };
  }
  draw() {
    const height = 480, made = fit(this.canvas, height), { pen, width } = made;
    this.lastWidth = this.canvas.parentElement.clientWidth;
    pen.fillStyle = "#fff"; pen.fillRect(0, 0, width, height);
    const cx = this.columns.get(this.state.x), cy = this.columns.get(this.state.y), words = !cy.numeric;
    pen.font = `11.5px ${FONT}`;
    const probe = this.axis(cy, this.state.logy, 0, 1), wide = Math.min(220, Math.max(...probe.ticks.map(([, text]) => pen.measureText(text).width), 20));
    const box = { left: wide + 44, right: width - 22, top: 18, bottom: height - 58 };
    this.scale = { x: this.axis(cx, this.state.logx, box.left, box.right), y: this.axis(cy, this.state.logy, box.bottom, box.top) };
    pen.strokeStyle = "#eaeef2"; pen.fillStyle = "#59636e"; pen.lineWidth = 1; pen.textBaseline = "top"; pen.textAlign = "center";
    let taken = -1e9;
    for (const [v, text] of this.scale.x.ticks) {
      const x = this.scale.x.at(v), shown = clipped(pen, text, 130), half = pen.measureText(shown).width / 2;
      pen.beginPath(); pen.moveTo(Math.round(x) + .5, box.top); pen.lineTo(Math.round(x) + .5, box.bottom); pen.stroke();
      if (x - half > taken + 8 && x + half < width) { pen.fillText(shown, x, box.bottom + 7); taken = x + half; }
    }
    pen.textBaseline = "middle"; pen.textAlign = "right";
    for (const [v, text] of this.scale.y.ticks) {
      const y = this.scale.y.at(v);
      pen.beginPath(); pen.moveTo(box.left, Math.round(y) + .5); pen.lineTo(box.right, Math.round(y) + .5); pen.stroke();
      pen.fillText(clipped(pen, text, wide + 2), box.left - 8, y);
    }
    pen.strokeStyle = "#1b1f24"; pen.beginPath(); pen.moveTo(box.left - .5, box.top); pen.lineTo(box.left - .5, box.bottom + .5); pen.lineTo(box.right, box.bottom + .5); pen.stroke();
    pen.fillStyle = "#1b1f24"; pen.font = `12.5px ${FONT}`; pen.textAlign = "center"; pen.textBaseline = "alphabetic";
    pen.fillText(this.title(cx), (box.left + box.right) / 2, height - 14);
    pen.save(); pen.translate(16, (box.top + box.bottom) / 2); pen.rotate(-Math.PI / 2); pen.fillText(this.title(cy), 0, 0); pen.restore();
    if (this.meta.diagonal && this.state.x === "paper" && this.state.y === "simulated") this.diagonal(pen, box);
    const shown = this.shown(), front = this.state.front && cx.numeric && cy.numeric ? this.front(shown) : [];
    this.points = shown; this.frontier = front;
    if (this.state.lines) this.join(pen, shown);
    if (front.length) this.drawFront(pen, front);
    this.bars(pen, shown, "y", this.state.y); this.bars(pen, shown, "x", this.state.x);
    const status = this.columns.get("status"), r = shown.length > 3000 ? 2.4 : shown.length > 600 ? 3.2 : 4.6, best = new Set(front);
    for (const i of shown) {
      const { fill, shape } = this.colour(i), bad = status && status.values[i] !== "ok";
      pen.globalAlpha = bad ? .35 : 1;
      marker(pen, shape, this.X(i), this.Y(i), best.has(i) ? r + 1.6 : r);
      pen.fillStyle = bad ? "#fff" : fill; pen.fill();
      pen.strokeStyle = best.has(i) ? "#000" : "rgba(0,0,0,.6)"; pen.lineWidth = best.has(i) ? 1.6 : .6; pen.stroke();
    }
    pen.globalAlpha = 1;
    for (const [k, i] of this.pinned.entries()) if (shown.includes(i)) {
      pen.strokeStyle = "#D55E00"; pen.lineWidth = 2; pen.beginPath(); pen.arc(this.X(i), this.Y(i), r + 5, 0, 7); pen.stroke();
      pen.fillStyle = "#D55E00"; pen.font = `600 12px ${FONT}`; pen.textAlign = "left"; pen.fillText(String.fromCharCode(65 + k), this.X(i) + r + 7, this.Y(i) - r - 2);
    }
    if (this.hovered >= 0 && shown.includes(this.hovered)) { pen.strokeStyle = "#1b1f24"; pen.lineWidth = 2; pen.beginPath(); pen.arc(this.X(this.hovered), this.Y(this.hovered), r + 4, 0, 7); pen.stroke(); }
    if (!shown.length) { pen.fillStyle = "#59636e"; pen.textAlign = "center"; pen.font = `13px ${FONT}`; pen.fillText("no row has both values", (box.left + box.right) / 2, (box.top + box.bottom) / 2); }
    this.count.textContent = `${whole(shown.length)} of ${whole(this.n)} rows` + (front.length ? `, ${whole(front.length)} on the front` : "") + (this.meta.total > this.n ? ` (of ${whole(this.meta.total)} in the table)` : "");
    this.legend();
  }
  /* Where both axes are equal, and 10 % beside it. */
  diagonal(pen, box) {
    const { x, y } = this.scale, lines = [[1, [], "#1b1f24"], [.9, [4, 3], "#8c959f"], [1.1, [4, 3], "#8c959f"]];
    pen.save(); pen.beginPath(); pen.rect(box.left, box.top, box.right - box.left, box.bottom - box.top); pen.clip();
    const low = x.c.at.reduce((a, v) => v !== null && v > 0 ? Math.min(a, v) : a, Infinity) / 10, high = x.c.at.reduce((a, v) => Math.max(a, v || 0), 0) * 10;
    for (const [f, dash, colour] of lines) { pen.setLineDash(dash); pen.strokeStyle = colour; pen.lineWidth = 1; pen.beginPath(); for (let k = 0; k <= 60; k++) { const v = x.log ? low * (high / low) ** (k / 60) : high * (k / 30 - 1); k ? pen.lineTo(x.at(v), y.at(v * f)) : pen.moveTo(x.at(v), y.at(v * f)); } pen.stroke(); }
    pen.restore(); pen.setLineDash([]);
  }
  X(i) { return this.scale.x.at(this.scale.x.c.at[i]); }
  Y(i) { return this.scale.y.at(this.scale.y.c.at[i]); }
  /* Rows that no other row beats in both columns. */
  front(shown) {
    const x = this.scale.x.c.at, y = this.scale.y.c.at, sx = this.way.x === "min" ? 1 : -1, sy = this.way.y === "min" ? 1 : -1, status = this.columns.get("status");
    const able = shown.filter(i => !status || status.values[i] === "ok").sort((a, b) => sx * (x[a] - x[b]) || sy * (y[a] - y[b])), found = [];
    let best = Infinity, at = null;
    for (const i of able) {
      if (sy * y[i] < best) { best = sy * y[i]; at = x[i]; found.push(i); }
      else if (sy * y[i] === best && x[i] === at) found.push(i);
    }
    return found;
  }
  drawFront(pen, front) {
    pen.strokeStyle = "#1b1f24"; pen.lineWidth = 1.4; pen.setLineDash([6, 3]); pen.beginPath();
    front.forEach((i, k) => { if (!k) pen.moveTo(this.X(i), this.Y(i)); else { pen.lineTo(this.X(i), this.Y(front[k - 1])); pen.lineTo(this.X(i), this.Y(i)); } });
    pen.stroke(); pen.setLineDash([]);
  }
  join(pen, shown) {
    const c = this.columns.get(this.state.colour), status = this.columns.get("status"), groups = new Map();
    for (const i of shown) if (!status || status.values[i] === "ok") { const key = c ? c.values[i] : ""; if (!groups.has(key)) groups.set(key, []); groups.get(key).push(i); }
    const dashes = [[], [7, 3], [2, 2], [8, 3, 2, 3], [12, 3], [1, 2], [4, 2, 1, 2], [14, 4, 4, 4]];
    [...groups.values()].forEach((members, k) => {
      if (groups.size > 40) return;
      members.sort((a, b) => this.scale.x.c.at[a] - this.scale.x.c.at[b]);
      pen.strokeStyle = c ? this.colour(members[0]).fill : "#0072B2"; pen.lineWidth = 1.3; pen.setLineDash(dashes[k % 8]); pen.beginPath();
      members.forEach((i, j) => j ? pen.lineTo(this.X(i), this.Y(i)) : pen.moveTo(this.X(i), this.Y(i))); pen.stroke();
    });
    pen.setLineDash([]);
  }
  /* Bands of a column that has them: its 10th and 90th percentile, or a half-width. */
  range(name, i) {
    const band = end => this.columns.get(`${name}.${end}`) || this.columns.get(`${name}_${end}`), low = band("p10"), high = band("p90"), half = this.columns.get(`${name}.ci95`), v = this.columns.get(name).values[i];
    const own = this.columns.get(name).factor, of = c => c.values[i] * c.factor / own;
    if (low && high && low.values[i] !== null && high.values[i] !== null) return [of(low), of(high)];
    return half && half.values[i] !== null && v !== null ? [v - of(half), v + of(half)] : null;
  }
  bars(pen, shown, axis, name) {
    const s = this.scale[axis];
    if (!s.c.numeric) return;
    pen.strokeStyle = "rgba(27,31,36,.6)"; pen.lineWidth = 1;
    for (const i of shown) {
      const range = this.range(name, i);
      if (!range || (s.log && range[0] <= 0)) continue;
      const [a, b] = range.map(s.at), x = this.X(i), y = this.Y(i);
      pen.beginPath();
      if (axis === "y") { pen.moveTo(x, a); pen.lineTo(x, b); for (const v of [a, b]) { pen.moveTo(x - 3, v); pen.lineTo(x + 3, v); } }
      else { pen.moveTo(a, y); pen.lineTo(b, y); for (const v of [a, b]) { pen.moveTo(v, y - 3); pen.lineTo(v, y + 3); } }
      pen.stroke();
    }
  }
  legend() {
    const c = this.columns.get(this.state.colour), box = this.holder.querySelector(".legend"), parts = [];
    if (c && c.few) c.levels.forEach((v, k) => { const s = make("canvas", { width: 14, height: 14, style: "border:0" }), pen = s.getContext("2d"); marker(pen, MARKERS[k % 8], 7, 7, 4.6); pen.fillStyle = COLOURS[k % 8]; pen.fill(); pen.stroke(); parts.push(make("span", {}, s, plain(v))); });
    else if (c) { const s = make("canvas", { width: 160, height: 12 }), pen = s.getContext("2d"); for (let x = 0; x < 160; x++) { pen.fillStyle = ramp(x / 159); pen.fillRect(x, 0, 1, 12); } parts.push(make("span", {}, c.numeric ? plain(c.low) : plain(c.levels[0]), s, c.numeric ? plain(c.high) : plain(c.levels[c.levels.length - 1]))); }
    box.replaceChildren(c ? make("span", {}, `${this.title(c)}:`) : "", ...parts);
  }
  near(x, y) {
    let best = -1, least = 14 * 14;
    for (const i of this.points) { const d = (this.X(i) - x) ** 2 + (this.Y(i) - y) ** 2; if (d < least) { least = d; best = i; } }
    return best;
  }
  tell(event, i) {
    if (i < 0) { tip(null); return; }
    const names = [...new Set([this.state.x, this.state.y, this.state.colour, ...this.meta.table.filter(c => c.axis).map(c => c.name), ...Object.keys(this.meta.objectives), "status"])].filter(name => this.columns.has(name)).slice(0, 14);
    tip(event, this.name(i), names.map(name => { const c = this.columns.get(name), range = this.range(name, i); return [this.title(c), plain(c.values[i]) + (range ? ` (${plain(range[0])} to ${plain(range[1])})` : "")]; }));
  }
  name(i) { const c = this.columns.get("id") || this.columns.get("name") || this.columns.get("point"); return c ? `${c.name === "point" ? "point " : ""}${plain(c.values[i])}` : `row ${i + 1}`; }
  pin(i) {
    this.pinned = this.pinned.includes(i) ? this.pinned.filter(j => j !== i) : [...this.pinned, i].slice(-4);
    this.draw(); this.panel(); this.mark();
  }
  panel() {
    if (!this.pinned.length) { this.side.replaceChildren(make("h3", { style: "margin-top:0" }, "Pinned points"), make("p", { class: "quiet" }, "Click up to four points to set their parameters and results side by side.")); return; }
    const differs = c => this.pinned.length < 2 || new Set(this.pinned.map(i => c.values[i])).size > 1;
    const rows = this.meta.table.filter(c => this.pinned.some(i => c.values[i] !== null && c.values[i] !== "")).sort((a, b) => (b.axis ? 1 : 0) - (a.axis ? 1 : 0));
    this.side.replaceChildren(make("h3", { style: "margin-top:0" }, `Pinned: ${this.pinned.map((i, k) => `${String.fromCharCode(65 + k)} = ${this.name(i)}`).join(", ")}`),
      make("div", { class: "box" }, make("table", { class: "pins" },
        make("thead", {}, make("tr", {}, make("th", {}, "quantity"), ...this.pinned.map((_, k) => make("th", { class: "num" }, String.fromCharCode(65 + k))))),
        make("tbody", {}, ...rows.map(c => make("tr", {}, make("td", { style: differs(c) && this.pinned.length > 1 ? "font-weight:600" : "" }, this.title(c)), ...this.pinned.map(i => make("td", { class: typeof c.values[i] === "number" ? "num" : "" }, plain(c.values[i])))))))));
  }
  list() {
    const shown = this.state.all ? this.meta.table : this.meta.table.filter(c => c.main || c.axis || [this.state.x, this.state.y, this.state.colour].includes(c.name));
    const f = this.state.value ? this.columns.get(this.state.filter) : null;
    let order = [...Array(this.n).keys()].filter(i => !f || String(f.values[i]) === this.state.value);
    const by = this.columns.get(this.sort.name);
    if (by) {
      const sign = this.sort.down ? -1 : 1;
      order.sort((a, b) => { const u = by.values[a], v = by.values[b]; if (u === null || v === null) return (u === null) - (v === null); return u < v ? -sign : u > v ? sign : a - b; });
    }
    const most = 400, rest = order.length - most;
    order = order.slice(0, most);
    const head = make("tr", {}, ...shown.map(c => make("th", { class: c.numeric ? "num" : "", "aria-sort": this.sort.name === c.name ? (this.sort.down ? "descending" : "ascending") : null }, make("button", { type: "button", onclick: () => { this.sort = { name: c.name, down: this.sort.name === c.name && !this.sort.down }; this.list(); } }, c.unit ? c.words + " " : c.words, c.unit ? make("span", { class: "unit" }, c.unit) : null))));
    const body = make("tbody", {}, ...order.map(i => make("tr", { "data-row": i, onclick: () => this.pin(i) }, ...shown.map(c => { const v = c.values[i]; return make("td", { class: v === null || v === "" ? "none" : typeof v === "number" ? "num" : "" }, plain(v === "" ? null : v)); }))));
    this.grid.replaceChildren(make("table", {}, make("thead", {}, head), body), rest > 0 ? make("p", { class: "quiet", style: "padding:0 12px" }, `${whole(rest)} more rows: sort or filter to see them`) : "");
    this.mark();
  }
  mark() { for (const row of this.grid.querySelectorAll("tbody tr")) row.classList.toggle("pinned", this.pinned.includes(Number(row.dataset.row))); }

  check() {
    const found = { points: this.points.length, front: this.frontier.length, pareto_ok: true };
    const sign = { min: 1, max: -1 }, x = this.scale.x.c.at, y = this.scale.y.c.at;
    if (this.frontier.length) found.pareto_ok = this.frontier.every(i => !this.points.some(j => { const s = this.columns.get("status"); if (s && s.values[j] !== "ok") return false; const dx = sign[this.way.x] * (x[j] - x[i]), dy = sign[this.way.y] * (y[j] - y[i]); return dx <= 0 && dy <= 0 && (dx < 0 || dy < 0); }));
    if (this.points.length) {
      const i = this.points[this.points.length >> 1], box = this.canvas.getBoundingClientRect(), at = { clientX: box.left + this.X(i), clientY: box.top + this.Y(i), bubbles: true };
      this.canvas.dispatchEvent(new PointerEvent("pointermove", at)); found.hover = this.hovered >= 0 && !TIP.box.hidden; found.tooltip = TIP.box.textContent;
      this.canvas.dispatchEvent(new MouseEvent("click", at)); found.pinned = this.pinned.length === 1 && this.side.querySelectorAll("tbody tr").length > 2;
      found.pinned_text = this.side.textContent.slice(0, 400);
    }
    const heads = this.grid.querySelectorAll("th button");
    heads[heads.length - 1].click(); this.grid.querySelectorAll("th button")[heads.length - 1].click();
    found.sorted = this.grid.querySelectorAll("th")[heads.length - 1].getAttribute("aria-sort") === "descending";
    const box = this.boxes.x, old = box.value; box.selectedIndex = (box.selectedIndex + 1) % box.options.length; box.dispatchEvent(new Event("change")); found.column = this.state.x !== old || box.options.length === 1;
    box.value = old; box.dispatchEvent(new Event("change"));
    found.listed = this.grid.querySelectorAll("tbody tr").length;
    tip(null);
    return found;
  }
}
function ramp(share) {
  const stops = [[0, 32, 76], [48, 71, 110], [97, 104, 113], [140, 134, 120], [186, 171, 110], [233, 209, 79], [255, 233, 69]], at = Math.max(0, Math.min(1, share)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
  return `rgb(${stops[i].map((v, k) => Math.round(v + (stops[i + 1][k] - v) * (at - i))).join(",")})`;
}
function ticksOf(c, log, a, b) {
  if (!c.numeric) return c.levels.map((v, i) => [i, String(v)]);
  const found = [];
  if (log) {
    const few = b - a < 1.2;
    for (let p = Math.floor(a); p <= Math.ceil(b); p++) for (const f of few ? [1, 2, 3, 5, 7] : b - a < 3 ? [1, 3] : [1]) { const v = f * 10 ** p; if (Math.log10(v) >= a && Math.log10(v) <= b) found.push([v, plain(v)]); }
    return found;
  }
  const rough = (b - a) / 6, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 2.5, 5, 10].map(f => f * power).find(s => s >= rough);
  for (let i = Math.ceil(a / step); i * step <= b * (1 + 1e-12); i++) { const v = Number((i * step).toPrecision(12)); found.push([v, plain(v)]); }
  return found;
}
