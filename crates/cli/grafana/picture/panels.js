// Draws the dashboard with Grafana's own components (@grafana/ui), from the answers of a Prometheus. It is no Grafana: of a panel's settings
// it heeds those that this dashboard has.
import React from 'react';
import { createRoot } from 'react-dom/client';
import {
  FieldColorModeId, FieldType, ThemeContext, createTheme, dateTime, getDisplayProcessor, getDisplayValueAlignmentFactors, getFieldMatcher,
} from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, Table, TimeSeries, VizRepeater } from '@grafana/ui';

const { dashboard, prometheus, start, end } = window.SHOWN;
const theme = createTheme({ colors: { mode: 'dark' } });
const timeRange = { from: dateTime(start * 1000), to: dateTime(end * 1000), raw: { from: 'now-6h', to: 'now' } };
// The pixels of the dashboard's grid.
const COLUMN = 58, ROW = 38, GAP = 8;
const LINE = { drawStyle: 'line', lineWidth: 1, fillOpacity: 0, showPoints: 'never', spanNulls: false, axisPlacement: 'auto' };
const element = React.createElement;

async function ask(path, parameters) {
  const answer = await (await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`)).json();
  if (answer.status !== 'success') throw new Error(JSON.stringify(answer));
  return answer.data.result;
}

const filled = (text) => text.replaceAll('$__rate_interval', '2m').replaceAll('$instance', '.*').replaceAll('$peer', '.*');
const named = (format, labels) => (format ?? '').replace(/{{(\w+)}}/g, (_, label) => labels[label]);

function field(name, type, values, config, labels) {
  const made = { name, type, values, config, labels, state: {} };
  made.display = getDisplayProcessor({ field: made, theme, timeZone: 'utc' });
  return made;
}

// The answers to a panel's queries, each a frame with a field of times and one of values.
async function frames(panel, isRange) {
  const all = [];
  for (const target of panel.targets) {
    const query = filled(target.expr);
    const results = isRange ? await ask('query_range', { query, start, end, step: 60 }) : await ask('query', { query, time: end });
    for (const { metric, values, value } of results) {
      const points = values ?? [value];
      const { defaults, overrides } = panel.fieldConfig;
      const displayName = named(target.legendFormat, metric);
      const config = { color: { mode: FieldColorModeId.PaletteClassic }, ...defaults, displayName, custom: { ...LINE } };
      const numbers = field('Value', FieldType.number, points.map(([, number]) => Number(number)), config, metric);
      const times = field('Time', FieldType.time, points.map(([time]) => time * 1000), {});
      const [min, max] = [Math.min(...numbers.values), Math.max(...numbers.values)];
      numbers.state = { seriesIndex: all.length, displayName, range: { min, max, delta: max - min } };
      const frame = { refId: target.refId, length: points.length, fields: [times, numbers] };
      for (const { matcher, properties } of overrides) {
        if (!getFieldMatcher(matcher)(numbers, frame, [frame])) continue;
        for (const { id, value } of properties) config.custom[id.replace('custom.', '')] = value;
      }
      all.push(frame);
    }
  }
  return all;
}

const shown = ({ fields: [, numbers] }) => ({ ...numbers.display(numbers.values.at(-1)), title: numbers.config.displayName });

// How a panel is drawn in so many pixels.
const drawn = {
  async stat(panel) {
    const [frame] = await frames(panel, true);
    const [x, y] = frame.fields;
    const { title, ...value } = shown(frame);
    return (width, height) => element(BigValue, {
      theme, width, height, value, colorMode: 'value', graphMode: 'area', justifyMode: 'auto', textMode: 'auto', sparkline: { x, y, timeRange },
    });
  },
  async bargauge(panel) {
    const all = await frames(panel, false);
    const { orientation, displayMode, text } = panel.options;
    const values = all.map((frame) => ({ frame, display: shown(frame) }));
    const alignmentFactors = getDisplayValueAlignmentFactors(values);
    const max = Math.max(...all.map((frame) => frame.fields[1].values[0]));
    const renderValue = ({ value: { frame, display }, width, height }) => element(BarGauge, {
      theme, width, height, orientation, displayMode, text, alignmentFactors, itemSpacing: 8, value: display,
      display: frame.fields[1].display, field: { ...frame.fields[1].config, min: 0, max },
    });
    return (width, height) => element(VizRepeater, { source: all, getValues: () => values, renderValue, width, height, orientation, itemSpacing: 8 });
  },
  async timeseries(panel) {
    const all = await frames(panel, true);
    const legend = { showLegend: true, calcs: [], ...panel.options.legend };
    return (width, height) => element(TimeSeries, { frames: all, width, height, timeRange, timeZone: 'utc', legend, theme, structureRev: 1 });
  },
  async table(panel) {
    const all = (await frames(panel, false)).map((frame) => frame.fields[1]);
    const { excludeByName, renameByName, indexByName } = panel.transformations[0].options;
    const names = [...new Set(all.flatMap(({ labels }) => Object.keys(labels)))].filter((name) => !excludeByName[name]);
    const of = (name) => field(name, FieldType.string, all.map(({ labels }) => labels[name] ?? ''), { custom: {} });
    const ages = field('Value', FieldType.number, all.map(({ values }) => values[0]), { ...panel.fieldConfig.defaults, custom: {} });
    const fields = [...names.map(of), ages].sort((one, other) => indexByName[one.name] - indexByName[other.name]);
    fields.forEach((column) => { column.name = renameByName[column.name] ?? column.name; });
    return (width, height) => element(Table, { data: { length: all.length, fields }, width, height, ariaLabel: panel.title });
  },
};

async function draw() {
  const panels = await Promise.all(dashboard.panels.map(async (panel) => {
    const { id, type, title, description, gridPos: { x, y, w, h } } = panel;
    const style = { position: 'absolute', left: x * COLUMN + GAP, top: y * ROW + GAP };
    const chrome = { title, description, width: w * COLUMN - GAP, height: h * ROW - GAP };
    return element('div', { key: id, style }, element(PanelChrome, chrome, await drawn[type](panel)));
  }));
  document.body.style.background = theme.colors.background.canvas;
  createRoot(document.getElementById('page')).render(element(ThemeContext.Provider, { value: theme }, element(GlobalStyles), panels));
}

draw().catch((error) => console.error(error.stack));
