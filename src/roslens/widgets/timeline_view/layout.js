// Which tracks are drawn where: grouped, collapsed, pinned, hidden.

const ROW = 20;
const GROUP = 18;
const AXIS = 24;
const GROUPS = ["process", "node", "executor"];

// Rows from top to bottom: what is pinned, then a heading per group with its tracks.
function layout(tracks, { by, collapsed, pinned, hidden }) {
  const rows = [];
  let y = AXIS;
  const add = (row, height) => { rows.push({ ...row, y, height }); y += height; };
  for (const track of pinned) {
    add({ track, label: tracks[track].places[by].join(": "), pinned: true }, ROW);
  }
  const bottom = y;
  const groups = new Map();
  tracks.forEach((track, index) => {
    const [heading, label] = track.places[by];
    if (!groups.has(heading)) groups.set(heading, []);
    if (!hidden.has(index) && !pinned.includes(index)) groups.get(heading).push([index, label]);
  });
  for (const [heading, members] of groups) {
    if (!members.length) continue;
    const closed = collapsed.has(heading);
    add({ heading, closed, tracks: members.map(([index]) => index) }, GROUP);
    if (!closed) for (const [track, label] of members) add({ track, label, heading_of: heading }, ROW);
  }
  return { rows, height: y + 4, bottom };
}

const Arranging = (Base) => class extends Base {
  arrange() {
    this.placed = layout(this.model.get("tracks"), this);
    this.rowOf = new Map();
    for (const row of this.placed.rows) {
      // Arrows end at the heading of a group that is collapsed.
      if (row.closed) for (const track of row.tracks) this.rowOf.set(track, row);
      if (row.track !== undefined) this.rowOf.set(row.track, row);
    }
    this.inner.style.height = `${this.placed.height}px`;
    this.find();
    this.ask();
  }

  chosenRow() {
    return this.placed.rows.find((row) => this.keyOf(row) === this.chosen);
  }

  keyOf(row) { return row.track ?? row.heading; }

  group(by) {
    this.by = by;
    this.groups.value = by;
    this.arrange();
    this.say(`grouped by ${by}`);
  }

  collapse() {
    const row = this.chosenRow();
    const heading = row && (row.heading ?? row.heading_of);
    if (heading === undefined) { this.say("choose a track first: arrow down"); return; }
    const closed = this.collapsed.has(heading);
    if (closed) this.collapsed.delete(heading); else this.collapsed.add(heading);
    this.chosen = heading;
    this.arrange();
    this.say(`${heading} ${closed ? "expanded" : "collapsed"}`);
  }

  collapseAll() {
    const headings = this.placed.rows.flatMap((row) => row.heading ?? []);
    const open = headings.some((heading) => !this.collapsed.has(heading));
    this.collapsed = new Set(open ? headings : []);
    this.arrange();
    this.say(open ? "all groups collapsed" : "all groups expanded");
  }

  chosenTrack() {
    const row = this.chosenRow();
    if (row && row.track !== undefined) return row.track;
    this.say("choose a track first: arrow down");
    return undefined;
  }

  pin() {
    const track = this.chosenTrack();
    if (track === undefined) return;
    const pinned = this.pinned.includes(track);
    this.pinned = pinned ? this.pinned.filter((each) => each !== track) : [...this.pinned, track];
    this.arrange();
    this.say(`${this.labelOf(track)} ${pinned ? "no longer pinned" : "pinned to the top"}`);
  }

  hide() {
    const track = this.chosenTrack();
    if (track === undefined) return;
    this.pinned = this.pinned.filter((each) => each !== track);
    this.hidden.add(track);
    this.arrange();
    this.say(`${this.labelOf(track)} hidden; H shows all`);
  }

  unhide() {
    this.hidden.clear();
    this.arrange();
    this.say("all tracks shown");
  }

  labelOf(track) { return this.model.get("tracks")[track].places[this.by].join(", "); }
};
