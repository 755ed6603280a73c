// The cursor, the two marks and the range; moments as text.

const Marking = (Base) => class extends Base {
  moveCursor(by) {
    const span = this.end - this.begin;
    const now = this.cursor ?? (this.begin + this.end) / 2;
    this.cursor = Math.min(Math.max(this.begin, now + by * span / 100), this.end);
    this.draw();
    this.say(`cursor at ${this.moment(this.cursor)}`);
  }

  mark() {
    if (this.cursor === null) this.cursor = (this.begin + this.end) / 2;
    this.marks = this.marks.length === 2 ? [this.cursor] : [...this.marks, this.cursor];
    this.draw();
    this.say(this.marks.length === 2 ? `marks ${this.apart()} apart`
      : `mark at ${this.moment(this.cursor)}`);
  }

  apart() { return inUnits(Math.abs(this.marks[1] - this.marks[0])); }
  moment(time) { return inUnits(time, (this.end - this.begin) / this.width()); }

  absolute(time) {
    const ns = BigInt(this.model.get("origin")) + BigInt(Math.round(time));
    const day = new Date(Number(ns / 1000000n)).toISOString().slice(0, 19).replace("T", " ");
    return `${day}.${String(ns % 1000000000n).padStart(9, "0")} UTC`;
  }

  selectRange() {
    const origin = BigInt(this.model.get("origin"));
    const moments = this.range.map((t) => String(origin + BigInt(Math.round(t))));
    this.model.set("selected_range", moments);
    this.model.save_changes();
    this.draw();
    const [begin, end] = this.range.map((t) => this.moment(t));
    this.say(`range selected: ${begin} to ${end}`);
  }

  showRange() {
    const origin = BigInt(this.model.get("origin"));
    const moments = this.model.get("selected_range");
    this.range = moments.length === 2 ? moments.map((t) => Number(BigInt(t) - origin)) : null;
    this.draw();
  }

  clear() {
    this.range = null;
    this.marks = [];
    this.model.set("selected_range", []);
    this.model.save_changes();
    this.model.send({ type: "nothing" });
    this.draw();
    this.say("nothing selected");
  }

  toRange() { if (this.range) this.go(...this.range); }
};
