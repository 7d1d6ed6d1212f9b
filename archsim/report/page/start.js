/* Opens the parts that this page has; with #selftest in the address it also tries them and writes what it found. */
(async () => {
  const failed = [];
  addEventListener("error", e => failed.push(String(e.message)));
  document.querySelectorAll("table.sortable").forEach(sortable);
  const parts = {};
  for (const [id, Part] of [["timeline", typeof TimeLine === "undefined" ? null : TimeLine], ["explorer", typeof Explorer === "undefined" ? null : Explorer]]) {
    const holder = document.getElementById(id);
    if (!holder || !Part) continue;
    try { const packed = await unpack(`${id}-data`); if (packed) parts[id] = new Part(holder, packed); }
    catch (error) { failed.push(`${id}: ${error.message}`); holder.append(make("p", { class: "notes" }, "This part needs a current browser; the tables and figures below do not.")); if (location.hash === "#selftest") throw error; }
  }
  const asked = new URLSearchParams(location.hash.slice(1));
  if (parts.timeline && asked.has("open")) parts.timeline.expand();
  if (parts.timeline && asked.has("view")) { const [a, b] = asked.get("view").split(",").map(share => Number(share) * parts.timeline.meta.duration); if (a < b) parts.timeline.look(a, b); }
  if (location.hash === "#selftest") {
    const result = { failed, tables: document.querySelectorAll("table.sortable").length, figures: document.querySelectorAll("figure svg").length };
    const table = document.querySelector("table.sortable");
    if (table) { const button = table.querySelector("th button"); button.click(); result.table_sorted = table.querySelector("th").getAttribute("aria-sort") === "ascending"; }
    for (const [id, part] of Object.entries(parts)) result[id] = part.check();
    document.getElementById("selftest").textContent = JSON.stringify(result);
  }
})();
