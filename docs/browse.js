// Open every page of the built site in Chromium, at two widths, light and dark: node docs/browse.js site [WORDS] [FOLDER].
// WORDS names pages by a part of their address; pictures of the pages go to FOLDER. Each fault is a line: a page that is
// wider than the window, an error on its console, a picture or a file that is missing, a formula that could not be set,
// text that can hardly be read on its ground. It needs playwright-core and Chromium (CHROMIUM names another one).
const fs = require("node:fs"), path = require("node:path"), { pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");

const WIDTHS = [1280, 390], SCHEMES = ["light", "dark"];
const FAINT = 3; // the least contrast; WCAG 2 asks for 3 of large letters and 4.5 of small ones

// What a page shows of itself. It runs in the page, as `contrasts` does.
function shown() {
  const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll("article *")].filter((element) =>
    element.getBoundingClientRect().right > innerWidth + 1 && !element.closest("pre, table, .arithmatex"));
  const missing = [...document.images].filter((image) => !image.naturalWidth);
  return [
    ...(over > 0 ? [`wider than the window by ${over} pixels: ${wide[0]?.outerHTML.slice(0, 90)}`] : []),
    ...missing.map((image) => `no picture ${image.getAttribute("src")}`),
    ...[...document.querySelectorAll(".katex-error")].map((formula) => `formula ${formula.textContent.slice(0, 60)}`),
  ];
}

// The least contrast of each kind of element with text in it, by WCAG 2's formula, and such a text.
function contrasts() {
  const colour = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
  const onto = (top, low) => [0, 1, 2].map((k) => top[k] * top[3] + low[k] * (1 - top[3]));
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const words = (element) => [...element.childNodes].filter((node) => node.nodeType === 3).map((n) => n.data).join("").trim();
  const found = {};
  // An element whose parts stand on `below`, seen with `opacity`: each is styled once, however deep the page is.
  const walk = (element, below, seen) => {
    const style = getComputedStyle(element), opacity = seen * Number(style.opacity);
    // Out of sight, as the title in the header is until a reader scrolls.
    if (style.display === "none" || opacity < 0.1) return;
    const ground = onto(colour(style.backgroundColor), below);
    for (const part of element.children) walk(part, ground, opacity);
    const text = words(element), { width, height } = element.getBoundingClientRect();
    if (!text || !width || !height || style.visibility === "hidden") return;
    if (!element.closest("main, header, nav, footer") || element.closest("button, .headerlink")) return;
    const ink = colour(element instanceof SVGElement ? style.fill : style.color);
    ink[3] *= opacity;
    const [dark, light] = [luminance(onto(ink, ground)), luminance(ground)].sort((a, b) => a - b);
    const contrast = (light + 0.05) / (dark + 0.05), kind = `${element.localName}.${element.getAttribute("class") ?? ""}`;
    if (!(contrast >= found[kind]?.[0])) found[kind] = [contrast, text.slice(0, 40)];
  };
  walk(document.documentElement, [255, 255, 255], 1);
  return found;
}

async function faults(page, address) {
  const said = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("requestfailed", (request) => said.push(`${request.url()} did not load`));
  await page.goto(address);
  await page.evaluate(() => document.querySelectorAll("img").forEach((image) => { image.loading = "eager"; }));
  await page.waitForFunction(() => [...document.images].every((image) => image.complete));
  said.push(...(await page.evaluate(shown)));
  for (const [kind, [contrast, text]] of Object.entries(await page.evaluate(contrasts)))
    if (contrast < FAINT) said.push(`faint, ${contrast.toFixed(2)}: ${kind} "${text}"`);
  return said;
}

async function main(site, words = "", folder = "") {
  const files = fs.readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html") && name !== "404.html");
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update"],
  });
  let opened = 0, wrong = 0;
  for (const width of WIDTHS)
    for (const colorScheme of SCHEMES) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      context.setDefaultTimeout(600_000); // milliseconds: a busy machine is no fault
      for (const name of files.filter((file) => file.includes(words)).sort()) {
        const page = await context.newPage();
        const found = await faults(page, pathToFileURL(path.resolve(site, name)).href);
        for (const fault of found) console.log(`${name}, ${width} ${colorScheme}: ${fault}`);
        const picture = `${name.replaceAll("/", ".")}.${width}.${colorScheme}.png`;
        if (folder) await page.screenshot({ path: path.join(folder, picture), fullPage: true });
        await page.close();
        opened += 1;
        wrong += found.length;
      }
      await context.close();
    }
  await browser.close();
  console.log(`${opened} pages opened, ${wrong} faults`);
  process.exitCode = wrong || !opened ? 1 : 0;
}

main(...process.argv.slice(2));
