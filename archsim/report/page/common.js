"use strict";
/* What the parts of the page share: data, numbers, elements. Text enters the page through textContent alone. */

async function unpack(id) {
  const holder = document.getElementById(id);
  if (!holder) return null;
  const text = holder.textContent.trim();
  const coded = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([coded]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const raw = await new Response(stream).arrayBuffer();
  const size = new DataView(raw).getUint32(0, true);
  const meta = JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, size)));
  const data = {};
  for (const [name, place] of Object.entries(meta.columns)) {
    const Kind = place.type === "f4" ? Float32Array : Uint32Array;
    data[name] = new Kind(raw, 4 + size + place.at, place.n);
  }
  holder.remove();
  return { meta, data };
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
function trim(text) { return text.includes(".") ? text.replace(/\.?0+$/, "") : text; }
function si(value, unit, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return `0 ${unit}`;
  const [scale, prefix] = PREFIXES.find(([s]) => Math.abs(value) >= s * 0.99995) || PREFIXES[PREFIXES.length - 1];
  return `${trim((value / scale).toPrecision(digits))}\u2009${prefix}${unit}`;
}
function plain(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en").replace(/,/g, "\u2009");
  const size = Math.abs(value);
  return size && (size >= 1e7 || size < 1e-4) ? value.toExponential(3).replace(/\.?0+e/, "e") : trim(value.toPrecision(5));
}
function whole(n) { return n.toLocaleString("en").replace(/,/g, "\u2009"); }

/* Colours that stay apart for colour-blind eyes, and hatches that stay apart without colour. */
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#9A9A9A"];
const DARK = new Set(["#0072B2", "#009E73", "#D55E00"]);
const MARKERS = ["circle", "square", "triangle", "diamond", "down", "cross", "plus", "star"];
function look(index) {
  const n = COLOURS.length;
  return { colour: COLOURS[index % n], hatch: (index + 3 * Math.floor(index / n)) % 8 };
}
function hatched(context, index) {
  const { colour, hatch } = look(index), size = 8, tile = make("canvas", { width: size, height: size });
  const pen = tile.getContext("2d");
  pen.fillStyle = colour; pen.fillRect(0, 0, size, size);
  pen.strokeStyle = pen.fillStyle = DARK.has(colour) ? "rgba(255,255,255,.55)" : "rgba(0,0,0,.45)"; pen.lineWidth = 1;
  const lines = (...all) => { pen.beginPath(); for (const [a, b, c, d] of all) { pen.moveTo(a, b); pen.lineTo(c, d); } pen.stroke(); };
  if (hatch === 1 || hatch === 4) lines([-1, 9, 9, -1], [-5, 5, 5, -5], [3, 13, 13, 3]);
  if (hatch === 3 || hatch === 4) lines([-1, -1, 9, 9], [-5, 3, 5, 13], [3, -5, 13, 5]);
  if (hatch === 2) { pen.fillRect(1, 1, 1.6, 1.6); pen.fillRect(5, 5, 1.6, 1.6); }
  if (hatch === 5) lines([0, 2.5, 8, 2.5], [0, 6.5, 8, 6.5]);
  if (hatch === 6) { pen.beginPath(); pen.arc(4, 4, 2, 0, 7); pen.stroke(); }
  if (hatch === 7) lines([2.5, 0, 2.5, 8], [6.5, 0, 6.5, 8]);
  return context.createPattern(tile, "repeat");
}
function marker(pen, kind, x, y, r) {
  pen.beginPath();
  const poly = points => points.forEach(([a, b], i) => i ? pen.lineTo(x + a * r, y + b * r) : pen.moveTo(x + a * r, y + b * r));
  if (kind === "circle") pen.arc(x, y, r, 0, 7);
  else if (kind === "square") pen.rect(x - r * .88, y - r * .88, r * 1.76, r * 1.76);
  else if (kind === "triangle") poly([[0, -1.15], [1, .8], [-1, .8]]);
  else if (kind === "down") poly([[0, 1.15], [1, -.8], [-1, -.8]]);
  else if (kind === "diamond") poly([[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]]);
  else if (kind === "plus") poly([[-.3, -1], [.3, -1], [.3, -.3], [1, -.3], [1, .3], [.3, .3], [.3, 1], [-.3, 1], [-.3, .3], [-1, .3], [-1, -.3], [-.3, -.3]]);
  else if (kind === "star") poly([...Array(10).keys()].map(i => [Math.sin(i * Math.PI / 5) * (i % 2 ? .5 : 1.25), -Math.cos(i * Math.PI / 5) * (i % 2 ? .5 : 1.25)]));
  else poly([[-1, -.6], [-.6, -1], [0, -.4], [.6, -1], [1, -.6], [.4, 0], [1, .6], [.6, 1], [0, .4], [-.6, 1], [-1, .6], [-.4, 0]]);
  pen.closePath();
}

const FONT = '"Inter","Segoe UI","Helvetica Neue","DejaVu Sans",sans-serif';
function fit(canvas, height) {
  const scale = window.devicePixelRatio || 1, width = Math.max(300, canvas.parentElement.clientWidth);
  canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return { pen, width };
}
function clipped(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) { const mid = (low + high + 1) >> 1; if (pen.measureText(text.slice(0, mid) + "…").width <= room) low = mid; else high = mid - 1; }
  return low > 1 ? text.slice(0, low) + "…" : "";
}

const TIP = { box: null };
function tip(event, title, rows) {
  if (!TIP.box) { TIP.box = make("div", { class: "tip", role: "status", hidden: true }); document.body.append(TIP.box); }
  if (!event) { TIP.box.hidden = true; return; }
  const body = make("table", {}, ...rows.filter(row => row[1] !== null && row[1] !== undefined && row[1] !== "").map(([a, b]) => make("tr", {}, make("td", {}, a), make("td", {}, String(b)))));
  TIP.box.replaceChildren(make("b", {}, title), body);
  TIP.box.hidden = false;
  const w = TIP.box.offsetWidth, h = TIP.box.offsetHeight;
  TIP.box.style.left = `${event.clientX + 16 + w > innerWidth ? Math.max(4, event.clientX - w - 12) : event.clientX + 16}px`;
  TIP.box.style.top = `${event.clientY + 16 + h > innerHeight ? Math.max(4, event.clientY - h - 12) : event.clientY + 16}px`;
}

function sortable(table) {
  table.querySelectorAll("thead th").forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
    table.querySelectorAll("th").forEach(th => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row, i) => {
      const cell = row.cells[column], v = cell.dataset.v;
      return { row, i, empty: cell.classList.contains("none"), key: v === undefined ? cell.textContent : Number(v) };
    });
    const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
    rows.sort((a, b) => a.empty - b.empty || (down ? -order(a.key, b.key) : order(a.key, b.key)) || a.i - b.i);
    body.append(...rows.map(entry => entry.row));
  }));
}
