// Reads Mermaid texts (a JSON list on standard input) with Mermaid's own parser; prints what it understood.
// Arguments: the folders of the packages mermaid and jsdom. Mermaid cleans labels with a browser's document.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [mermaidFolder, jsdomFolder] = process.argv.slice(2);
const { JSDOM } = createRequire(`${jsdomFolder}/`)(jsdomFolder);
const { window } = new JSDOM("");
Object.assign(globalThis, { window, document: window.document, Element: window.Element });
const { default: mermaid } = await import(pathToFileURL(`${mermaidFolder}/dist/mermaid.core.mjs`));

const decoded = (text) => {
    const html = (text ?? "").replace(/ﬂ°°/g, "&#").replace(/ﬂ°/g, "&").replace(/¶ß/g, ";").replace(/<br>/g, "\n");
    const area = window.document.createElement("textarea");
    area.innerHTML = html;
    return area.value;
};

let given = "";
for await (const part of process.stdin) given += part;
const read = [];
for (const text of JSON.parse(given)) {
    await mermaid.parse(text);
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    const nodes = [...db.getVertices().values()];
    read.push({
        nodes: nodes.map((n) => ({ id: n.id, text: decoded(n.text), shape: n.type, classes: n.classes })),
        edges: db.getEdges().map((e) => ({ from: e.start, to: e.end, text: decoded(e.text), line: e.stroke })),
    });
}
console.log(JSON.stringify(read));
