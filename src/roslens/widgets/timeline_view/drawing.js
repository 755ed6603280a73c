// What draws rectangles, lines and texts, on the screen and into SVG.

// Okabe and Ito (2008): told apart with every kind of colour vision.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8c8c00"];
const CPU = "#8a8a8a";
const CALL = "#8a3ffc";
const LOST = "#e0007a";
// A message by its place among the latencies of its topic: the slowest 1 %, the slowest 10 %.
const LATE = [[0.99, "#D55E00"], [0.9, "#E69F00"]];
const HEAT = ["#bdd7ee", "#6baed6", "#2b7bba", "#08488e"];
const HEAT_DARK = ["#17406b", "#2b7bba", "#7dbbe6", "#e3f1fb"];

function element(kind, parent, text) {
  const child = document.createElement(kind);
  if (text !== undefined) child.textContent = text;
  if (parent) parent.append(child);
  return child;
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
  return [1, 2, 5, 10].map((f) => f * power).find((candidate) => candidate >= raw);
}

// Black or white, whichever is read better on a colour (WCAG's relative luminance).
function textOn(colour) {
  const part = (i) => {
    const c = parseInt(colour.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > 0.18 ? "#000000" : "#ffffff";
}

class OnCanvas {
  constructor(context) { this.context = context; }
  rect(x, y, w, h, fill, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, w, h);
    this.context.globalAlpha = 1;
  }
  line(x0, y0, x1, y1, stroke, width = 1, dash = []) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = width;
    this.context.setLineDash(dash);
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.lineTo(x1, y1);
    this.context.stroke();
    this.context.setLineDash([]);
  }
  text(x, y, text, fill, { bold = false, room = Infinity } = {}) {
    this.context.fillStyle = fill;
    this.context.font = `${bold ? "600 " : ""}11px system-ui, sans-serif`;
    this.context.fillText(fitting(text, room, (s) => this.context.measureText(s).width), x, y);
  }
}

class OnSvg {
  constructor(width, height, paper) {
    this.root = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.root.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.setAttribute("font-family", "sans-serif");
    this.rect(0, 0, width, height, paper);
  }
  add(kind, attributes) {
    const child = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) child.setAttribute(name, value);
    this.root.append(child);
    return child;
  }
  rect(x, y, width, height, fill, opacity = 1) {
    this.add("rect", { x, y, width, height, fill, opacity });
  }
  line(x1, y1, x2, y2, stroke, width = 1, dash = []) {
    const shape = this.add("line", { x1, y1, x2, y2, stroke, "stroke-width": width });
    if (dash.length) shape.setAttribute("stroke-dasharray", dash.join(" "));
  }
  text(x, y, text, fill, { bold = false, room = Infinity } = {}) {
    const label = this.add("text", {
      x, y, fill, "font-size": 11, "font-weight": bold ? 600 : 400,
    });
    label.textContent = fitting(text, room, (s) => 6 * s.length);
  }
  toString() { return new XMLSerializer().serializeToString(this.root); }
}

// As much of a text as there is room for. Names may be long: halved towards, not cut one by one.
function fitting(text, room, width) {
  if (width(text) <= room) return text;
  let [fits, not] = [0, text.length];
  while (not - fits > 1) {
    const middle = (fits + not) >> 1;
    if (width(`${text.slice(0, middle)}…`) <= room) fits = middle; else not = middle;
  }
  return fits ? `${text.slice(0, fits)}…` : "";
}

function download(name, href) {
  const link = document.createElement("a");
  link.download = name;
  link.href = href;
  link.click();
}

function downloadBytes(name, bytes, type) {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  download(name, url);
  URL.revokeObjectURL(url);
}
