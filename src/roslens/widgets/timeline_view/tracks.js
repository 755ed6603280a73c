// Draws tracks and arrows.

// Kinds of tracks that have one colour, which the style sheet gives; others have one per name.
const STATES = ["wait", "blocked", "running", "runnable"];

const Painting = (Base) => class extends Base {
  // Painted in the next frame, once, however often it is asked for until then.
  draw() {
    if (!this.theme) return;
    this.tell();
    this.root.dataset.places = JSON.stringify({
      begin: this.begin, end: this.end, left: LABEL, width: this.width(), top: this.top,
      rows: this.placed.rows,
    });
    this.root.dataset.state = JSON.stringify({
      by: this.by, marks: this.marks, cursor: this.cursor, pinned: this.pinned,
      hidden: [...this.hidden], collapsed: [...this.collapsed], range: this.range ?? null,
      begin: this.begin, end: this.end,
    });
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.paintAll(); });
  }

  paintAll() {
    if (!this.wide) return; // not seen: the observer will tell
    const wide = Math.max(LABEL + 60, this.wide);
    const high = this.high();
    this.paint(this.on(this.canvas, wide, high), wide, high, this.top);
    this.deep = this.room.clientHeight; // of the latency picture
    this.paintLatency(this.on(this.below, wide, this.deep), wide);
    if (this.picture) this.account(this.picture);
  }

  // What tests and curious people read.
  account(picture) {
    const dataset = this.root.dataset;
    dataset.marks = picture.sliceTrack.length + picture.binTrack.length;
    dataset.arrows = picture.arrowBegin.length;
    dataset.calls = picture.arrowKind.filter((k) => k === 1 || k === 2).length;
    dataset.drawn = performance.now();
    dataset.question = JSON.stringify(picture.question);
  }

  on(canvas, wide, high) {
    const ratio = window.devicePixelRatio || 1;
    const size = [wide, high].map((length) => Math.round(length * ratio));
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.height = `${high}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return new OnCanvas(context);
  }

  // From `top` on: what is above is not seen.
  paint(on, wide, high, top) {
    this.shift = top;
    on.rect(0, 0, wide, high, this.theme.paper);
    for (const pinned of [false, true]) this.paintRows(on, wide, high, pinned);
    if (this.picture) this.paintArrows(on, this.picture);
    this.paintRange(on, AXIS, high);
    this.paintWay(on, high);
    this.paintAxis(on, wide);
  }

  paintRows(on, wide, high, pinned) {
    const bottom = this.placed.bottom;
    if (pinned && bottom === AXIS) return;
    if (pinned) on.rect(0, AXIS, wide, bottom - AXIS, this.theme.paper);
    const seen = this.placed.rows.filter((r) => Boolean(r.pinned) === pinned
      && this.y(r) + r.height >= (pinned ? 0 : bottom) && this.y(r) <= high);
    for (const row of seen) {
      const y = this.y(row);
      if (row.heading === undefined) {
        on.line(0, y + row.height - 0.5, wide, y + row.height - 0.5, this.theme.soft);
      } else {
        on.rect(0, y, wide, row.height, this.theme.soft);
      }
    }
    this.ticks((t) => on.line(this.xAt(t), AXIS, this.xAt(t), pinned ? bottom : high, this.theme.line));
    const rowByTrack = new Map(seen.flatMap((row) => (row.track === undefined ? [] : [[row.track, row]])));
    if (this.picture) {
      this.paintBins(on, this.picture, wide, rowByTrack);
      this.paintSlices(on, this.picture, wide, rowByTrack);
    }
    if (!pinned) on.rect(0, AXIS, LABEL, high - AXIS, this.theme.paper);
    for (const row of seen) this.paintLabel(on, row, wide);
    if (pinned) on.line(0, bottom, wide, bottom, this.theme.ink);
  }

  paintLabel(on, row, wide) {
    const y = this.y(row);
    if (this.keyOf(row) === this.chosen) on.rect(0, y, 4, row.height, this.theme.ink);
    if (row.heading !== undefined) {
      const count = row.closed ? ` (${row.tracks.length} tracks)` : "";
      const text = `${row.closed ? "▸" : "▾"} ${row.heading}${count}`;
      on.text(7, y + 13, text, this.theme.ink, { bold: true, room: wide - 12 });
      return;
    }
    const track = this.model.get("tracks")[row.track];
    const scale = track.top ? ` (0 to ${track.top})` : "";
    on.text(16, y + 14, row.label + scale, this.theme.ink, { room: LABEL - 22 });
  }

  paintAxis(on, wide) {
    on.rect(0, 0, wide, AXIS, this.theme.paper);
    this.ticks((t, by) => {
      on.line(this.xAt(t), AXIS - 4, this.xAt(t), AXIS, this.theme.dim);
      on.text(this.xAt(t) + 3, 13, inUnits(t, by), this.theme.dim);
    });
  }

  paintBins(on, picture, wide, rows) {
    const tracks = this.model.get("tracks");
    const per = (picture.end - picture.begin) / picture.columns;
    for (let i = 0; i < picture.binTrack.length; i += 1) {
      const row = rows.get(picture.binTrack[i]);
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
      const colour = this.theme[kind] ?? COLOURS[0];
      on.rect(x, this.y(row) + 3, Math.max(end - x, 0.6), row.height - 6, colour, shade);
    }
  }

  paintLevel(on, row, x0, x1, part) {
    const high = Math.max(0.5, Math.min(1, part) * (row.height - 3));
    on.rect(x0, this.y(row) + row.height - 1 - high, Math.max(x1 - x0, 0.6), high, CPU, 0.85);
  }

  paintSlices(on, picture, wide, rows) {
    const tracks = this.model.get("tracks");
    const names = this.model.get("names");
    for (let i = 0; i < picture.sliceTrack.length; i += 1) {
      const row = rows.get(picture.sliceTrack[i]);
      if (!row) continue;
      const x0 = Math.max(LABEL, this.xAt(picture.sliceBegin[i]));
      const x1 = Math.min(wide, this.xAt(picture.sliceEnd[i]));
      if (x1 < LABEL || x0 > wide) continue;
      const { kind, top } = tracks[picture.sliceTrack[i]];
      if (kind === "cpu") {
        this.paintLevel(on, row, x0, x1, picture.sliceLevel[i] / top);
        continue;
      }
      const waits = STATES.includes(kind);
      const name = picture.sliceName[i];
      const hit = !waits && (this.found.has(name) || this.foundTracks.includes(picture.sliceTrack[i]));
      const colour = waits ? this.theme[kind] : COLOURS[name % COLOURS.length];
      const faded = (this.found.size > 0 || this.foundTracks.length > 0) && !hit && !waits;
      const room = Math.max(x1 - x0, 1);
      const y = this.y(row);
      on.rect(x0, y + 3, room, row.height - 6, colour, faded ? 0.25 : 0.9);
      if (hit) on.rect(x0, y + row.height - 4, Math.max(room, 2), 2, this.theme.ink);
      if (room > 45 && !waits) {
        const ink = faded ? this.theme.dim : textOn(colour);
        on.text(x0 + 3, y + 14, names[name], ink, { room: room - 6 });
      }
    }
  }

  paintArrows(on, picture) {
    for (let i = 0; i < picture.arrowBegin.length; i += 1) {
      const kind = picture.arrowKind[i];
      const from = this.rowOf.get(picture.arrowFrom[i]);
      const to = this.rowOf.get(picture.arrowTo[i]) ?? (kind === 3 ? from : undefined);
      if (!to) continue;
      const x0 = Math.max(LABEL, this.xAt(picture.arrowBegin[i]));
      const x1 = Math.max(LABEL, this.xAt(picture.arrowEnd[i]));
      const y1 = this.y(to) + to.height / 2;
      const y0 = from ? this.y(from) + from.height / 2 : y1 - to.height / 2;
      if (kind === 3) {
        if (x0 > LABEL) this.cross(on, x0, from ? y0 : y1);
        continue;
      }
      const late = LATE.find(([place]) => picture.arrowPlace[i] >= Math.fround(place));
      const colour = kind ? CALL : (late ? late[1] : this.theme.dim);
      const hit = this.found.has(picture.arrowName[i]);
      const width = hit ? 2 : (late ? 1.4 : 0.8);
      this.arrow(on, x0, y0, x1, y1, colour, width, kind ? [4, 3] : []);
    }
  }

  cross(on, x, y) {
    on.line(x - 4, y - 4, x + 4, y + 4, LOST, 2);
    on.line(x - 4, y + 4, x + 4, y - 4, LOST, 2);
  }

  arrow(on, x0, y0, x1, y1, colour, width, dash) {
    on.line(x0, y0, x1, y1, colour, width, dash);
    const angle = Math.atan2(y1 - y0, x1 - x0);
    for (const turn of [2.6, -2.6]) {
      on.line(x1, y1, x1 + 6 * Math.cos(angle + turn), y1 + 6 * Math.sin(angle + turn), colour, width);
    }
  }

  // Of both pictures: the range, marks and cursor lie over them.
  paintRange(on, top, high) {
    if (this.range) {
      const [x0, x1] = this.range.map((t) => this.xAt(t));
      const left = Math.max(LABEL, x0);
      if (x1 > LABEL) on.rect(left, top, Math.max(1, x1 - left), high, this.theme.range, 0.16);
      for (const x of [x0, x1]) if (x >= LABEL) on.line(x, top, x, high, this.theme.range);
    }
    this.marks.forEach((t, i) => {
      const x = this.xAt(t);
      if (x < LABEL) return;
      on.line(x, top, x, high, this.theme.ink, 1, [6, 3]);
      if (top) on.text(x + 3, top + 11, "AB"[i], this.theme.ink, { bold: true });
    });
    const x = this.cursor === null ? -1 : this.xAt(this.cursor);
    if (x >= LABEL) on.line(x, top, x, high, this.theme.dim, 0.6);
  }

  // The callback that was clicked, and since when its message was under way.
  paintWay(on, high) {
    const journey = this.model.get("journey");
    if (!journey || !journey.name) return;
    const first = journey.hops.length ? journey.hops[0].begin : journey.begin;
    for (const t of [first, journey.begin]) {
      if (this.xAt(t) >= LABEL) on.line(this.xAt(t), AXIS, this.xAt(t), high, this.theme.ink, 1.4);
    }
    const row = this.rowOf.get(journey.track);
    if (!row) return;
    const [x0, x1] = [journey.begin, journey.end].map((t) => Math.max(LABEL, this.xAt(t)));
    const [y0, y1] = [this.y(row) + 2, this.y(row) + row.height - 2];
    for (const y of [y0, y1]) on.line(x0 - 1, y, Math.max(x1, x0 + 2), y, this.theme.ink, 2);
  }
};
