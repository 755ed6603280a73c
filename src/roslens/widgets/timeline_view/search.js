// Search for topics and nodes.

const Searching = (Base) => class extends Base {
  find() {
    const searched = this.model.get("searched");
    if (this.search.value !== searched) this.search.value = searched;
    this.found = this.searches()
      ? new Set(this.model.get("names").flatMap((n, i) => (this.fits(n) ? [i] : []))) : new Set();
    this.foundTracks = this.searches() ? this.model.get("tracks").flatMap(
      (track, i) => (track.kind === "callback" && this.fits(track.places.node[0]) ? [i] : [])) : [];
    if (this.searches() && !this.found.size && !this.foundTracks.length) {
      this.say(`nothing is called ${searched}`);
    } else if (this.searches()) {
      this.say(`${searched}: Enter goes to the next hit`);
    }
    this.draw();
  }

  // What is searched for, and whether a name must be it rather than hold it.
  fits(name) {
    const text = this.model.get("searched").trim().toLowerCase();
    const whole = text.length > 2 && text.startsWith('"') && text.endsWith('"');
    const lowered = name.toLowerCase();
    return whole ? lowered === text.slice(1, -1) : lowered.includes(text);
  }

  searches() { return this.model.get("searched").trim() !== ""; }

  hit(by) {
    if (!this.searches()) { this.say("search for something first: /"); return; }
    if (!this.found.size && !this.foundTracks.length) { this.find(); return; }
    this.model.send({
      type: "hit", by, names: [...this.found], tracks: this.foundTracks,
      time: by > 0 ? this.begin : this.end,
    });
  }
};
