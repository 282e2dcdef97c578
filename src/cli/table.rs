//! Rows for people: columns as wide as their widest cell.

use super::print::{Unsaid, say};

/// Rows under a heading, printed when all are there.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// No rows yet.
    pub fn new(heading: [&str; COLUMNS]) -> Self {
        Self { rows: vec![heading.map(str::to_owned)] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells);
    }

    /// Prints all of them on standard output.
    pub fn print(&self) -> Result<(), Unsaid> {
        for line in self.lines() {
            say!("{line}")?;
        }
        Ok(())
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let mut widths = [0; COLUMNS];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        self.rows.iter().map(move |row| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["a", "name", "c"]);
        table.row(["größer".into(), "x".into(), String::new()]);
        assert_eq!(table.lines().collect::<Vec<_>>(), ["a       name  c", "größer  x"]);
    }
}
