// A table that can be sorted by its heads, and in which a row can be chosen. What stands in it comes
// from traces: it is only ever set as text.

const MOST = 300; // rows that are drawn: of thousands it would take seconds

function element(kind, parent, text) {
  const child = document.createElement(kind);
  if (text !== undefined) child.textContent = text;
  parent.append(child);
  return child;
}

// A name may be broken into lines where its parts end, and nowhere else.
function name(parent, text) {
  for (const part of text.split(/(?<=.)(?=\/)|(?<=[_=:-])(?=\w)|(?<=[a-z]\.)(?=[a-z])/)) {
    parent.append(part, document.createElement("wbr"));
  }
}

// Numbers before texts, nothing last, whichever way it is sorted.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(b));
}

export default {
  render({ model, el }) {
    const table = element("table", el);
    table.className = "roslens-table";
    // JupyterLab's own keys wait.
    table.dataset.lmSuppressShortcuts = "true";
    let sorted = "", sign = 1; // the column, and which way; none: as given
    let due = true; // not drawn yet as it is, as it is not seen: its notebook lies behind a pane
    const sight = new IntersectionObserver((entries) => {
      if (due && entries.at(-1).isIntersecting) draw();
    });

    // The next way of a column: up, down, as given.
    function sort(name) {
      if (name !== sorted) [sorted, sign] = [name, 1];
      else if (sign > 0) sign = -1;
      else sorted = "";
      draw();
    }

    function draw() {
      due = !table.checkVisibility();
      if (due) return;
      const { columns, rows } = model.get("content");
      const place = columns.indexOf(sorted);
      const order = rows.map((_, number) => number);
      if (place >= 0) order.sort((a, b) => compare(rows[a][place], rows[b][place], sign));
      const fragment = new DocumentFragment();
      const heads = element("tr", element("thead", fragment));
      for (const name of columns) {
        const head = element("th", heads);
        head.ariaSort = name !== sorted ? "none" : sign > 0 ? "ascending" : "descending";
        element("button", head, name).addEventListener("click", () => sort(name));
      }
      const body = element("tbody", fragment);
      for (const number of order.slice(0, MOST)) {
        const row = element("tr", body);
        row.dataset.number = number;
        // One stop of the tabulator key for all rows; the arrow keys go on from there.
        if (model.get("choosable")) row.tabIndex = number === order[0] ? 0 : -1;
        for (const value of rows[number]) {
          const cell = element("td", row);
          if (typeof value === "number") cell.className = "number";
          const shown = element("bdi", cell);
          if (typeof value === "string") name(shown, value);
          else shown.append(value ?? "");
        }
      }
      if (rows.length > MOST) {
        const note = `The first ${MOST} of ${rows.length.toLocaleString("en")} rows; a head sorts all.`;
        const foot = element("td", element("tr", element("tfoot", fragment)), note);
        foot.colSpan = columns.length;
      }
      table.replaceChildren(fragment);
      mark();
    }

    function mark() {
      for (const row of table.tBodies[0]?.rows ?? []) {
        row.ariaSelected = String(Number(row.dataset.number) === model.get("chosen"));
      }
    }

    function choose(event) {
      const row = event.target.closest("tbody tr");
      if (!row || !model.get("choosable")) return;
      const number = Number(row.dataset.number);
      model.set("chosen", number === model.get("chosen") ? -1 : number);
      model.save_changes();
    }

    function key(event) {
      const row = event.target.closest("tbody tr");
      const to = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
      if (to) to.focus(); else if (event.key === "Enter") choose(event); else return;
      if (row) event.preventDefault();
    }

    table.classList.toggle("choosable", model.get("choosable"));
    table.addEventListener("click", choose);
    table.addEventListener("keydown", key);
    model.on("change:content", draw);
    model.on("change:chosen", mark);
    sight.observe(table);
    return () => {
      sight.disconnect();
      model.off("change:content", draw);
      model.off("change:chosen", mark);
    };
  },
};
