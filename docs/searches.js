// Ask the built site what readers ask: node docs/searches.js site. Each question has words that the first page's title, or
// its address, must hold. The index is searched by the theme's own worker, with what assets/search.js makes of a question.
const fs = require("node:fs"), path = require("node:path");
const { strict } = require("./assets/search.js");

const EXPECTED = {
  "phase noise": /phase noise|phase_noise|oscillators/i, "op-amp": /op-amp/i, opamp: /op-amp/i,
  "op-amp noise": /op-amp/i, "operational amplifier": /op-amp/i, kalman: /filter|digital_controller|sampled/i,
  controller: /controller/i, "time series": /record/i, yield: /tolerance/i, jitter: /jitter|oscillator/i,
  "monte carlo": /paths|accuracy|levels/i, earthquake: /earthquake/i, "free energy": /free_energy|plot|energ/i,
  "first passage": /passage|event/i, notebook: /jupyter|notebook/i, gpu: /gpu/i, install: /install/i,
  "write a method": /write a method|write_a_method/i, "look inside": /look inside/i, cir: /square root/i, heston: /square root/i,
  "wind load": /loads with a spectrum|structures/i, "random vibration": /mechanics/i, bayesian: /posterior/i, nan: /fail/i,
  "chemical langevin": /square root|gene/i, "square root": /square root/i, windows: /windows/i, macos: /macos/i,
};

function searcher(site) {
  const folder = path.join(site, "assets/javascripts/workers");
  const worker = fs.readFileSync(path.join(folder, fs.readdirSync(folder).find((f) => /^search.*\.js$/.test(f))), "utf8");
  const { config, docs } = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
  let hear, answered;
  const stage = { addEventListener: (_, f) => (hear = f), postMessage: (message) => answered?.(message), importScripts() {} };
  Object.assign(globalThis, stage, { self: globalThis });
  (0, eval)(worker);
  const ask = (type, data) => new Promise((resolve) => { answered = resolve; hear({ data: { type, data } }); });
  return { ready: () => ask(0, { config, docs, options: { suggest: false } }), ask: (query) => ask(2, query) };
}

async function main(site, questions) {
  const search = searcher(site);
  await search.ready();
  let wrong = 0;
  for (const question of questions.length ? questions : Object.keys(EXPECTED)) {
    let { items } = (await search.ask(strict(question))).data;
    if (!items.length) ({ items } = (await search.ask(question)).data);
    const titles = items.slice(0, 5).map((group) => `${group[0].title.replace(/<[^>]*>/g, "")} (${group[0].location})`);
    const isRight = !EXPECTED[question] || EXPECTED[question].test(titles[0] ?? "");
    if (questions.length || !isRight) console.log(`${question}: ${titles.join("; ") || "nothing"}`);
    wrong += !isRight;
  }
  process.exitCode = wrong ? 1 : 0;
}

main(process.argv[2], process.argv.slice(3));
