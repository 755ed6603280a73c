// The window of time that is seen, and where its moments are.

const LABEL = 230; // width of the labels, px
const LEAST_NS = 1000; // the narrowest window

const Moving = (Base) => class extends Base {
  // Asked for with every mark: the page is asked only when its size changes.
  width() { return Math.max(50, this.wide - LABEL - 8); }
  timeAt(x) { return this.begin + (x - LABEL) * (this.end - this.begin) / this.width(); }
  xAt(time) { return LABEL + (time - this.begin) * this.width() / (this.end - this.begin); }

  ticks(each) {
    const by = step(this.end - this.begin, Math.max(2, this.width() / 110));
    for (let t = Math.ceil(this.begin / by) * by; t <= this.end; t += by) each(t, by);
  }

  y(row) { return row.pinned ? row.y : row.y - this.shift; }
  high() { return Math.max(AXIS + ROW, Math.min(this.placed.height, this.plot.clientHeight)); }

  seen() {
    return this.placed.rows.filter((row) => row.pinned
      || (row.y + row.height > this.top && row.y < this.top + this.high() + ROW));
  }

  go(begin, end) {
    const [first, last] = this.model.get("extent");
    const span = Math.min(Math.max(end - begin, LEAST_NS), last - first);
    this.begin = Math.min(Math.max(first, begin), Math.max(first, last - span));
    this.end = this.begin + span;
    this.draw();
    this.ask();
  }

  zoom(factor, around = (this.begin + this.end) / 2) {
    this.go(around + (this.begin - around) * factor, around + (this.end - around) * factor);
  }
};
