// node scripts/site-check.mjs: opens each page of dist/site in Chromium, at the widths of a phone and of
// a desk, and fails if a link or an anchor leads nowhere, a page is wider than its window, a script fails
// or anything is loaded from another host. Then it searches the site as files, without a server.
// Screenshots of some pages go to dist/site-check/.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { extname, join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "..");
const site = join(root, "dist/site");
const puppeteer = createRequire(join(root, ".venv/clients/browser/x"))("puppeteer-core");
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json", ".png": "image/png" };
const shots = new Set(["/index.html", "/guide/concepts.html", "/guide/comparison.html", "/reference/pipeline-file.html"]);

/** Returns the file that the server sends for a path, "" if there is none. */
function fileOf(path) {
  const file = join(site, decodeURIComponent(path));
  const index = existsSync(file) && statSync(file).isDirectory() ? join(file, "index.html") : file;
  return existsSync(index) ? index : "";
}

const server = createServer((request, response) => {
  const file = fileOf(new URL(request.url, "http://site").pathname);
  response.writeHead(file ? 200 : 404, { "content-type": types[extname(file)] ?? "application/octet-stream" });
  response.end(file ? readFileSync(file) : "");
}).listen(0, "127.0.0.1");
await new Promise((done) => server.on("listening", done));
const origin = `http://127.0.0.1:${server.address().port}`;

const pages = readdirSync(site, { recursive: true }).filter((f) => f.endsWith(".html")).map((f) => "/" + f).sort();
const faults = [], anchors = new Map(), links = [];
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const tab = await browser.newPage();
let at = "";
tab.on("pageerror", (error) => faults.push(`${at}: ${error.message}`));
tab.on("request", (request) => { if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(origin)) faults.push(`${at}: loads ${request.url()}`); });
tab.on("response", (response) => { if (response.status() >= 400) faults.push(`${at}: ${response.status()} for ${response.url()}`); });
mkdirSync(join(root, "dist/site-check"), { recursive: true });
for (const width of [390, 1440]) {
  await tab.setViewport({ width, height: 900 });
  for (const page of pages) {
    at = `${page} at ${width} pixels`;
    await tab.goto(origin + page, { waitUntil: "load" });
    const seen = await tab.evaluate(() => ({
      width: document.documentElement.scrollWidth,
      ids: [...document.querySelectorAll("[id], a[name]")].map((e) => e.id || e.name),
      links: [...document.querySelectorAll("a[href]")].map((e) => e.href),
    }));
    if (seen.width > width) faults.push(`${at}: is ${seen.width} pixels wide`);
    anchors.set(page, new Set(seen.ids));
    links.push(...seen.links.filter((l) => l.startsWith(origin)).map((l) => [page, new URL(l)]));
    if (shots.has(page)) await tab.screenshot({ path: join(root, `dist/site-check/${width}${page.replaceAll("/", "-").replace(".html", "")}.png`) });
  }
}
for (const [page, link] of links) {
  const to = decodeURIComponent(link.hash.slice(1));
  if (!fileOf(link.pathname)) faults.push(`${page}: no page ${link.pathname}`);
  else if (to && anchors.has(link.pathname) && !anchors.get(link.pathname).has(to)) faults.push(`${page}: ${link.pathname} has no #${to}`);
}
at = "search of files";
server.close();
tab.removeAllListeners("request");
await tab.goto(`file://${site}/index.html`, { waitUntil: "load" });
await tab.keyboard.press("/");
await tab.keyboard.type("watermark");
const shown = (text) => [...document.querySelectorAll("*")].some((e) => e.shadowRoot?.textContent.includes(text)); // results are in a shadow root
await tab.waitForFunction(shown, { timeout: 20_000 }, "The watermark of a partition").catch((error) => faults.push(`${at}: ${error.message}`));
await tab.screenshot({ path: join(root, "dist/site-check/search.png") });
await browser.close();
const found = [...new Set(faults)];
console.log(found.join("\n"));
console.log(`${pages.length} pages, ${links.length} links, ${found.length} faults`);
process.exit(found.length || pages.length < 100 ? 1 : 0);
