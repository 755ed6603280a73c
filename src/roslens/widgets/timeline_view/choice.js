// Which track and callback are chosen, and the way of what was clicked.

const Choosing = (Base) => class extends Base {
  trackAt(y) {
    this.shift = this.top;
    const fits = (row) => y >= this.y(row) && y < this.y(row) + row.height;
    return this.placed.rows.find((row) => row.pinned && fits(row))
      || this.placed.rows.find((row) => fits(row));
  }

  hover(event) {
    const row = this.trackAt(event.offsetY);
    if (!row || row.track === undefined || !this.picture || event.offsetX < LABEL || event.offsetY < AXIS) {
      this.canvas.title = row ? (row.label ?? row.heading) : "";
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
    if (!row || y < AXIS) return;
    this.chosen = this.keyOf(row);
    if (row.heading !== undefined) { this.collapse(); return; }
    if (x < LABEL) { this.draw(); this.say(this.labelOf(row.track)); return; }
    this.model.send({
      type: "click", track: row.track, time: this.timeAt(x),
      within: (this.end - this.begin) / this.width(),
    });
  }

  choose(by) {
    const rows = this.placed.rows;
    if (!rows.length) return;
    const index = rows.findIndex((row) => this.keyOf(row) === this.chosen);
    const row = rows[Math.min(Math.max(index < 0 ? 0 : index + by, 0), rows.length - 1)];
    this.chosen = this.keyOf(row);
    this.reveal(row);
    this.draw();
    const kind = row.tracks ? `group of ${row.tracks.length}` : "track";
    this.say(`${row.heading ?? this.labelOf(row.track)} (${kind})`);
  }

  reveal(row) {
    if (row.pinned) return;
    const [high, above] = [this.high(), this.placed.bottom];
    if (row.y - above < this.top) this.plot.scrollTop = row.y - above - GROUP;
    if (row.y + ROW > this.top + high) this.plot.scrollTop = row.y + ROW - high;
  }

  step(by) {
    if (this.chosen === undefined || typeof this.chosen === "string") {
      const first = this.placed.rows.find((row) => row.track !== undefined);
      if (first) this.chosen = first.track;
    }
    // From what was clicked, if it is on this track: the kernel knows, also if keys come fast.
    this.model.send({ type: "step", track: this.chosen, time: by > 0 ? this.begin : this.end, by });
  }

  showJourney() {
    const journey = this.model.get("journey");
    if (!journey || !journey.name) { this.draw(); return; }
    const row = this.placed.rows.find((candidate) => candidate.track === journey.track);
    if (row) { this.chosen = journey.track; this.reveal(row); }
    this.cursor = journey.begin;
    const first = journey.hops.length ? journey.hops[0].begin : journey.begin;
    const span = this.end - this.begin;
    if (journey.jump && journey.jump !== this.jumped) {
      this.jumped = journey.jump;
      const room = 3 * Math.max(journey.end - first, 1e5);
      this.go(first - room, journey.end + room);
    } else if (journey.begin < this.begin || journey.begin > this.end) {
      this.go(journey.begin - span / 2, journey.begin + span / 2);
    }
    this.draw();
    const parts = [`${journey.name} in ${journey.node}, ${journey.duration_ms} ms`];
    if (journey.cpu) parts.push(journey.cpu);
    if (journey.hops.length) {
      const noun = journey.kind === "call" ? "request" : "message";
      parts.push(`${noun} ${journey.message_id} from ${journey.publisher_node}, ${journey.outcome}, `
        + `latency ${journey.latency_ms} ms`);
      parts.push(journey.hops.map((hop) => `${hop.name} ${hop.duration_ms} ms`).join(", "));
    }
    this.say(parts.join("; "));
  }
};
