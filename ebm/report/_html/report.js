"use strict";
(() => {
  // Tables: a button in each head sorts by its column, first up, then down; ties stay in order.
  const numberIn = (text) => {
    const match = /[+-]?(inf|nan|\d[\d.]*(e[+-]?\d+)?)/i.exec(text);
    if (!match) return NaN;
    return match[1] === "inf" ? Infinity : Number(match[0]);
  };
  const compare = (a, b) => (Number.isNaN(a) ? (Number.isNaN(b) ? 0 : 1) : Number.isNaN(b) ? -1 : a - b);
  const sortBy = (head, column) => {
    const table = head.closest("table"), body = table.tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    const isNumber = head.classList.contains("number");
    const keyed = [...body.rows].map((row) => {
      const text = row.cells[column].textContent.trim();
      return [isNumber ? numberIn(text) : text, row];
    });
    keyed.sort(([a], [b]) => {
      const order = isNumber ? compare(a, b) : a.localeCompare(b, undefined, { numeric: true });
      return down && !(isNumber && (Number.isNaN(a) || Number.isNaN(b))) ? -order : order;
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...keyed.map(([, row]) => row));
  };
  for (const head of document.querySelectorAll("table.sortable th")) {
    head.querySelector("button").addEventListener("click", () => sortBy(head, head.cellIndex));
  }

  // Temperature: sums over all states with weights exp(-beta E).
  const source = document.getElementById("states");
  if (!source) return;
  const { energies, values, marks, n_patterns: nPatterns } = JSON.parse(source.textContent);
  const sizes = values.map((of) => of.length), nStates = energies.length;
  const lowest = energies.reduce((least, e) => (e !== null && e < least ? e : least), Infinity);
  const levels = (state) => {
    const found = new Array(sizes.length);
    for (let unit = sizes.length - 1; unit >= 0; unit--) {
      found[unit] = state % sizes[unit];
      state = Math.floor(state / sizes[unit]);
    }
    return found;
  };
  const averages = (beta) => {
    const p = energies.map((e) => (e === null ? 0 : Math.exp(-beta * (e - lowest))));
    const z = p.reduce((sum, w) => sum + w, 0);
    let mean = 0, square = 0;
    for (let k = 0; k < nStates; k++) {
      p[k] /= z;
      if (energies[k] !== null) mean += p[k] * (energies[k] - lowest);
    }
    for (let k = 0; k < nStates; k++) {
      if (energies[k] !== null) square += p[k] * (energies[k] - lowest - mean) ** 2;
    }
    const partition = Math.log(z) - beta * lowest;
    return {
      p, partition, energy: mean + lowest, capacity: beta * beta * square,
      entropy: (Math.log(z) + beta * mean) / Math.LN2,
    };
  };
  const means = (p) => {
    const sums = sizes.map(() => 0);
    for (let k = 0; k < nStates; k++) levels(k).forEach((a, unit) => { sums[unit] += p[k] * values[unit][a]; });
    return sums;
  };
  const isLong = marks.some((of) => of.some((mark) => mark.length > 1));
  const pattern = (state) => levels(state).map((a, unit) => marks[unit][a]).join(isLong ? " " : "");
  const rounded = (x, digits = 4) => (Object.is(x, -0) ? 0 : x).toFixed(digits);
  const put = (place, x) => {
    place.textContent = rounded(x);
    place.dataset.value = x;
  };
  const one = (selector) => document.querySelector(selector);

  const space = "http://www.w3.org/2000/svg", width = 360, height = 170;
  const left = 40, right = 8, top = 10, bottom = 26;
  const slider = one("#beta"), largest = Number(slider.max);
  const element = (parent, tag, settings, text) => {
    const made = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(settings)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const xOf = (beta) => left + (beta / largest) * (width - left - right);
  const grid = Array.from({ length: 121 }, (_, k) => averages((k * largest) / 120));
  const curves = [...document.querySelectorAll(".curve")].map((svg) => {
    const key = svg.dataset.curve, highest = Math.max(...grid.map((each) => each[key]), 1e-9) * 1.05;
    const yOf = (value) => height - bottom - (value / highest) * (height - top - bottom);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    element(svg, "path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` });
    for (let beta = 0; beta <= largest; beta++) {
      element(svg, "text", { x: xOf(beta), y: height - 8, "text-anchor": "middle" }, beta);
    }
    for (const share of [0, 0.5, 1]) {
      const value = (share * highest) / 1.05;
      element(svg, "text", { x: left - 5, y: yOf(value) + 4, "text-anchor": "end" }, rounded(value, 2));
    }
    const points = grid.map((each, k) => `${xOf((k * largest) / 120).toFixed(1)},${yOf(each[key]).toFixed(1)}`);
    element(svg, "polyline", { class: "line", points: points.join(" ") });
    const line = element(svg, "line", { class: "here", y1: top, y2: height - bottom });
    const point = element(svg, "circle", { r: 4 });
    return (beta, now) => {
      for (const end of ["x1", "x2"]) line.setAttribute(end, xOf(beta));
      point.setAttribute("cx", xOf(beta));
      point.setAttribute("cy", yOf(now[key]));
    };
  });
  const show = () => {
    const beta = Number(slider.value), now = averages(beta);
    one("#beta-value").textContent = rounded(beta, 2);
    slider.setAttribute("aria-valuetext", `β = ${rounded(beta, 2)}`);
    for (const place of document.querySelectorAll("[data-average]")) put(place, now[place.dataset.average]);
    means(now.p).forEach((mean, unit) => {
      put(one(`[data-mean="${unit}"]`), mean);
      const of = values[unit], share = (mean - of[0]) / (of[of.length - 1] - of[0] || 1);
      one(`[data-bar="${unit}"]`).style.width = `${100 * share}%`;
    });
    const order = Array.from(now.p.keys()).sort((a, b) => now.p[b] - now.p[a] || a - b).slice(0, nPatterns);
    const rows = order.filter((state) => now.p[state] > 0).map((state) => {
      const row = document.createElement("tr");
      row.insertCell().append(Object.assign(document.createElement("code"), { textContent: pattern(state) }));
      for (const x of [energies[state], now.p[state]]) {
        const cell = row.insertCell();
        cell.className = "number";
        put(cell, x);
      }
      return row;
    });
    one("#patterns").replaceChildren(...rows);
    for (const move of curves) move(beta, now);
  };
  means(averages(1).p).forEach((mean, unit) => put(one(`[data-at-one="${unit}"]`), mean));
  slider.addEventListener("input", show);
  one("#beta-reset").addEventListener("click", () => { slider.value = 1; show(); });
  show();
})();
