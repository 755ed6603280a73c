// What the kernel is asked, and what it sends.

const LATE_ANSWER = "no answer yet: the kernel is busy, or has ended";

const Asking = (Base) => class extends Base {
  ask() {
    if (!this.plot.clientWidth) return; // not laid out yet: the observer will tell
    if (this.root.classList.contains("dead")) return;
    if (this.waiting) { this.again = true; return; }
    this.waiting = true;
    this.asked = performance.now();
    clearTimeout(this.late);
    this.late = setTimeout(() => this.say(LATE_ANSWER), 5000);
    const rows = this.saving ? this.placed.rows : this.seen();
    this.question = {
      type: "view", begin: Math.floor(this.begin), end: Math.ceil(this.end), width: this.width(),
      shown: rows.flatMap((row) => (row.track === undefined ? [] : [row.track])),
      view: this.id,
    };
    this.model.send(this.question);
  }

  receive(content, buffers) {
    if (content.type === "told") this.say(content.text);
    if (content.type === "perfetto") this.keepPerfetto(content, buffers);
    // Another view of the same timeline may have asked.
    if (content.type !== "picture" || content.view !== this.id) return;
    clearTimeout(this.late);
    if (this.live.textContent === LATE_ANSWER) this.say("");
    this.waiting = false;
    this.take(content, buffers);
    // What tests and curious people read.
    this.root.dataset.answers = Number(this.root.dataset.answers || 0) + 1;
    this.root.dataset.answerMs = (performance.now() - this.asked).toFixed(1);
    if (this.saving && this.picture.whole) this.write();
    if (this.again) { this.again = false; this.ask(); }
  }

  dead() {
    clearTimeout(this.late);
    this.root.classList.add("dead");
    this.say("The kernel has ended: run all cells again (Run, Restart Kernel and Run All Cells).");
  }

  take(content, buffers) {
    const bytes = (i, Kind) => {
      const view = buffers[i];
      const copy = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
      return new Kind(copy);
    };
    this.picture = {
      question: this.question || {},
      begin: content.begin, end: content.end, columns: content.columns, arrows: content.arrows,
      whole: content.shown >= this.placed.rows.filter((row) => row.track !== undefined).length,
      sliceTrack: bytes(0, Int32Array), sliceBegin: bytes(1, Float64Array),
      sliceEnd: bytes(2, Float64Array), sliceName: bytes(3, Int32Array),
      sliceLevel: bytes(4, Float32Array),
      binTrack: bytes(5, Int32Array), binColumn: bytes(6, Int32Array),
      binBusy: bytes(7, Float32Array), binCount: bytes(8, Int32Array),
      arrowBegin: bytes(9, Float64Array), arrowEnd: bytes(10, Float64Array),
      arrowFrom: bytes(11, Int32Array), arrowTo: bytes(12, Int32Array),
      arrowName: bytes(13, Int32Array), arrowKind: bytes(14, Int32Array),
      arrowPlace: bytes(15, Float32Array),
      latency: {
        ...content.latency, cell: bytes(16, Int32Array), count: bytes(17, Int32Array),
        lost: bytes(18, Int32Array),
      },
    };
    this.draw();
  }
};
