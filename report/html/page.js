"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (name, props, ...children) => {
    const e = Object.assign(document.createElement(name), props);
    e.append(...children);
    return e;
  };

  // Okabe and Ito's colors, which colour-blind readers can distinguish, each with a line style of its own.
  const light = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A06F00", "#3B9AD0", "#555555", "#000000"];
  const dark = ["#56B4E9", "#FF8A3D", "#2FCB9C", "#E09CC4", "#E69F00", "#8FCBF0", "#BBBBBB", "#F0E442"];
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [14, 4], [4, 2, 1, 2, 1, 2], [1, 4], [5, 5]];
  const levelDash = [10, 4], peakDash = [2, 4, 10, 4];
  let printing = false;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const { dataset } = document.documentElement; // the page around this part has the theme and the zone that were chosen
  const isDark = () => (dataset.bsTheme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const color = i => (isDark() && !printing ? dark : light)[i % light.length];
  const dash = i => dashes[(i + Math.floor(i / dashes.length)) % dashes.length];
  // The media is not print yet when beforeprint is sent.
  const paper = { "--fg": "#000", "--line": "#bbb", "--bad": "#b34a00" };
  const probe = document.querySelector(".report").appendChild(document.createElement("span"));
  const style = name => {
    if (printing) return paper[name];
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };

  // unpack reads what pack in encode.go writes; an absent value is null.
  function unpack(text, scale) {
    const bytes = atob(text), out = [];
    let value = 0, n = 0, factor = 1;
    for (let i = 0; i < bytes.length; i++) {
      const b = bytes.charCodeAt(i);
      n += (b & 127) * factor;
      factor *= 128;
      if (b & 128) continue;
      if (n === 0) {
        out.push(null);
      } else {
        const z = n - 1;
        value += z % 2 ? -(z + 1) / 2 : z / 2;
        out.push(value * scale);
      }
      n = 0;
      factor = 1;
    }
    return out;
  }

  const significant = v => Math.abs(v) < 9.995 ? v.toFixed(2) : Math.abs(v) < 99.95 ? v.toFixed(1) : v.toFixed(0);
  function size(v) {
    if (v < 1024) return Math.round(v) + " B";
    let unit = -1;
    do {
      v /= 1024;
      unit++;
    } while (v >= 1023.5 && unit < 4);
    return significant(v) + " " + ["KiB", "MiB", "GiB", "TiB", "PiB"][unit];
  }
  const formats = {
    bytes: size, "bytes/s": v => size(v) + "/s", "%": v => significant(v) + " %", W: v => significant(v) + " W",
    count: v => String(Math.round(v)), cores: significant,
  };
  // A whole number of cores has no fraction.
  const levelText = (section, v) => section.figure.unit === "cores" && Number.isInteger(v) ? String(v) : formats[section.figure.unit](v);
  const isLocal = () => dataset.zone === "local";
  const offset = at => isLocal() ? -60 * new Date(at * 1000).getTimezoneOffset() : data.offset;
  const inZone = at => {
    const d = new Date((at + offset(at)) * 1000);
    return new Date(d.getTime() + d.getTimezoneOffset() * 60000);
  };
  const clock = at => new Date((at + offset(at)) * 1000).toISOString().slice(0, 19).replace("T", " ");

  // The names of lines and levels have the same colour and style in all plots of a figure.
  const sections = [], plots = [];
  const groups = new Map();
  const groupOf = run => data.shared ? "all" : "run" + run;
  const timesOf = run => run.times ||= unpack(run.packed.times, 0.001);

  // The last zoom is in the address, for who loads the page again and for a link.
  const [zoomed, zoomFrom, zoomTo] = (new URLSearchParams(location.search).get("zoom") || "").split("_");
  function keepZoom(key, range) {
    const query = new URLSearchParams(location.search);
    query.delete("zoom");
    if (range) query.set("zoom", [key, Math.ceil(range.min * 1000) / 1000, Math.floor(range.max * 1000) / 1000].join("_"));
    try { history.replaceState(null, "", `?${query}${location.hash}`); } catch { /* a file has no such address */ }
  }

  function groupRange(key) {
    let g = groups.get(key);
    if (g) return g;
    g = { from: Infinity, to: -Infinity, zoom: null, sync: uPlot.sync(key) };
    data.runs.forEach((run, i) => {
      const t = timesOf(run);
      if (groupOf(i) !== key || t.length === 0) return;
      g.from = Math.min(g.from, t[0]);
      g.to = Math.max(g.to, t[t.length - 1]);
    });
    if (g.to <= g.from) g.to = g.from + 1;
    const isInside = zoomed === key && Number(zoomFrom) >= g.from && Number(zoomFrom) < Number(zoomTo) && Number(zoomTo) <= g.to;
    if (isInside) g.zoom = { min: Number(zoomFrom), max: Number(zoomTo) };
    groups.set(key, g);
    return g;
  }

  function zoom(key, range) {
    const g = groupRange(key);
    const width = range && range.max - range.min;
    g.zoom = range && width < g.to - g.from ? { min: Math.max(g.from, range.min), max: Math.min(g.to, range.max) } : null;
    const to = g.zoom || { min: g.from, max: g.to };
    keepZoom(key, g.zoom);
    g.applying = true;
    for (const p of plots) if (p.group === key && p.u) p.u.setScale("x", to);
    g.applying = false;
  }

  function linesOf(section, run) {
    return section.figure.unit === "lanes" ? [] : run.packed.lines.filter(l => l.f === section.figure.key);
  }
  const levelsOf = (section, run) => (run.levels || []).filter(l => l.f === section.figure.key);

  // top is the end of the vertical axis: the same for all plots of a section.
  function top(section) {
    let m = 0;
    for (const run of data.runs) {
      for (const l of linesOf(section, run)) if (!section.hidden.has(l.n)) m = Math.max(m, l.m);
      for (const l of levelsOf(section, run)) if (!section.hidden.has(l.n)) m = Math.max(m, l.v);
    }
    if (section.figure.unit === "%" && m <= 100) return 100;
    return m > 0 ? m * 1.05 : 1;
  }

  function optionsOf(p) {
    const { section, run } = p, g = groupRange(p.group), unit = section.figure.unit;
    const tick = unit.startsWith("bytes") ? v => formats[unit](v).replace(/\.(\d*?)0+ /, (all, digits) => digits ? "." + digits + " " : " ") : v => +v.toFixed(3) + (unit === "%" || unit === "W" ? " " + unit : "");
    const axis = { space: 24, stroke: style("--fg"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 } };
    const x = { ...axis, space: 60, values: [
      [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
      [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
      [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
      [0.001, "{HH}:{mm}:{ss}.{fff}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
    ] };
    const y = { ...axis, size: u => u.width < 600 ? 84 : 120, values: (u, splits) => splits.map(tick) };
    if (unit.startsWith("bytes")) y.incrs = Array.from({ length: 50 }, (_, i) => 2 ** i);
    const steps = Array.from({ length: 27 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
    if (unit === "count") y.incrs = steps;
    if (unit === "cores") y.incrs = steps.map(v => v / 1000);
    const options = {
      width: widthOf(p), height: section.many ? 170 : printing ? 200 : 240, legend: { show: false }, tzDate: inZone,
      cursor: {
        sync: { key: p.group }, drag: { x: true, y: false }, points: { size: 6 },
        bind: { dblclick: () => () => { zoom(p.group, null); return null; } },
      },
      scales: { x: { time: true, min: (g.zoom || g).min ?? g.from, max: (g.zoom || g).max ?? g.to, auto: false }, y: { range: () => [0, section.top] } },
      axes: [x, y],
      series: [{}],
      hooks: {
        setCursor: [() => readOut(p)],
        setScale: [(u, key) => {
          if (key === "x" && !g.applying && u.status === 1) zoom(p.group, { min: u.scales.x.min, max: u.scales.x.max });
        }],
        draw: [u => drawPeak(p, u), u => drawMarks(p, u)],
      },
    };
    if (unit === "lanes") {
      const names = run.lanes.map(l => l.name);
      Object.assign(options, { height: 60 + 20 * names.length, scales: { ...options.scales, y: { range: () => [0, names.length] } } });
      Object.assign(y, { splits: () => names.map((_, i) => middleOf(p, i)), values: () => names, grid: { show: false } });
      options.series.push({ show: true, points: { show: false } });
      options.hooks.draw = [u => drawLanes(p, u)];
    }
    const path = section.figure.mean ? uPlot.paths.stepped({ align: -1 }) : undefined;
    for (const l of p.lines) {
      const i = section.names.indexOf(l.n);
      options.series.push({ label: l.n, stroke: color(i), dash: dash(i), width: 1.6, paths: path, points: { show: u => isLonely(u) }, show: !section.hidden.has(l.n) });
    }
    for (const l of p.levels) {
      const i = section.names.indexOf(l.n);
      options.series.push({ label: l.n, stroke: color(i), dash: l.p ? peakDash : levelDash, width: 2, points: { show: false }, show: !section.hidden.has(l.n) });
    }
    return options;
  }

  // The width of the paper is not known: the style fits the plots to it.
  const widthOf = p => printing ? (p.section.many ? 340 : 700) : p.box.clientWidth || 600;

  // A plot with few points shows them: a single reading makes no line.
  const isLonely = u => u.data[0].length < 3;

  function valuesOf(p) {
    const t = timesOf(p.run);
    if (p.section.figure.unit === "lanes") return [t, t.map(() => null)];
    p.values ||= p.lines.map(l => unpack(l.d, l.s));
    return [t, ...p.values, ...p.levels.map(l => t.map(() => l.v))];
  }

  // drawnOf extends the first value of each line of means to the start of its interval.
  function drawnOf(p) {
    const [t, ...values] = valuesOf(p);
    if (!p.section.figure.mean) return [t, ...values];
    return [t, ...values.map(line => {
      const first = line.findIndex(v => v !== null), out = line.slice();
      if (first > 0) out[first - 1] = line[first];
      return out;
    })];
  }

  function drawMarks(p, u) {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    for (const m of p.run.marks || []) {
      if (m.f !== p.section.figure.key) continue;
      const x = u.valToPos(m.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = style("--bad");
      ctx.lineWidth = 2 * ratio;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.font = `bold ${12 * ratio}px sans-serif`;
      ctx.textBaseline = "alphabetic";
      const isLeft = x < bbox.left + bbox.width / 2;
      ctx.textAlign = isLeft ? "left" : "right";
      ctx.fillText(isLeft ? "\u2715 " + m.t : m.t + " \u2715", x + (isLeft ? 5 : -5) * ratio, bbox.top + 28 * ratio);
      ctx.restore();
    }
  }

  // drawPeak writes the value of a peak below its line, which can be the same as that of the limit.
  function drawPeak(p, u) {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    p.levels.forEach((l, k) => {
      if (!l.p || p.section.hidden.has(l.n)) return;
      const y = u.valToPos(l.v, "y", true), isHigh = y < bbox.top + bbox.height / 2;
      ctx.save();
      ctx.fillStyle = color(p.section.names.indexOf(l.n));
      ctx.font = `bold ${12 * ratio}px sans-serif`;
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      ctx.fillText((isHigh ? "\u25b2 " : "\u25bc ") + "peak " + levelText(p.section, l.v), bbox.left + 6 * ratio, y + (isHigh ? 15 : -6) * ratio);
      ctx.restore();
    });
  }

  // middleOf is the place of a lane on the vertical axis: the first is at the top.
  const middleOf = (p, i) => p.run.lanes.length - i - 0.5;

  function drawLanes(p, u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    p.run.lanes.forEach((lane, i) => {
      const from = u.valToPos(lane.from, "x", true), to = u.valToPos(lane.to, "x", true);
      const y = u.valToPos(middleOf(p, i) + 0.3, "y", true), end = u.valToPos(middleOf(p, i) - 0.3, "y", true);
      ctx.fillStyle = color(lane.task ? 5 : 0);
      ctx.fillRect(from, y, Math.max(to - from, 2), end - y);
    });
    ctx.restore();
  }

  function readOut(p) {
    const u = p.u, i = u && u.cursor.idx;
    if (i == null) {
      p.output.value = "";
      return;
    }
    const values = valuesOf(p), at = values[0][i], unit = p.section.figure.unit, format = formats[unit];
    const parts = [clock(at)];
    if (unit === "lanes") {
      parts.push(p.run.lanes.filter(l => l.from <= at && at <= l.to).map(l => l.name).join(", ") || "none");
    }
    [...p.lines, ...p.levels].forEach((l, k) => {
      if (p.section.hidden.has(l.n)) return;
      const v = values[k + 1][i];
      parts.push(l.n + " " + (v == null ? "not read" : format(v)));
    });
    p.output.value = parts.join(" \u00b7 ");
  }

  function draw(p) {
    if (p.u) return;
    p.u = new uPlot(optionsOf(p), drawnOf(p), p.box);
    if (!document.documentElement.dataset.firstPlot) {
      performance.mark("first-plot");
      document.documentElement.dataset.firstPlot = performance.now().toFixed(0);
    }
  }

  function drop(p) {
    if (!p.u) return;
    p.u.destroy();
    p.u = null;
  }

  function redraw() {
    for (const p of plots) {
      if (!p.u) continue;
      drop(p);
      draw(p);
    }
    for (const s of sections) s.paintLegend();
  }

  function onKey(p, e) {
    draw(p);
    const u = p.u, t = u.data[0], last = t.length - 1, x = u.scales.x;
    const middle = (x.min + x.max) / 2, width = x.max - x.min;
    const at = u.cursor.idx ?? null;
    const move = i => {
      i = Math.max(0, Math.min(last, i));
      const g = groupRange(p.group);
      if (t[i] < x.min || t[i] > x.max) {
        const min = Math.max(g.from, Math.min(g.to - width, t[i] - width / 2));
        zoom(p.group, { min, max: min + width });
      }
      requestAnimationFrame(() => u.setCursor({ left: u.valToPos(t[i], "x"), top: u.over.clientHeight / 2 }));
    };
    const by = e.shiftKey ? 10 : 1;
    const actions = {
      ArrowRight: () => move(at === null ? 0 : at + by), ArrowLeft: () => move(at === null ? last : at - by),
      Home: () => move(0), End: () => move(last), Escape: () => zoom(p.group, null),
      "+": () => around(0.5), "=": () => around(0.5), "-": () => around(2),
    };
    const around = factor => {
      const center = at === null ? middle : t[at];
      zoom(p.group, { min: center - width * factor / 2, max: center + width * factor / 2 });
    };
    if (!actions[e.key]) return;
    e.preventDefault();
    actions[e.key]();
  }

  // fillTable makes at most 120 rows: the highest value of each line in each period.
  function fillTable(p, box) {
    if (box.childElementCount > 1) return;
    const values = valuesOf(p), t = values[0], each = Math.max(1, Math.ceil(t.length / 120));
    const format = formats[p.section.figure.unit];
    const body = $("tbody");
    for (let from = 0; from < t.length; from += each) {
      const row = $("tr", {}, $("th", { scope: "row", textContent: clock(t[from]) }));
      p.lines.forEach((l, k) => {
        let most = null;
        for (let i = from; i < Math.min(from + each, t.length); i++) {
          const v = values[k + 1][i];
          if (v != null && (most === null || v > most)) most = v;
        }
        row.append($("td", { className: "n", textContent: most === null ? "not read" : format(most) }));
      });
      body.append(row);
    }
    const head = $("tr", {}, $("th", { textContent: each > 1 ? "From" : "Time" }), ...p.lines.map(l => $("th", { className: "n", textContent: l.n })));
    const note = each > 1 ? `Each row is the highest of ${each} values.` : "Each row is a reading.";
    box.append($("p", { className: "note", textContent: note }), $("div", { className: "wide", tabIndex: 0 }, $("table", {}, $("thead", {}, head), body)));
  }

  const whyEmpty = (section, run) => (run.empty || {})[section.figure.key];

  function addPlot(section, run, index) {
    const why = whyEmpty(section, run);
    if (why) {
      section.grid.append($("figure", {}, $("figcaption", { textContent: run.name }), $("p", { className: "empty", textContent: why })));
      return;
    }
    const p = { section, run, group: groupOf(index), lines: linesOf(section, run), levels: levelsOf(section, run), u: null };
    p.output = $("output");
    p.box = $("div", { className: "plot", tabIndex: 0 });
    p.box.setAttribute("role", "application");
    p.box.setAttribute("aria-roledescription", "plot");
    p.box.setAttribute("aria-label", `${section.figure.title}, ${run.name}. Left and Right move the cursor; a table follows.`);
    p.box.addEventListener("keydown", e => onKey(p, e));
    p.box.addEventListener("focus", () => p.output.setAttribute("aria-live", "polite"));
    p.box.addEventListener("blur", () => p.output.setAttribute("aria-live", "off"));
    p.output.setAttribute("aria-live", "off");
    const figure = $("figure", {}, $("figcaption", { textContent: run.name }), p.box, p.output);
    if (run.packed.perPoint) {
      figure.append($("p", { className: "note", textContent: `The lowest and the highest of each ${run.packed.perPoint} of ${run.packed.readings} readings.` }));
    }
    if (section.figure.unit === "lanes" && run.moreLanes) {
      figure.append($("p", { className: "note", textContent: `and ${run.moreLanes} more, see the table` }));
    }
    if (section.figure.unit !== "lanes") {
      const values = $("details", { className: "values" }, $("summary", { textContent: "Values as a table" }));
      values.addEventListener("toggle", () => fillTable(p, values));
      figure.append(values);
    }
    section.grid.append(figure);
    plots.push(p);
    lazily.observe(p.box);
    p.box.plot = p;
  }

  function toggle(section, name) {
    if (!section.hidden.delete(name)) section.hidden.add(name);
    section.top = top(section);
    for (const p of plots) {
      if (p.section !== section || !p.u) continue;
      p.u.series.forEach((s, i) => { if (s.label === name) p.u.setSeries(i, { show: !section.hidden.has(name) }); });
      p.u.redraw();
    }
    section.paintLegend();
  }

  function addLegend(section) {
    const box = $("div", { className: "legend" });
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Lines of " + section.figure.title);
    const isPeak = name => data.runs.some(run => levelsOf(section, run).some(l => l.p && l.n === name));
    const values = name => data.runs.flatMap(run => levelsOf(section, run).filter(l => l.n === name).map(l => l.v));
    const isLevel = name => values(name).length > 0;
    const label = name => {
      const all = values(name);
      if (all.length === 0) return name;
      const low = levelText(section, Math.min(...all)), high = levelText(section, Math.max(...all));
      return name + " " + (low === high ? high : low + " to " + high);
    };
    section.paintLegend = () => {
      section.names.forEach((name, i) => {
        const sample = box.children[i].querySelector("canvas"), c = sample.getContext("2d");
        c.clearRect(0, 0, 28, 10);
        c.strokeStyle = color(i);
        c.lineWidth = 2.5;
        c.setLineDash(isPeak(name) ? peakDash : isLevel(name) ? levelDash : dash(i));
        c.beginPath();
        c.moveTo(0, 5);
        c.lineTo(28, 5);
        c.stroke();
        box.children[i].setAttribute("aria-pressed", String(!section.hidden.has(name)));
      });
    };
    for (const name of section.names) {
      const b = $("button", { type: "button" }, $("canvas", { width: 28, height: 10 }), label(name));
      b.addEventListener("click", () => toggle(section, name));
      box.append(b);
    }
    section.paintLegend();
    return box;
  }

  function addSection(figure) {
    const isLanes = figure.unit === "lanes";
    const section = { figure, hidden: new Set(), names: [] };
    const shown = data.runs.map((run, i) => [run, i]).filter(([run]) => isLanes ? (run.lanes || []).length : whyEmpty(section, run) || linesOf(section, run).length);
    if (shown.length === 0) return;
    for (const [run] of shown) {
      if (whyEmpty(section, run)) continue;
      for (const l of [...linesOf(section, run), ...levelsOf(section, run)]) if (!section.names.includes(l.n)) section.names.push(l.n);
    }
    for (const [run] of shown) for (const l of levelsOf(section, run)) if (l.h) section.hidden.add(l.n);
    const isEmpty = !isLanes && section.names.length === 0;
    section.many = data.runs.length > 1;
    section.top = top(section);
    section.grid = $("div", { className: section.many ? "grid many" : "grid" });
    const id = "plot-" + figure.key;
    const element = $("section", { id, className: section.many ? "" : "single" }, $("h2", { textContent: figure.title }));
    if (figure.note && !isEmpty) element.append($("p", { className: "note", textContent: figure.note }));
    if (isLanes || isEmpty) section.paintLegend = () => {};
    else element.append(addLegend(section));
    element.append(section.grid);
    document.getElementById("plots").append(element);
    document.getElementById("contents").append($("a", { href: "#" + id, textContent: figure.title }));
    sections.push(section);
    for (const [run, i] of shown) addPlot(section, run, i);
  }

  const lazily = new IntersectionObserver(entries => {
    for (const e of entries) if (e.isIntersecting) draw(e.target.plot);
  }, { rootMargin: "400px" });

  document.getElementById("help").hidden = false;
  const nameZone = () => { document.getElementById("zone").textContent = isLocal() ? Intl.DateTimeFormat().resolvedOptions().timeZone : data.zone; };
  nameZone();
  data.figures.forEach(addSection);
  if (plots.length) draw(plots[0]);

  prefersDark.addEventListener("change", redraw);
  addEventListener("rt-theme", redraw);
  addEventListener("rt-zone", () => {
    nameZone();
    redraw();
  });
  let unfolded = [];
  addEventListener("beforeprint", () => {
    printing = true;
    unfolded = [...document.querySelectorAll(".table details:not([open])")];
    for (const d of unfolded) d.open = true;
    plots.forEach(draw);
    redraw();
  });
  addEventListener("afterprint", () => {
    printing = false;
    for (const d of unfolded) d.open = false;
    redraw();
  });
  let wait;
  addEventListener("resize", () => {
    clearTimeout(wait);
    wait = setTimeout(() => {
      for (const p of plots) if (p.u) p.u.setSize({ width: widthOf(p), height: p.u.height });
    }, 100);
  });
})();
