// The graph of nodes and topics: drawn by the kernel, in which every name is escaped; here only
// what is clicked and what is marked.

const keys = (element) => [element.dataset.node || "", element.dataset.topic || ""];

export default {
  render({ model, el }) {
    const figure = document.createElement("figure");
    figure.className = "roslens-graph";
    // JupyterLab's own keys wait.
    figure.dataset.lmSuppressShortcuts = "true";
    el.append(figure);

    function mark() {
      const chosen = JSON.stringify([model.get("chosen").node || "", model.get("chosen").topic || ""]);
      const marked = new Set(model.get("marked").map((pair) => JSON.stringify(pair)));
      for (const element of figure.querySelectorAll("[data-node], [data-topic]")) {
        const pair = JSON.stringify(keys(element));
        element.classList.toggle("chosen", pair === chosen);
        element.classList.toggle("marked", marked.has(pair));
        element.setAttribute("aria-pressed", String(pair === chosen));
      }
    }

    function draw() {
      figure.innerHTML = model.get("svg");
      const caption = document.createElement("figcaption");
      caption.textContent = model.get("caption");
      figure.append(caption);
      for (const element of figure.querySelectorAll("[data-node], [data-topic]")) {
        element.setAttribute("tabindex", "0");
        element.setAttribute("role", "button");
      }
      mark();
    }

    function choose(event) {
      const element = event.target.closest && event.target.closest("[data-node], [data-topic]");
      if (!element) return;
      event.preventDefault();
      event.stopPropagation();
      const [node, topic] = keys(element);
      const chosen = model.get("chosen");
      const again = (chosen.node || "") === node && (chosen.topic || "") === topic;
      model.set("chosen", again ? {} : { node, topic });
      model.save_changes();
    }

    figure.addEventListener("click", choose);
    figure.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose(event);
    });
    model.on("change:svg change:caption", draw);
    model.on("change:chosen change:marked", mark);
    draw();
  },
};
