// The pages work without this script. It remembers the theme, shows times in the zone of the browser, and
// loads pages of running jobs again.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = name => { try { return localStorage.getItem("rt-" + name); } catch { return null; } };
  const keep = (name, value) => { try { localStorage.setItem("rt-" + name, value); } catch { /* not remembered */ } };
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");

  const paintTheme = () => {
    const theme = kept("theme");
    if (theme === "light" || theme === "dark") root.dataset.bsTheme = theme;
    else delete root.dataset.bsTheme;
  };
  const isDark = () => (root.dataset.bsTheme || (prefersDark.matches ? "dark" : "light")) === "dark";
  paintTheme(); // before the first pixel

  const pad = n => String(n).padStart(2, "0");
  const zoneName = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  const isLocal = () => kept("zone") !== "utc";
  function paintTimes() {
    root.dataset.zone = isLocal() ? "local" : "utc";
    for (const e of document.querySelectorAll("time[datetime]")) {
      e.dataset.utc ||= e.textContent;
      const at = new Date(e.dateTime);
      const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
      const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}` + (e.dataset.utc.length > 16 ? `:${pad(at.getSeconds())}` : "");
      e.textContent = isLocal() ? `${date} ${clock}` : e.dataset.utc;
      e.title = e.dataset.utc.replace(/ UTC$/, "") + " UTC";
    }
    for (const e of document.querySelectorAll(".zone-name")) e.textContent = isLocal() ? zoneName() : "UTC";
    for (const e of document.querySelectorAll(".zone-switch")) e.textContent = isLocal() ? "show UTC" : "show " + zoneName();
    dispatchEvent(new Event("rt-zone"));
  }

  addEventListener("DOMContentLoaded", () => {
    for (const e of document.querySelectorAll(".needs-script")) e.hidden = false;
    document.getElementById("theme")?.addEventListener("click", () => {
      keep("theme", isDark() ? "light" : "dark");
      paintTheme();
      dispatchEvent(new Event("rt-theme"));
    });
    for (const e of document.querySelectorAll(".zone-switch")) {
      e.addEventListener("click", () => {
        keep("zone", isLocal() ? "utc" : "local");
        paintTimes();
      });
    }
    paintTimes();
    // A form leaves its empty fields out of the address.
    for (const form of document.querySelectorAll("form[method=get]")) {
      form.addEventListener("submit", () => {
        for (const e of form.elements) if (e.name && e.value === "") e.disabled = true;
      });
    }
    // A page of running jobs is loaded again, but not while the reader types or has something open.
    const secs = Number(document.body.dataset.refresh);
    const load = () => {
      if (document.querySelector("input:focus, select:focus, details[open]")) setTimeout(load, 1000);
      else location.reload();
    };
    if (secs) setTimeout(load, 1000 * secs);
    addEventListener("pageshow", () => {
      for (const e of document.querySelectorAll("form[method=get] :disabled")) e.disabled = false;
    });
    for (const e of document.querySelectorAll(".copy-link")) {
      if (!navigator.clipboard) {
        e.hidden = true;
        continue;
      }
      e.addEventListener("click", async () => {
        await navigator.clipboard.writeText(new URL(e.dataset.link || location.href, location.href).href);
        e.classList.add("done");
        e.querySelector("span").textContent = "Copied";
      });
    }
  });
})();
