// The timeline: draws what the kernel sends, and asks for what it needs. No dependency.
//
// Times are ns since the recording's beginning, as doubles. Names come from traces: they are only
// ever set as text, never as HTML.

const LABEL = 230; // width of the labels, px
const ROW = 20;
const GROUP = 18;
const AXIS = 24;
const MOST_HEIGHT = 520; // of what is seen at once, px
const LEAST_NS = 1000; // the narrowest window
const MOST_PIXELS = 16000; // the highest picture exported as PNG

const KEYS = [
  ["wheel, + and −", "zoom in and out"],
  ["drag, ← and →", "pan"],
  ["shift and wheel, page up, page down", "more tracks"],
  ["Home", "the whole recording"],
  ["click", "the whole way of a callback's message"],
  ["↑ and ↓, then n and p", "choose a track; its next and previous callback"],
  ["shift and drag", "select a range: tables and plots follow it"],
  ["r", "select what is seen"],
  ["Escape", "no range, and nothing clicked"],
  ["/", 'search for a topic or node; "in quotes" the whole name'],
  ["?", "this help"],
];
const LEGEND = [
  [COLOURS[0], "a callback (one colour per topic, service or timer); the darker, the busier"],
  [WAIT, "the executor waits for work"],
  [BLOCKED, "a thread of the executor waits for its lock, while another one waits for work"],
  [CPU, "CPUs in use; the full height is the number at the label"],
  [MESSAGE, "a message, from publication to callback"],
  [CALL, "dashed: a service's request, and its response"],
  [FOUND, "what was searched for, and the way of what was clicked"],
];

function layout(tracks, wanted) {
  // Rows from top to bottom: a heading per group, then its tracks.
  const rows = [];
  let y = AXIS;
  let group = null;
  tracks.forEach((track, index) => {
    if (wanted && !wanted(track)) return;
    if (track.group !== group) {
      group = track.group;
      rows.push({ heading: group, y, height: GROUP });
      y += GROUP;
    }
    rows.push({ track: index, y, height: ROW });
    y += ROW;
  });
  return { rows, height: y + 4 };
}

class View {
  constructor(model, root) {
    this.model = model;
    this.begin = 0;
    this.end = model.get("length");
    this.picture = null;
    this.request = 0;
    this.top = 0; // how far the tracks are scrolled, px
    this.build(root);
    this.arrange();
    const first = model.get("first");
    if (first && first.meta) this.take(first.meta, first.buffers);
    model.on("msg:custom", (content, buffers) => this.receive(content, buffers));
    model.on("change:journey", () => this.showJourney());
    model.on("change:searched", () => this.find());
    model.on("change:selected_range", () => this.showRange());
    this.observer = new ResizeObserver(() => this.ask());
    this.observer.observe(this.plot);
    this.showRange();
    this.showJourney();
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
    const buttons = [
      ["all", "the whole recording", () => this.go(0, this.model.get("length"))],
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
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute(
      "aria-label", "timeline of callbacks; arrow keys pan, plus and minus zoom, question mark: help",
    );
    this.panel = element("div", root);
    this.panel.className = "help";
    this.panel.hidden = true;
    this.fillHelp();
    this.status = element("div", root);
    this.status.className = "status";
    this.status.setAttribute("role", "status");
    this.detail = element("div", root);
    this.detail.className = "journey";
    this.listen();
  }

  fillHelp() {
    const table = element("table", this.panel);
    for (const [keys, what] of KEYS) {
      const row = element("tr", table);
      element("th", row, keys);
      element("td", row, what);
    }
    const colours = element("ul", this.panel);
    for (const [colour, what] of LEGEND) {
      const line = element("li", colours);
      element("i", line).style.background = colour;
      element("span", line, what);
    }
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey) {
        this.plot.scrollTop += event.deltaY || event.deltaX;
      } else {
        this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.timeAt(event.offsetX));
      }
    }, { passive: false });
    this.plot.addEventListener("scroll", () => {
      this.top = this.plot.scrollTop;
      this.draw();
      this.ask();
    });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = {
        x: event.offsetX, y: event.offsetY, begin: this.begin, end: this.end,
        range: event.shiftKey, moved: false,
      };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return this.hover(event);
      const by = event.offsetX - this.drag.x;
      if (Math.abs(by) > 3) this.drag.moved = true;
      if (this.drag.range) {
        this.range = [this.timeAt(this.drag.x), this.timeAt(event.offsetX)].sort((a, b) => a - b);
        this.draw();
      } else if (this.drag.moved) {
        const shift = -by * (this.drag.end - this.drag.begin) / this.width();
        this.go(this.drag.begin + shift, this.drag.end + shift);
      }
      return undefined;
    });
    canvas.addEventListener("pointerup", (event) => {
      const drag = this.drag;
      this.drag = null;
      if (!drag) return;
      if (drag.range && drag.moved) this.selectRange();
      else if (!drag.moved) this.click(event.offsetX, event.offsetY + this.top);
    });
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.target === this.search) {
      // The notebook has keys of its own.
      event.stopPropagation();
      if (event.key === "Escape" || event.key === "Enter") this.canvas.focus();
      return;
    }
    const by = (this.end - this.begin) / 5;
    const actions = {
      ArrowLeft: () => this.go(this.begin - by, this.end - by),
      ArrowRight: () => this.go(this.begin + by, this.end + by),
      ArrowUp: () => this.choose(-1), ArrowDown: () => this.choose(1),
      PageUp: () => { this.plot.scrollTop -= MOST_HEIGHT / 2; },
      PageDown: () => { this.plot.scrollTop += MOST_HEIGHT / 2; },
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      Home: () => this.go(0, this.model.get("length")),
      n: () => this.step(1), p: () => this.step(-1),
      r: () => { this.range = [this.begin, this.end]; this.selectRange(); },
      "/": () => { this.search.focus(); this.search.select(); },
      "?": () => this.help(),
      Escape: () => (this.panel.hidden ? this.clear() : this.help()),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }

  help() {
    this.panel.hidden = !this.panel.hidden;
    if (this.panel.hidden) this.canvas.focus();
  }

  // ------------------------------------------------------------ search

  find() {
    this.search.value = this.model.get("searched");
    this.arrange();
    this.draw();
    this.ask();
  }

  // What is searched for, and whether a name must be it rather than hold it.
  fits(name) {
    const text = this.model.get("searched").trim().toLowerCase();
    const whole = text.length > 2 && text.startsWith('"') && text.endsWith('"');
    const own = name.toLowerCase();
    return whole ? own === text.slice(1, -1) : own.includes(text);
  }

  searches() { return this.model.get("searched").trim() !== ""; }

  namesFound() {
    if (!this.searches()) return new Set();
    return new Set(this.model.get("names").flatMap((n, i) => (this.fits(n) ? [i] : [])));
  }

  arrange() {
    this.found = this.namesFound();
    this.placed = layout(
      this.model.get("tracks"),
      (track) => !this.searches() || this.found.size > 0 || this.fits(track.label),
    );
    this.rowOf = new Map();
    for (const row of this.placed.rows) {
      if (row.track !== undefined) this.rowOf.set(row.track, row);
    }
    this.inner.style.height = `${this.placed.height}px`;
  }

  // ------------------------------------------------------------ where

  width() { return Math.max(50, this.plot.clientWidth - LABEL - 8); }
  timeAt(x) { return this.begin + (x - LABEL) * (this.end - this.begin) / this.width(); }
  xAt(time) { return LABEL + (time - this.begin) * this.width() / (this.end - this.begin); }
  seen() {
    const high = Math.min(this.placed.height, MOST_HEIGHT);
    return this.placed.rows.filter(
      (row) => row.y + row.height > this.top && row.y < this.top + high + ROW,
    );
  }

  go(begin, end) {
    const length = this.model.get("length");
    const span = Math.min(Math.max(end - begin, LEAST_NS), length);
    this.begin = Math.min(Math.max(0, begin), Math.max(0, length - span));
    this.end = this.begin + span;
    this.draw();
    this.ask();
  }

  zoom(factor, around = (this.begin + this.end) / 2) {
    this.go(around + (this.begin - around) * factor, around + (this.end - around) * factor);
  }

  // ------------------------------------------------------------ questions and answers

  ask() {
    if (!this.plot.clientWidth) return; // not laid out yet: the observer will tell
    if (this.waiting) { this.again = true; return; }
    this.waiting = true;
    this.asked = performance.now();
    this.request += 1;
    const rows = this.saving ? this.placed.rows : this.seen();
    this.question = {
      type: "view", begin: Math.floor(this.begin), end: Math.ceil(this.end), width: this.width(),
      shown: rows.flatMap((row) => (row.track === undefined ? [] : [row.track])),
      request: this.request,
    };
    this.model.send(this.question);
  }

  receive(content, buffers) {
    if (content.type === "perfetto") this.keepPerfetto(content, buffers);
    if (content.type !== "picture") return;
    this.take(content, buffers);
    this.waiting = false;
    // What tests and curious people read.
    this.root.dataset.answers = Number(this.root.dataset.answers || 0) + 1;
    this.root.dataset.answerMs = (performance.now() - this.asked).toFixed(1);
    if (this.saving && this.picture.whole) this.write();
    if (this.again) { this.again = false; this.ask(); }
  }

  take(content, buffers) {
    const bytes = (i, Kind) => {
      const view = buffers[i];
      const own = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
      return new Kind(own);
    };
    this.picture = {
      begin: content.begin, end: content.end, columns: content.columns, arrows: content.arrows,
      whole: content.shown >= this.rowOf.size,
      sliceTrack: bytes(0, Int32Array), sliceBegin: bytes(1, Float64Array),
      sliceEnd: bytes(2, Float64Array), sliceName: bytes(3, Int32Array),
      sliceLevel: bytes(4, Float32Array),
      binTrack: bytes(5, Int32Array), binColumn: bytes(6, Int32Array),
      binBusy: bytes(7, Float32Array), binCount: bytes(8, Int32Array),
      arrowBegin: bytes(9, Float64Array), arrowEnd: bytes(10, Float64Array),
      arrowFrom: bytes(11, Int32Array), arrowTo: bytes(12, Int32Array),
      arrowName: bytes(13, Int32Array), arrowKind: bytes(14, Int32Array),
    };
    this.draw();
    this.root.dataset.marks = this.picture.sliceTrack.length + this.picture.binTrack.length;
    this.root.dataset.arrows = this.picture.arrowBegin.length;
    this.root.dataset.calls = this.picture.arrowKind.filter((kind) => kind > 0).length;
    this.root.dataset.drawn = performance.now();
    this.root.dataset.question = JSON.stringify(this.question || {});
    this.root.dataset.places = JSON.stringify({
      begin: this.begin, end: this.end, left: LABEL, width: this.width(), top: this.top,
      rows: this.placed.rows,
    });
  }

  // ------------------------------------------------------------ drawing

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.max(LABEL + 60, this.plot.clientWidth);
    const high = Math.min(this.placed.height, MOST_HEIGHT);
    if (this.canvas.width !== Math.round(wide * ratio)
        || this.canvas.height !== Math.round(high * ratio)) {
      this.canvas.width = Math.round(wide * ratio);
      this.canvas.height = Math.round(high * ratio);
      this.canvas.style.height = `${high}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, high);
    this.paint(new OnCanvas(context), wide, high, this.top);
    this.say();
  }

  // From `top` on: what is above is not seen.
  paint(on, wide, high, top) {
    this.shift = top;
    on.rect(0, 0, wide, high, "#ffffff");
    const seen = this.placed.rows.filter((r) => this.y(r) + r.height >= 0 && this.y(r) <= high);
    for (const row of seen) {
      const y = this.y(row);
      if (row.heading === undefined) {
        on.line(0, y + row.height - 0.5, wide, y + row.height - 0.5, "#f0f0f0");
      } else {
        on.rect(0, y, wide, row.height, "#f0f0f0");
      }
    }
    this.paintTicks(on, high);
    const picture = this.picture;
    if (picture) {
      this.paintBins(on, picture, wide);
      this.paintSlices(on, picture, wide);
      this.paintArrows(on, picture);
    }
    this.paintRange(on, high);
    this.paintJourney(on, high);
    on.rect(0, AXIS, LABEL, high - AXIS, "#ffffff");
    for (const row of seen) this.paintLabel(on, row, wide);
    this.paintAxis(on, wide);
  }

  paintLabel(on, row, wide) {
    const y = this.y(row);
    if (row.heading !== undefined) {
      on.rect(0, y, LABEL, row.height, "#f0f0f0");
      on.text(6, y + 13, row.heading, "#333333", { bold: true, room: wide - 12 });
      return;
    }
    const track = this.model.get("tracks")[row.track];
    if (row.track === this.chosen) on.rect(0, y, 4, row.height, FOUND);
    const scale = track.top ? ` (0 to ${track.top})` : "";
    on.text(14, y + 14, track.label + scale, "#1c1c1c", { room: LABEL - 20 });
  }

  y(row) { return row.y - this.shift; }

  ticks(each) {
    const by = step(this.end - this.begin, Math.max(2, this.width() / 110));
    for (let t = Math.ceil(this.begin / by) * by; t <= this.end; t += by) each(t, by);
  }

  paintTicks(on, high) {
    this.ticks((t) => on.line(this.xAt(t), AXIS, this.xAt(t), high, "#e4e4e4"));
  }

  paintAxis(on, wide) {
    on.rect(0, 0, wide, AXIS, "#ffffff");
    this.ticks((t, by) => {
      on.line(this.xAt(t), AXIS - 4, this.xAt(t), AXIS, "#999999");
      on.text(this.xAt(t) + 3, 13, inUnits(t, by), "#555555");
    });
  }

  paintBins(on, picture, wide) {
    const tracks = this.model.get("tracks");
    const per = (picture.end - picture.begin) / picture.columns;
    for (let i = 0; i < picture.binTrack.length; i += 1) {
      const row = this.rowOf.get(picture.binTrack[i]);
      if (!row) continue;
      const t = picture.begin + picture.binColumn[i] * per;
      const x = Math.max(LABEL, this.xAt(t));
      const end = Math.min(wide, this.xAt(t + per));
      if (end <= x) continue;
      const { kind, top } = tracks[picture.binTrack[i]];
      if (kind === "cpu") {
        this.paintLevel(on, row, x, end, picture.binBusy[i] / top);
        continue;
      }
      const shade = 0.25 + 0.75 * Math.min(1, picture.binBusy[i]);
      const colour = STATES[kind] ?? COLOURS[0];
      on.rect(x, this.y(row) + 3, Math.max(end - x, 0.6), row.height - 6, colour, shade);
    }
  }

  paintLevel(on, row, x0, x1, part) {
    const high = Math.max(0.5, Math.min(1, part) * (row.height - 3));
    on.rect(x0, this.y(row) + row.height - 1 - high, Math.max(x1 - x0, 0.6), high, CPU, 0.85);
  }

  paintSlices(on, picture, wide) {
    const tracks = this.model.get("tracks");
    const names = this.model.get("names");
    for (let i = 0; i < picture.sliceTrack.length; i += 1) {
      const row = this.rowOf.get(picture.sliceTrack[i]);
      if (!row) continue;
      const x0 = Math.max(LABEL, this.xAt(picture.sliceBegin[i]));
      const x1 = Math.min(wide, this.xAt(picture.sliceEnd[i]));
      if (x1 < LABEL || x0 > wide) continue;
      const { kind, top } = tracks[picture.sliceTrack[i]];
      if (kind === "cpu") {
        this.paintLevel(on, row, x0, x1, picture.sliceLevel[i] / top);
        continue;
      }
      const waits = kind in STATES;
      const name = picture.sliceName[i];
      const hit = this.found.has(name);
      const colour = STATES[kind] ?? COLOURS[name % COLOURS.length];
      const faded = this.found.size > 0 && !hit && !waits;
      const room = Math.max(x1 - x0, 1);
      const y = this.y(row);
      on.rect(x0, y + 3, room, row.height - 6, colour, faded ? 0.2 : 0.9);
      if (hit) on.rect(x0, y + row.height - 4, Math.max(room, 2), 2, FOUND);
      if (room > 45 && !waits) {
        const ink = faded ? "#555555" : textOn(colour);
        on.text(x0 + 3, y + 14, names[name], ink, { room: room - 6 });
      }
    }
  }

  paintArrows(on, picture) {
    for (let i = 0; i < picture.arrowBegin.length; i += 1) {
      const from = this.rowOf.get(picture.arrowFrom[i]);
      const to = this.rowOf.get(picture.arrowTo[i]);
      if (!to) continue;
      const x0 = Math.max(LABEL, this.xAt(picture.arrowBegin[i]));
      const x1 = Math.max(LABEL, this.xAt(picture.arrowEnd[i]));
      const y1 = this.y(to) + to.height / 2;
      const y0 = from ? this.y(from) + from.height / 2 : y1 - to.height / 2;
      const call = picture.arrowKind[i] > 0;
      const hit = this.found.has(picture.arrowName[i]);
      if (this.found.size > 0 && !hit) continue;
      const colour = hit ? FOUND : (call ? CALL : MESSAGE);
      this.arrow(on, x0, y0, x1, y1, colour, hit ? 1.4 : 0.8, call ? [4, 3] : []);
    }
  }

  arrow(on, x0, y0, x1, y1, colour, width, dash) {
    on.line(x0, y0, x1, y1, colour, width, dash);
    const angle = Math.atan2(y1 - y0, x1 - x0);
    for (const turn of [2.6, -2.6]) {
      on.line(x1, y1, x1 + 6 * Math.cos(angle + turn), y1 + 6 * Math.sin(angle + turn), colour, width);
    }
  }

  paintRange(on, high) {
    if (!this.range) return;
    const [x0, x1] = this.range.map((t) => this.xAt(t));
    const left = Math.max(LABEL, x0);
    on.rect(left, AXIS, Math.max(1, x1 - left), high, "#0072B2", 0.12);
    for (const x of [x0, x1]) if (x >= LABEL) on.line(x, AXIS, x, high, "#0072B2");
  }

  paintJourney(on, high) {
    const journey = this.model.get("journey");
    if (!journey || !journey.name) return;
    const first = journey.hops.length ? journey.hops[0].begin : journey.begin;
    for (const t of [first, journey.begin]) {
      if (this.xAt(t) >= LABEL) on.line(this.xAt(t), AXIS, this.xAt(t), high, FOUND, 1.2);
    }
    const row = this.rowOf.get(journey.track);
    if (!row) return;
    const [x0, x1] = [journey.begin, journey.end].map((t) => Math.max(LABEL, this.xAt(t)));
    const [y0, y1] = [this.y(row) + 2, this.y(row) + row.height - 2];
    for (const y of [y0, y1]) on.line(x0 - 1, y, Math.max(x1, x0 + 2), y, FOUND, 1.6);
  }

  say() {
    const pixel = (this.end - this.begin) / this.width();
    const span = `${inUnits(this.begin, pixel)} to ${inUnits(this.end, pixel)}`;
    const parts = [`${span} (${inUnits(this.end - this.begin)})`];
    if (this.picture && this.picture.arrows > this.picture.arrowBegin.length) {
      parts.push(`${this.picture.arrows.toLocaleString("en")} messages: zoom in for their arrows`);
    }
    if (this.range) parts.push(`range: ${this.range.map((t) => inUnits(t, pixel)).join(" to ")}`);
    if (!this.placed.rows.length) parts.push("nothing fits the search");
    if (this.told) parts.push(this.told);
    this.status.textContent = parts.join(" · ");
  }

  // ------------------------------------------------------------ choosing

  trackAt(y) {
    return this.placed.rows.find(
      (row) => row.track !== undefined && y >= row.y && y < row.y + row.height,
    );
  }

  hover(event) {
    const row = this.trackAt(event.offsetY + this.top);
    if (!row || !this.picture || event.offsetX < LABEL || event.offsetY < AXIS) {
      this.canvas.title = row ? this.model.get("tracks")[row.track].label : "";
      return;
    }
    const t = this.timeAt(event.offsetX);
    const names = this.model.get("names");
    const cpu = this.model.get("tracks")[row.track].kind === "cpu";
    let text = "";
    for (let i = 0; i < this.picture.sliceTrack.length; i += 1) {
      if (this.picture.sliceTrack[i] === row.track && this.picture.sliceBegin[i] <= t
          && t <= this.picture.sliceEnd[i]) {
        const took = inUnits(this.picture.sliceEnd[i] - this.picture.sliceBegin[i]);
        const used = cpu ? `${this.picture.sliceLevel[i].toFixed(2)} in use, ` : "";
        text = `${names[this.picture.sliceName[i]]}: ${used}${took}`;
      }
    }
    this.canvas.title = text;
  }

  click(x, y) {
    const row = this.trackAt(y);
    if (!row || x < LABEL || y - this.top < AXIS) return;
    this.chosen = row.track;
    this.model.send({
      type: "click", track: row.track, time: this.timeAt(x),
      within: (this.end - this.begin) / this.width(),
    });
  }

  choose(by) {
    const rows = this.placed.rows.filter((row) => row.track !== undefined);
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.track === this.chosen);
    const row = rows[Math.min(Math.max(now < 0 ? 0 : now + by, 0), rows.length - 1)];
    this.chosen = row.track;
    const high = Math.min(this.placed.height, MOST_HEIGHT);
    if (row.y - AXIS < this.top) this.plot.scrollTop = row.y - AXIS - GROUP;
    if (row.y + ROW > this.top + high) this.plot.scrollTop = row.y + ROW - high;
    this.draw();
  }

  step(by) {
    if (this.chosen === undefined) this.choose(0);
    // From what was clicked, if it is on this track: the kernel knows, also if keys come fast.
    this.model.send({ type: "step", track: this.chosen, time: by > 0 ? this.begin : this.end, by });
  }

  selectRange() {
    const origin = BigInt(this.model.get("origin"));
    const moments = this.range.map((t) => String(origin + BigInt(Math.round(t))));
    this.model.set("selected_range", moments);
    this.model.save_changes();
    this.draw();
  }

  showRange() {
    const origin = BigInt(this.model.get("origin"));
    const moments = this.model.get("selected_range");
    this.range = moments.length === 2 ? moments.map((t) => Number(BigInt(t) - origin)) : null;
    this.draw();
  }

  clear() {
    this.range = null;
    this.model.set("selected_range", []);
    this.model.save_changes();
    this.model.send({ type: "nothing" });
    this.draw();
  }

  toRange() { if (this.range) this.go(...this.range); }

  // ------------------------------------------------------------ saving

  // Of all tracks, not only of those seen.
  save(kind) { this.saving = kind; this.ask(); }

  write() {
    const kind = this.saving;
    this.saving = null;
    const wide = Math.max(LABEL + 60, this.plot.clientWidth);
    const high = Math.min(this.placed.height, kind === "png" ? MOST_PIXELS : Infinity);
    if (kind === "svg") {
      const on = new OnSvg(wide, high);
      this.paint(on, wide, high, 0);
      downloadBytes("timeline.svg", on.toString(), "image/svg+xml");
    } else {
      const canvas = document.createElement("canvas");
      const ratio = high > MOST_PIXELS / 2 ? 1 : 2;
      [canvas.width, canvas.height] = [wide * ratio, high * ratio];
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      this.paint(new OnCanvas(context), wide, high, 0);
      download("timeline.png", canvas.toDataURL("image/png"));
    }
    this.ask();
  }

  savePerfetto() {
    this.told = "writing for Perfetto";
    this.say();
    this.model.send({ type: "perfetto" });
  }

  keepPerfetto(content, buffers) {
    this.told = content.refused || "";
    this.say();
    if (buffers.length) {
      downloadBytes("timeline.perfetto-trace", buffers[0], "application/octet-stream");
    }
  }

  // ------------------------------------------------------------ what was clicked

  showJourney() {
    const journey = this.model.get("journey");
    this.detail.replaceChildren();
    if (!journey || !journey.name) {
      element("span", this.detail, "Click a callback for its message; shift and drag for a range; ? for all keys.");
      this.draw();
      return;
    }
    if (journey.begin < this.begin || journey.begin > this.end) {
      const span = this.end - this.begin;
      this.go(journey.begin - span / 2, journey.begin + span / 2);
    }
    element("b", this.detail, `${journey.name} in ${journey.node}, ${journey.duration_ms} ms`);
    if (journey.cpu) element("span", this.detail, ` ${journey.cpu}`);
    if (journey.hops.length) {
      const what = journey.kind === "call" ? "request" : "message";
      const way = `${journey.publisher_node} → ${journey.subscription_node}, ${what} `
        + `${journey.message_id}, ${journey.outcome}, latency ${journey.latency_ms} ms`;
      element("div", this.detail, way);
      const table = element("table", this.detail);
      const first = journey.hops[0].begin;
      const whole = Math.max(1, journey.hops[journey.hops.length - 1].end - first);
      for (const hop of journey.hops) {
        const row = element("tr", table);
        element("td", row, hop.name);
        element("td", row, `${hop.duration_ms} ms`);
        const bar = element("div", element("td", row));
        const share = (t) => `${(100 * (t - first)) / whole}%`;
        bar.className = "hop";
        bar.style.marginLeft = share(hop.begin);
        bar.style.width = share(hop.end - hop.begin + first);
      }
    } else {
      element("div", this.detail, "No message: a timer, or a message without a match.");
    }
    this.draw();
  }
}

export default {
  render({ model, el }) {
    const view = new View(model, element("div", el));
    return () => view.observer.disconnect();
  },
};
