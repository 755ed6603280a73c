// Keys and the pointer.

const Listening = (Base) => class extends Base {
  listen() {
    const canvas = this.canvas;
    this.plot.addEventListener("scroll", () => {
      this.top = this.plot.scrollTop;
      this.draw();
      this.ask();
    });
    for (const surface of [canvas, this.below]) {
      surface.addEventListener("wheel", (event) => {
        event.preventDefault();
        if (event.shiftKey) this.plot.scrollTop += event.deltaY || event.deltaX;
        else this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.timeAt(event.offsetX));
      }, { passive: false });
      surface.addEventListener("pointerdown", (event) => {
        surface.setPointerCapture(event.pointerId);
        canvas.focus({ preventScroll: true });
        this.drag = {
          x: event.offsetX, begin: this.begin, end: this.end, range: event.shiftKey, moved: false,
        };
      });
      surface.addEventListener("pointermove", (event) => this.move(event, surface));
      surface.addEventListener("pointerup", (event) => {
        const drag = this.drag;
        this.drag = null;
        if (!drag) return;
        if (drag.range && drag.moved) this.selectRange();
        else if (!drag.moved && surface === canvas) this.click(event.offsetX, event.offsetY);
        else if (!drag.moved) this.clickLatency(event.offsetX, event.offsetY);
      });
    }
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("roslens-kernel-ended", () => this.dead());
  }

  move(event, surface) {
    this.cursor = event.offsetX < LABEL ? null : this.timeAt(event.offsetX);
    if (!this.drag) {
      if (surface === this.canvas) this.hover(event);
      this.draw();
      return;
    }
    const distance = event.offsetX - this.drag.x;
    if (Math.abs(distance) > 3) this.drag.moved = true;
    if (this.drag.range) {
      this.range = [this.timeAt(this.drag.x), this.cursor ?? this.begin].sort((a, b) => a - b);
      this.draw();
    } else if (this.drag.moved) {
      const shift = -distance * (this.drag.end - this.drag.begin) / this.width();
      this.go(this.drag.begin + shift, this.drag.end + shift);
    }
  }

  key(event) {
    if (event.target === this.search) {
      // The notebook has keys of its own.
      event.stopPropagation();
      if (event.key === "Escape" || event.key === "Enter") this.canvas.focus();
      if (event.key === "Enter") this.hit(event.shiftKey ? -1 : 1);
      return;
    }
    if (event.target.tagName === "SELECT" || event.target.tagName === "BUTTON") return;
    const by = (this.end - this.begin) / 5;
    const actions = {
      ArrowLeft: () => this.go(this.begin - by, this.end - by),
      ArrowRight: () => this.go(this.begin + by, this.end + by),
      ArrowUp: () => this.choose(-1), ArrowDown: () => this.choose(1),
      PageUp: () => { this.plot.scrollTop -= this.high() / 2; },
      PageDown: () => { this.plot.scrollTop += this.high() / 2; },
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      Home: () => this.go(...this.model.get("extent")),
      n: () => this.step(1), p: () => this.step(-1),
      ".": () => this.hit(1), ",": () => this.hit(-1),
      "[": () => this.moveCursor(-1), "]": () => this.moveCursor(1), m: () => this.mark(),
      r: () => {
        this.range = this.marks.length === 2 ? this.marks.toSorted((a, b) => a - b)
          : [this.begin, this.end];
        this.selectRange();
      },
      z: () => this.toRange(),
      g: () => this.group(GROUPS[(GROUPS.indexOf(this.by) + 1) % GROUPS.length]),
      c: () => this.collapse(), C: () => this.collapseAll(),
      i: () => this.pin(), h: () => this.hide(), H: () => this.unhide(),
      t: () => {
        const topics = this.model.get("topics");
        const next = (topics.indexOf(this.model.get("topic")) + 1) % topics.length;
        if (topics.length) this.showTopic(topics[next]);
      },
      "/": () => { this.search.focus(); this.search.select(); },
      "?": () => this.help(),
      Escape: () => (this.panel.hidden ? this.clear() : this.help()),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }
};
