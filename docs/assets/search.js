// What is asked of the search: every word is required, words that the pages do not use stand for those that they do, and
// where no page has all words, those that have some are shown, as the theme does by itself.
(() => {
  const MEANT = {
    "op-amp": "op amp", opamp: "op amp", "operational amplifier": "op amp", "time series": "record", yield: "tolerances",
    "monte carlo": "paths", mc: "paths", mlmc: "levels", kalman: "filter", "control loop": "controller", pid: "controller",
    autocovariance: "autocorrelation", "first passage": "passage", "hitting time": "passage", pdf: "density",
    spice: "netlist", quake: "earthquake", seismic: "earthquake", dae: "differential algebraic", cuda: "gpu",
    "wind load": "structures loads", "wind loads": "structures loads", "random vibration": "noisy mechanics",
    bayesian: "posterior", bayes: "posterior", nan: "paths fail",
    jupyter: "notebook", ipynb: "notebook", brownian: "wiener", "power spectrum": "spectrum", psd: "spectrum",
  };
  const LEFT_OUT = new Set("a an and as at be by do for from how i in into is it my of on or so that the to what when which with".split(" "));

  function strict(query) {
    if (/[+~^":*]|(^|\s)-/.test(query)) return query; // the reader knows the operators
    let rest = ` ${query.toLowerCase().replace(/\s+/g, " ").trim()} `;
    const required = [], optional = [];
    for (const [words, meant] of Object.entries(MEANT))
      if (rest.includes(` ${words} `)) {
        rest = rest.replace(` ${words} `, " ");
        required.push(...meant.split(" "));
        optional.push(...words.split(/[\s-]/));
      }
    for (const word of rest.split(/[\s\-_.,()]+/))
      if (word && !LEFT_OUT.has(word)) required.push(word.length > 4 ? word.replace(/s$/, "") : word);
    if (!required.length) return query;
    const exact = required.map((word) => `${word}^10`); // phase before phases
    return [...required.map((word) => `+${word}*`), ...exact, ...optional.map((word) => `${word}^3`)].join(" ");
  }

  if (typeof module !== "undefined") return void (module.exports = { strict, MEANT });
  const Plain = window.Worker;
  window.Worker = class extends Plain {
    constructor(...given) {
      super(...given);
      this.asked = [];
      this.addEventListener("message", (event) => {
        if (event.data?.type !== 3) return;
        const query = this.asked.shift();
        if (query !== undefined && !event.data.data?.items?.length) {
          event.stopImmediatePropagation(); // nothing has all words
          this.asked.unshift(undefined);
          super.postMessage({ type: 2, data: query });
        }
      });
    }
    postMessage(message, ...more) {
      if (message?.type !== 2) return super.postMessage(message, ...more);
      const query = strict(message.data);
      this.asked.push(query === message.data ? undefined : message.data);
      super.postMessage({ ...message, data: query }, ...more);
    }
  };
})();
