//! Tables in text reports.

use std::fmt::Write as _;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, Width, presets,
};

use crate::terminal::{self, wrap};

/// Columns of space on each side of a cell's content.
const PADDING: usize = 2;

/// A table without lines between rows, its columns from `numbers_from` on aligned as numbers; empty without rows. It fits the terminal:
/// cells are wrapped between words, and where that is not enough, each row becomes lines of its own, a name and a value in each.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    numbers_from: usize,
) -> String {
    table_of(terminal::width(), header, rows.into_iter().collect(), numbers_from)
}

fn table_of<const N: usize>(
    width: Option<usize>,
    header: [&str; N],
    rows: Vec<[String; N]>,
    numbers_from: usize,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let width = width.map(|width| width.min(u16::MAX.into()));
    let longest_word = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    let least: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| longest_word(&row[column]));
        cells.fold(longest_word(header[column]), usize::max) + PADDING
    });
    // There is one more between two columns.
    if width.is_some_and(|width| least.iter().sum::<usize>() + N - 1 > width) {
        return lines_of(width.unwrap_or(usize::MAX), header, &rows);
    }
    let mut table = Table::new();
    let style = presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none());
    table.load_style(style).set_header(header).add_rows(rows.into_iter().map(Row::from));
    for (number, (column, least)) in table.column_iter_mut().zip(least).enumerate() {
        if number >= numbers_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if width.is_some() {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least as u16)));
        }
    }
    if let Some(width) = width {
        table.set_width(width as u16).set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.to_string()
}

/// Each row as lines, with an empty line between two rows.
fn lines_of<const N: usize>(width: usize, header: [&str; N], rows: &[[String; N]]) -> String {
    let names = header.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 1;
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        for (name, value) in header.iter().zip(row) {
            let name = if name.is_empty() { String::new() } else { format!("{name}:") };
            let line = format!("{name:<names$} {value}");
            let _ = writeln!(text, "{}", wrap(line.trim_end(), width));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&str; 4] = ["peer", "next change", "good", "bad MAC"];

    fn at(width: Option<usize>) -> Vec<String> {
        let row = |peer: &str| [peer, "2026-01-01T00:00:00Z", "1,234", "0"].map(str::to_owned);
        let table = table_of(width, HEADER, vec![row("192.0.2.1"), row("a network 2001:db8::/32")], 2);
        table.lines().map(str::to_owned).collect()
    }

    #[test]
    fn tables_fit_the_terminal_without_breaking_words() {
        let whole = at(None);
        assert!(whole.iter().all(|line| line.chars().count() == 66), "{whole:#?}");
        for width in [66, 65_535, 65_536, 65_537, usize::MAX] {
            assert_eq!(at(Some(width)), whole);
        }
        // The minimum: 13, 20, 5 and 3 columns, two of space for each, and one between two.
        for width in [52, 53, 60, 65] {
            let table = at(Some(width));
            assert!(table.iter().all(|line| line.chars().count() <= width), "{width}: {table:#?}");
            let text = table.join("\n");
            for word in ["192.0.2.1", "2001:db8::/32", "2026-01-01T00:00:00Z", "1,234", "network", "change"] {
                assert!(text.contains(word), "{width}: {word} is not in\n{text}");
            }
            assert!(text.contains("═══"), "{text}");
        }
        let rows = [
            "peer:        192.0.2.1",
            "next change: 2026-01-01T00:00:00Z",
            "good:        1,234",
            "bad MAC:     0",
            "",
            "peer:        a network 2001:db8::/32",
        ];
        assert_eq!(at(Some(51))[..6], rows);
        assert!(at(Some(1)).iter().filter(|line| line.trim().is_empty()).eq([""]), "{:#?}", at(Some(1)));
        assert_eq!(table_of(Some(10), HEADER, Vec::new(), 2), "");
    }
}
