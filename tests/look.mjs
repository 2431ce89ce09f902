// Looks at pages in Chromium, at 1280 and 400 pixels, light and dark: node look.mjs CHROMIUM MODULES PICTURES PAGE...
// Prints a JSON list of what is wrong: what axe-core finds, pages that scroll sideways, letters below 9 pixels or over each
// other.
// PICTURES is a folder for a picture of each, or empty.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [chromium, modules, pictures, ...pages] = process.argv.slice(2);
const load = createRequire(pathToFileURL(`${modules}/`));
const { default: puppeteer } = await import(pathToFileURL(load.resolve("puppeteer-core")));
const axe = load.resolve("axe-core/axe.min.js");
const SMALLEST = 9; // CSS pixels

// Runs in the page: what a reader of this window would meet.
function measure(smallest) {
  const found = [];
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) found.push(`scrolls sideways: ${scrollWidth} of ${clientWidth} pixels`);
  for (const text of document.querySelectorAll("svg text")) {
    const { a, b } = text.getScreenCTM();
    const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b); // also of a text that is turned
    if (text.checkVisibility() && size < smallest) found.push(`letters of ${size.toFixed(1)} pixels: ${text.textContent}`);
  }
  for (const picture of document.querySelectorAll("svg")) {
    const texts = [...picture.querySelectorAll("text")].filter((text) => text.checkVisibility());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((one, i) => boxes.slice(0, i).forEach((other, j) => {
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (across > 1 && down > 4) found.push(`letters over each other: ${texts[i].textContent} and ${texts[j].textContent}`);
    }));
  }
  return found.slice(0, 5);
}

// In the dark a page has the same elements in the same places, and other colors.
const rules = { light: { resultTypes: ["violations"] }, dark: { resultTypes: ["violations"], runOnly: ["color-contrast"] } };
// With a pipe the browser ends when this does, however that ends.
const args = ["--no-sandbox", "--allow-file-access-from-files"];
const browser = await puppeteer.launch({ executablePath: chromium, pipe: true, args });
const page = await browser.newPage();
await page.setBypassCSP(true); // a report forbids scripts, and axe is one
const wrong = [];
for (const path of pages) {
  await page.goto(pathToFileURL(path), { waitUntil: "load" });
  await page.addScriptTag({ path: axe });
  for (const [width, height] of [[1280, 900], [400, 800]]) {
    await page.setViewport({ width, height });
    for (const scheme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      const found = await page.evaluate(measure, SMALLEST);
      const { violations } = await page.evaluate((options) => axe.run(options), rules[scheme]);
      for (const { id, help, nodes } of violations) found.push(`${id}: ${help}: ${nodes.length} times, first ${nodes[0].html.slice(0, 200)} (${nodes[0].failureSummary})`);
      wrong.push(...found.map((what) => `${path}, ${width} pixels, ${scheme}: ${what}`));
      const name = path.split("/").slice(-2).join("-").replace(/\.html$/, "");
      if (pictures) await page.screenshot({ path: `${pictures}/${name}-${width}-${scheme}.png`, fullPage: true });
    }
  }
}
await browser.close();
console.log(JSON.stringify(wrong, null, 1));
