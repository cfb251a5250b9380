// Runs before anything is drawn, so that a dark page never flashes white. It follows the
// system until somebody uses the switch.
(() => {
  const KEY = "fairlane-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is switched off: follow the system
    }
  };

  const show = (theme) => {
    document.documentElement.dataset.bsTheme = theme;
    document.dispatchEvent(new CustomEvent("fairlane:theme", { detail: theme }));
  };

  const wanted = () => stored() ?? (system.matches ? "dark" : "light");

  show(wanted());
  system.addEventListener("change", () => show(wanted()));

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const theme = document.documentElement.dataset.bsTheme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    show(theme);
  });
})();
