// The keys and the colours, in words.

const KEYS = [
  ["wheel, + and −", "zoom in and out"],
  ["drag, ← and →", "pan"],
  ["shift and wheel, page up, page down", "more tracks"],
  ["Home", "the whole recording"],
  ["click", "the way of a callback's message, or of one in the latency picture"],
  ["↑ and ↓", "choose a track or a heading"],
  ["n and p", "its next and previous callback"],
  ["/ then Enter", "search; Enter, . and , go to the next and previous hit"],
  ["[ and ]", "move the cursor"],
  ["m", "a mark at the cursor; two tell how far apart they are"],
  ["shift and drag, r", "select a range; r: between two marks, else what is seen"],
  ["z", "show the range"],
  ["g", "group by process, node or executor"],
  ["c, C", "collapse or expand the chosen group; all of them"],
  ["i, h, H", "pin or hide the chosen track; show all that are hidden"],
  ["t", "latency of the next topic"],
  ["Escape", "no range, no marks, and nothing clicked"],
  ["?", "this help"],
];
const LEGEND = [
  [() => COLOURS[0], "a callback (one colour per topic, service or timer); the darker, the busier"],
  [(view) => view.theme.wait, "the executor waits for work"],
  [(view) => view.theme.blocked, "blocked: a thread of the executor waits for its lock"],
  [(view) => view.theme.running, "the kernel had the thread on a CPU"],
  [(view) => view.theme.runnable, "the thread could run and waited for a CPU: preempted, or woken"],
  [() => CPU, "CPUs in use; the full height is the number at the label"],
  [(view) => view.theme.dim, "a message, from publication to callback"],
  [() => LATE[1][1], "one of the slowest 10 % of its topic"],
  [() => LATE[0][1], "one of the slowest 1 % of its topic"],
  [() => LOST, "×: a message that did not arrive"],
  [() => CALL, "dashed: a service's request, and its response"],
  [(view) => view.theme.ink, "the way of what was clicked, and what was searched for"],
];

const Helping = (Base) => class extends Base {
  fillHelp() {
    this.panel.replaceChildren();
    const table = element("table", this.panel);
    for (const [keys, action] of KEYS) {
      const row = element("tr", table);
      element("th", row, keys);
      element("td", row, action);
    }
    const colours = element("ul", this.panel);
    for (const [colour, meaning] of LEGEND) {
      const line = element("li", colours);
      element("i", line).style.background = colour(this);
      element("span", line, meaning);
    }
  }

  help() {
    this.panel.hidden = !this.panel.hidden;
    if (this.panel.hidden) this.canvas.focus();
  }
};
