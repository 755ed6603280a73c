// The timeline: draws what the kernel sends, and asks for what it needs. No dependency.
//
// Times are ns since the recording's beginning, as doubles. Names come from traces: they are only
// ever set as text, never as HTML.

const LABEL = 230; // width of the labels, px
const ROW = 20;
const GROUP = 18;
const AXIS = 24;
const LEAST_NS = 1000; // the narrowest window
// Okabe and Ito (2008): told apart with every kind of colour vision.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8c8c00"];
const WAIT = "#dcdcdc";
const FOUND = "#D55E00";

function element(kind, parent, text) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

// With as many digits as tell moments `apart` ns from each other.
function inUnits(ns, apart = Math.abs(ns) / 1e4) {
  const size = Math.max(Math.abs(ns), apart);
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([u]) => size >= u) || [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / Math.max(apart, 1)) - 1e-9));
  return `${(ns / unit).toFixed(Math.min(9, digits))} ${name}`;
}

function step(range, most) {
  const raw = range / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((f) => f * power).find((x) => x >= raw);
}

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

// One drawing for the screen and for SVG: both take rectangles, lines and texts.
class OnCanvas {
  constructor(context) { this.context = context; }
  rect(x, y, w, h, fill, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, w, h);
    this.context.globalAlpha = 1;
  }
  line(x0, y0, x1, y1, stroke, width = 1) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = width;
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.lineTo(x1, y1);
    this.context.stroke();
  }
  text(x, y, text, fill, { bold = false, room = Infinity } = {}) {
    this.context.fillStyle = fill;
    this.context.font = `${bold ? "600 " : ""}11px system-ui, sans-serif`;
    let shown = text;
    while (shown.length > 1 && this.context.measureText(shown).width > room) {
      shown = `${shown.slice(0, -2)}…`;
    }
    this.context.fillText(shown, x, y);
  }
}

class OnSvg {
  constructor(width, height) {
    this.root = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.root.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.setAttribute("font-family", "sans-serif");
    this.rect(0, 0, width, height, "#ffffff");
  }
  add(kind, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    this.root.append(made);
    return made;
  }
  rect(x, y, width, height, fill, opacity = 1) {
    this.add("rect", { x, y, width, height, fill, opacity });
  }
  line(x1, y1, x2, y2, stroke, width = 1) {
    this.add("line", { x1, y1, x2, y2, stroke, "stroke-width": width });
  }
  text(x, y, text, fill, { bold = false, room = Infinity } = {}) {
    const most = Math.max(1, Math.floor(room / 6));
    const made = this.add("text", {
      x, y, fill, "font-size": 11, "font-weight": bold ? 600 : 400,
    });
    made.textContent = text.length > most ? `${text.slice(0, most - 1)}…` : text;
  }
  toString() { return new XMLSerializer().serializeToString(this.root); }
}

function download(name, href) {
  const link = document.createElement("a");
  link.download = name;
  link.href = href;
  link.click();
}

class View {
  constructor(model, root) {
    this.model = model;
    this.begin = 0;
    this.end = model.get("length");
    this.picture = null;
    this.request = 0;
    this.searched = "";
    this.build(root);
    this.arrange();
    model.on("msg:custom", (content, buffers) => this.receive(content, buffers));
    model.on("change:journey", () => this.showJourney());
    this.observer = new ResizeObserver(() => this.ask());
    this.observer.observe(this.plot);
    this.showJourney();
  }

  build(root) {
    this.root = root;
    root.classList.add("roslens-timeline");
    const bar = element("div", root);
    bar.className = "bar";
    element("b", bar, this.model.get("title"));
    this.search = element("input", bar);
    this.search.type = "search";
    this.search.placeholder = "topic or node";
    this.search.setAttribute("aria-label", "find a topic or a node");
    this.search.addEventListener("input", () => {
      this.searched = this.search.value.trim().toLowerCase();
      this.arrange();
      this.ask();
    });
    const buttons = [
      ["all", () => this.go(0, this.model.get("length"))],
      ["+", () => this.zoom(0.5)],
      ["−", () => this.zoom(2)],
      ["to the range", () => this.toRange()],
      ["PNG", () => download("timeline.png", this.canvas.toDataURL("image/png"))],
      ["SVG", () => this.saveSvg()],
    ];
    for (const [label, action] of buttons) {
      const button = element("button", bar, label);
      button.addEventListener("click", action);
    }
    this.plot = element("div", root);
    this.plot.className = "plot";
    this.canvas = element("canvas", this.plot);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute(
      "aria-label", "timeline of callbacks; arrow keys pan, plus and minus zoom",
    );
    this.status = element("div", root);
    this.status.className = "status";
    this.detail = element("div", root);
    this.detail.className = "journey";
    this.listen();
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey) return; // scrolls
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.timeAt(event.offsetX));
    }, { passive: false });
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
      else if (!drag.moved) this.click(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const by = (this.end - this.begin) / 5;
    const actions = {
      ArrowLeft: () => this.go(this.begin - by, this.end - by),
      ArrowRight: () => this.go(this.begin + by, this.end + by),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      Home: () => this.go(0, this.model.get("length")),
      Escape: () => this.clearRange(),
    };
    if (actions[event.key]) {
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]();
    }
  }

  matches(track) {
    return !this.searched || track.label.toLowerCase().includes(this.searched)
      || this.namesFound().size > 0;
  }

  namesFound() {
    if (!this.searched) return new Set();
    const names = this.model.get("names");
    return new Set(names.flatMap((n, i) => (n.toLowerCase().includes(this.searched) ? [i] : [])));
  }

  arrange() {
    this.placed = layout(this.model.get("tracks"), (track) => this.matches(track));
    this.rowOf = new Map();
    for (const row of this.placed.rows) {
      if (row.track !== undefined) this.rowOf.set(row.track, row);
    }
  }

  width() { return Math.max(50, this.plot.clientWidth - LABEL - 8); }
  timeAt(x) { return this.begin + (x - LABEL) * (this.end - this.begin) / this.width(); }
  xAt(time) { return LABEL + (time - this.begin) * this.width() / (this.end - this.begin); }

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

  ask() {
    if (this.waiting) { this.again = true; return; }
    this.waiting = true;
    this.asked = performance.now();
    this.request += 1;
    this.model.send({
      type: "view", begin: Math.floor(this.begin), end: Math.ceil(this.end), width: this.width(),
      shown: [...this.rowOf.keys()], request: this.request,
    });
  }

  receive(content, buffers) {
    if (content.type !== "picture") return;
    const bytes = (i, Kind) => {
      const view = buffers[i];
      const own = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
      return new Kind(own);
    };
    this.picture = {
      begin: content.begin, end: content.end, columns: content.columns, arrows: content.arrows,
      sliceTrack: bytes(0, Int32Array), sliceBegin: bytes(1, Float64Array),
      sliceEnd: bytes(2, Float64Array), sliceName: bytes(3, Int32Array),
      binTrack: bytes(4, Int32Array), binColumn: bytes(5, Int32Array),
      binBusy: bytes(6, Float32Array), binCount: bytes(7, Int32Array),
      arrowBegin: bytes(8, Float64Array), arrowEnd: bytes(9, Float64Array),
      arrowFrom: bytes(10, Int32Array), arrowTo: bytes(11, Int32Array),
    };
    this.waiting = false;
    // What tests and curious people read.
    this.root.dataset.marks = this.picture.sliceTrack.length + this.picture.binTrack.length;
    this.root.dataset.answers = Number(this.root.dataset.answers || 0) + 1;
    this.root.dataset.answerMs = (performance.now() - this.asked).toFixed(1);
    this.root.dataset.places = JSON.stringify({
      begin: this.begin, end: this.end, left: LABEL, width: this.width(), rows: this.placed.rows,
    });
    this.draw();
    if (this.again) { this.again = false; this.ask(); }
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.max(LABEL + 60, this.plot.clientWidth);
    const high = this.placed.height;
    if (this.canvas.width !== wide * ratio || this.canvas.height !== high * ratio) {
      this.canvas.width = wide * ratio;
      this.canvas.height = high * ratio;
      this.canvas.style.height = `${high}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, high);
    this.paint(new OnCanvas(context), wide, high);
    this.say();
  }

  paint(on, wide, high) {
    this.paintAxis(on, high);
    const picture = this.picture;
    if (picture) {
      const found = this.namesFound();
      this.paintBins(on, picture, wide);
      this.paintSlices(on, picture, found, wide);
      this.paintArrows(on, picture);
    }
    this.paintRange(on, high);
    this.paintJourney(on);
    on.rect(0, AXIS, LABEL, high - AXIS, "#ffffff");
    const tracks = this.model.get("tracks");
    for (const row of this.placed.rows) {
      if (row.heading !== undefined) {
        on.rect(0, row.y, wide, row.height, "#f0f0f0");
        on.text(6, row.y + 13, row.heading, "#333333", { bold: true, room: wide - 12 });
      } else {
        const label = tracks[row.track].label;
        on.text(14, row.y + 14, label, "#1c1c1c", { room: LABEL - 20 });
        on.line(0, row.y + row.height - 0.5, wide, row.y + row.height - 0.5, "#f0f0f0");
      }
    }
  }

  paintAxis(on, high) {
    const by = step(this.end - this.begin, Math.max(2, this.width() / 110));
    for (let t = Math.ceil(this.begin / by) * by; t <= this.end; t += by) {
      const x = this.xAt(t);
      on.line(x, AXIS - 4, x, high, "#e4e4e4");
      on.text(x + 3, 13, inUnits(t, by), "#555555");
    }
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
      const waits = tracks[picture.binTrack[i]].kind === "wait";
      const shade = 0.25 + 0.75 * Math.min(1, picture.binBusy[i]);
      const colour = waits ? WAIT : COLOURS[0];
      on.rect(x, row.y + 3, Math.max(end - x, 0.6), row.height - 6, colour, shade);
    }
  }

  paintSlices(on, picture, found, wide) {
    const tracks = this.model.get("tracks");
    const names = this.model.get("names");
    for (let i = 0; i < picture.sliceTrack.length; i += 1) {
      const row = this.rowOf.get(picture.sliceTrack[i]);
      if (!row) continue;
      const x0 = Math.max(LABEL, this.xAt(picture.sliceBegin[i]));
      const x1 = Math.min(wide, this.xAt(picture.sliceEnd[i]));
      if (x1 < LABEL || x0 > wide) continue;
      const waits = tracks[picture.sliceTrack[i]].kind === "wait";
      const name = picture.sliceName[i];
      const hit = found.has(name);
      const colour = waits ? WAIT : COLOURS[name % COLOURS.length];
      const faded = this.searched && found.size > 0 && !hit && !waits;
      const room = Math.max(x1 - x0, 1);
      on.rect(x0, row.y + 3, room, row.height - 6, colour, faded ? 0.2 : 0.9);
      if (hit) on.rect(x0, row.y + row.height - 4, Math.max(room, 2), 2, FOUND);
      if (room > 45 && !waits) {
        on.text(x0 + 3, row.y + 14, names[name], "#ffffff", { room: room - 6 });
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
      const y1 = to.y + to.height / 2;
      const y0 = from ? from.y + from.height / 2 : y1 - to.height / 2;
      this.arrow(on, x0, y0, x1, y1, "#555555", 0.8);
    }
  }

  arrow(on, x0, y0, x1, y1, colour, width) {
    on.line(x0, y0, x1, y1, colour, width);
    const angle = Math.atan2(y1 - y0, x1 - x0);
    for (const turn of [2.6, -2.6]) {
      on.line(x1, y1, x1 + 6 * Math.cos(angle + turn), y1 + 6 * Math.sin(angle + turn), colour, width);
    }
  }

  paintRange(on, high) {
    if (!this.range) return;
    const [x0, x1] = this.range.map((t) => this.xAt(t));
    on.rect(Math.max(LABEL, x0), AXIS, Math.max(1, x1 - Math.max(LABEL, x0)), high, "#0072B2", 0.12);
  }

  paintJourney(on) {
    const journey = this.model.get("journey");
    if (!journey || !journey.hops) return;
    const first = journey.hops.length ? journey.hops[0].begin : journey.begin;
    on.line(this.xAt(first), AXIS, this.xAt(first), this.placed.height, FOUND, 1.2);
    on.line(this.xAt(journey.begin), AXIS, this.xAt(journey.begin), this.placed.height, FOUND, 1.2);
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
    this.status.textContent = parts.join(" · ");
  }

  trackAt(y) {
    return this.placed.rows.find(
      (row) => row.track !== undefined && y >= row.y && y < row.y + row.height,
    );
  }

  hover(event) {
    const row = this.trackAt(event.offsetY);
    if (!row || !this.picture || event.offsetX < LABEL) { this.canvas.title = ""; return; }
    const t = this.timeAt(event.offsetX);
    const names = this.model.get("names");
    let text = "";
    for (let i = 0; i < this.picture.sliceTrack.length; i += 1) {
      if (this.picture.sliceTrack[i] === row.track && this.picture.sliceBegin[i] <= t
          && t <= this.picture.sliceEnd[i]) {
        const took = inUnits(this.picture.sliceEnd[i] - this.picture.sliceBegin[i]);
        text = `${names[this.picture.sliceName[i]]}: ${took}`;
      }
    }
    this.canvas.title = text;
  }

  click(x, y) {
    const row = this.trackAt(y);
    if (!row || x < LABEL) return;
    this.model.send({
      type: "click", track: row.track, time: this.timeAt(x),
      within: (this.end - this.begin) / this.width(),
    });
  }

  selectRange() {
    const origin = BigInt(this.model.get("origin"));
    const moments = this.range.map((t) => String(origin + BigInt(Math.round(t))));
    this.model.set("selected_range", moments);
    this.model.save_changes();
    this.draw();
  }

  clearRange() {
    this.range = null;
    this.model.set("selected_range", []);
    this.model.save_changes();
    this.draw();
  }

  toRange() { if (this.range) this.go(...this.range); }

  saveSvg() {
    const wide = Math.max(LABEL + 60, this.plot.clientWidth);
    const on = new OnSvg(wide, this.placed.height);
    this.paint(on, wide, this.placed.height);
    const url = URL.createObjectURL(new Blob([on.toString()], { type: "image/svg+xml" }));
    download("timeline.svg", url);
    URL.revokeObjectURL(url);
  }

  showJourney() {
    const journey = this.model.get("journey");
    this.detail.replaceChildren();
    if (!journey || !journey.name) {
      element("span", this.detail, "Click a callback for its message; shift and drag for a range.");
      this.draw();
      return;
    }
    element("b", this.detail, `${journey.name} in ${journey.node}, ${journey.duration_ms} ms`);
    if (journey.hops.length) {
      const way = `${journey.publisher_node} → ${journey.subscription_node}, message `
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
      element("div", this.detail, "No message: a timer, a service, or a message without a match.");
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
