// The latency of one topic, drawn below the tracks.

const PaintingLatency = (Base) => class extends Base {
  showTopic(topic) {
    this.model.set("topic", topic);
    this.model.save_changes();
    this.say(`latency of ${topic}`);
  }

  // Height of a latency in the picture below: its logarithm.
  level(latency) {
    const { low, high } = this.picture.latency;
    return this.deep - 8 - (this.deep - 20) * Math.log(latency / low) / Math.log(high / low);
  }

  paintLatency(on, wide) {
    on.rect(0, 0, wide, this.deep, this.theme.paper);
    on.line(0, 0.5, wide, 0.5, this.theme.line);
    this.ticks((t) => on.line(this.xAt(t), 0, this.xAt(t), this.deep, this.theme.line));
    if (!this.picture) return;
    const { begin, end, latency } = this.picture;
    const per = (end - begin) / latency.columns;
    const high = (this.deep - 20) / latency.rows;
    const most = Math.log(1 + latency.count.reduce((a, b) => Math.max(a, b), 1));
    for (let i = 0; i < latency.cell.length; i += 1) {
      const [column, row] = [Math.floor(latency.cell[i] / latency.rows), latency.cell[i] % latency.rows];
      const x = this.xAt(begin + column * per);
      const wider = Math.max(2.5, this.xAt(begin + (column + 1) * per) - x);
      if (x < LABEL - 1 || x > wide) continue;
      const shade = Math.log(1 + latency.count[i]) / most;
      const colour = this.theme.heat[Math.min(3, Math.floor(4 * shade))];
      on.rect(Math.max(LABEL, x), this.deep - 8 - (row + 1) * high, wider, Math.max(2.5, high), colour);
    }
    latency.lost.forEach((count, column) => {
      const x = this.xAt(begin + (column + 0.5) * per);
      if (count && x > LABEL) this.cross(on, x, 7);
    });
    this.paintRange(on, 0, this.deep);
    on.rect(0, 1, LABEL, this.deep, this.theme.paper);
    on.text(7, 14, "latency", this.theme.ink, { bold: true });
    on.text(7, 30, latency.topic || "no message has a latency", this.theme.ink, { room: LABEL - 75 });
    on.text(7, 46, "publish to callback_start", this.theme.dim, { room: LABEL - 75 });
    if (latency.lost.some((count) => count)) on.text(7, 62, "× did not arrive", LOST, { room: 150 });
    const lines = [[latency.p50, "P50"], [latency.p99, "P99"]].filter(([value]) => value !== null);
    const places = lines.map(([value]) => this.level(value));
    // Close to each other, their labels make room: P50's downwards, P99's upwards.
    const room = lines.length > 1 ? Math.max(0, 12 - (places[0] - places[1])) / 2 : 0;
    const labelPlaces = places.map((y, i) => y + (i ? -room : room));
    for (const end of [latency.low, latency.high]) {
      if (labelPlaces.some((y) => Math.abs(y - this.level(end)) < 12)) continue;
      on.text(LABEL - 52, this.level(end) + 4, inUnits(end, end / 10), this.theme.dim);
    }
    lines.forEach(([value, name], i) => {
      on.line(LABEL, places[i], wide, places[i], this.theme.dim, 0.7, [2, 3]);
      const text = `${name} ${inUnits(value, value / 100)}`;
      on.text(LABEL - 80, labelPlaces[i] + 4, text, this.theme.ink, { room: 78 });
    });
  }

  clickLatency(x, y) {
    if (x < LABEL || !this.picture) return;
    const { low, high } = this.picture.latency;
    const per = Math.log(high / low) / (this.deep - 20);
    this.model.send({
      type: "message", time: this.timeAt(x), latency: low * Math.exp((this.deep - 8 - y) * per),
      within: 6 * (this.end - this.begin) / this.width(), factor: Math.exp(6 * per),
    });
  }
};
