// Light or dark: the system's setting, unless the reader chose one. Runs before the page is drawn.
(() => {
  const kKey = "psgd-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem(kKey); } catch { return null; } };
  const apply = () => {
    const dark = (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-pressed", String(dark));
    document.dispatchEvent(new Event("themechange"));
  };
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem(kKey, next); } catch { document.documentElement.dataset.theme = next; }
      apply();
    });
    apply();
  });
  apply();
})();
