// Folded sections open where a link leads into them and for printing; marks of timelines can be
// clicked; long tables sort and filter.
"use strict";
const opened = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.closest("details");
  if (folded) { folded.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", opened);
opened();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));

// A mark of a timeline tells what it is where it is clicked, as well as where it is pointed at.
document.querySelectorAll(".roslens-figure svg").forEach((svg) => {
  const note = document.createElement("p");
  note.className = "roslens-note";
  note.setAttribute("aria-live", "polite");
  svg.after(note);
  let marked = null;
  svg.addEventListener("click", (event) => {
    const title = event.target.querySelector(":scope > title");
    if (marked) marked.removeAttribute("stroke");
    marked = title ? event.target : null;
    if (marked) marked.setAttribute("stroke", "currentColor");
    note.textContent = title ? title.textContent : "";
  });
});

const number = (text) => {
  const match = text.replace(/,/g, "").match(/^[-+]?[\d.]+(e[-+]?\d+)?/i);
  return match ? parseFloat(match[0]) : NaN;
};
document.querySelectorAll(".roslens-table").forEach((table) => {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 4) return;
  // A cell may be named only where it changes.
  let before = "";
  const rows = [...body.rows].map((row) => {
    before = row.cells[0].textContent || before;
    return { row, first: before };
  });
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    let up = false;
    head.dataset.sort = "";
    head.title = "Sort by this column";
    head.addEventListener("click", () => {
      up = !up;
      const text = (r) => (column ? r.row.cells[column].textContent : r.first);
      const order = [...rows].sort((a, b) => {
        const [left, right] = [text(a), text(b)], [m, n] = [number(left), number(right)];
        if (isNaN(m) !== isNaN(n)) return isNaN(m) ? 1 : -1;
        return (up ? 1 : -1) * (isNaN(m) ? left.localeCompare(right) : m - n);
      });
      order.forEach((r) => { r.row.cells[0].textContent || (r.row.cells[0].textContent = r.first); body.append(r.row); });
    });
  });
  if (rows.length < 10) return;
  const filter = document.createElement("input");
  filter.className = "roslens-filter";
  filter.type = "search";
  filter.placeholder = `Filter ${rows.length} rows`;
  filter.setAttribute("aria-label", filter.placeholder);
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    rows.forEach((r) => {
      const text = `${r.first} ${r.row.textContent}`.toLowerCase();
      r.row.hidden = !words.every((word) => text.includes(word));
    });
  });
  table.before(filter);
});
