//! A table, printed as Markdown or JSON.

use std::fmt;

use serde_json::{Map, Value, json};

#[derive(Clone)]
pub(crate) enum Cell {
    /// Empty.
    None,
    Text(String),
    Count(u64),
    /// A number, its decimals, and the unit to print after it.
    Number(f64, usize, &'static str),
    /// Whether a goal is met.
    Held(bool),
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn ns(time: f64) -> Self {
        Self::Number(time, if time < 20.0 { 1 } else { 0 }, " ns")
    }

    pub(crate) fn ratio(ratio: f64) -> Self {
        Self::Number(ratio, 2, "")
    }

    pub(crate) fn or_none<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::None, cell)
    }

    fn json(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Number(number, ..) => json!((number * 1000.0).round() / 1000.0),
            Self::Held(held) => json!(held),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Number(number, ..) if number.is_nan() => f.write_str("-"),
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number, decimals, unit) => write!(f, "{number:.decimals$}{unit}"),
            Self::Held(true) => f.write_str("met"),
            Self::Held(false) => f.write_str("MISSED"),
        }
    }
}

/// The smallest and the largest value, in words.
pub(crate) fn range(of: &[f64]) -> String {
    let least = of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = of.iter().copied().fold(0.0, f64::max);
    format!("{least:.2} to {most:.2}")
}

/// A table with an explanation.
pub(crate) struct Table {
    /// The name that selects it on the command line.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) reading: String,
}

impl Table {
    pub(crate) fn new<C: Into<String>>(
        name: &'static str,
        title: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { name, title: title.into(), columns, rows: Vec::new(), reading: String::new() }
    }

    pub(crate) fn json(&self) -> Value {
        let row = |row: &Vec<Cell>| -> Value {
            let cells = self.columns.iter().zip(row).map(|(column, cell)| (column.clone(), cell.json()));
            cells.collect::<Map<_, _>>().into()
        };
        json!({
            "name": self.name,
            "title": self.title,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "reading": self.reading,
        })
    }
}

/// Markdown, with aligned columns.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n", self.title)?;
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| rows.iter().map(|row| row[i].len()).chain([column.len()]).max().unwrap_or(0))
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, cells: &[String]| {
            for (cell, width) in cells.iter().zip(&widths) {
                write!(f, "| {cell:width$} ")?;
            }
            writeln!(f, "|")
        };
        line(f, &self.columns)?;
        line(f, &widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>())?;
        rows.iter().try_for_each(|row| line(f, row))?;
        if self.reading.is_empty() { Ok(()) } else { writeln!(f, "\n{}", self.reading) }
    }
}
