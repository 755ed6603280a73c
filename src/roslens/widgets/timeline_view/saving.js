// Pictures and traces as files.

const MOST_PIXELS = 16000; // the highest picture exported as PNG

const Saving = (Base) => class extends Base {
  // Of all tracks, not only of those seen.
  save(kind) { this.saving = kind; this.ask(); }

  write() {
    const kind = this.saving;
    this.saving = null;
    const wide = Math.max(LABEL + 60, this.plot.clientWidth);
    const high = Math.min(this.placed.height, kind === "png" ? MOST_PIXELS : Infinity);
    if (kind === "svg") {
      const on = new OnSvg(wide, high, this.theme.paper);
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
      if (high < this.placed.height) this.say("the PNG has the upper tracks only; the SVG has all");
    }
    this.ask();
  }

  savePerfetto() {
    this.say("writing for Perfetto");
    this.model.send({ type: "perfetto" });
  }

  keepPerfetto(content, buffers) {
    this.say(content.refused || "saved for Perfetto");
    if (buffers.length) {
      downloadBytes("timeline.perfetto-trace", buffers[0], "application/octet-stream");
    }
  }
};
