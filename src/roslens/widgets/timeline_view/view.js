// The timeline: one view of it in the page.
//
// Times are ns since the run's first event, as doubles. Names come from traces: they are only
// ever set as text, never as HTML. Each file beside this one is one concept, a class that the view
// is made of; the widget joins them in the order of `_PARTS`, so that nothing needs to be built.

class View extends [
  Arranging, Moving, Marking, Searching, Asking, Painting,
  PaintingLatency, Choosing, Saving, Helping, Listening,
].reduce((Base, part) => part(Base), class {}) {
  constructor(model, root) {
    super();
    this.model = model;
    [this.begin, this.end] = model.get("extent");
    this.picture = null;
    this.id = Math.random().toString(36).slice(2);
    this.wide = 0; // px
    this.top = 0; // how far the tracks are scrolled, px
    this.by = GROUPS[0];
    this.collapsed = new Set();
    this.hidden = new Set();
    this.pinned = [];
    this.marks = [];
    this.cursor = null;
    this.build(root);
    this.arrange();
    const first = model.get("first");
    if (first && first.meta) this.take(first.meta, first.buffers);
    const handlers = {
      "msg:custom": (content, buffers) => this.receive(content, buffers),
      "change:journey": () => this.showJourney(),
      "change:searched": () => this.find(),
      "change:selected_range": () => this.showRange(),
      "change:topic": () => { this.topic.value = model.get("topic"); this.ask(); },
    };
    for (const [name, handler] of Object.entries(handlers)) model.on(name, handler);
    this.observer = new ResizeObserver(() => {
      this.wide = this.plot.clientWidth;
      this.takeTheme();
      this.draw();
      this.ask();
    });
    this.observer.observe(this.plot);
    this.observer.observe(this.room);
    this.themes = new MutationObserver(() => requestAnimationFrame(() => {
      this.takeTheme();
      this.draw();
    }));
    this.themes.observe(document.body, {
      attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"],
    });
    this.leave = () => {
      for (const [name, handler] of Object.entries(handlers)) model.off(name, handler);
      this.observer.disconnect();
      cancelAnimationFrame(this.frame);
      this.themes.disconnect();
    };
    this.showRange();
    if (this.range) [this.begin, this.end] = this.range;
    this.showJourney();
  }

  // The colours that JupyterLab's theme gives, for what is drawn.
  takeTheme() {
    if (!this.plot.clientWidth) return; // not in the page yet: without a style
    const style = getComputedStyle(this.root);
    this.theme = Object.fromEntries(
      [...STATES, "ink", "dim", "line", "soft", "paper", "range"].map(
        (name) => [name, style.getPropertyValue(`--roslens-${name}`).trim()]),
    );
    this.theme.heat = document.body.dataset.jpThemeLight === "false" ? HEAT_DARK : HEAT;
    this.fillHelp();
  }

  build(root) {
    this.root = root;
    root.classList.add("roslens-timeline");
    // JupyterLab's own keys wait.
    root.dataset.lmSuppressShortcuts = "true";
    const bar = element("div", root);
    bar.className = "bar";
    element("b", bar, this.model.get("title"));
    this.search = element("input", bar);
    this.search.type = "search";
    this.search.placeholder = "topic or node";
    this.search.setAttribute("aria-label", "find a topic or a node");
    this.search.value = this.model.get("searched");
    this.search.addEventListener("input", () => {
      this.model.set("searched", this.search.value);
      this.model.save_changes();
    });
    this.groups = this.list(bar, "group tracks by", GROUPS, (by) => this.group(by));
    const topics = this.model.get("topics");
    this.topic = this.list(bar, "latency of", topics, (topic) => this.showTopic(topic));
    this.topic.value = this.model.get("topic");
    const buttons = [
      ["all", "the whole recording", () => this.go(...this.model.get("extent"))],
      ["+", "zoom in", () => this.zoom(0.5)],
      ["−", "zoom out", () => this.zoom(2)],
      ["to the range", "show the range selected", () => this.toRange()],
      ["PNG", "save as a picture", () => this.save("png")],
      ["SVG", "save as a drawing", () => this.save("svg")],
      ["Perfetto", "save the range, or all, for ui.perfetto.dev", () => this.savePerfetto()],
      ["?", "keys and colours", () => this.help()],
    ];
    for (const [label, title, action] of buttons) {
      const button = element("button", bar, label);
      button.title = title;
      button.addEventListener("click", action);
    }
    this.plot = element("div", root);
    this.plot.className = "plot";
    this.inner = element("div", this.plot);
    this.canvas = element("canvas", this.inner);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute(
      "aria-label", "timeline of callbacks; arrow keys pan, plus and minus zoom, question mark: help",
    );
    this.room = element("div", root);
    this.room.className = "latency";
    this.below = element("canvas", this.room);
    this.below.setAttribute("role", "img");
    this.panel = element("div", root);
    this.panel.className = "help";
    this.panel.hidden = true;
    const status = element("div", root);
    status.className = "status";
    this.status = element("span", status);
    // What screen readers say.
    this.live = element("span", status);
    this.live.className = "live";
    this.live.setAttribute("role", "status");
    this.live.setAttribute("aria-live", "polite");
    this.listen();
  }

  list(bar, label, options, chosen) {
    const select = element("select", bar);
    select.title = label;
    select.setAttribute("aria-label", label);
    for (const option of options) element("option", select, option).value = option;
    select.addEventListener("change", () => { chosen(select.value); this.canvas.focus(); });
    return select;
  }

  // What is seen, and where the cursor is.
  tell() {
    const parts = [`${this.moment(this.begin)} to ${this.moment(this.end)}`];
    if (this.cursor !== null) {
      parts.push(`cursor ${this.moment(this.cursor)} = ${this.absolute(this.cursor)}`);
    }
    if (this.marks.length === 2) parts.push(`A to B: ${this.apart()}`);
    if (this.range) {
      const long = inUnits(this.range[1] - this.range[0]);
      parts.push(`range: ${this.range.map((t) => this.moment(t)).join(" to ")} (${long})`);
    }
    if (this.picture && this.picture.arrows > this.picture.arrowBegin.length) {
      parts.push(`${this.picture.arrows.toLocaleString("en")} messages: zoom in for their arrows`);
    }
    this.status.textContent = parts.join(" · ");
  }

  // What just happened, for the eye and for screen readers.
  say(text) { this.live.textContent = text; }
}

export default {
  render({ model, el }) {
    const view = new View(model, element("div", el));
    return () => view.leave();
  },
};
