// Render what pymdownx.arithmatex has marked, \(...\) in a sentence and \[...\] on its own, with the KaTeX beside this file.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const source = element.textContent.trim();
    katex.render(source.slice(2, -2), element, { displayMode: source.startsWith("\\["), throwOnError: false });
  }
});
