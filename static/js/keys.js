// Copy buttons, and where the eye goes after a key was made.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const copied = await copy(source);
  const said = document.getElementById("copy-status");
  said.textContent = copied ? said.dataset.copied : said.dataset.failed;
  button.classList.toggle("btn-success", copied);
  setTimeout(() => button.classList.remove("btn-success"), 2_000);
});

// Browsers keep the clipboard from pages that came over plain HTTP from another machine; then
// the text is at least selected, and the old command tried.
async function copy(source) {
  const text = source.value ?? source.textContent;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const selection = getSelection();
    selection.removeAllRanges();
    const range = document.createRange();
    range.selectNodeContents(source);
    selection.addRange(range);
    source.select?.();
    return document.execCommand("copy");
  }
}

document.addEventListener("htmx:after:swap", () => {
  document.querySelector("[data-made]")?.focus();
});

// What the server refuses with a page of its own is not swapped in; nor is a broken network.
for (const name of ["htmx:response:error", "htmx:error"]) {
  document.addEventListener(name, (event) => {
    if (event.detail.ctx?.response?.status === 422) return; // the form itself says what is wrong
    const problem = document.getElementById("problem");
    if (problem) problem.hidden = false;
  });
}
