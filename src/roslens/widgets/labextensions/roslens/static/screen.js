// Shows the start notebook as one screen: runs its cells when it opens, and lays the outputs of those
// that are panes (metadata `pane`, their title) side by side in JupyterLab's own dock.
//
// Written as JupyterLab loads extensions, so that nothing has to be built.

// From top to bottom, each row from left to right: the share of each, and the titles of its cells.
const SCREEN = [
  [0.5, [[1, "Timeline"]]],
  [0.26, [[0.28, "Runs"], [0.39, "Topics"], [0.33, "Worst messages"]]],
  [0.24, [[0.27, "Callbacks"], [0.2, "Nodes"], [0.27, "Chains"], [0.26, "Message", "Notebooks"]]],
];

// A pane: another view of what the cell of that title shows.
function paneOf(app, panel, title) {
  const cell = panel.content.widgets.find((widget) => widget.model.getMetadata("pane") === title);
  if (!cell || !cell.cloneOutputArea) return null;
  const pane = cell.cloneOutputArea();
  pane.id = `roslens-${title}`.replaceAll(" ", "-");
  pane.title.label = title;
  pane.title.closable = true;
  pane.node.dataset.notebook = panel.id;
  pane.addClass("roslens-pane");
  panel.disposed.connect(() => pane.dispose());
  app.shell.add(pane, "main", { activate: false });
  return pane;
}

const tabs = (widgets) => ({ type: "tab-area", widgets, currentIndex: 0 });

// Shares of what there is: a cell may have been deleted.
function split(orientation, parts) {
  const present = parts.filter(([, child]) => child);
  return present.length && {
    type: "split-area", orientation,
    sizes: present.map(([size]) => size), children: present.map(([, child]) => child),
  };
}

function layOut(app, panel) {
  const rows = SCREEN.map(([height, row]) => [height, row.map(([width, ...titles]) => {
    const panes = titles.map((title) => paneOf(app, panel, title)).filter((pane) => pane);
    return [width, panes.length ? tabs(panes) : null];
  })]);
  const first = rows[0][1][0];
  // The notebook lies behind the first pane.
  first[1] = first[1] ? tabs([...first[1].widgets, panel]) : tabs([panel]);
  const main = split("vertical", rows.map(([height, row]) => [height, split("horizontal", row)]));
  panel.parent.restoreLayout({ main });
  app.shell.collapseLeft();
  app.shell.collapseRight();
}

// A link to a notebook of the pane opens it beside the timeline.
function openBeside(app, event) {
  const link = event.target.closest?.("a.roslens-notebook");
  const pane = link?.closest("[data-notebook], .jp-NotebookPanel");
  if (!pane) return;
  event.preventDefault();
  const id = pane.dataset.notebook ?? pane.id;
  const panel = [...app.shell.widgets("main")].find((widget) => widget.id === id);
  const folder = panel.context.path.split("/").slice(0, -1);
  const path = [...folder, link.getAttribute("href")].join("/");
  const options = { mode: "split-right", ref: "roslens-Timeline" };
  app.commands.execute("docmanager:open", { path, options });
}

// What a widget is not told: that the kernel of its notebook ended, also if another one was started.
const ENDED = ["restarting", "autorestarting", "terminating", "dead"];

function tellTheEnd(panel) {
  const selectors = [`#${panel.id}`, `[data-notebook="${panel.id}"]`];
  panel.sessionContext.statusChanged.connect((_, status) => {
    if (!ENDED.includes(status)) return;
    const shown = document.querySelectorAll(
      selectors.map((selector) => `${selector} .roslens-timeline`).join());
    for (const timeline of shown) timeline.dispatchEvent(new Event("roslens-kernel-ended"));
  });
}

// An empty screen would seem broken: what was never read is collected first, which can take minutes,
// and an error stands in the notebook, behind the first pane.
async function tellUntilSeen(panel, ran) {
  const pane = document.getElementById("roslens-Timeline");
  if (!pane) return;
  const note = document.createElement("p");
  note.textContent = "Reading the recordings; those that are new are collected first …";
  note.style.cssText = "position: absolute; margin: 1em";
  pane.append(note);
  new MutationObserver((_, observer) => {
    if (pane.querySelector(".jp-OutputArea-output")) { note.remove(); observer.disconnect(); }
  }).observe(pane, { childList: true, subtree: true });
  await ran;
  const outputs = panel.content.widgets.flatMap((cell) => cell.model.sharedModel.outputs ?? []);
  note.textContent = outputs.find((output) => output.output_type === "error")?.evalue ?? "";
}

async function open(app, panel) {
  tellTheEnd(panel);
  await panel.context.ready;
  await panel.revealed;
  if (!panel.content.model.getMetadata("roslens")?.screen) return;
  await panel.sessionContext.ready;
  app.shell.activateById(panel.id);
  const ran = app.commands.execute("notebook:run-all-cells");
  layOut(app, panel);
  await tellUntilSeen(panel, ran);
}

// The start page, where the address names nothing else: JupyterLab itself opens what an address names
// only after it has waited for half a second and more.
function openStart(app) {
  const { roslensStart: path, treePath } = JSON.parse(
    document.getElementById("jupyter-config-data").textContent);
  const isOpen = [...app.shell.widgets("main")].some((widget) => widget.context?.path === path);
  if (path && !treePath && !isOpen) app.commands.execute("docmanager:open", { path });
}

const plugin = {
  id: "roslens:screen",
  autoStart: true,
  activate(app) {
    const panels = new Set();
    document.addEventListener("click", (event) => openBeside(app, event));
    function look() {
      for (const panel of app.shell.widgets("main")) {
        if (!panel.context || !panel.sessionContext || panels.has(panel)) continue;
        panels.add(panel);
        open(app, panel);
      }
    }
    app.restored.then(() => {
      openStart(app);
      look();
      app.shell.layoutModified.connect(look);
    });
  },
};

(window._JUPYTERLAB ??= {}).roslens = {
  init() {},
  async get() { return () => ({ __esModule: true, default: plugin }); },
};
